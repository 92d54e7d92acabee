// Running a kernel body on the simulated cores.
//
// Launch(block_dim, body) calls body once per core. It returns 0, or a non-zero value when a check failed on any
// core; the findings are then available from autofuse_twin_findings_json on the calling thread.
#ifndef AUTOFUSE_TWIN_LAUNCH_H
#define AUTOFUSE_TWIN_LAUNCH_H

#include <cstdint>

extern "C" {
// Runs body(context) for every core 0 .. block_dim-1. Settings, GM regions and findings are per calling thread.
int64_t autofuse_twin_launch(uint32_t block_dim, void (*body)(void*), void* context);

// GM regions for the next launches of this thread. With none registered, GM accesses are not checked. A launch that may
// write memory shared with another region does not run, except for an output with exactly the memory of an input. `use`
// 0: an input. Otherwise the kernel may write it; the other bits are expectations of checked mode for an output.
enum {
    AUTOFUSE_TWIN_GM_WRITABLE = 1,
    AUTOFUSE_TWIN_GM_ONCE = 2,      // no byte is written twice
    AUTOFUSE_TWIN_GM_COMPLETE = 4,  // every byte is written
    AUTOFUSE_TWIN_GM_SCRATCH = 8    // its contents before the launch are undefined
};
void autofuse_twin_gm_clear(void);
void autofuse_twin_gm_add(const void* ptr, uint64_t bytes, const char* name, int use);

// Checked mode of the next launches of this thread: 0 off, 1 on (uninitialised data, races, double writes). The kernel
// must be compiled with AUTOFUSE_TWIN_CHECKED. Seed 0 executes in program order, any other in an order that is legal on
// a chip, and as unfavourable as the seed makes it.
void autofuse_twin_set_check(int on, uint64_t seed);

// Usable UB bytes per core (0 restores the default 188160) and worker threads (0: one per hardware thread).
void autofuse_twin_set_ub_size(uint64_t bytes);
void autofuse_twin_set_threads(int threads);

// Calls of an architecture that differ from Atlas A2. Unsupported calls compile, and do nothing on the chip; here they
// are findings. `modes` has the round modes of Cast as bits 1 << RoundMode, by source and by destination, in the order
// of the twin's element types; `lacks` names calls that the architecture does not have. `flushes` names calls that
// flush subnormal numbers to zero; `zero_counts`: 1 if a call with no elements, or no repeats, is not documented to do
// nothing, which is a finding as well. `control`: the initial control register, 0 if the twin knows none: then floats
// overflow to infinity, casts to integers saturate, and integers wrap.
// floats overflow to infinity, casts to integers saturate, and integers wrap.
enum { AUTOFUSE_TWIN_TYPES = 12 };
typedef struct {
    const char* name;
    uint8_t modes[AUTOFUSE_TWIN_TYPES][AUTOFUSE_TWIN_TYPES];
    const char* const* lacks;
    uint64_t lacks_count;
    const char* const* flushes;
    uint64_t flushes_count;
    int zero_counts;
    uint64_t control;
} autofuse_twin_architecture;
// The architecture of this thread's next launches, which keep the pointer; null: Atlas A2.
void autofuse_twin_set_architecture(const autofuse_twin_architecture* architecture);
// The round modes of Atlas A2 in the same form.
uint8_t autofuse_twin_default_modes(int source, int destination);

// Records some cores in the next launches of this thread, in checked mode: only these run, in ascending order, and data
// that the others would have written stay unchanged. n 0: off. A core stops recording after `limit` events.
void autofuse_twin_set_record(const uint32_t* cores, uint32_t n, uint64_t limit);

// One entry of a record, in program order. Plain data without padding; the meaning of its members depends on `kind`.
enum {
    AUTOFUSE_TWIN_EVENT_ISSUE = 0,        // an instruction
    AUTOFUSE_TWIN_EVENT_SET = 1,          // the pipe sets `flag` here
    AUTOFUSE_TWIN_EVENT_WAIT = 2,         // the pipe waits for `flag`
    AUTOFUSE_TWIN_EVENT_BARRIER = 3,      // the pipe waits for its own instructions
    AUTOFUSE_TWIN_EVENT_BARRIER_ALL = 4,  // the scalar unit waits for all pipes
    AUTOFUSE_TWIN_EVENT_SYNC = 5,         // all cores meet
    AUTOFUSE_TWIN_EVENT_PART = 6          // register operations of the preceding instruction, a vector function
};
enum {
    AUTOFUSE_TWIN_EVENT_WRITE = 1,
    AUTOFUSE_TWIN_EVENT_ATOMIC = 2,
    AUTOFUSE_TWIN_EVENT_BYPASS = 4,
    // A multi-dimensional copy: `count` elements of `bytes` bytes arrive in UB. It reads gm_bytes times gm_rows of GM,
    // without repeating loops; rows of several pitches count as evenly spaced.
    AUTOFUSE_TWIN_EVENT_DIMS = 8
};
typedef struct {
    uint8_t kind;
    uint8_t pipe;    // 0 scalar, 1 vector, 2 MTE2, 3 MTE3
    uint8_t cause;   // of a wait: 0 for a free block of a queue, 1 for a filled one, 2 for a flag
    uint8_t nested;  // the call is in a header
    uint8_t spans;   // number of used entries of lo and hi
    uint8_t writes;  // bit i: the instruction writes span i
    uint8_t gm_use;  // AUTOFUSE_TWIN_EVENT_WRITE, _ATOMIC, _BYPASS, _DIMS
    uint8_t zero;
    uint32_t line;   // in the kernel file, as in findings
    uint32_t api;    // index of its name
    uint32_t flag;
    uint32_t bytes;  // of an element; 256 for a register
    uint64_t count;  // elements processed by the vector unit, or by a multi-dimensional copy
    uint32_t lo[4], hi[4];  // UB bytes
    uint64_t gm_at;  // byte offset in the region
    uint64_t gm_bytes, gm_pitch;
    uint32_t gm_rows;
    uint32_t region;  // from 1 on, in the order of autofuse_twin_gm_add; 0: none
} autofuse_twin_event;
typedef struct {
    uint32_t lo, hi;  // UB bytes
    int32_t queue;    // -1: a TBuf
    uint32_t index;   // block of the queue, or number of the TBuf
    uint32_t pos;     // TPosition
} autofuse_twin_buffer;
typedef struct {
    uint32_t core;
    uint32_t cut;  // 1: truncated
    uint64_t events_count, buffers_count, apis_count;
    const autofuse_twin_event* events;
    const autofuse_twin_buffer* buffers;
    const char* const* apis;
} autofuse_twin_record;
// The record of the i-th recorded core of the last launch of this thread, until the next launch; 0: there is none.
int autofuse_twin_get_record(uint32_t i, autofuse_twin_record* out);
// Bytes that a core moved from and to GM in the last launch of this thread; 0: it did not run.
int autofuse_twin_core_bytes(uint32_t core, uint64_t* loaded, uint64_t* stored);

// TILING_KEY_IS compares with this key in the next launches of this thread; on a chip the host's tiling function sets
// it.
void autofuse_twin_set_tiling_key(uint64_t key);

// Findings of the last launch of this thread as a JSON array of {code, core, cores, api, message, line, count, nested,
// place, begin, end, other}. line: in the kernel file, 0 if unknown; nested: the call is in a header, and line is the
// last one of the kernel file before it; count: how often the core had executed the line; place, begin, end: a tensor
// and its bytes; other: the conflicting access, {api, core, line, count, nested}, or null.
// Writes at most n bytes including the terminating zero and returns the length of the whole text without it.
uint64_t autofuse_twin_findings_json(char* buf, uint64_t n);
uint64_t autofuse_twin_findings_count(void);
void autofuse_twin_findings_clear(void);

// Bytes that the copies of the last launch of this thread moved from and to GM, without the gaps between rows and the
// filler of rows up to 32 bytes; scalar accesses do not count.
void autofuse_twin_moved_bytes(uint64_t* loaded, uint64_t* stored);
const char* autofuse_twin_version(void);
}

namespace autofuse_twin {

template <typename Body>
inline int64_t Launch(uint32_t block_dim, const Body& body) {
    return autofuse_twin_launch(
        block_dim, [](void* context) { (*static_cast<const Body*>(context))(); }, const_cast<Body*>(&body));
}

}  // namespace autofuse_twin

#endif
