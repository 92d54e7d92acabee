// Record of a core's instructions, in program order, for a time model. Internal to the library.
//
// A recorded core runs in checked mode, where every instruction states its accesses, and every queue, flag and barrier
// the pipe that waits. The record has no times; its reader has the figures of a chip.
#ifndef AUTOFUSE_TWIN_SRC_RECORD_H
#define AUTOFUSE_TWIN_SRC_RECORD_H

#include <cstdint>
#include <utility>
#include <vector>

#include "autofuse_twin/launch.h"
#include "checks/checked.h"

namespace autofuse_twin {

class Record {
public:
    enum Kind : uint8_t { kIssue, kSet, kWait, kBarrier, kBarrierAll, kSync, kPart };
    // Cause of a wait: a free block of a queue, a filled one, or a flag that the kernel sets itself.
    enum Cause : uint8_t { kSlot, kData, kFlag };

    void Begin(uint64_t limit);

    // An instruction over `count` elements of `bytes` bytes each; both are 0 for copies from and to GM.
    void Issue(const Core& core, const Place& place, const char* api, PipeId pipe, const Span* spans, int n, uint64_t count,
               uint32_t bytes);
    // Contents of the preceding vector function: register operations by name, each an event of so many elements of 256
    // bytes without accesses.
    void Registers(const std::vector<std::pair<const char*, uint64_t>>& operations);
    // The GM side of the preceding instruction.
    void Gm(const Core& core, const GmView& view, uint64_t bytes, uint64_t pitch, uint32_t rows, bool write, bool atomic);
    // Variant for a multi-dimensional copy of `count` elements to UB bytes [lo, hi).
    void Dims(const Core& core, const GmView& view, uint64_t bytes, uint64_t pitch, uint32_t rows, uint64_t count,
              uint32_t elem, uint32_t lo, uint32_t hi);
    // A flag set when the pipe gets here. 0 means no flag.
    uint32_t Set(PipeId pipe);
    void Wait(PipeId pipe, uint32_t flag, Cause cause);
    void Barrier(PipeId pipe);
    void BarrierAll();
    void Sync();
    // A block of a queue or a TBuf at [lo, lo + bytes) of UB; queue -1 for a TBuf.
    void Own(uint32_t lo, uint64_t bytes, int queue, uint32_t index, uint8_t pos);

    std::vector<autofuse_twin_event> events;
    std::vector<autofuse_twin_buffer> buffers;
    std::vector<const char*> apis;
    bool cut = false;  // the events exceeded the limit

private:
    autofuse_twin_event* Push(Kind kind, PipeId pipe);
    uint32_t Api(const char* name);

    uint64_t limit_ = 0;
    uint32_t flags_ = 0;
    const char* last_api_ = nullptr;
    uint32_t last_index_ = 0;
};

}  // namespace autofuse_twin

#endif
