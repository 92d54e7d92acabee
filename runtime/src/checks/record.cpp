#include "checks/record.h"

#include <algorithm>
#include <cstring>

#include "core.h"

namespace autofuse_twin {

void Record::Begin(uint64_t limit) {
    events.clear();
    buffers.clear();
    apis.clear();
    cut = false;
    limit_ = limit;
    flags_ = 0;
    last_api_ = nullptr;
}

autofuse_twin_event* Record::Push(Kind kind, PipeId pipe) {
    if (events.size() >= limit_) {
        cut = true;
        return nullptr;
    }
    autofuse_twin_event e{};
    e.kind = kind;
    e.pipe = pipe;
    events.push_back(e);
    return &events.back();
}

// Function names are literals; equal ones may have several addresses.
uint32_t Record::Api(const char* name) {
    if (name != last_api_) {
        const auto same = [name](const char* other) { return std::strcmp(other, name) == 0; };
        const auto at = std::find_if(apis.begin(), apis.end(), same);
        last_api_ = name;
        last_index_ = static_cast<uint32_t>(at - apis.begin());
        if (at == apis.end()) {
            apis.push_back(name);
        }
    }
    return last_index_;
}

void Record::Issue(const Core& core, const Place& place, const char* api, PipeId pipe, const Span* spans, int n,
                   uint64_t count, uint32_t bytes) {
    autofuse_twin_event* e = Push(kIssue, pipe);
    if (e == nullptr) {
        return;
    }
    e->api = Api(api);
    e->line = place.line;
    e->nested = place.nested ? 1 : 0;
    e->count = count;
    e->bytes = bytes;
    for (int i = 0; i < n; ++i) {
        const Span& s = spans[i];
        if (s.bytes == 0 || s.inner == 0 || s.outer == 0) {
            continue;
        }
        const uint64_t lo = static_cast<uint64_t>(s.view->addr - core.ub);
        const uint64_t hi = lo + uint64_t{s.outer - 1} * s.outer_pitch + uint64_t{s.inner - 1} * s.inner_pitch + s.bytes;
        // Lists of blocks are longer: the first result and the first source represent all.
        const bool room = e->spans < 4;
        if (room && (e->spans == 0 || n <= 4 || ((e->writes & 1u) != 0) != s.write)) {
            e->lo[e->spans] = static_cast<uint32_t>(lo);
            e->hi[e->spans] = static_cast<uint32_t>(hi);
            e->writes = static_cast<uint8_t>(e->writes | (s.write ? 1u << e->spans : 0u));
            ++e->spans;
        }
        if (n > 4 && e->spans == 2) {
            break;
        }
    }
}

void Record::Registers(const std::vector<std::pair<const char*, uint64_t>>& operations) {
    for (const auto& [name, number] : operations) {
        if (autofuse_twin_event* e = Push(kPart, kPipeV)) {
            e->api = Api(name);
            e->count = number;
            e->bytes = 256;
        }
    }
}

void Record::Gm(const Core& core, const GmView& view, uint64_t bytes, uint64_t pitch, uint32_t rows, bool write,
                bool atomic) {
    if (events.empty() || cut || events.back().kind != kIssue) {
        return;
    }
    autofuse_twin_event& e = events.back();
    e.region = view.region;
    e.gm_at = view.region == 0 ? 0 : static_cast<uint64_t>(view.addr - (*core.run->regions)[view.region - 1].lo);
    e.gm_bytes = bytes;
    e.gm_pitch = pitch;
    e.gm_rows = rows;
    e.gm_use = static_cast<uint8_t>((write ? AUTOFUSE_TWIN_EVENT_WRITE : 0) | (atomic ? AUTOFUSE_TWIN_EVENT_ATOMIC : 0) |
                                    (view.cached ? 0 : AUTOFUSE_TWIN_EVENT_BYPASS));
}

void Record::Dims(const Core& core, const GmView& view, uint64_t bytes, uint64_t pitch, uint32_t rows, uint64_t count,
                  uint32_t elem, uint32_t lo, uint32_t hi) {
    if (events.empty() || cut || events.back().kind != kIssue) {
        return;
    }
    Gm(core, view, bytes, pitch, rows, false, false);
    autofuse_twin_event& e = events.back();
    e.gm_use = static_cast<uint8_t>(e.gm_use | AUTOFUSE_TWIN_EVENT_DIMS);
    e.count = count;
    e.bytes = elem;
    // If its bytes in UB are several spans, the event has only the first; use their bounds instead.
    e.spans = 1;
    e.writes = 1;
    e.lo[0] = lo;
    e.hi[0] = hi;
}

uint32_t Record::Set(PipeId pipe) {
    autofuse_twin_event* e = Push(kSet, pipe);
    ++flags_;
    if (e != nullptr) {
        e->flag = flags_;
    }
    return flags_;
}

void Record::Wait(PipeId pipe, uint32_t flag, Cause cause) {
    if (flag == 0) {
        return;
    }
    if (autofuse_twin_event* e = Push(kWait, pipe)) {
        e->flag = flag;
        e->cause = cause;
    }
}

void Record::Barrier(PipeId pipe) { Push(kBarrier, pipe); }
void Record::BarrierAll() { Push(kBarrierAll, kPipeS); }
void Record::Sync() { Push(kSync, kPipeS); }

void Record::Own(uint32_t lo, uint64_t bytes, int queue, uint32_t index, uint8_t pos) {
    // The groups of a kernel each lay out UB from its first byte, one after another.
    buffers.push_back({lo, lo + static_cast<uint32_t>(bytes), queue, index, pos});
}

}  // namespace autofuse_twin
