// Element moves inside UB: Gather, GatherMask with built-in patterns, transposition of blocks; arithmetic progressions.
#ifndef AUTOFUSE_CUDA_LAYOUT_H
#define AUTOFUSE_CUDA_LAYOUT_H

namespace autofuse_cuda {

template <typename W> __device__ __noinline__ void GatherCount(uint32_t d, uint32_t a, uint32_t offsets, uint32_t base, uint32_t count) {
#pragma unroll 1
    for (uint32_t i = Rank<6>(); i < count; i += kV) {
        At<W>(d)[i] = *At<W>(a + base + At<uint32_t>(offsets)[i]);
    }
}

// The k-th element that a pattern selects, and the number it selects of n.
__device__ __forceinline__ uint32_t Taken(uint32_t pattern, uint32_t k) {
    return pattern == 7 ? k : pattern < 3 ? 2 * k + pattern - 1 : 4 * k + pattern - 3;
}
__device__ __forceinline__ uint32_t HowMany(uint32_t pattern, uint32_t n) {
    const uint32_t step = pattern == 7 ? 1 : pattern < 3 ? 2 : 4;
    const uint32_t first = Taken(pattern, 0);
    return n <= first ? 0 : (n - first + step - 1) / step;
}
template <typename W>
__device__ __noinline__ void GatherPattern(uint32_t d, uint32_t a, uint32_t pattern, uint32_t per, uint32_t each, uint32_t repeat,
                                           uint32_t blk, uint32_t rep) {
    constexpr uint32_t unit = 32 / sizeof(W);
#pragma unroll 1
    for (uint32_t i = Rank<8>(); i < repeat * each; i += kV) {
        const uint32_t r = i / each;
        const uint32_t e = Taken(pattern, i - r * each);
        At<W>(d)[i] = At<W>(a + (r * rep + e / unit * blk) * 32)[e % unit];
    }
}

struct Lists {
    uint32_t dst[16], src[16];
};
// Transposes 16 source blocks to 16 result blocks: element c of all blocks is contiguous.
template <typename W>
__device__ __noinline__ void Transposed(const Lists& lists, uint32_t repeat, uint32_t dst_rep, uint32_t src_rep) {
    constexpr uint32_t columns = 32 / sizeof(W);
    constexpr uint32_t all = 16 * columns;
    // A single repeat starts after its addresses.
    const uint32_t first = repeat == 1 ? 1 : 0;
#pragma unroll 1
    for (uint32_t i = Rank<10>(); i < repeat * all; i += kV) {
        const uint32_t r = first + i / all;
        const uint32_t at = i % all;
        const W value = At<W>(lists.src[at % 16] + r * src_rep * 32)[at / 16];
        At<W>(lists.dst[at / columns] + r * dst_rep * 32)[at % columns] = value;
    }
}

template <typename T> __device__ __noinline__ void Progression(uint32_t d, T first, T step, uint32_t count) {
#pragma unroll 1
    for (uint32_t i = Rank<12>(); i < count; i += kV) {
        if constexpr (kFloat<T>) {
            At<T>(d)[i] = Narrow<T>(Wide(first) + Wide(step) * static_cast<float>(i));
        } else {
            At<T>(d)[i] = static_cast<T>(static_cast<uint32_t>(first) + static_cast<uint32_t>(step) * i);
        }
    }
}

__device__ __forceinline__ uint32_t OffOf(uint64_t address) {
    return static_cast<uint32_t>(address - reinterpret_cast<uint64_t>(ub));
}

}  // namespace autofuse_cuda

namespace AscendC {

// dst[i] = element at byte base + offset[i] of src.
template <typename T>
__device__ void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offset, uint32_t base,
                       uint32_t count) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::GatherCount<typename ::autofuse_cuda::WordOf<sizeof(T)>::Type>(dst.Off(), src.Off(), offset.Off(), base,
                                                                                       count);
    }
}

// Packs the elements that a built-in pattern selects. The count depends on the pattern only, so no thread waits for it.
template <typename T>
__device__ void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t pattern, const bool reduceMode,
                           const uint32_t mask, const GatherMaskParams& p, uint64_t& count) {
    const uint32_t per = reduceMode ? mask : 256 / static_cast<uint32_t>(sizeof(T));
    const uint32_t each = ::autofuse_cuda::HowMany(pattern, per);
    if (::autofuse_cuda::IsV() && each != 0) {
        ::autofuse_cuda::GatherPattern<typename ::autofuse_cuda::WordOf<sizeof(T)>::Type>(
            dst.Off(), src.Off(), pattern, per, each, p.repeatTimes, p.src0BlockStride, p.src0RepeatStride);
    }
    count = uint64_t{each} * p.repeatTimes;
}

template <typename T>
__device__ void TransDataTo5HD(uint64_t (&dst)[16], uint64_t (&src)[16], const TransDataTo5HDParams& p) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::Lists lists;
        for (uint32_t i = 0; i < 16; ++i) {
            lists.dst[i] = ::autofuse_cuda::OffOf(dst[i]);
            lists.src[i] = ::autofuse_cuda::OffOf(src[i]);
        }
        ::autofuse_cuda::Transposed<typename ::autofuse_cuda::WordOf<sizeof(T)>::Type>(lists, p.repeatTimes, p.dstRepStride,
                                                                                      p.srcRepStride);
    }
}

template <typename T> __device__ void CreateVecIndex(LocalTensor<T> dst, const T first, uint32_t count) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::Progression<T>(dst.Off(), first, T(1), count);
    }
}
// dst[i] = first + i * step
template <typename T> __device__ void Arange(const LocalTensor<T>& dst, const T first, const T step, int32_t count) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::Progression<T>(dst.Off(), first, step, static_cast<uint32_t>(count));
    }
}
template <typename T> __device__ void ArithProgression(const LocalTensor<T>& dst, const T first, const T step, int32_t count) {
    Arange(dst, first, step, count);
}

}  // namespace AscendC

#endif
