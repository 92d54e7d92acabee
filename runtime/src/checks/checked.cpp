// Order of accesses to UB: vector clocks over the pipes of a core, and the last accesses to every block.
#include "checks/checked.h"

#include <algorithm>
#include <cstring>

#include "core.h"
#include "checks/record.h"

namespace autofuse_twin {
namespace {

constexpr uint32_t kBlock = 32;
enum FileKind { kUnknown, kKernel, kHeader, kTwin };

bool EndsWith(const std::string& text, const char* end) {
    const size_t n = std::strlen(end);
    return text.size() >= n && text.compare(text.size() - n, n, end) == 0;
}

FileKind KindOf(const char* file) {
    const std::string path = file;
    const size_t slash = path.find_last_of('/');
    const std::string folder = slash == std::string::npos ? std::string() : path.substr(0, slash);
    if (EndsWith(folder, "autofuse_twin")) {
        return kTwin;
    }
    return EndsWith(path, ".h") || EndsWith(path, ".hpp") || EndsWith(path, ".inc") ? kHeader : kKernel;
}

}  // namespace

const char* PipeText(PipeId pipe) {
    static const char* const names[] = {"PIPE_S", "PIPE_V", "PIPE_MTE2", "PIPE_MTE3"};
    return names[pipe];
}

Checked::Checked() : bits_(kUbPhysical), write_seq_(kBlocks), write_pipe_(kBlocks), owner_(kBlocks) {
    for (int p = 0; p < kPipes; ++p) {
        history_[p].resize(kHistory);
        read_seq_[p].resize(kBlocks);
    }
    Begin();
}

void Checked::Begin() {
    for (int p = 0; p < kPipes; ++p) {
        clock_[p] = Clock{};
        issued_[p] = 0;
        std::fill(read_seq_[p].begin(), read_seq_[p].end(), 0u);
    }
    std::fill(write_seq_.begin(), write_seq_.end(), 0u);
    std::fill(bits_.begin(), bits_.end(), uint8_t{0});
    std::memset(cmp_mask, 0, sizeof(cmp_mask));
    Disown();
    round_ = 0;
    site_ = Place{};
    file_ = nullptr;
    file_kind_ = kUnknown;
    counts_.assign(counts_.size(), 0);
    seen_.clear();
    gm.clear();
}

void Checked::SetSite(int line, const char* file) {
    if (file != file_) {
        file_ = file;
        file_kind_ = KindOf(file);
    }
    if (file_kind_ == kTwin) {
        return;  // one API function calls another: the outer call has set the place
    }
    site_.nested = file_kind_ == kHeader;
    if (!site_.nested && line > 0) {
        const size_t at = static_cast<size_t>(line);
        if (at >= counts_.size()) {
            counts_.resize(at + 64, 0);
        }
        site_.line = static_cast<uint32_t>(line);
        site_.count = ++counts_[at];
    }
}

// ---- clocks ----

Clock Checked::Release(PipeId pipe) {
    Clock out = clock_[pipe];
    for (int q = kPipeV; q < kPipes; ++q) {
        out.at[q] = std::max(out.at[q], clock_[kPipeS].at[q]);
    }
    out.at[pipe] = issued_[pipe];
    return out;
}

void Checked::Acquire(PipeId pipe, const Clock& clock) { clock_[pipe].Join(clock); }

void Checked::Barrier(PipeId pipe) {
    clock_[pipe].at[pipe] = issued_[pipe];
    if (record != nullptr) {
        record->Barrier(pipe);
    }
}

void Checked::BarrierAll() {
    for (int p = 0; p < kPipes; ++p) {
        for (int q = 0; q < kPipes; ++q) {
            clock_[p].at[q] = issued_[q];
        }
    }
    if (record != nullptr) {
        record->BarrierAll();
    }
}

void Checked::NextRound() {
    ++round_;
    if (record != nullptr) {
        record->Sync();
    }
}

// ---- accesses ----

bool Checked::First(const char* code, uint32_t line, uint32_t other) {
    if (line == 0) {
        return true;  // the launch compares messages
    }
    const uint64_t key = (static_cast<uint64_t>(line) << 32 | other) ^ (reinterpret_cast<uintptr_t>(code) << 8);
    return seen_.insert(key).second;
}

void Checked::Own(uint32_t lo, uint64_t bytes, int queue, uint32_t slot, uint8_t pos) {
    if (record != nullptr) {
        record->Own(lo, bytes, queue, slot, pos);
    }
    uint16_t id = 0;
    if (queue >= 0) {
        owners_.push_back({queue, slot});
        id = static_cast<uint16_t>(owners_.size());
    }
    std::fill_n(owner_.begin() + lo / kBlock, bytes / kBlock, id);
    std::fill_n(bits_.begin() + lo, bytes, uint8_t{0});
}

void Checked::Disown() {
    owners_.clear();
    std::fill(owner_.begin(), owner_.end(), uint16_t{0});
}

void Checked::Alive(Core& core, const char* api, const Span& span) {
    const bool old = span.view->age < core.first_age;
    bool freed = old;
    if (!old) {
        const uint16_t id = owner_[static_cast<size_t>(span.view->lo - core.ub) / kBlock];
        if (id == 0) {
            return;
        }
        const Owner& owner = owners_[id - 1u];
        const Slot& slot = core.queues[static_cast<size_t>(owner.queue)].slots[owner.slot];
        freed = slot.state == SlotState::kFree || slot.view.age != span.view->age;
        if (!freed && slot.state != SlotState::kEnque) {
            return;
        }
    }
    const char* code = freed ? "ub-freed" : "ub-state";
    if (!First(code, site_.line, 0)) {
        return;
    }
    Finding f = NewFinding(core, code, api);
    f.place = old ? "a buffer of an earlier TPipe state" : BufferName(core, *span.view);
    f.begin = span.view->addr - span.view->lo;
    f.end = f.begin + static_cast<int64_t>(span.bytes);
    f.message = std::string(span.name) + (span.write ? " writes " : " reads ") + f.place +
                (old     ? ", whose memory was given back when the TPipe was reset or ended"
                 : freed ? ", which was given back by FreeTensor"
                         : " between EnQue and DeQue, when it belongs to the next pipe");
    AddFinding(*core.run, std::move(f));
}

void Checked::Race(Core& core, const char* api, PipeId pipe, const Span& span, uint32_t block, PipeId other, uint32_t seq,
                   bool other_writes) {
    Instr earlier;
    const bool known = issued_[other] - seq < kHistory;
    if (known) {
        earlier = history_[other][seq % kHistory];
    }
    if (!First("race", site_.line, earlier.place.line)) {
        return;
    }
    Finding f = NewFinding(core, "race", api);
    const uint32_t at = block * kBlock;
    f.place = BufferName(core, *span.view);
    f.begin = span.view->addr - span.view->lo;
    f.end = f.begin + static_cast<int64_t>(span.outer - 1) * span.outer_pitch +
            static_cast<int64_t>(span.inner - 1) * span.inner_pitch + static_cast<int64_t>(span.bytes);
    f.message = std::string(span.name) + (span.write ? " is written" : " is read") + " on " + PipeText(pipe) + " in " +
                f.place + ", UB bytes from " + std::to_string(at) + ", while ";
    if (known) {
        f.has_other = true;
        f.other_api = earlier.api;
        f.other_core = core.index;
        f.other_site = earlier.place;
        const char* name = other_writes ? "dst" : "src";
        for (int i = 0; i < 4; ++i) {
            if (earlier.name[i] != nullptr && at + kBlock > earlier.lo[i] && at < earlier.hi[i]) {
                name = earlier.name[i];
                if ((i == 0) == other_writes) {
                    break;
                }
            }
        }
        f.message += std::string(earlier.api) + " may still be " + (other_writes ? "writing " : "reading ") + name;
    } else {
        f.message += std::string("an earlier call may still be ") + (other_writes ? "writing" : "reading");
    }
    f.message += std::string(" there on ") + PipeText(other) +
                 (pipe == other ? "; PipeBarrier is missing between them" : "; no flag or queue orders the two");
    AddFinding(*core.run, std::move(f));
}

bool Checked::Conflict(Core& core, const char* api, PipeId pipe, const Span& span, uint64_t lo) {
    const uint32_t* done = clock_[pipe].at;
    const uint32_t first = static_cast<uint32_t>(lo / kBlock);
    const uint32_t last = static_cast<uint32_t>((lo + span.bytes - 1) / kBlock);
    for (uint32_t b = first; b <= last; ++b) {
        if (write_seq_[b] > done[write_pipe_[b]]) {
            Race(core, api, pipe, span, b, static_cast<PipeId>(write_pipe_[b]), write_seq_[b], true);
            return true;
        }
    }
    if (!span.write) {
        return false;
    }
    for (int q = 0; q < kPipes; ++q) {
        const uint32_t* reads = read_seq_[q].data();
        const uint32_t limit = done[q];
        for (uint32_t b = first; b <= last; ++b) {
            if (reads[b] > limit) {
                Race(core, api, pipe, span, b, static_cast<PipeId>(q), reads[b], false);
                return true;
            }
        }
    }
    return false;
}

void Checked::Issue(Core& core, const char* api, PipeId pipe, const Span* spans, int n, uint64_t count, uint32_t bytes) {
    if (record != nullptr) {
        record->Issue(core, site_, api, pipe, spans, n, count, bytes);
    }
    // The scalar unit issues in order: everything it has waited for is complete before anything it issues afterwards.
    // Its own stores to UB are not; other pipes only see them after a flag of the scalar unit.
    if (pipe != kPipeS) {
        for (int q = kPipeV; q < kPipes; ++q) {
            clock_[pipe].at[q] = std::max(clock_[pipe].at[q], clock_[kPipeS].at[q]);
        }
    } else {
        clock_[kPipeS].at[kPipeS] = issued_[kPipeS];
    }
    const uint32_t seq = ++issued_[pipe];
    Instr& record = history_[pipe][seq % kHistory];
    record = Instr{};
    record.api = api;
    record.place = site_;
    bool conflict = false;
    for (int i = 0; i < n; ++i) {
        const Span& s = spans[i];
        if (s.bytes == 0 || s.inner == 0 || s.outer == 0) {
            continue;
        }
        Alive(core, api, s);
        const uint64_t start = static_cast<uint64_t>(s.view->addr - core.ub);
        if (i < 4) {
            record.name[i] = s.name;
            record.lo[i] = static_cast<uint32_t>(start);
            record.hi[i] = static_cast<uint32_t>(start + uint64_t{s.outer - 1} * s.outer_pitch +
                                                 uint64_t{s.inner - 1} * s.inner_pitch + s.bytes);
        }
        for (uint32_t o = 0; o < s.outer && !conflict; ++o) {
            for (uint32_t k = 0; k < s.inner && !conflict; ++k) {
                conflict = Conflict(core, api, pipe, s, start + uint64_t{o} * s.outer_pitch + uint64_t{k} * s.inner_pitch);
            }
        }
    }
    // Afterwards, so that an in-place call does not conflict with itself.
    for (int i = 0; i < n; ++i) {
        const Span& s = spans[i];
        if (s.bytes == 0 || (!s.write && pipe == kPipeS)) {
            continue;  // a scalar read completes before anything else is issued
        }
        const uint64_t start = static_cast<uint64_t>(s.view->addr - core.ub);
        for (uint32_t o = 0; o < s.outer; ++o) {
            for (uint32_t k = 0; k < s.inner; ++k) {
                const uint64_t lo = start + uint64_t{o} * s.outer_pitch + uint64_t{k} * s.inner_pitch;
                const uint64_t first = lo / kBlock;
                const uint64_t count = (lo + s.bytes - 1) / kBlock - first + 1;
                if (s.write) {
                    std::fill_n(write_seq_.begin() + static_cast<int64_t>(first), count, seq);
                    std::fill_n(write_pipe_.begin() + static_cast<int64_t>(first), count, static_cast<uint8_t>(pipe));
                } else {
                    std::fill_n(read_seq_[pipe].begin() + static_cast<int64_t>(first), count, seq);
                }
            }
        }
    }
}

void Checked::Gm(Core& core, const char* api, PipeId pipe, const GmView& view, uint64_t bytes, uint64_t pitch,
                 uint32_t rows, bool write, bool atomic) {
    if (record != nullptr) {
        record->Gm(core, view, bytes, pitch, rows, write, atomic);
    }
    if (view.region == 0 || !view.writable || bytes == 0 || rows == 0) {
        return;
    }
    if (rows == 1 || pitch == bytes) {
        bytes *= rows;
        rows = 1;
        pitch = bytes;
    }
    gm.push_back({view.addr, bytes, pitch, rows, view.region, static_cast<uint32_t>(core.index), round_, issued_[pipe],
                  pipe, write, atomic, clock_[pipe], api, site_});
}

void SiteSet(int line, const char* file) {
    Core* core = g_current;
    if (core != nullptr && core->check != nullptr) {
        core->check->SetSite(line, file);
    }
}

}  // namespace autofuse_twin
