// libascendcl.so of the fake CANN: the runtime's calls on the CPU twin.
//
// A launch runs to its end on the calling thread; the stream's clock then moves on by what the launch would have taken.
// The twin records some cores of the first launch of each kind, a process beside (pricing.py) says what a perturbed cost
// model makes of them, and every launch gets noise on top. A launch that finds memory as an equal one left it, and that
// changed nothing the last time, is not run again: it can change nothing.
//
// What goes wrong on purpose is in ascendcl.conf, beside the library.
#include "acl/acl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "autofuse_twin/launch.h"

extern "C" {
// No other library has this name: it says that all times are made up.
extern const char autofuse_fake_cann[];
const char autofuse_fake_cann[] = "the fake CANN of autofuse";
void autofuse_fake_launch(const char* name, uint32_t cores, void* stream, void (*body)(void*), void* context,
                          const void* args, uint64_t args_bytes);
}

namespace {

constexpr uint64_t kRecorded = 20000;  // events of a core
constexpr size_t kAlign = 512;
constexpr double kOutlierShare = 0.01;

struct Chip {
    std::string soc;
    int64_t cores = 0, l2 = 0;
    size_t memory = 0;
    uint64_t ub = 0;
};

struct Failure {
    std::string kind, pattern;  // "*": every kernel
};

struct Config {
    std::vector<Chip> chips;
    std::vector<Failure> failures;
    double noise = 0.0;
    uint64_t seed = 0;
    std::string socket, python, script, root;
};

// Memory of a chip. Both times of its bytes are counted in versions, so that a digest is made once.
struct Block {
    size_t bytes = 0;
    bool zero = true;  // as mapped: all bytes are 0
    uint64_t version = 0, digested = ~uint64_t{0}, digest = 0;
};

struct Price {
    double cold = 0.0, warm = 0.0;
    double pipes[4] = {};  // scalar, V, MTE2, MTE3
};

struct Kind {
    bool priced = false, fixed = false;
    Price price;
    uint64_t fixed_state = 0;
    uint64_t wrong_at = 0;
};

struct Device {
    bool lost = false;
    size_t used = 0;
    std::map<uintptr_t, Block> blocks;
    std::vector<std::pair<uintptr_t, uint64_t>> recent;  // what went through L2, oldest first
};

struct Stream {
    int device = 0;
    double us = 0.0;
    bool hung = false;
    aclError error = ACL_SUCCESS;
};

struct Event {
    Stream* stream = nullptr;
    double us = 0.0;
};

struct State {
    std::mutex mutex;
    bool ready = false;
    Config config;
    std::vector<Device> devices;
    std::map<std::string, Kind> kinds;
    std::map<std::string, uint64_t> launches;
    std::string read;  // the text of ascendcl.conf that all this follows
    int connection = -1;
    int64_t events = 0;  // that there are: without one nobody asks for a time
    FILE* profile = nullptr;
};

State& The() {
    static State* const state = new State;  // outlives every thread
    return *state;
}

thread_local int t_device = -1;
thread_local std::string t_said;

aclError Fail(aclError code, const std::string& said) {
    t_said = said;
    return code;
}

std::string Folder() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&autofuse_fake_cann), &info) == 0 || info.dli_fname == nullptr) {
        return ".";
    }
    const std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/'));
}

std::string ConfigText() {
    std::ifstream file(Folder() + "/ascendcl.conf");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool ReadConfig(const std::string& text, Config* out) {
    std::istringstream file(text);
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string key;
        words >> key;
        const auto rest = [&] {
            std::string text;
            std::getline(words >> std::ws, text);
            return text;
        };
        if (key == "chip") {
            Chip c;
            words >> c.soc >> c.cores >> c.l2 >> c.memory >> c.ub;
            out->chips.push_back(c);
        } else if (key == "fail") {
            Failure f;
            words >> f.kind;
            f.pattern = rest();
            out->failures.push_back(f);
        } else if (key == "noise") {
            words >> out->noise;
        } else if (key == "seed") {
            words >> out->seed;
        } else if (key == "socket") {
            out->socket = rest();
        } else if (key == "python") {
            out->python = rest();
        } else if (key == "script") {
            out->script = rest();
        } else if (key == "root") {
            out->root = rest();
        }
    }
    return !out->chips.empty();
}

// digests and noise ------------------------------------------------------------------------------------------------

uint64_t Mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t DigestOf(const void* data, size_t bytes, uint64_t seed) {
    const auto* p = static_cast<const unsigned char*>(data);
    uint64_t lanes[4] = {seed, Mix(seed), Mix(seed + 1), Mix(seed + 2)};
    size_t at = 0;
    for (; at + 32 <= bytes; at += 32) {
        for (int k = 0; k < 4; ++k) {
            uint64_t w;
            std::memcpy(&w, p + at + 8 * static_cast<size_t>(k), 8);
            lanes[k] = (lanes[k] ^ w) * 0x9fb21c651e98df25u;
            lanes[k] ^= lanes[k] >> 29;
        }
    }
    for (; at < bytes; ++at) {
        lanes[0] = Mix(lanes[0] ^ p[at]);
    }
    return Mix(lanes[0]) ^ Mix(lanes[1] + 1) ^ Mix(lanes[2] + 2) ^ Mix(lanes[3] + 3) ^ bytes;
}

double Uniform(uint64_t* state) {
    *state = Mix(*state);
    return (static_cast<double>(*state >> 11) + 0.5) / 9007199254740992.0;
}

// A time with noise: most within some percent, a few far too long.
double Noisy(State& s, const std::string& name, uint32_t cores, double us) {
    if (s.config.noise <= 0.0) {
        return us;
    }
    const uint64_t number = s.launches[name]++;
    uint64_t state = Mix(s.config.seed ^ DigestOf(name.data(), name.size(), cores) ^ Mix(number));
    const double gauss = std::sqrt(-2.0 * std::log(Uniform(&state))) * std::cos(6.283185307179586 * Uniform(&state));
    double factor = std::max(0.5, 1.0 + s.config.noise * gauss);
    if (Uniform(&state) < kOutlierShare) {
        factor *= 1.5 + 2.0 * Uniform(&state);
    }
    return us * factor;
}

// memory ------------------------------------------------------------------------------------------------------------

Block* BlockAt(Device& device, uintptr_t address, uintptr_t* begin) {
    auto at = device.blocks.upper_bound(address);
    if (at == device.blocks.begin()) {
        return nullptr;
    }
    --at;
    if (address >= at->first + std::max<size_t>(at->second.bytes, 1)) {
        return nullptr;
    }
    *begin = at->first;
    return &at->second;
}

uint64_t DigestOfBlock(uintptr_t begin, Block& b) {
    if (b.digested != b.version) {
        b.digest = DigestOf(reinterpret_cast<const void*>(begin), b.bytes, begin);
        b.digested = b.version;
    }
    return b.digest;
}

void Touch(Device& device, uintptr_t begin, uint64_t bytes) {
    auto& r = device.recent;
    r.erase(std::remove_if(r.begin(), r.end(), [&](const auto& x) { return x.first == begin; }), r.end());
    r.emplace_back(begin, bytes);
}

// Whether all of a launch's memory is still in L2: what went through it since leaves room.
bool IsWarm(const Device& device, const std::vector<uintptr_t>& used, int64_t l2) {
    uint64_t sum = 0;
    size_t found = 0;
    for (auto at = device.recent.rbegin(); at != device.recent.rend(); ++at) {
        sum += at->second;
        if (sum > static_cast<uint64_t>(l2)) {
            break;
        }
        found += std::count(used.begin(), used.end(), at->first) != 0 ? 1 : 0;
    }
    return found == used.size();
}

// pricing -----------------------------------------------------------------------------------------------------------

bool SendAll(int fd, const void* data, size_t bytes) {
    const auto* p = static_cast<const char*>(data);
    while (bytes != 0) {
        const ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        p += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}

bool ReadAll(int fd, void* data, size_t bytes) {
    auto* p = static_cast<char*>(data);
    while (bytes != 0) {
        const ssize_t n = recv(fd, p, bytes, 0);
        if (n <= 0) {
            return false;
        }
        p += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}

int Connect(const std::string& name) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) {
        ucred peer{};
        socklen_t size = sizeof(peer);
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid()) {
            return fd;
        }
    }
    close(fd);
    return -1;
}

void StartPricing(const Config& c) {
    const pid_t child = fork();
    if (child == 0) {
        // Twice, so that the process is not ours to wait for; it ends by itself when nobody asks any more.
        if (fork() == 0) {
            setsid();
            const int null = open("/dev/null", O_RDWR);
            const int log = open((c.root + "/pricing.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            dup2(null, 0);
            dup2(null, 1);
            dup2(log >= 0 ? log : null, 2);
            for (int fd = 3; fd < 256; ++fd) {
                close(fd);
            }
            execl(c.python.c_str(), c.python.c_str(), "-I", c.script.c_str(), c.root.c_str(), nullptr);
        }
        _exit(0);
    }
}

std::string Ask(State& s, const std::string& head, const std::string& blob) {
    for (int attempt = 0; attempt < 2; ++attempt) {
        if (s.connection < 0) {
            s.connection = Connect(s.config.socket);
            for (int i = 0; s.connection < 0 && i < 1200; ++i) {
                if (i % 200 == 0) {
                    StartPricing(s.config);
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                s.connection = Connect(s.config.socket);
            }
        }
        const uint64_t sizes[2] = {head.size(), blob.size()};
        uint64_t size = 0;
        if (s.connection >= 0 && SendAll(s.connection, sizes, sizeof(sizes)) &&
            SendAll(s.connection, head.data(), head.size()) && SendAll(s.connection, blob.data(), blob.size()) &&
            ReadAll(s.connection, &size, sizeof(size)) && size < (1u << 24)) {
            std::string text(size, '\0');
            if (ReadAll(s.connection, &text[0], size)) {
                return text;
            }
        }
        close(s.connection);
        s.connection = -1;
    }
    return "";
}

struct Launched {
    std::string name;
    uint32_t cores;
    void (*body)(void*);
    void* context;
    std::vector<uintptr_t> used;
};

void Prepare(Device& device, const Launched& l, const Chip& chip) {
    autofuse_twin_gm_clear();
    for (const uintptr_t begin : l.used) {
        autofuse_twin_gm_add(reinterpret_cast<const void*>(begin), device.blocks[begin].bytes, "memory of the chip",
                             AUTOFUSE_TWIN_GM_WRITABLE);
    }
    autofuse_twin_set_ub_size(chip.ub);
    autofuse_twin_set_threads(0);
    autofuse_twin_set_check(0, 0);
    autofuse_twin_findings_clear();
}

std::vector<uint32_t> Numbers(const std::string& text) {
    std::istringstream words(text);
    std::vector<uint32_t> out;
    for (uint32_t n; words >> n;) {
        out.push_back(n);
    }
    return out;
}

// What a launch takes; it was run just before, so that the twin knows what its cores moved.
bool PriceOf(State& s, Device& device, const Launched& l, const Chip& chip, Price* out) {
    std::ostringstream moved;
    for (uint32_t i = 0; i < l.cores; ++i) {
        uint64_t loaded = 0, stored = 0;
        autofuse_twin_core_bytes(i, &loaded, &stored);
        moved << (i == 0 ? "[" : ",[") << loaded << "," << stored << "]";
    }
    const std::vector<uint32_t> cores = Numbers(Ask(s, "{\"choose\":[" + moved.str() + "]}", ""));
    if (cores.empty()) {
        return false;
    }
    // Cores that are recorded write once more what they have written.
    std::vector<std::string> kept;
    for (const uintptr_t begin : l.used) {
        kept.emplace_back(reinterpret_cast<const char*>(begin), device.blocks[begin].bytes);
    }
    autofuse_twin_set_record(cores.data(), static_cast<uint32_t>(cores.size()), kRecorded);
    autofuse_twin_launch(l.cores, l.body, l.context);
    autofuse_twin_set_record(nullptr, 0, 0);
    autofuse_twin_findings_clear();
    for (size_t i = 0; i < l.used.size(); ++i) {
        std::memcpy(reinterpret_cast<void*>(l.used[i]), kept[i].data(), kept[i].size());
    }
    std::ostringstream head;
    std::string blob;
    head << "{\"soc\":\"" << chip.soc << "\",\"block_dim\":" << l.cores << ",\"moved\":[" << moved.str() << "],\"regions\":[";
    for (size_t i = 0; i < l.used.size(); ++i) {
        head << (i == 0 ? "[" : ",[") << l.used[i] << "," << device.blocks[l.used[i]].bytes << "]";
    }
    head << "],\"records\":[";
    autofuse_twin_record r{};
    for (uint32_t i = 0; autofuse_twin_get_record(i, &r) != 0; ++i) {
        head << (i == 0 ? "{" : ",{") << "\"core\":" << r.core << ",\"cut\":" << r.cut << ",\"events\":" << r.events_count
             << ",\"apis\":[";
        for (uint64_t k = 0; k < r.apis_count; ++k) {
            head << (k == 0 ? "\"" : ",\"") << r.apis[k] << "\"";
        }
        head << "]}";
        blob.append(reinterpret_cast<const char*>(r.events), r.events_count * sizeof(autofuse_twin_event));
    }
    head << "]}";
    std::istringstream answer(Ask(s, head.str(), blob));
    answer >> out->cold >> out->warm;
    for (double& pipe : out->pipes) {
        answer >> pipe;
    }
    return !answer.fail();
}

bool Fails(const Config& c, const char* kind, const std::string& name) {
    return std::any_of(c.failures.begin(), c.failures.end(), [&](const Failure& f) {
        return f.kind == kind && (f.pattern == "*" || name.find(f.pattern) != std::string::npos);
    });
}

// Eight bytes of what a launch wrote become others.
void Spoil(Device& device, const Launched& l, const std::vector<std::string>& before, Kind& kind) {
    for (size_t i = 0; kind.wrong_at == 0 && i < l.used.size(); ++i) {
        const auto* now = reinterpret_cast<const char*>(l.used[i]);
        for (size_t k = 0; k < before[i].size(); ++k) {
            if (now[k] != before[i][k]) {
                kind.wrong_at = l.used[i] + k / 8 * 8;
                break;
            }
        }
    }
    uintptr_t begin = 0;
    const Block* const block = kind.wrong_at == 0 ? nullptr : BlockAt(device, kind.wrong_at, &begin);
    if (block != nullptr) {
        const size_t room = std::min<size_t>(8, begin + block->bytes - kind.wrong_at);
        std::memset(reinterpret_cast<void*>(kind.wrong_at), 0x42, room);
    }
}

aclError Usable(State& s, int device) {
    if (!s.ready) {
        return Fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    }
    if (device < 0) {
        return Fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice was not called in this thread");
    }
    if (s.devices[static_cast<size_t>(device)].lost) {
        return Fail(ACL_ERROR_RT_LOST_HEARTBEAT, "the fake chip is lost, as it was told to be");
    }
    return ACL_SUCCESS;
}

// Chips and failures as ascendcl.conf has them now: a folder that was written again is another machine.
bool Follow(State& s) {
    const std::string text = ConfigText();
    if (text != s.read) {
        Config fresh;
        if (!ReadConfig(text, &fresh)) {
            return false;
        }
        s.config = fresh;
        s.read = text;
        s.devices.resize(fresh.chips.size());
        for (Device& d : s.devices) {
            d.lost = false;
        }
        s.kinds.clear();
        if (s.connection >= 0) {
            close(s.connection);
            s.connection = -1;
        }
    }
    return true;
}

void Note(State& s, const Stream& stream, const Launched& l, double us, const Kind& kind) {
    if (s.profile == nullptr) {
        return;
    }
    const double* p = kind.price.pipes;
    std::fprintf(s.profile, "%s\t%d\t%.3f\t%.3f\t%u\t%.3f\t%.3f\t%.3f\t%.3f\n", l.name.c_str(), stream.device, stream.us, us,
                 l.cores, p[0], p[1], p[2], p[3]);
    std::fflush(s.profile);
}

}  // namespace

extern "C" void autofuse_fake_launch(const char* name, uint32_t cores, void* handle, void (*body)(void*), void* context,
                                     const void* args, uint64_t args_bytes) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    auto* const stream = static_cast<Stream*>(handle);
    if (stream == nullptr || stream->hung || stream->error != ACL_SUCCESS || Usable(s, stream->device) != ACL_SUCCESS) {
        return;  // the stream says so when it is waited for
    }
    Device& device = s.devices[static_cast<size_t>(stream->device)];
    const Chip& chip = s.config.chips[static_cast<size_t>(stream->device)];
    Launched l{name, cores, body, context, {}};
    if (Fails(s.config, "timeout", l.name)) {
        stream->hung = true;
        return;
    }
    if (Fails(s.config, "lost", l.name)) {
        device.lost = true;
        return;
    }
    for (uint64_t at = 0; at + 8 <= args_bytes; at += 8) {
        uint64_t word;
        std::memcpy(&word, static_cast<const char*>(args) + at, 8);
        uintptr_t begin = 0;
        if (BlockAt(device, word, &begin) != nullptr && std::count(l.used.begin(), l.used.end(), begin) == 0) {
            l.used.push_back(begin);
        }
    }
    Kind& kind = s.kinds[l.name + '\0' + std::to_string(cores) + '\0' + std::to_string(stream->device) + '\0' +
                         std::string(static_cast<const char*>(args), args_bytes)];
    const auto state = [&] {
        uint64_t all = 0;
        for (const uintptr_t begin : l.used) {
            all = Mix(all ^ DigestOfBlock(begin, device.blocks[begin]));
        }
        return all;
    };
    const uint64_t before = state();
    const bool prices = !kind.priced && (s.events > 0 || s.profile != nullptr);
    if (prices || !kind.fixed || kind.fixed_state != before) {
        const bool spoils = Fails(s.config, "wrong", l.name);
        std::vector<std::string> kept;
        for (const uintptr_t begin : l.used) {
            kept.emplace_back(reinterpret_cast<const char*>(begin), spoils ? device.blocks[begin].bytes : 0);
            device.blocks[begin].zero = false;
            ++device.blocks[begin].version;
        }
        Prepare(device, l, chip);
        const int64_t rc = autofuse_twin_launch(cores, body, context);
        if (rc != 0) {
            std::string json(autofuse_twin_findings_json(nullptr, 0) + 1, '\0');
            autofuse_twin_findings_json(&json[0], json.size());
            json.pop_back();
            stream->error = ACL_ERROR_RT_AICORE_EXCEPTION;
            t_said = "kernel " + l.name + " broke a rule of the twin: " + json;
            return;
        }
        if (prices) {
            kind.priced = PriceOf(s, device, l, chip, &kind.price);
            if (!kind.priced) {
                t_said = "the process that prices launches of the fake CANN does not answer: see pricing.log";
                stream->error = ACL_ERROR_RT_AICORE_EXCEPTION;
                return;
            }
        }
        if (spoils) {
            Spoil(device, l, kept, kind);
        }
        autofuse_twin_gm_clear();
        const uint64_t after = state();
        kind.fixed = after == before;
        kind.fixed_state = before;
    }
    const double us = Noisy(s, l.name, cores, IsWarm(device, l.used, chip.l2) ? kind.price.warm : kind.price.cold);
    for (const uintptr_t begin : l.used) {
        Touch(device, begin, device.blocks[begin].bytes);
    }
    Note(s, *stream, l, us, kind);
    stream->us += us;
}

extern "C" {

aclError aclInit(const char*) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (s.ready) {
        return Fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before");
    }
    if (!Follow(s)) {
        return Fail(ACL_ERROR_INVALID_PARAM, "the fake CANN lacks its ascendcl.conf");
    }
    if (const char* path = std::getenv("AUTOFUSE_FAKE_PROFILE"); path != nullptr && s.profile == nullptr) {
        s.profile = std::fopen(path, "a");
    }
    s.ready = true;
    return ACL_SUCCESS;
}

aclError aclFinalize(void) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.ready) {
        return Fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize without aclInit");
    }
    s.ready = false;
    return ACL_SUCCESS;
}

aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
    *major = 1;
    *minor = 15;
    *patch = 0;
    return ACL_SUCCESS;
}

const char* aclGetRecentErrMsg(void) { return t_said.empty() ? nullptr : t_said.c_str(); }

aclError aclrtGetDeviceCount(uint32_t* count) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.ready || !Follow(s)) {
        return Fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    }
    *count = static_cast<uint32_t>(s.devices.size());
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t device) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (s.ready && Follow(s) && (device < 0 || static_cast<size_t>(device) >= s.devices.size())) {
        return Fail(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    }
    if (const aclError rc = Usable(s, device); rc != ACL_SUCCESS) {
        return rc;
    }
    t_device = device;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* device) {
    *device = t_device;
    return t_device < 0 ? Fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice was not called in this thread") : ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t device) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (device < 0 || static_cast<size_t>(device) >= s.devices.size()) {
        return Fail(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    }
    Device& d = s.devices[static_cast<size_t>(device)];
    for (auto& [begin, block] : d.blocks) {
        munmap(reinterpret_cast<void*>(begin), std::max(block.bytes, kAlign));
    }
    d = Device();
    t_device = -1;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    return Usable(s, t_device);
}

const char* aclrtGetSocName(void) {
    State& s = The();
    return s.ready && t_device >= 0 ? s.config.chips[static_cast<size_t>(t_device)].soc.c_str() : nullptr;
}

aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attr, int64_t* value) {
    State& s = The();
    if (!s.ready || device >= s.devices.size() || value == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "no such device");
    }
    const Chip& c = s.config.chips[device];
    switch (attr) {
        case ACL_DEV_ATTR_AICPU_CORE_NUM: *value = 6; break;
        case ACL_DEV_ATTR_AICORE_CORE_NUM:
        case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = c.cores / 2; break;
        case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = c.cores; break;
        case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = static_cast<int64_t>(c.memory); break;
        case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = c.l2; break;
        default: return Fail(ACL_ERROR_INVALID_PARAM, "no such attribute");
    }
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free_bytes, size_t* total_bytes) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    *total_bytes = s.config.chips[static_cast<size_t>(t_device)].memory;
    *free_bytes = *total_bytes - std::min(*total_bytes, s.devices[static_cast<size_t>(t_device)].used);
    return ACL_SUCCESS;
}

aclError aclrtMalloc(void** ptr, size_t size, aclrtMemMallocPolicy) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    if (ptr == nullptr || size == 0) {
        return Fail(ACL_ERROR_INVALID_PARAM, "a size of 0");
    }
    Device& d = s.devices[static_cast<size_t>(t_device)];
    if (const size_t all = s.config.chips[static_cast<size_t>(t_device)].memory; size > all || d.used > all - size) {
        return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the fake chip has no " + std::to_string(size) + " bytes left");
    }
    void* const p = mmap(nullptr, std::max(size, kAlign), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "this machine has no memory for the fake chip");
    }
    d.used += size;
    d.blocks[reinterpret_cast<uintptr_t>(p)].bytes = size;
    *ptr = p;
    return ACL_SUCCESS;
}

aclError aclrtFree(void* ptr) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    for (Device& d : s.devices) {
        const auto at = d.blocks.find(reinterpret_cast<uintptr_t>(ptr));
        if (at != d.blocks.end()) {
            d.used -= at->second.bytes;
            d.recent.erase(std::remove_if(d.recent.begin(), d.recent.end(), [&](const auto& x) { return x.first == at->first; }),
                           d.recent.end());
            munmap(ptr, std::max(at->second.bytes, kAlign));
            d.blocks.erase(at);
            // Other memory may come to lie at this address.
            s.kinds.clear();
            return ACL_SUCCESS;
        }
    }
    return Fail(ACL_ERROR_INVALID_PARAM, "no memory of the fake chip");
}

aclError aclrtMallocHost(void** ptr, size_t size) {
    *ptr = std::malloc(size);
    return *ptr == nullptr ? ACL_ERROR_RT_MEMORY_ALLOCATION : ACL_SUCCESS;
}

aclError aclrtFreeHost(void* ptr) {
    std::free(ptr);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* dst, size_t dst_max, const void* src, size_t count, aclrtMemcpyKind kind) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    Device& d = s.devices[static_cast<size_t>(t_device)];
    const auto inside = [&](const void* p) {
        uintptr_t begin = 0;
        Block* const b = BlockAt(d, reinterpret_cast<uintptr_t>(p), &begin);
        return b != nullptr && reinterpret_cast<uintptr_t>(p) + count <= begin + b->bytes ? b : nullptr;
    };
    const bool to = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const bool from = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    Block* const target = inside(dst);
    if (count > dst_max || (to && target == nullptr) || (from && inside(src) == nullptr)) {
        return Fail(ACL_ERROR_INVALID_PARAM, "a copy that leaves its memory");
    }
    if (to) {
        target->zero = false;
        ++target->version;
    }
    std::memcpy(dst, src, count);
    return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* dst, size_t dst_max, const void* src, size_t count, aclrtMemcpyKind kind, aclrtStream) {
    return aclrtMemcpy(dst, dst_max, src, count, kind);
}

aclError aclrtMemset(void* ptr, size_t max, int32_t value, size_t count) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    Device& d = s.devices[static_cast<size_t>(t_device)];
    uintptr_t begin = 0;
    Block* const b = BlockAt(d, reinterpret_cast<uintptr_t>(ptr), &begin);
    if (b == nullptr || count > max || reinterpret_cast<uintptr_t>(ptr) + count > begin + b->bytes) {
        return Fail(ACL_ERROR_INVALID_PARAM, "a fill that leaves its memory");
    }
    if (!b->zero || (value & 0xff) != 0) {
        std::memset(ptr, value, count);
        b->zero = false;
        ++b->version;
    }
    Touch(d, begin, count);
    return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* ptr, size_t max, int32_t value, size_t count, aclrtStream) {
    return aclrtMemset(ptr, max, value, count);
}

aclError aclrtCreateStream(aclrtStream* stream) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    auto* const made = new Stream;
    made->device = t_device;
    *stream = made;
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream stream) {
    delete static_cast<Stream*>(stream);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout_ms) {
    State& s = The();
    auto* const stream = static_cast<Stream*>(handle);
    if (stream == nullptr) {
        return Fail(ACL_ERROR_RT_INVALID_HANDLE, "no stream");
    }
    if (stream->hung) {
        if (timeout_ms >= 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
            return Fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "a kernel hangs, as the fake chip was told");
        }
        std::this_thread::sleep_for(std::chrono::hours(1));
        return Fail(ACL_ERROR_RT_AICORE_TIMEOUT, "a kernel hangs, as the fake chip was told");
    }
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, stream->device); rc != ACL_SUCCESS) {
        return rc;
    }
    return stream->error;
}

aclError aclrtSynchronizeStream(aclrtStream stream) { return aclrtSynchronizeStreamWithTimeout(stream, -1); }

aclError aclrtCreateEvent(aclrtEvent* event) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    ++s.events;
    *event = new Event;
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }

aclError aclrtDestroyEvent(aclrtEvent event) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    --s.events;
    delete static_cast<Event*>(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    auto* const e = static_cast<Event*>(event);
    if (e == nullptr || stream == nullptr) {
        return Fail(ACL_ERROR_RT_INVALID_HANDLE, "no event, or no stream");
    }
    e->stream = static_cast<Stream*>(stream);
    e->us = e->stream->us;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    auto* const e = static_cast<Event*>(event);
    return e == nullptr || e->stream == nullptr ? Fail(ACL_ERROR_RT_INVALID_HANDLE, "no event, or it was not recorded")
                                                : aclrtSynchronizeStream(e->stream);
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
    const auto* const a = static_cast<const Event*>(start);
    const auto* const b = static_cast<const Event*>(end);
    if (a == nullptr || b == nullptr || a->stream == nullptr || b->stream == nullptr || a->stream->hung) {
        return Fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "an event that the stream has not passed");
    }
    *ms = static_cast<float>((b->us - a->us) / 1e3);
    return ACL_SUCCESS;
}
}
