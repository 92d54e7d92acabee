// TPipe, queues, TBuf, flags and barriers. Lengths are bytes.
//
// All threads track which block of a queue is free, filled or in use, as the scalar unit of a chip does; only the pipes
// that a step involves arrive at, or wait for, the barrier of the block.
#ifndef AUTOFUSE_CUDA_PIPE_H
#define AUTOFUSE_CUDA_PIPE_H

#define KERNEL_TASK_TYPE_DEFAULT(value) static_cast<void>(value)
#define ASCEND_IS_AIV (true)
#define ASCEND_IS_AIC (false)

namespace autofuse_cuda {

enum Pipe : uint32_t { kPipeV, kPipeMte2, kPipeMte3, kPipeS, kPipeNone };

__device__ __forceinline__ bool Belongs(Pipe pipe) {
    switch (pipe) {
        case kPipeV: return IsV();
        case kPipeMte2: return IsMte2();
        case kPipeMte3: return IsMte3();
        default: return true;
    }
}

// Bits of an event: its index among the flags, the pipe that sets it, the pipe that waits for it.
struct Sides {
    uint32_t place;
    Pipe from, to;
};
constexpr Sides SidesOf(AscendC::HardEvent event) {
    using E = AscendC::HardEvent;
    switch (event) {
        case E::MTE2_V: return {0, kPipeMte2, kPipeV};
        case E::V_MTE2: return {1, kPipeV, kPipeMte2};
        case E::MTE3_V: return {2, kPipeMte3, kPipeV};
        case E::V_MTE3: return {3, kPipeV, kPipeMte3};
        case E::MTE3_MTE2: return {4, kPipeMte3, kPipeMte2};
        case E::MTE2_MTE3: return {5, kPipeMte2, kPipeMte3};
        case E::S_V: return {6, kPipeS, kPipeV};
        case E::V_S: return {7, kPipeV, kPipeS};
        case E::S_MTE2: return {8, kPipeS, kPipeMte2};
        case E::MTE2_S: return {9, kPipeMte2, kPipeS};
        case E::S_MTE3: return {10, kPipeS, kPipeMte3};
        case E::MTE3_S: return {11, kPipeMte3, kPipeS};
        default: return {0, kPipeNone, kPipeNone};
    }
}

__device__ __noinline__ void FlagSet(uint32_t place, Pipe from, uint32_t id) {
    // The scalar unit is a thread of MTE2.
    const bool mine = from == kPipeS ? IsMte2() : Belongs(from);
    if (!mine) {
        return;
    }
    if (from == kPipeMte2) {
        CopiesDone();
    } else if (from == kPipeMte3) {
        __threadfence();
    }
    __syncwarp();
    if (Lane() == 0) {
        __threadfence_block();
        atomicAdd(&shared.flags[place][id], 1u);
    }
}
__device__ __noinline__ void FlagWait(uint32_t place, Pipe from, Pipe to, uint32_t id) {
    if (!Belongs(to)) {
        return;
    }
    uint16_t* waited = &shared.waited[Warp()][place][id];
    const uint32_t times = *waited + 1u;
    __syncwarp();
    if (Lane() == 0) {
        *waited = static_cast<uint16_t>(times);
    }
    const uint16_t wanted = static_cast<uint16_t>(times * (from == kPipeV ? kVWarps : 1u));
    const volatile uint32_t* count = &shared.flags[place][id];
    while (static_cast<int16_t>(static_cast<uint16_t>(*count) - wanted) < 0) {
    }
    __threadfence_block();
    __syncwarp();
}

}  // namespace autofuse_cuda

namespace AscendC {

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0> class TQueBind {
    // VECIN: MTE2 to V. VECOUT: V to MTE3. Both: MTE2 to MTE3, through V if a call names positions.
    static constexpr bool kIn = src == TPosition::GM;
    static constexpr bool kOut = dst == TPosition::GM;

public:
    template <typename T> __device__ LocalTensor<T> AllocTensor() {
        uint32_t at = next_;
        uint32_t tried = 0;
        while ((taken_ >> at & 1u) != 0) {
            at = at + 1 == num_ ? 0 : at + 1;
            if (++tried == num_) {
                ::autofuse_cuda::Stop();  // a chip would wait forever
            }
        }
        next_ = at + 1 == num_ ? 0 : at + 1;
        taken_ |= 1u << at;
        if ((used_ >> at & 1u) != 0) {
            if (kOut ? ::autofuse_cuda::IsV() : ::autofuse_cuda::IsMte2()) {
                ::autofuse_cuda::BarrierWait(Bar(at, 2), freed_ >> at & 1u);
            }
            freed_ ^= 1u << at;
        }
        used_ |= 1u << at;
        return Tensor<T>(at);
    }
    template <typename T> __device__ void AllocTensor(LocalTensor<T>& tensor) { tensor = AllocTensor<T>(); }

    template <typename T> __device__ bool EnQue(const LocalTensor<T>& tensor) {
        Put<kOut ? ::autofuse_cuda::kPipeV : ::autofuse_cuda::kPipeMte2>(tensor.Slot(), 0);
        return true;
    }
    template <TPosition from, TPosition to, typename T> __device__ bool EnQue(const LocalTensor<T>& tensor) {
        Put<from == TPosition::GM ? ::autofuse_cuda::kPipeMte2 : ::autofuse_cuda::kPipeV>(
            tensor.Slot(), Step<from, to>());
        return true;
    }
    template <typename T> __device__ LocalTensor<T> DeQue() {
        return Tensor<T>(Take<kIn ? ::autofuse_cuda::kPipeV : ::autofuse_cuda::kPipeMte3>(0));
    }
    template <typename T> __device__ void DeQue(LocalTensor<T>& tensor) { tensor = DeQue<T>(); }
    template <TPosition from, TPosition to, typename T> __device__ LocalTensor<T> DeQue() {
        return Tensor<T>(Take<to == TPosition::GM ? ::autofuse_cuda::kPipeMte3 : ::autofuse_cuda::kPipeV>(Step<from, to>()));
    }
    template <typename T> __device__ void FreeTensor(LocalTensor<T>& tensor) {
        const uint32_t at = static_cast<uint32_t>(tensor.Slot()) - slot_;
        taken_ &= ~(1u << at);
        if (kIn ? ::autofuse_cuda::IsV() : ::autofuse_cuda::IsMte3()) {
            ::autofuse_cuda::WarpArrives(Bar(at, 2));
        }
    }
    __device__ bool VacantInQue() { return count_ < depth; }
    __device__ bool HasTensorInQue() { return count_ != 0; }
    __device__ int32_t GetTensorCountInQue() { return static_cast<int32_t>(count_); }
    __device__ bool HasIdleBuffer() { return taken_ != (1u << num_) - 1; }
    __device__ void FreeAllEvent() {}

private:
    friend class TPipe;
    // A block on the way from GM to V to GM is filled twice, with a barrier for each.
    template <TPosition from, TPosition to> static constexpr uint32_t Step() {
        return !kIn && !kOut && from != TPosition::GM ? 1u : 0u;
    }
    __device__ uint64_t* Bar(uint32_t at, uint32_t which) const { return &::autofuse_cuda::shared.queued[slot_ + at][which]; }
    template <typename T> __device__ LocalTensor<T> Tensor(uint32_t at) const {
        return LocalTensor<T>(off_ + at * len_, len_ / static_cast<uint32_t>(sizeof(T)), static_cast<int32_t>(slot_ + at));
    }
    template <::autofuse_cuda::Pipe pipe> __device__ void Put(int32_t slot, uint32_t step) {
        const uint32_t at = static_cast<uint32_t>(slot) - slot_;
        if (at >= num_ || count_ == 16) {
            ::autofuse_cuda::Stop();
        }
        order_ |= static_cast<uint64_t>(at) << (4 * count_++);
        if (!::autofuse_cuda::Belongs(pipe)) {
            return;
        }
        if constexpr (pipe == ::autofuse_cuda::kPipeMte2) {
            // Every lane arrives for its own copies, including those in flight.
            ::autofuse_cuda::BarrierArriveWithCopies(Bar(at, step));
            ::autofuse_cuda::BarrierArrive(Bar(at, step));
        } else {
            ::autofuse_cuda::WarpArrives(Bar(at, step));
        }
    }
    template <::autofuse_cuda::Pipe pipe> __device__ uint32_t Take(uint32_t step) {
        if (count_ == 0) {
            ::autofuse_cuda::Stop();
        }
        const uint32_t at = static_cast<uint32_t>(order_ & 15u);
        order_ >>= 4;
        --count_;
        uint32_t& phase = step == 0 ? filled_ : again_;
        if (::autofuse_cuda::Belongs(pipe)) {
            ::autofuse_cuda::BarrierWait(Bar(at, step), phase >> at & 1u);
        }
        phase ^= 1u << at;
        return at;
    }

    uint32_t off_ = 0, len_ = 0, num_ = 0, slot_ = 0;
    uint32_t next_ = 0, count_ = 0;
    uint32_t taken_ = 0, used_ = 0;                  // bit sets of blocks
    uint32_t filled_ = 0, again_ = 0, freed_ = 0;    // parities of blocks
    uint64_t order_ = 0;                             // filled blocks, four bits each
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<pos == TPosition::VECOUT ? pos : TPosition::GM,
                             pos == TPosition::VECOUT ? TPosition::GM : pos, depth, mask> {};

template <TPosition pos = TPosition::LCM> class TBuf {
public:
    template <typename T> __device__ LocalTensor<T> Get() const { return Get<T>(len_ / static_cast<uint32_t>(sizeof(T))); }
    template <typename T> __device__ LocalTensor<T> Get(uint32_t len) const { return LocalTensor<T>(off_, len, -1); }
    template <typename T> __device__ LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offset) const {
        return LocalTensor<T>(off_ + offset, size, -1);
    }

private:
    friend class TPipe;
    uint32_t off_ = 0, len_ = 0;
};

class TPipe {
public:
    __device__ TPipe() {}
    // Waits for all pipes, as on a chip: another TPipe may follow, with the same memory and barriers.
    __device__ ~TPipe() {
        ::autofuse_cuda::FinishAll();
        for (uint32_t i = threadIdx.x; i < 3 * slots_; i += ::autofuse_cuda::kThreads) {
            ::autofuse_cuda::BarrierEnd(&::autofuse_cuda::shared.queued[i / 3][i % 3]);
        }
        __syncthreads();
    }
    TPipe(const TPipe&) = delete;
    TPipe& operator=(const TPipe&) = delete;

    template <TPosition src, TPosition dst, int32_t depth, auto mask>
    __device__ bool InitBuffer(TQueBind<src, dst, depth, mask>& que, uint8_t num, uint32_t len) {
        constexpr bool in = src == TPosition::GM;
        constexpr bool out = dst == TPosition::GM;
        que.len_ = Reserve(len, num, que.off_);
        que.num_ = num;
        que.slot_ = slots_;
        if (num > 16 || slots_ + num > ::autofuse_cuda::kSlots) {
            ::autofuse_cuda::Stop();
        }
        // For a load every lane arrives twice; for the others each warp once.
        constexpr uint32_t counts[3] = {out ? ::autofuse_cuda::kVWarps : 64, ::autofuse_cuda::kVWarps,
                                        in ? ::autofuse_cuda::kVWarps : 1};
        if (threadIdx.x < 3u * num) {
            const uint32_t which = threadIdx.x % 3;
            ::autofuse_cuda::BarrierInit(&::autofuse_cuda::shared.queued[slots_ + threadIdx.x / 3][which],
                                         which == 0 ? counts[0] : which == 1 ? counts[1] : counts[2]);
        }
        slots_ += num;
        __syncthreads();
        return true;
    }
    template <TPosition pos> __device__ bool InitBuffer(TBuf<pos>& buf, uint32_t len) {
        buf.len_ = Reserve(len, 1, buf.off_);
        return true;
    }

    template <HardEvent event> __device__ TEventID AllocEventID() {
        constexpr uint32_t place = ::autofuse_cuda::SidesOf(event).place;
        for (uint32_t i = 0; i < ::autofuse_cuda::kEventIds; ++i) {
            if ((events_[place] >> i & 1u) == 0) {
                events_[place] = static_cast<uint8_t>(events_[place] | 1u << i);
                return static_cast<TEventID>(i);
            }
        }
        ::autofuse_cuda::Stop();
        return 0;
    }
    template <HardEvent event> __device__ void ReleaseEventID(TEventID id) {
        constexpr uint32_t place = ::autofuse_cuda::SidesOf(event).place;
        events_[place] = static_cast<uint8_t>(events_[place] & ~(1u << id));
    }
    template <HardEvent event> __device__ TEventID FetchEventID() {
        const TEventID id = AllocEventID<event>();
        ReleaseEventID<event>(id);
        return id;
    }
    __device__ TEventID FetchEventID(HardEvent event) {
        const uint32_t taken = events_[::autofuse_cuda::SidesOf(event).place];
        if (taken == 255) {
            ::autofuse_cuda::Stop();
        }
        return static_cast<TEventID>(__ffs(~taken) - 1);
    }

private:
    // The length rounded up to whole blocks.
    __device__ uint32_t Reserve(uint32_t len, uint32_t num, uint32_t& off) {
        const uint32_t whole = (len + 31) / 32 * 32;
        off = top_;
        top_ += whole * num;
        uint32_t room;
        asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(room));
        if (top_ > room) {
            ::autofuse_cuda::Stop();
        }
        return whole;
    }
    uint32_t top_ = 0, slots_ = 0;
    uint8_t events_[::autofuse_cuda::kPairs] = {};
};

template <HardEvent event> __device__ void SetFlag(int32_t id) {
    constexpr auto sides = ::autofuse_cuda::SidesOf(event);
    static_assert(sides.from != ::autofuse_cuda::kPipeNone, "SetFlag: no such pipe here");
    ::autofuse_cuda::FlagSet(sides.place, sides.from, static_cast<uint32_t>(id));
}
template <HardEvent event> __device__ void WaitFlag(int32_t id) {
    constexpr auto sides = ::autofuse_cuda::SidesOf(event);
    static_assert(sides.from != ::autofuse_cuda::kPipeNone, "WaitFlag: no such pipe here");
    ::autofuse_cuda::FlagWait(sides.place, sides.from, sides.to, static_cast<uint32_t>(id));
}
template <pipe_t pipe> __device__ void PipeBarrier() {
    if constexpr (pipe == PIPE_V) {
        if (::autofuse_cuda::IsV()) {
            ::autofuse_cuda::VBarrier();
        }
    } else if constexpr (pipe == PIPE_MTE2) {
        if (::autofuse_cuda::IsMte2()) {
            ::autofuse_cuda::CopiesDone();
            __syncwarp();
        }
    } else if constexpr (pipe == PIPE_MTE3) {
        __syncwarp();
    } else {
        ::autofuse_cuda::FinishAll();
    }
}
template <bool isAIVOnly = true> __device__ void SyncAll() { ::autofuse_cuda::MeetAll(); }

__device__ inline int64_t GetBlockIdx() { return blockIdx.x; }
__device__ inline int64_t GetBlockNum() { return gridDim.x; }
__device__ inline int64_t GetSubBlockIdx() { return 0; }

}  // namespace AscendC

#endif
