// Roles of the warps in a block, and their synchronisation.
//
// A barrier of a queue (`Queued`) is an mbarrier: one side arrives, one side waits, once per use of a block of the queue.
// A flag is a count: either side may be ahead of the other by several uses of one event id.
#ifndef AUTOFUSE_CUDA_CORE_H
#define AUTOFUSE_CUDA_CORE_H

#ifndef AUTOFUSE_CUDA_V_WARPS
#define AUTOFUSE_CUDA_V_WARPS 14
#endif

namespace autofuse_cuda {

constexpr uint32_t kVWarps = AUTOFUSE_CUDA_V_WARPS;
constexpr uint32_t kV = kVWarps * 32;     // threads of pipe V
constexpr uint32_t kWarps = kVWarps + 2;  // followed by a warp of MTE2, and one of MTE3
constexpr uint32_t kThreads = kWarps * 32;
constexpr uint32_t kSlots = 64;           // queue blocks of a TPipe, at most
constexpr uint32_t kEventIds = 8;
constexpr uint32_t kPairs = 12;           // events between the supported pipes

extern __shared__ __align__(1024) uint8_t ub[];

struct Shared {
    uint64_t queued[kSlots][3];              // filled by the first pipe, filled by the second pipe, freed
    uint32_t flags[kPairs][kEventIds];       // number of sets, times the warps that set them
    uint16_t waited[kWarps][kPairs][kEventIds];  // number of waits by a warp
    uint64_t box;                            // last value that the scalar unit read
    uint32_t atomic;                         // mode of stores: 0 none, 1 add, 2 max, 3 min
};
__shared__ Shared shared;

// Cores that reached the current SyncAll, and the number of completed ones.
__device__ uint32_t grid_count;
__device__ uint32_t grid_round;

__device__ __forceinline__ uint32_t Thread() { return threadIdx.x; }
__device__ __forceinline__ uint32_t Warp() { return threadIdx.x >> 5; }
__device__ __forceinline__ uint32_t Lane() { return threadIdx.x & 31u; }
__device__ __forceinline__ bool IsV() { return threadIdx.x < kV; }
__device__ __forceinline__ bool IsMte2() { return Warp() == kVWarps; }
__device__ __forceinline__ bool IsMte3() { return Warp() == kVWarps + 1; }
// Every thread computes the scalar unit's values; this one accesses memory for it. It belongs to MTE2, which runs ahead
// of the others as the scalar unit does.
__device__ __forceinline__ bool IsScalar() { return threadIdx.x == kV; }

// Fails the launch for an error that would hang or corrupt a chip.
__device__ __noinline__ void Stop() { asm volatile("trap;"); }

__device__ __forceinline__ uint32_t SharedAddress(const void* at) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void BarrierInit(uint64_t* bar, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(bar)), "r"(count) : "memory");
}
__device__ __forceinline__ void BarrierEnd(uint64_t* bar) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(SharedAddress(bar)) : "memory");
}
__device__ __forceinline__ void BarrierArrive(uint64_t* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(bar)) : "memory");
}
// Arrives when this thread's asynchronous copies are complete.
__device__ __forceinline__ void BarrierArriveWithCopies(uint64_t* bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(SharedAddress(bar)) : "memory");
}
__device__ __noinline__ void BarrierWait(uint64_t* bar, uint32_t parity) {
    uint32_t done = 0;
    while (done == 0) {
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n"
            "}\n" : "=r"(done) : "r"(SharedAddress(bar)), "r"(parity) : "memory");
    }
}
// Waits for all copies that this thread has started.
__device__ __forceinline__ void CopiesDone() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Arrives for a warp, once all its threads are here.
__device__ __forceinline__ void WarpArrives(uint64_t* bar) {
    __syncwarp();
    if (Lane() == 0) {
        BarrierArrive(bar);
    }
}

// The vector pipe waits for itself.
__device__ __forceinline__ void VBarrier() { asm volatile("bar.sync 1, %0;" ::"n"(kV) : "memory"); }

// Everything started on this core is complete.
__device__ __noinline__ void FinishAll() {
    if (IsMte2()) {
        CopiesDone();
    }
    __syncthreads();
}

// Barrier over all cores: earlier writes to GM by one are visible to all afterwards.
__device__ __noinline__ void MeetAll() {
    FinishAll();
    __threadfence();
    __syncthreads();
    if (Thread() == 0) {
        const uint32_t round = *static_cast<volatile uint32_t*>(&grid_round);
        __threadfence();
        if (atomicAdd(&grid_count, 1u) == gridDim.x - 1) {
            grid_count = 0;
            __threadfence();
            atomicAdd(&grid_round, 1u);
        } else {
            while (*static_cast<volatile uint32_t*>(&grid_round) == round) {
                __nanosleep(64);
            }
        }
        __threadfence();
    }
    __syncthreads();
    __threadfence();
}

// The start of a kernel on a core: UB holds 0xFF bytes, as in the twin.
__device__ __noinline__ void Begin(uint32_t ub_bytes) {
    for (uint32_t i = Thread(); i < ub_bytes / 4; i += kThreads) {
        reinterpret_cast<uint32_t*>(ub)[i] = 0xffffffffu;
    }
    uint32_t* state = &shared.flags[0][0];
    for (uint32_t i = Thread(); i < kPairs * kEventIds; i += kThreads) {
        state[i] = 0;
    }
    uint16_t* waited = &shared.waited[0][0][0];
    for (uint32_t i = Thread(); i < kWarps * kPairs * kEventIds; i += kThreads) {
        waited[i] = 0;
    }
    if (Thread() == 0) {
        shared.atomic = 0;
    }
    __syncthreads();
}

}  // namespace autofuse_cuda

#endif
