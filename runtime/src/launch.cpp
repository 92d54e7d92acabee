// Launching kernels: a persistent pool of threads, SyncAll, settings and findings per calling thread.
//
// A core runs to its end on one thread. The calling thread takes part, so a launch of one core never switches
// threads. A core that waits in SyncAll blocks its thread; before that it makes sure that some other thread takes
// over the cores that have not started, so any block_dim works on any number of hardware threads.
#include "autofuse_twin/launch.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <exception>
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
    uint64_t ub_size = kUbDefault;
    uint64_t tiling_key = 0;
    int threads = 0;
    bool check = false;
    uint64_t seed = 0;
};

ThreadState& State() {
    thread_local ThreadState state;
    return state;
}

// The core object of a thread, with its UB memory, is reused by all cores that the thread runs.
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

// Called with run.mutex held, when a core ended or arrived: a waiting core that can never go on must be released.
void CheckBroken(Run& run) {
    if (run.arrived != 0 && run.finished != 0 && run.arrived + run.finished == run.block_dim) {
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
        run.aborted = run.aborted || core.aborted;
        if (core.check != nullptr) {
            run.gm.insert(run.gm.end(), core.check->gm.begin(), core.check->gm.end());
        }
    }
}

void RunCores(Run& run) {
    // A kernel that launches another kernel would destroy its own UB, so a nested launch gets a core of its own.
    std::unique_ptr<Core> nested;
    if (g_current != nullptr) {
        nested = std::make_unique<Core>();
    }
    Core& core = nested ? *nested : ThreadCore();
    for (;;) {
        uint32_t index;
        {
            const std::lock_guard<std::mutex> lock(run.mutex);
            if (run.next >= run.block_dim) {
                return;
            }
            index = run.next++;
        }
        if (run.seed % 2 == 1) {
            index = run.block_dim - 1 - index;
        }
        RunOne(core, run, index);
        const std::lock_guard<std::mutex> lock(run.mutex);
        run.loaded += core.loaded;
        run.stored += core.stored;
        ++run.finished;
        CheckBroken(run);
        if (run.finished == run.block_dim) {
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
            // Nothing of the run may be touched after this block: its owner may return.
            const std::lock_guard<std::mutex> run_lock(run->mutex);
            --run->workers;
            run->wake.notify_all();
        }
        lock.lock();
        ++idle_;
    }
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
        more = run.next < run.block_dim;
    }
    if (more) {
        ThePool().Submit(&run, 1, 0, true);
    }
    std::unique_lock<std::mutex> lock(run.mutex);
    if (run.broken) {
        return false;
    }
    const uint64_t generation = run.generation;
    if (++run.arrived == run.block_dim) {
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
    run.check = state.check;
    run.seed = state.check ? state.seed : 0;
    if (block_dim < 1 || block_dim > kMaxBlockDim) {
        AddFinding(run, -1, "block-dim", "launch", "block_dim " + std::to_string(block_dim) + " is outside of [1, 65535]");
    } else {
        const uint32_t limit = std::min(HelperLimit(state), block_dim);
        if (limit > 1) {
            ThePool().Submit(&run, limit - 1, limit - 1, false);
        }
        RunCores(run);
        if (limit > 1 || block_dim > 1) {
            ThePool().Withdraw(&run);
        }
        std::unique_lock<std::mutex> lock(run.mutex);
        while (run.finished != block_dim || run.workers != 0) {
            run.wake.wait(lock);
        }
    }
    if (run.check) {
        CheckGmAccesses(run);
    }
    std::stable_sort(run.findings.begin(), run.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.core < b.core; });
    const int64_t rc = run.findings.empty() ? 0 : 1;
    state.findings = std::move(run.findings);
    state.loaded = run.loaded;
    state.stored = run.stored;
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

void autofuse_twin_set_ub_size(uint64_t bytes) {
    using namespace autofuse_twin;
    State().ub_size = bytes == 0 ? kUbDefault : std::min(bytes, kUbPhysical);
}

void autofuse_twin_set_tiling_key(uint64_t key) { State().tiling_key = key; }

void autofuse_twin_set_threads(int threads) { State().threads = threads < 0 ? 0 : threads; }

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
