// State of one simulated vector core and of one launch. Internal to the library.
#ifndef AUTOFUSE_TWIN_SRC_CORE_H
#define AUTOFUSE_TWIN_SRC_CORE_H

#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autofuse_twin/launch.h"
#include "checks/checked.h"
#include "kernels/kernels.h"
#include "checks/record.h"
#include "checks/schedule.h"

namespace autofuse_twin {

constexpr uint64_t kUbPhysical = 262144;                        // bytes backing every core
constexpr uint64_t kUbDefault = 196608 - 256 - 8192;            // usable on A2 with the default compiler options
constexpr uint32_t kMaxBuffers = 64;                            // buffers per TPipe
constexpr uint32_t kMaxQueueBuffers = 8;                        // queue buffers per position
constexpr int kEventIds = 8;
// Bits of the control register, by the meaning of 1 for out-of-range results: floats become infinities and NaN stays
// NaN; integer sums, differences and products saturate; casts to integers are truncated; bits 48 and 59 override each
// cast.
constexpr int kControlFloats = 48, kControlIntegers = 53, kControlCasts = 59, kControlGlobal = 60;
constexpr uint64_t kControlDefault = uint64_t{1} << kControlGlobal;
// The bits of these that a TPipe does not change.
constexpr uint64_t kControlKept = uint64_t{1} << kControlFloats;
constexpr int kEvents = static_cast<int>(AscendC::HardEvent::MAX);

struct Region {
    uint8_t* lo;
    uint8_t* hi;
    std::string name;
    int use;  // AUTOFUSE_TWIN_GM_*
};

struct Finding {
    std::string code;
    int64_t core;
    uint32_t cores;
    std::string api;
    std::string message;
    std::vector<int64_t> who;  // all cores
    Place site;
    std::string place;  // a tensor, and bytes of it
    int64_t begin = 0, end = 0;
    bool has_other = false;  // the conflicting access
    std::string other_api;
    int64_t other_core = 0;
    Place other_site;
};

// State shared by the cores of one launch.
struct Run {
    void (*body)(void*);
    void* context;
    uint32_t block_dim;
    uint64_t ub_size;
    uint64_t tiling_key;
    const std::vector<Region>* regions;
    const autofuse_twin_architecture* architecture = nullptr;  // null: Atlas A2
    bool check = false;
    uint64_t seed = 0;              // 0: instructions execute at their issue
    const std::vector<uint32_t>* recorded = nullptr;  // the recorded cores, which run alone; null: all run unrecorded
    uint64_t record_limit = 0;
    uint32_t count = 0;             // number of cores that run

    std::mutex mutex;               // guards everything below
    std::vector<Finding> findings;
    std::vector<GmAccess> gm;
    std::set<std::pair<const uint8_t*, const uint8_t*>> meetings;  // workspaces of software SyncAll
    uint64_t loaded = 0, stored = 0;  // bytes moved by copies from and to GM
    std::vector<std::pair<uint64_t, uint64_t>> moved;  // by core
    std::vector<Record> records;    // in the order of `recorded`
    bool aborted = false;           // some core stopped early
    uint32_t next = 0;              // number of started cores
    uint32_t finished = 0;
    uint32_t arrived = 0;           // cores waiting in SyncAll
    uint64_t generation = 0;        // completed SyncAll rounds
    bool broken = false;            // SyncAll can never complete
    uint32_t workers = 0;           // pool threads inside this run
    std::condition_variable wake;
};

enum class SlotState : uint8_t { kFree, kOccupied, kEnque, kDeque };

struct Slot {
    UbView view;  // a tensor of the block, if it is allocated now
    uint32_t elem;  // bytes of an element of that tensor
    SlotState state;
    // Set by EnQue and FreeTensor for the other pipe of the queue: the clock, and the flag of the scheduler.
    Clock filled, freed;
    uint32_t filled_flag, freed_flag;
};

// Blocks of a queue in FIFO order. A block is in it at most once.
class Fifo {
public:
    size_t size() const { return count_; }
    bool empty() const { return count_ == 0; }
    void Push(uint32_t slot) { at_[(first_ + count_++) % kMaxQueueBuffers] = static_cast<uint8_t>(slot); }
    uint32_t Pop() {
        const uint32_t slot = at_[first_];
        first_ = (first_ + 1) % kMaxQueueBuffers;
        --count_;
        return slot;
    }

private:
    uint8_t at_[kMaxQueueBuffers] = {};
    uint32_t first_ = 0, count_ = 0;
};

struct Queue {
    uint8_t src, dst;
    int32_t depth;
    uint64_t len;
    std::vector<Slot> slots;
    Fifo fifo;
    uint32_t next;
};

struct BufferInfo {
    uint8_t* lo;
    uint8_t* hi;
    int queue;       // -1: TBuf
    uint32_t index;  // block of the queue, or number of the TBuf
    uint8_t pos;
};

// Memory that the kernel probably loads next: the memory after the rows it loaded last. Vector calls prefetch half of
// it into the cache piecewise, the store prefetches the rest, so that compute and memory time overlap, as pipes do on a
// chip. Memory reads and writes concurrently: prefetching all of it during the calls, or all during the store, took
// longer.
struct Ahead {
    const uint8_t* at[4] = {};
    uint64_t lines[4] = {};
    uint32_t next = 0;
    uint64_t total = 0;

    void Note(const uint8_t* from, uint64_t bytes) {
        total += bytes / 64 - lines[next];
        at[next] = from;
        lines[next] = bytes / 64;
        next = (next + 1) % 4;
    }
    void Fetch(uint64_t n) {
        for (uint32_t i = 0; i < 4 && n != 0; ++i) {
            for (; lines[i] != 0 && n != 0; --n, --lines[i], --total, at[i] += 64) {
                __builtin_prefetch(at[i], 0, 3);
            }
        }
    }
};

struct RegState;
struct Vf;

struct Core {
    Run* run = nullptr;
    int64_t index = 0;
    uint8_t* ub = nullptr;
    uint64_t dirty = kUbPhysical;  // bytes from the start that may differ from the poison
    uint64_t used = 0;
    uint64_t loaded = 0, stored = 0;  // bytes moved by copies from and to GM
    bool aborted = false;
    Ahead ahead;
    void* pipe = nullptr;
    std::vector<Queue> queues;
    std::vector<BufferInfo> buffers;
    // The lowest age of a tensor and number of a queue in this layout of UB: those of an earlier one are below.
    uint64_t first_age = 0;
    int first_queue = 0;
    bool flags[kEvents][kEventIds] = {};
    bool reserved[kEvents][kEventIds] = {};
    bool counter_mode = false;
    uint64_t mask_lo = ~uint64_t{0};
    uint64_t mask_hi = ~uint64_t{0};
    uint8_t cmp_mask[16] = {};
    int atomic = 0;
    Dt atomic_dt = Dt::F32;
    bool dims_clean = false;  // NdDmaDci() since the last multi-dimensional copy
    int task_type = -1;
    uint64_t control = 0, control_found = 0;  // the control register, now and at the start of the kernel

    Checked* check = nullptr;    // null in fast mode
    Scheduler* order = nullptr;  // null if instructions execute at their issue
    Clock flag_clock[kEvents][kEventIds];
    uint32_t flag_token[kEvents][kEventIds] = {};
    std::unique_ptr<Checked> check_memory;
    std::unique_ptr<Scheduler> order_memory;
    Record record;
    Vf* vf = nullptr;  // the open vector function; checked mode
    std::shared_ptr<RegState> reg;

    ~Core();
};

// Thrown to leave the kernel of one core after a failed check.
struct CoreAbort {};

// The core running on this thread. (Not of the initial-exec model: a library that Python loads late may find no room.)
extern __thread Core* g_current;
[[noreturn]] void NoCurrent();
// Closes the open vector function: its accesses become one instruction of PIPE_V.
void LeaveVf(Core& core);
// For an operation of a vector function. Throws std::logic_error outside of a launch.
inline Core& CurrentInside() {
    if (g_current == nullptr) {
        NoCurrent();
    }
    return *g_current;
}
// For everything else: closes an open vector function.
inline Core& Current() {
    Core& core = CurrentInside();
    if (core.vf != nullptr) {
        LeaveVf(core);
    }
    return core;
}

// Records a finding and leaves the kernel of this core.
[[noreturn]] void Fail(const char* code, const char* api, const char* format, ...) __attribute__((format(printf, 3, 4)));
// Records a finding and continues.
void Report(const char* code, const char* api, const char* format, ...) __attribute__((format(printf, 3, 4)));
void AddFinding(Run& run, int64_t core, const char* code, const char* api, std::string message);
void AddFinding(Run& run, Finding finding);
// A finding of this core at the current source location.
Finding NewFinding(const Core& core, const char* code, const char* api);

const char* OpName(Op op);
const char* DtName(Dt dt);
const char* PosName(uint8_t pos);
std::string EventName(uint8_t event);

// "VECIN queue 0 block 1" for the owner of the view.
std::string BufferName(const Core& core, const UbView& view);

// Checks that the kernel's architecture has a call; Atlas A2 has all.
[[noreturn]] void FailLacking(const Run& run, const char* api);
bool Lacks(const Run& run, const char* api);
inline void CheckCall(const Core& core, const char* api) {
    if (core.run->architecture != nullptr && Lacks(*core.run, api)) {
        FailLacking(*core.run, api);
    }
}

// Checks alignment and bounds of [view.addr, view.addr + bytes).
void CheckUb(Core& core, const char* api, const char* operand, const UbView& view, uint64_t bytes, uint32_t align);
void CheckGm(Core& core, const char* api, const GmView& view, uint64_t bytes, bool write);

// Checks that the kernel restores the control register.
void CheckControlKept(const Core& core);

// Called before and after the kernel body.
void BeginCore(Core& core, Run* run, int64_t index);
void EndCore(Core& core);
void ReleasePipe(Core& core);

// Executes an instruction: now, or when the scheduler reaches it.
template <typename F> inline void Execute(Core& core, PipeId pipe, const F& f) {
    if (core.order == nullptr) {
        f();
    } else {
        core.order->Add(pipe, f);
    }
}
// Waits for all pipes of the core, so that other threads may read its stores.
void FinishAll(Core& core);
void StreamFence();

// Blocks until all cores have arrived; false once that is impossible.
bool WaitAllCores(Run& run);

}  // namespace autofuse_twin

#endif
