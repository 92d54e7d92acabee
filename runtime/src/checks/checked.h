// Checked mode: state of every byte of UB and every access to GM. Internal to the library.
//
// Instructions are checked at their issue, in program order, whatever their execution order: an order that flags and
// barriers do not enforce is a finding, even if this run happened to execute correctly.
#ifndef AUTOFUSE_TWIN_SRC_CHECKED_H
#define AUTOFUSE_TWIN_SRC_CHECKED_H

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "autofuse_twin/abi.h"

namespace autofuse_twin {

struct Core;
struct Run;
class Record;

// The units of a core that run concurrently. The scalar unit issues the instructions of all of them.
enum PipeId : uint8_t { kPipeS, kPipeV, kPipeMte2, kPipeMte3, kPipes };
const char* PipeText(PipeId pipe);

// Per pipe: its instructions up to this number are complete.
struct Clock {
    uint32_t at[kPipes] = {};
    void Join(const Clock& other) {
        for (int i = 0; i < kPipes; ++i) {
            at[i] = other.at[i] > at[i] ? other.at[i] : at[i];
        }
    }
};

// A call in the kernel's source. count: how often the core has executed this line. nested: the call is in a header that
// the kernel includes, and line is the last one of the kernel before it.
struct Place {
    uint32_t line = 0;
    uint32_t count = 0;
    bool nested = false;
};

// Bytes of UB that an instruction accesses: `outer` times `inner` runs of `bytes`.
struct Span {
    const UbView* view;
    const char* name;
    bool write;
    uint64_t bytes;
    uint32_t inner = 1, inner_pitch = 0;
    uint32_t outer = 1, outer_pitch = 0;
};

// An access to a region of GM that some core may write: `rows` runs of `bytes`, `pitch` apart.
struct GmAccess {
    const uint8_t* lo;
    uint64_t bytes, pitch;
    uint32_t rows;
    uint32_t region;
    uint32_t core, round, seq;  // round: number of SyncAll calls the core had passed
    PipeId pipe;
    bool write, atomic;
    Clock start;  // instructions complete before the access could start
    const char* api;
    Place place;
};

class Checked {
public:
    Checked();

    void Begin();
    void SetSite(int line, const char* file);
    const Place& Site() const { return site_; }

    // Issues an instruction of a pipe: checks its accesses to UB against all earlier ones. It processes `count`
    // elements of `bytes` bytes; both are 0 for copies from and to GM.
    void Issue(Core& core, const char* api, PipeId pipe, const Span* spans, int n, uint64_t count = 0,
               uint32_t bytes = 0);
    // A GM access of the last instruction issued on this pipe.
    void Gm(Core& core, const char* api, PipeId pipe, const GmView& view, uint64_t bytes, uint64_t pitch, uint32_t rows,
            bool write, bool atomic);

    // Set: a snapshot of everything complete when the pipe gets here. Wait: the pipe continues once that is complete.
    Clock Release(PipeId pipe);
    void Acquire(PipeId pipe, const Clock& clock);
    void Barrier(PipeId pipe);
    void BarrierAll();
    void NextRound();

    // A queue block or TBuf at [lo, lo + bytes); queue -1 for a TBuf.
    void Own(uint32_t lo, uint64_t bytes, int queue, uint32_t slot, uint8_t pos);
    void Disown();

    // Definedness: one mask byte per byte of UB, a bit set for every defined bit.
    uint8_t* Bits(const Core& core, const void* addr);
    void Fill(const Core& core, const void* addr, uint64_t bytes, bool defined);
    // dst = f(src...) element by element; null sources are ignored. reads_dst: dst is a source, too.
    void Elements(const Core& core, const void* dst, uint32_t dst_elem, const void* a, const void* b, uint32_t src_elem,
                  bool reads_dst, uint64_t n);
    void CompareBits(const Core& core, const void* dst, const void* a, const void* b, uint32_t elem, uint64_t n);
    void SelectElements(uint8_t* dst, const uint8_t* mask, const uint8_t* a, const uint8_t* b, uint32_t elem, uint64_t n);
    // Index of the first byte that is not fully defined, or n.
    uint64_t FirstUndefined(const Core& core, const void* addr, uint64_t n);
    // Reports undefined bytes that must not be used here.
    bool NeedDefined(Core& core, const char* code, const char* api, const UbView& view, uint64_t bytes, uint64_t pitch,
                     uint32_t rows, const char* use);

    uint8_t cmp_mask[16] = {};  // definedness of the compare-mask register
    std::vector<GmAccess> gm;
    Record* record = nullptr;  // null unless the core is recorded

private:
    struct Instr {
        const char* api = nullptr;
        Place place;
        uint32_t lo[4] = {};
        uint32_t hi[4] = {};
        const char* name[4] = {};
    };
    struct Owner {
        int queue;
        uint32_t slot;
    };
    static constexpr uint32_t kHistory = 1u << 12;
    static constexpr uint32_t kBlocks = 262144 / 32;

    bool First(const char* code, uint32_t line, uint32_t other);
    void Alive(Core& core, const char* api, const Span& span);
    bool Conflict(Core& core, const char* api, PipeId pipe, const Span& span, uint64_t lo);
    void Race(Core& core, const char* api, PipeId pipe, const Span& span, uint32_t block, PipeId other, uint32_t seq,
              bool other_writes);

    Clock clock_[kPipes];
    uint32_t issued_[kPipes];
    uint32_t round_;
    Place site_;
    const char* file_;
    int file_kind_;
    std::vector<uint32_t> counts_;
    std::unordered_set<uint64_t> seen_;
    std::vector<Instr> history_[kPipes];
    std::vector<Owner> owners_;
    std::vector<uint8_t> bits_;
    std::vector<uint32_t> write_seq_;
    std::vector<uint8_t> write_pipe_;
    std::vector<uint32_t> read_seq_[kPipes];
    std::vector<uint16_t> owner_;  // 1 + index into owners_, 0 for none
};

// After the last core: conflicts between accesses of different cores and pipes to the same bytes of GM.
void CheckGmAccesses(Run& run);

}  // namespace autofuse_twin

#endif
