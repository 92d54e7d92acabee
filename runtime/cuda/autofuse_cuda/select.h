// Compare and Select. Results of comparisons are bits, least significant first, one per element.
#ifndef AUTOFUSE_CUDA_SELECT_H
#define AUTOFUSE_CUDA_SELECT_H

namespace autofuse_cuda {

template <typename T> __device__ __forceinline__ bool Tested(int mode, T a, T b) {
    if constexpr (kSame<T, half> || kSame<T, bfloat16_t>) {
        return Tested<float>(mode, Wide(a), Wide(b));
    } else {
        switch (mode) {
            case 0: return Test<0>(a, b);
            case 1: return Test<1>(a, b);
            case 2: return Test<2>(a, b);
            case 3: return Test<3>(a, b);
            case 4: return Test<4>(a, b);
            default: return Test<5>(a, b);
        }
    }
}

// A thread computes whole bytes: 8 elements each. `two`: read `b`; otherwise use the scalar instead.
template <typename T>
__device__ __noinline__ void CompareCount(uint32_t d, uint32_t a, uint32_t b, bool two, T scalar, int mode, uint32_t count) {
#pragma unroll 1
    for (uint32_t i = Rank<1>(); i < count / 8; i += kV) {
        uint32_t byte = 0;
        for (uint32_t k = 0; k < 8; ++k) {
            const uint32_t e = 8 * i + k;
            byte |= static_cast<uint32_t>(Tested<T>(mode, At<T>(a)[e], two ? At<T>(b)[e] : scalar)) << k;
        }
        At<uint8_t>(d)[i] = static_cast<uint8_t>(byte);
    }
}
// Masked-off lanes become 0.
template <typename T>
__device__ __noinline__ void CompareRepeats(uint32_t d, uint32_t a, uint32_t b, bool two, T scalar, int mode, Rep rep) {
    constexpr uint32_t bytes = 256 / sizeof(T) / 8;
#pragma unroll 1
    for (uint32_t i = Rank<1>(); i < rep.repeat * bytes; i += kV) {
        const uint32_t r = i / bytes;
        uint32_t byte = 0;
        for (uint32_t k = 0; k < 8; ++k) {
            const uint32_t lane = i % bytes * 8 + k;
            if (Has(rep, lane)) {
                const T x = *At<T>(a + Place<sizeof(T)>(r, lane, rep.a_blk, rep.a_rep));
                const T y = two ? *At<T>(b + Place<sizeof(T)>(r, lane, rep.b_blk, rep.b_rep)) : scalar;
                byte |= static_cast<uint32_t>(Tested<T>(mode, x, y)) << k;
            }
        }
        At<uint8_t>(d)[i] = static_cast<uint8_t>(byte);
    }
}

__device__ __forceinline__ bool Bit(uint32_t bits, uint32_t i) { return (At<uint8_t>(bits)[i / 8] >> (i & 7u) & 1u) != 0; }

// `wrap`: all repeats use the bits of one.
template <typename W>
__device__ __noinline__ void SelectCount(uint32_t d, uint32_t bits, uint32_t a, uint32_t b, bool two, W scalar, bool wrap, uint32_t count) {
    constexpr uint32_t per = 256 / sizeof(W);
#pragma unroll 1
    for (uint32_t i = Rank<2>(); i < count; i += kV) {
        const W other = two ? At<W>(b)[i] : scalar;
        At<W>(d)[i] = Bit(bits, wrap ? i % per : i) ? At<W>(a)[i] : other;
    }
}
template <typename W>
__device__ __noinline__ void SelectRepeats(uint32_t d, uint32_t bits, uint32_t a, uint32_t b, bool two, W scalar, bool wrap, Rep rep) {
    constexpr uint32_t per = 256 / sizeof(W);
    EachLane<2, sizeof(W)>(rep, false, [=](uint32_t r, uint32_t lane) {
        const W other = two ? *At<W>(b + Place<sizeof(W)>(r, lane, rep.b_blk, rep.b_rep)) : scalar;
        const W one = *At<W>(a + Place<sizeof(W)>(r, lane, rep.a_blk, rep.a_rep));
        *At<W>(d + Place<sizeof(W)>(r, lane, rep.dst_blk, rep.dst_rep)) = Bit(bits, wrap ? lane : r * per + lane) ? one : other;
    });
}

}  // namespace autofuse_cuda

namespace AscendC {

template <typename T, typename U>
__device__ void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE mode,
                        uint32_t count) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::CompareCount<T>(dst.Off(), src0.Off(), src1.Off(), true, T(0), static_cast<int>(mode), count);
    }
}
template <typename T, typename U>
__device__ void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src, const T scalar, CMPMODE mode, uint32_t count) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::CompareCount<T>(dst.Off(), src.Off(), 0, false, scalar, static_cast<int>(mode), count);
    }
}
template <typename T, typename U>
__device__ void Compares(const LocalTensor<U>& dst, const LocalTensor<T>& src, const T scalar, CMPMODE mode, uint32_t count) {
    CompareScalar(dst, src, scalar, mode, count);
}

template <typename T, typename U>
__device__ void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits, const LocalTensor<T>& src0,
                       const LocalTensor<T>& src1, SELMODE mode, uint32_t count) {
    using Word = typename ::autofuse_cuda::WordOf<sizeof(T)>::Type;
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::SelectCount<Word>(dst.Off(), bits.Off(), src0.Off(), src1.Off(), true, 0,
                                           mode == SELMODE::VSEL_CMPMASK_SPR, count);
    }
}
template <typename T, typename U>
__device__ void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits, const LocalTensor<T>& src0, T scalar, SELMODE,
                       uint32_t count) {
    using Word = typename ::autofuse_cuda::WordOf<sizeof(T)>::Type;
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::SelectCount<Word>(dst.Off(), bits.Off(), src0.Off(), 0, false,
                                           ::autofuse_cuda::BitCast<Word>(scalar), false, count);
    }
}

#define AUTOFUSE_CUDA_CHOICES(MaskType)                                                                               \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    __device__ void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,        \
                            CMPMODE mode, MaskType mask, uint8_t repeat, const BinaryRepeatParams& params) {          \
        if (::autofuse_cuda::IsV()) {                                                                                 \
            ::autofuse_cuda::CompareRepeats<T>(dst.Off(), src0.Off(), src1.Off(), true, T(0), static_cast<int>(mode), \
                                               ::autofuse_cuda::RepOf(::autofuse_cuda::MaskOf(mask), repeat, params)); \
        }                                                                                                             \
    }                                                                                                                 \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    __device__ void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src, const T scalar, CMPMODE mode, \
                                  MaskType mask, uint8_t repeat, const UnaryRepeatParams& params) {                   \
        if (::autofuse_cuda::IsV()) {                                                                                 \
            ::autofuse_cuda::CompareRepeats<T>(dst.Off(), src.Off(), 0, false, scalar, static_cast<int>(mode),        \
                                               ::autofuse_cuda::RepOf(::autofuse_cuda::MaskOf(mask), repeat, params)); \
        }                                                                                                             \
    }                                                                                                                 \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    __device__ void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits, const LocalTensor<T>& src0,         \
                           const LocalTensor<T>& src1, SELMODE mode, MaskType mask, uint8_t repeat,                   \
                           const BinaryRepeatParams& params) {                                                        \
        using Word = typename ::autofuse_cuda::WordOf<sizeof(T)>::Type;                                               \
        if (::autofuse_cuda::IsV()) {                                                                                 \
            ::autofuse_cuda::SelectRepeats<Word>(dst.Off(), bits.Off(), src0.Off(), src1.Off(), true, 0,              \
                                                 mode == SELMODE::VSEL_CMPMASK_SPR,                                   \
                                                 ::autofuse_cuda::RepOf(::autofuse_cuda::MaskOf(mask), repeat, params)); \
        }                                                                                                             \
    }                                                                                                                 \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    __device__ void Select(const LocalTensor<T>& dst, const LocalTensor<U>& bits, const LocalTensor<T>& src0,         \
                           T scalar, SELMODE, MaskType mask, uint8_t repeat, const BinaryRepeatParams& params) {      \
        using Word = typename ::autofuse_cuda::WordOf<sizeof(T)>::Type;                                               \
        if (::autofuse_cuda::IsV()) {                                                                                 \
            ::autofuse_cuda::SelectRepeats<Word>(dst.Off(), bits.Off(), src0.Off(), 0, false,                         \
                                                 ::autofuse_cuda::BitCast<Word>(scalar), false,                       \
                                                 ::autofuse_cuda::RepOf(::autofuse_cuda::MaskOf(mask), repeat, params)); \
        }                                                                                                             \
    }
AUTOFUSE_CUDA_CHOICES(const uint64_t*)
AUTOFUSE_CUDA_CHOICES(uint64_t)
#undef AUTOFUSE_CUDA_CHOICES

}  // namespace AscendC

#endif
