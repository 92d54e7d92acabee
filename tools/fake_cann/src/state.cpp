// Chips and failures as ascendcl.conf has them, memory and what of it is in L2, noise.
#include "state.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

const char autofuse_fake_cann[] = "the fake CANN of autofuse";

namespace autofuse_fake {
namespace {

constexpr double kOutlierShare = 0.01;

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
        } else if (key == "modes" && !out->chips.empty()) {
            Chip& c = out->chips.back();
            words >> c.arch;
            for (auto& row : c.calls.modes) {
                for (uint8_t& bits : row) {
                    int number = 0;
                    words >> number;
                    bits = static_cast<uint8_t>(number);
                }
            }
        } else if (key == "lacks" && !out->chips.empty()) {
            for (std::string name; words >> name;) {
                out->chips.back().lacks.push_back(name);
            }
        } else if (key == "flushes" && !out->chips.empty()) {
            for (std::string name; words >> name;) {
                out->chips.back().flushes.push_back(name);
            }
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

}  // namespace

thread_local int t_device = -1;
thread_local std::string t_said;

State& The() {
    static State* const state = new State;  // outlives every thread
    return *state;
}


aclError Fail(aclError code, const std::string& said) {
    t_said = said;
    return code;
}

uint64_t Mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

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

bool Fails(const Config& c, const char* kind, const std::string& name) {
    return std::any_of(c.failures.begin(), c.failures.end(), [&](const Failure& f) {
        return f.kind == kind && (f.pattern == "*" || name.find(f.pattern) != std::string::npos);
    });
}

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
    }
    return true;
}

}  // namespace autofuse_fake
