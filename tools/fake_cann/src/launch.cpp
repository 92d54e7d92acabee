// A launch on the CPU twin. It runs to its end on the calling thread; the stream's clock then moves on by what it would
// have taken, with noise. A launch that finds memory as an equal one found it that changed nothing is not run again: it
// can change nothing.
#include <algorithm>
#include <cstring>

#include "state.h"

namespace autofuse_fake {
namespace {

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
}  // namespace autofuse_fake

extern "C" void autofuse_fake_launch(const char* name, uint32_t cores, void* handle, void (*body)(void*), void* context,
                                     const void* args, uint64_t args_bytes) {
    using namespace autofuse_fake;
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    auto* const stream = static_cast<Stream*>(handle);
    if (stream == nullptr || stream->hung || stream->error != ACL_SUCCESS || Usable(s, stream->device) != ACL_SUCCESS) {
        return;  // the stream says so when it is waited for
    }
    Device& device = s.devices[static_cast<size_t>(stream->device)];
    Chip& chip = s.config.chips[static_cast<size_t>(stream->device)];
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
            Leave();
            stream->error = ACL_ERROR_RT_AICORE_EXCEPTION;
            t_said = "kernel " + l.name + " broke a rule of the twin: " + json;
            return;
        }
        if (prices) {
            kind.priced = PriceOf(s, device, l, chip, &kind.price);
            if (!kind.priced) {
                Leave();
                t_said = "the process that prices launches of the fake CANN does not answer: see pricing.log";
                stream->error = ACL_ERROR_RT_AICORE_EXCEPTION;
                return;
            }
        }
        if (spoils) {
            Spoil(device, l, kept, kind);
        }
        Leave();
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

