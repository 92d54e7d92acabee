// Reductions: one result per repeat, per 32-byte block, or of a whole tensor. Sums are trees over adjacent lanes,
// rounded to the element type after every addition, as in the twin.
#ifndef AUTOFUSE_CUDA_REDUCE_H
#define AUTOFUSE_CUDA_REDUCE_H

namespace autofuse_cuda {

enum Fold : uint32_t { kSum, kMax, kMin };

// NaN wins, as in Max and Min.
template <Fold fold> __device__ __forceinline__ float Extreme(float a, float b) {
    if (a != a || b != b) {
        return a != a ? a : b;
    }
    return (fold == kMax ? a > b : a < b) ? a : b;
}
template <Fold fold, typename T> __device__ __forceinline__ float Folded(float a, float b) {
    if constexpr (fold == kSum) {
        return Wide(Narrow<T>(a + b));
    } else {
        return Extreme<fold>(a, b);
    }
}
// Inactive lanes hold -0: x + -0 is x for every x.
template <Fold fold> __device__ __forceinline__ float Nothing() {
    return fold == kSum ? -0.0f : BitCast<float>(fold == kMax ? 0xff800000u : 0x7f800000u);
}

// The result of the lanes that a warp holds, kHeld adjacent ones per thread.
template <Fold fold, typename T, uint32_t kHeld> __device__ __forceinline__ float WarpTree(float (&v)[kHeld]) {
#pragma unroll
    for (uint32_t n = kHeld / 2; n != 0; n /= 2) {
#pragma unroll
        for (uint32_t i = 0; i < n; ++i) {
            v[i] = Folded<fold, T>(v[2 * i], v[2 * i + 1]);
        }
    }
    float one = v[0];
#pragma unroll
    for (uint32_t step = 1; step < 32; step *= 2) {
        const float other = __shfl_xor_sync(~0u, one, step);
        const bool second = (Lane() & step) != 0;
        one = Folded<fold, T>(second ? other : one, second ? one : other);
    }
    return one;
}

// A warp per repeat. order: a ReduceOrder.
template <Fold fold, typename T>
__device__ __noinline__ void Whole(uint32_t d, uint32_t a, Rep rep, uint32_t order) {
    constexpr uint32_t held = 256 / sizeof(T) / 32;
    const bool pair = order <= 1;
    const uint32_t step = rep.dst_rep * static_cast<uint32_t>(pair ? 2 * sizeof(T) : order == 3 ? 4 : sizeof(T));
#pragma unroll 1
    for (uint32_t r = Warp(); r < rep.repeat; r += kVWarps) {
        float v[held];
        float kept[held];
#pragma unroll
        for (uint32_t k = 0; k < held; ++k) {
            const uint32_t lane = Lane() * held + k;
            v[k] = Has(rep, lane) ? Wide(*At<T>(a + Place<sizeof(T)>(r, lane, rep.a_blk, rep.a_rep))) : Nothing<fold>();
            kept[k] = v[k];
        }
        const float value = WarpTree<fold, T, held>(v);
        uint32_t index = 256;
        if (order != 2) {
#pragma unroll
            for (uint32_t k = held; k-- != 0;) {
                const bool same = kept[k] == value || (value != value && kept[k] != kept[k]);
                index = same ? Lane() * held + k : index;
            }
            index = __reduce_min_sync(~0u, index);
            index = index == 256 ? 0 : index;
        }
        if (Lane() == 0) {
            const uint32_t at = d + r * step;
            using Word = typename WordOf<sizeof(T)>::Type;
            if (order == 3) {
                *At<uint32_t>(at) = index;
            } else {
                *At<T>(order == 1 ? at + sizeof(T) : at) = Narrow<T>(value);
                if (pair) {
                    *At<Word>(order == 1 ? at : at + sizeof(T)) = static_cast<Word>(index);
                }
            }
        }
    }
}

// A thread per group of kGroup lanes; a group without an enabled lane keeps its result.
template <Fold fold, typename T, uint32_t kGroup>
__device__ __noinline__ void Groups(uint32_t d, uint32_t a, Rep rep) {
    constexpr uint32_t results = 256 / sizeof(T) / kGroup;
#pragma unroll 1
    for (uint32_t i = Rank<4>(); i < rep.repeat * results; i += kV) {
        const uint32_t r = i / results;
        const uint32_t k = i % results;
        float v[kGroup];
        bool any = false;
#pragma unroll
        for (uint32_t j = 0; j < kGroup; ++j) {
            const uint32_t lane = k * kGroup + j;
            const bool on = Has(rep, lane);
            any = any || on;
            v[j] = on ? Wide(*At<T>(a + Place<sizeof(T)>(r, lane, rep.a_blk, rep.a_rep))) : Nothing<fold>();
        }
#pragma unroll
        for (uint32_t n = kGroup / 2; n != 0; n /= 2) {
#pragma unroll
            for (uint32_t j = 0; j < n; ++j) {
                v[j] = Folded<fold, T>(v[2 * j], v[2 * j + 1]);
            }
        }
        if (any) {
            At<T>(d + r * rep.dst_rep * results * static_cast<uint32_t>(sizeof(T)))[k] = Narrow<T>(v[0]);
        }
    }
}

// Reduces the first `count` elements to one, repeat after repeat, by one warp.
template <Fold fold, typename T> __device__ __noinline__ void WholeCount(uint32_t d, uint32_t a, uint32_t count, bool index) {
    constexpr uint32_t held = 256 / sizeof(T) / 32;
    if (Warp() != 0) {
        return;
    }
    float value = 0.0f;
    uint32_t best = 0;
    for (uint32_t first = 0; first < count; first += 32 * held) {
        float v[held];
        float kept[held];
#pragma unroll
        for (uint32_t k = 0; k < held; ++k) {
            const uint32_t e = first + Lane() * held + k;
            v[k] = e < count ? Wide(At<T>(a)[e]) : Nothing<fold>();
            kept[k] = v[k];
        }
        const float one = WarpTree<fold, T, held>(v);
        uint32_t at = 256;
#pragma unroll
        for (uint32_t k = held; k-- != 0;) {
            const bool same = kept[k] == one || (one != one && kept[k] != kept[k]);
            at = same ? Lane() * held + k : at;
        }
        at = __reduce_min_sync(~0u, at);
        at = first + (at == 256 ? 0 : at);
        if (first == 0) {
            value = one;
            best = at;
        } else if (fold == kSum) {
            value = Folded<fold, T>(value, one);
        } else {
            const float both = Extreme<fold>(value, one);
            best = both == value || value != value ? best : at;
            value = both;
        }
    }
    if (Lane() == 0 && count != 0) {
        using Word = typename WordOf<sizeof(T)>::Type;
        *At<T>(d) = Narrow<T>(value);
        if (index) {
            At<Word>(d)[1] = static_cast<Word>(best);
        }
    }
}

__device__ __forceinline__ Mask ReduceMask(const uint64_t* bits) { return {bits[0], bits[1]}; }
__device__ __forceinline__ Mask ReduceMask(int32_t lanes) { return MaskOf(static_cast<uint64_t>(lanes)); }

}  // namespace autofuse_cuda

namespace AscendC {

#define AUTOFUSE_CUDA_REP                                                                                           \
    {m.lo, m.hi, static_cast<uint32_t>(repeat), 1, static_cast<uint32_t>(srcBlk), 1, static_cast<uint32_t>(dstRep), \
     static_cast<uint32_t>(srcRep), 8}
#define AUTOFUSE_CUDA_REDUCE(fold, Suffix, MaskType)                                                                 \
    template <typename T, bool isSetMask = true>                                                                     \
    __device__ void WholeReduce##Suffix(const LocalTensor<T>& dst, const LocalTensor<T>& src, MaskType mask,         \
                                        const int32_t repeat, const int32_t dstRep, const int32_t srcBlk,            \
                                        const int32_t srcRep,                                                        \
                                        ReduceOrder order = ::autofuse_cuda::fold == ::autofuse_cuda::kSum           \
                                                                ? ReduceOrder::ORDER_ONLY_VALUE                      \
                                                                : ReduceOrder::ORDER_VALUE_INDEX) {                  \
        if (::autofuse_cuda::IsV()) {                                                                                \
            const auto m = ::autofuse_cuda::ReduceMask(mask);                                                        \
            ::autofuse_cuda::Whole<::autofuse_cuda::fold, T>(dst.Off(), src.Off(), AUTOFUSE_CUDA_REP,                \
                                                             static_cast<uint32_t>(order));                          \
        }                                                                                                            \
    }                                                                                                                \
    template <typename T, bool isSetMask = true>                                                                     \
    __device__ void BlockReduce##Suffix(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeat,  \
                                        MaskType mask, const int32_t dstRep, const int32_t srcBlk,                   \
                                        const int32_t srcRep) {                                                      \
        if (::autofuse_cuda::IsV()) {                                                                                \
            const auto m = ::autofuse_cuda::ReduceMask(mask);                                                        \
            ::autofuse_cuda::Groups<::autofuse_cuda::fold, T, 32 / sizeof(T)>(dst.Off(), src.Off(), AUTOFUSE_CUDA_REP); \
        }                                                                                                            \
    }
AUTOFUSE_CUDA_REDUCE(kSum, Sum, const uint64_t*)
AUTOFUSE_CUDA_REDUCE(kSum, Sum, int32_t)
AUTOFUSE_CUDA_REDUCE(kMax, Max, const uint64_t*)
AUTOFUSE_CUDA_REDUCE(kMax, Max, int32_t)
AUTOFUSE_CUDA_REDUCE(kMin, Min, const uint64_t*)
AUTOFUSE_CUDA_REDUCE(kMin, Min, int32_t)
#undef AUTOFUSE_CUDA_REP
#undef AUTOFUSE_CUDA_REDUCE

#define AUTOFUSE_CUDA_TO_ONE(fold, Name)                                                                             \
    template <typename T>                                                                                            \
    __device__ void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>&, int32_t count, \
                         bool calIndex = false) {                                                                    \
        if (::autofuse_cuda::IsV()) {                                                                                \
            ::autofuse_cuda::WholeCount<::autofuse_cuda::fold, T>(dst.Off(), src.Off(), static_cast<uint32_t>(count), \
                                                                  calIndex);                                         \
        }                                                                                                            \
    }
AUTOFUSE_CUDA_TO_ONE(kSum, ReduceSum)
AUTOFUSE_CUDA_TO_ONE(kMax, ReduceMax)
AUTOFUSE_CUDA_TO_ONE(kMin, ReduceMin)
#undef AUTOFUSE_CUDA_TO_ONE

}  // namespace AscendC

#endif
