// Launching kernels: a persistent pool of threads, SyncAll, settings and findings per calling thread.
//
// A core runs to its end on one thread. The calling thread takes part, so a launch of one core never switches threads.
// A core that waits in SyncAll blocks its thread, but first ensures that another thread takes over the cores that have
// not started, so any block_dim works on any number of hardware threads.
#include "autofuse_twin/launch.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <thread>

#include "core.h"

namespace autofuse_twin {
namespace {

constexpr uint32_t kMaxBlockDim = 65535;

struct ThreadState {
    std::vector<Region> regions;
    std::vector<Finding> findings;
    uint64_t loaded = 0, stored = 0;  // of the last launch
    std::vector<std::pair<uint64_t, uint64_t>> moved;
    std::vector<Record> records;
    std::vector<uint32_t> recorded;       // of that launch
    std::vector<uint32_t> record_cores;   // of the next ones
    uint64_t record_limit = 0;
    uint64_t ub_size = kUbDefault;
    uint64_t tiling_key = 0;
    int threads = 0;
    const autofuse_twin_architecture* architecture = nullptr;
    bool check = false;
    uint64_t seed = 0;
};

ThreadState& State() {
    thread_local ThreadState state;
    return state;
}

// A thread's core object, with its UB memory, is reused by all cores that the thread runs.
Core& ThreadCore() {
    thread_local Core core;
    return core;
}

class Pool {
public:
    // Asks for up to n helpers; `must` starts threads when too few are idle.
    void Submit(Run* run, uint32_t n, size_t limit, bool must) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (uint32_t i = 0; i < n; ++i) {
            tickets_.push_back(run);
            if (idle_ < tickets_.size() && (must || threads_ < limit)) {
                ++threads_;
                ++idle_;
                std::thread([this] { Work(); }).detach();
            }
        }
        wake_.notify_all();
    }

    // Withdraws unclaimed tickets. Afterwards only workers already inside the run can touch it.
    void Withdraw(Run* run) {
        const std::lock_guard<std::mutex> lock(mutex_);
        tickets_.erase(std::remove(tickets_.begin(), tickets_.end(), run), tickets_.end());
    }

private:
    void Work();

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Run*> tickets_;
    size_t idle_ = 0;
    size_t threads_ = 0;
};

Pool* g_pool = nullptr;

// The pool lives until the process ends; after fork() the child starts with an empty one.
Pool& ThePool() {
    static const bool once = [] {
        g_pool = new Pool;
        pthread_atfork(nullptr, nullptr, [] { g_pool = new Pool; });
        return true;
    }();
    (void)once;
    return *g_pool;
}

// Called with run.mutex held, when a core ended or arrived: releases waiting cores that can never continue.
void CheckBroken(Run& run) {
    if (run.arrived != 0 && run.finished != 0 && run.arrived + run.finished == run.count) {
        run.broken = true;
        run.wake.notify_all();
    }
}

void RunOne(Core& core, Run& run, uint32_t index) {
    Core* outer = g_current;
    g_current = &core;
    try {
        BeginCore(core, &run, index);
        run.body(run.context);
        EndCore(core);
    } catch (const CoreAbort&) {
    } catch (const std::exception& e) {
        core.aborted = true;
        AddFinding(run, index, "kernel-exception", "kernel", e.what());
    } catch (...) {
        core.aborted = true;
        AddFinding(run, index, "kernel-exception", "kernel", "the kernel threw an exception");
    }
    g_current = outer;
    if (core.order != nullptr) {
        core.order->Drop();
    }
    if (run.check) {
        const std::lock_guard<std::mutex> lock(run.mutex);
        if (run.recorded != nullptr) {
            const auto at = std::lower_bound(run.recorded->begin(), run.recorded->end(), index);
            run.records[static_cast<size_t>(at - run.recorded->begin())] = std::move(core.record);
        }
        run.aborted = run.aborted || core.aborted;
        if (core.check != nullptr) {
            run.gm.insert(run.gm.end(), core.check->gm.begin(), core.check->gm.end());
        }
    }
}

void RunCores(Run& run) {
    // A kernel that launches another kernel would destroy its own UB, so a nested launch gets its own core.
    std::unique_ptr<Core> nested;
    if (g_current != nullptr) {
        nested = std::make_unique<Core>();
    }
    Core& core = nested ? *nested : ThreadCore();
    for (;;) {
        uint32_t index;
        {
            const std::lock_guard<std::mutex> lock(run.mutex);
            if (run.next >= run.count) {
                return;
            }
            index = run.next++;
        }
        if (run.seed % 2 == 1) {
            index = run.block_dim - 1 - index;
        }
        if (run.recorded != nullptr) {
            index = (*run.recorded)[index];
        }
        RunOne(core, run, index);
        const std::lock_guard<std::mutex> lock(run.mutex);
        run.loaded += core.loaded;
        run.stored += core.stored;
        run.moved[index] = {core.loaded, core.stored};
        ++run.finished;
        CheckBroken(run);
        if (run.finished == run.count) {
            run.wake.notify_all();
        }
    }
}

void Pool::Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        while (tickets_.empty()) {
            wake_.wait(lock);
        }
        Run* run = tickets_.front();
        tickets_.pop_front();
        --idle_;
        {
            const std::lock_guard<std::mutex> run_lock(run->mutex);
            ++run->workers;
        }
        lock.unlock();
        RunCores(*run);
        {
            // Nothing of the run may be accessed after this block: its owner may return.
            const std::lock_guard<std::mutex> run_lock(run->mutex);
            --run->workers;
            run->wake.notify_all();
        }
        lock.lock();
        ++idle_;
    }
}

// Regions that a launch may write overlap no other region; but an output that overwrites an input has exactly the
// input's memory.
std::string SharedRegions(const std::vector<Region>& regions) {
    for (size_t i = 0; i < regions.size(); ++i) {
        for (size_t k = 0; k < i; ++k) {
            const Region& a = regions[k];
            const Region& b = regions[i];
            const int writable = (a.use & AUTOFUSE_TWIN_GM_WRITABLE) + (b.use & AUTOFUSE_TWIN_GM_WRITABLE);
            const bool same = a.lo == b.lo && a.hi == b.hi && writable == 1;
            if (writable != 0 && !same && std::max(a.lo, b.lo) < std::min(a.hi, b.hi)) {
                return a.name + " and " + b.name + " share memory, and the kernel writes " +
                       (writable == 2 ? "both" : (a.use & AUTOFUSE_TWIN_GM_WRITABLE) != 0 ? a.name : b.name);
            }
        }
    }
    return "";
}

uint32_t HelperLimit(const ThreadState& state) {
    const uint32_t hardware = std::max(1u, std::thread::hardware_concurrency());
    return state.threads > 0 ? static_cast<uint32_t>(state.threads) : hardware;
}

}  // namespace

bool WaitAllCores(Run& run) {
    bool more = false;
    {
        const std::lock_guard<std::mutex> lock(run.mutex);
        more = run.next < run.count;
    }
    if (more) {
        ThePool().Submit(&run, 1, 0, true);
    }
    std::unique_lock<std::mutex> lock(run.mutex);
    if (run.broken) {
        return false;
    }
    const uint64_t generation = run.generation;
    if (++run.arrived == run.count) {
        run.arrived = 0;
        ++run.generation;
        run.wake.notify_all();
        return true;
    }
    CheckBroken(run);
    while (run.generation == generation && !run.broken) {
        run.wake.wait(lock);
    }
    return run.generation != generation;
}

}  // namespace autofuse_twin

using autofuse_twin::Finding;
using autofuse_twin::State;

int64_t autofuse_twin_launch(uint32_t block_dim, void (*body)(void*), void* context) {
    using namespace autofuse_twin;
    ThreadState& state = State();
    Run run;
    run.body = body;
    run.context = context;
    run.block_dim = block_dim;
    run.ub_size = state.ub_size;
    run.tiling_key = state.tiling_key;
    run.regions = &state.regions;
    run.architecture = state.architecture;
    run.check = state.check;
    run.seed = state.check ? state.seed : 0;
    state.recorded.clear();
    std::copy_if(state.record_cores.begin(), state.record_cores.end(), std::back_inserter(state.recorded),
                 [block_dim](uint32_t core) { return core < block_dim; });
    run.count = block_dim;
    if (!state.recorded.empty()) {
        run.check = true;
        run.seed = 0;
        run.recorded = &state.recorded;
        run.record_limit = state.record_limit;
        run.count = static_cast<uint32_t>(state.recorded.size());
        run.records.resize(run.count);
    }
    const std::string shared = SharedRegions(state.regions);
    if (!shared.empty()) {
        AddFinding(run, -1, "gm-overlap", "launch", shared);
    } else if (block_dim < 1 || block_dim > kMaxBlockDim) {
        AddFinding(run, -1, "block-dim", "launch", "block_dim " + std::to_string(block_dim) + " is outside of [1, 65535]");
    } else {
        const uint32_t limit = std::min(HelperLimit(state), run.count);
        run.moved.resize(block_dim);
        if (limit > 1) {
            ThePool().Submit(&run, limit - 1, limit - 1, false);
        }
        RunCores(run);
        if (limit > 1 || run.count > 1) {
            ThePool().Withdraw(&run);
        }
        std::unique_lock<std::mutex> lock(run.mutex);
        while (run.finished != run.count || run.workers != 0) {
            run.wake.wait(lock);
        }
    }
    if (run.check && run.recorded == nullptr) {  // writes of the other cores are unknown
        CheckGmAccesses(run);
    }
    std::stable_sort(run.findings.begin(), run.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.core < b.core; });
    const int64_t rc = run.findings.empty() ? 0 : 1;
    state.findings = std::move(run.findings);
    state.loaded = run.loaded;
    state.stored = run.stored;
    state.moved = std::move(run.moved);
    state.records = std::move(run.records);
    return rc;
}

void autofuse_twin_moved_bytes(uint64_t* loaded, uint64_t* stored) {
    *loaded = State().loaded;
    *stored = State().stored;
}

void autofuse_twin_gm_clear(void) { State().regions.clear(); }

void autofuse_twin_gm_add(const void* ptr, uint64_t bytes, const char* name, int use) {
    uint8_t* lo = static_cast<uint8_t*>(const_cast<void*>(ptr));
    State().regions.push_back({lo, lo + bytes, name == nullptr ? "" : name, use});
}

void autofuse_twin_set_check(int on, uint64_t seed) {
    State().check = on != 0;
    State().seed = seed;
}

void autofuse_twin_set_record(const uint32_t* cores, uint32_t n, uint64_t limit) {
    std::vector<uint32_t>& wanted = State().record_cores;
    wanted.clear();
    if (n != 0) {
        wanted.assign(cores, cores + n);
    }
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    State().record_limit = limit;
}

int autofuse_twin_get_record(uint32_t i, autofuse_twin_record* out) {
    const auto& state = State();
    if (i >= state.records.size()) {
        return 0;
    }
    const autofuse_twin::Record& r = state.records[i];
    *out = {state.recorded[i], r.cut ? 1u : 0u,  r.events.size(), r.buffers.size(),
            r.apis.size(),     r.events.data(), r.buffers.data(), r.apis.data()};
    return 1;
}

int autofuse_twin_core_bytes(uint32_t core, uint64_t* loaded, uint64_t* stored) {
    const auto& moved = State().moved;
    if (core >= moved.size()) {
        return 0;
    }
    *loaded = moved[core].first;
    *stored = moved[core].second;
    return 1;
}

void autofuse_twin_set_ub_size(uint64_t bytes) {
    using namespace autofuse_twin;
    State().ub_size = bytes == 0 ? kUbDefault : std::min(bytes, kUbPhysical);
}

void autofuse_twin_set_tiling_key(uint64_t key) { State().tiling_key = key; }

void autofuse_twin_set_threads(int threads) { State().threads = threads < 0 ? 0 : threads; }

void autofuse_twin_set_architecture(const autofuse_twin_architecture* architecture) {
    State().architecture = architecture;
}

uint64_t autofuse_twin_findings_count(void) { return State().findings.size(); }
void autofuse_twin_findings_clear(void) { State().findings.clear(); }

namespace {

void AppendJson(std::string& out, const std::string& text) {
    static const char hex[] = "0123456789abcdef";
    out += '"';
    for (const char c : text) {
        const unsigned char u = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (u < 0x20) {
            out += "\\u00";
            out += hex[u >> 4];
            out += hex[u & 15];
        } else {
            out += c;
        }
    }
    out += '"';
}

void AppendPlace(std::string& out, const autofuse_twin::Place& place) {
    out += ", \"line\": " + std::to_string(place.line) + ", \"count\": " + std::to_string(place.count) +
           ", \"nested\": " + (place.nested ? "true" : "false");
}

}  // namespace

uint64_t autofuse_twin_findings_json(char* buf, uint64_t n) {
    std::string out = "[";
    for (const Finding& f : State().findings) {
        out += out.size() > 1 ? ", {\"code\": " : "{\"code\": ";
        AppendJson(out, f.code);
        out += ", \"core\": " + std::to_string(f.core) + ", \"cores\": " + std::to_string(f.cores) + ", \"api\": ";
        AppendJson(out, f.api);
        out += ", \"message\": ";
        AppendJson(out, f.message);
        AppendPlace(out, f.site);
        out += ", \"place\": ";
        AppendJson(out, f.place);
        out += ", \"begin\": " + std::to_string(f.begin) + ", \"end\": " + std::to_string(f.end) + ", \"other\": ";
        if (f.has_other) {
            out += "{\"api\": ";
            AppendJson(out, f.other_api);
            out += ", \"core\": " + std::to_string(f.other_core);
            AppendPlace(out, f.other_site);
            out += "}";
        } else {
            out += "null";
        }
        out += "}";
    }
    out += "]";
    if (buf != nullptr && n > 0) {
        const uint64_t copied = std::min<uint64_t>(n - 1, out.size());
        std::memcpy(buf, out.data(), copied);
        buf[copied] = 0;
    }
    return out.size();
}

const char* autofuse_twin_version(void) { return "0.1.0"; }
