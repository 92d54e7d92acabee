// Functions that move elements inside UB: Gather, GatherMask, transposition of blocks; and arithmetic progressions.
// Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_LAYOUT_H
#define AUTOFUSE_TWIN_LAYOUT_H

#include "vector.h"

namespace AscendC {

// dst[i] = element at byte srcBaseAddr + srcOffset[i] of src.
template <typename T>
inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
                   const uint32_t srcBaseAddr, const uint32_t count AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_16_32("Gather");
    ::autofuse_twin::GatherElements(sizeof(T), dst.View(), src.View(), srcOffset.View(), srcBaseAddr, count, nullptr);
}
// The offsets of a repeat follow those of the previous one; repeats of dst are dstRepStride blocks apart.
#define AUTOFUSE_TWIN_GATHER_REP(MaskType)                                                                            \
    template <typename T>                                                                                             \
    inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,  \
                       const uint32_t srcBaseAddr, MaskType mask, const uint8_t repeatTime,                           \
                       const uint16_t dstRepStride AUTOFUSE_TWIN_HERE) {                                              \
        AUTOFUSE_TWIN_16_32("Gather");                                                                                \
        const auto m = ::autofuse_twin::MaskOf<true>(mask);                                                           \
        const ::autofuse_twin::Rep rep{m.lo, m.hi, m.kind, repeatTime, 1, 1, 1, dstRepStride, 8, 8};                  \
        ::autofuse_twin::GatherElements(sizeof(T), dst.View(), src.View(), srcOffset.View(), srcBaseAddr, 0, &rep);   \
    }
AUTOFUSE_TWIN_GATHER_REP(const uint64_t*)
AUTOFUSE_TWIN_GATHER_REP(const uint64_t)
#undef AUTOFUSE_TWIN_GATHER_REP

// Packs the elements of src0 whose bit in the pattern is set. rsvdCnt: their number.
template <typename T, typename U>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                       uint64_t& rsvdCnt AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_16_32("GatherMask");
    static_assert(sizeof(T) == sizeof(U) && ::autofuse_twin::kOneOf<U, uint16_t, uint32_t>,
                  "GatherMask: the pattern is uint16_t for 16-bit elements, uint32_t for 32-bit ones");
    rsvdCnt = ::autofuse_twin::GatherByMask(sizeof(T), dst.View(), src0.View(), &src1Pattern.View(), 0, reduceMode, mask,
                                            {gatherMaskParams.src0BlockStride, gatherMaskParams.repeatTimes,
                                             gatherMaskParams.src0RepeatStride, gatherMaskParams.src1RepeatStride});
}
// Patterns 1, 2: even, odd elements; 3 to 6: one of every four; 7: all.
template <typename T>
inline void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern,
                       const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams,
                       uint64_t& rsvdCnt AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_16_32("GatherMask");
    rsvdCnt = ::autofuse_twin::GatherByMask(sizeof(T), dst.View(), src0.View(), nullptr, src1Pattern, reduceMode, mask,
                                            {gatherMaskParams.src0BlockStride, gatherMaskParams.repeatTimes,
                                             gatherMaskParams.src0RepeatStride, gatherMaskParams.src1RepeatStride});
}

#define AUTOFUSE_TWIN_5HD_TYPES                                                                                      \
    static_assert(::autofuse_twin::kOneOf<T, int16_t, uint16_t, half, int32_t, uint32_t, float>,                     \
                  "TransDataTo5HD: the twin has (u)int16_t, half, (u)int32_t, float")

// 16 source blocks to 16 result blocks. 16-bit: block j of the result holds element j of every source block. 32-bit:
// blocks 2j and 2j + 1 hold element j of the source blocks 0 to 7 and 8 to 15.
template <typename T>
inline void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                           const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                           const TransDataTo5HDParams& nchwconvParams AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_5HD_TYPES;
    ::autofuse_twin::UbView dst[NCHW_CONV_ADDR_LIST_SIZE];
    ::autofuse_twin::UbView src[NCHW_CONV_ADDR_LIST_SIZE];
    for (int32_t i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        dst[i] = dstList[i].View();
        src[i] = srcList[i].View();
    }
    ::autofuse_twin::TransposeBlocks("TransDataTo5HD", sizeof(T), dst, src, nchwconvParams.repeatTimes,
                                     nchwconvParams.dstRepStride, nchwconvParams.srcRepStride);
}
// Overload on addresses (GetPhyAddr) of tensors.
template <typename T>
inline void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                           const TransDataTo5HDParams& nchwconvParams AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_5HD_TYPES;
    ::autofuse_twin::UbView dst[NCHW_CONV_ADDR_LIST_SIZE];
    ::autofuse_twin::UbView src[NCHW_CONV_ADDR_LIST_SIZE];
    for (int32_t i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        dst[i] = ::autofuse_twin::UbViewAt("TransDataTo5HD", dstList[i]);
        src[i] = ::autofuse_twin::UbViewAt("TransDataTo5HD", srcList[i]);
    }
    ::autofuse_twin::TransposeBlocks("TransDataTo5HD", sizeof(T), dst, src, nchwconvParams.repeatTimes,
                                     nchwconvParams.dstRepStride, nchwconvParams.srcRepStride);
}
#undef AUTOFUSE_TWIN_5HD_TYPES

// 16 x 16 elements, packed. Works in place.
template <typename T> inline void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_TYPES_CHECK("Transpose", T, "(u)int16_t, half", int16_t, uint16_t, half);
    ::autofuse_twin::UbView to[NCHW_CONV_ADDR_LIST_SIZE];
    ::autofuse_twin::UbView from[NCHW_CONV_ADDR_LIST_SIZE];
    for (uint32_t i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        to[i] = dst[i * 16].View();
        from[i] = src[i * 16].View();
    }
    ::autofuse_twin::TransposeBlocks("Transpose", sizeof(T), to, from, 1, 0, 0);
}

// dst[i] = firstValue + i * diffValue
template <typename T>
inline void Arange(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count
    AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_TYPES_CHECK("Arange", T, "int16_t, half, int32_t, float", int16_t, half, int32_t, float);
    ::autofuse_twin::Progression("Arange", ::autofuse_twin::DtOf<T>::value, dst.View(),
                                 ::autofuse_twin::Bits(firstValue), ::autofuse_twin::Bits(diffValue), count);
}
// Arange under its earlier name.
template <typename T>
inline void ArithProgression(const LocalTensor<T>& dst, const T firstValue, const T diffValue, const int32_t count
    AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_TYPES_CHECK("ArithProgression", T, "int16_t, half, int32_t, float", int16_t, half, int32_t, float);
    ::autofuse_twin::Progression("ArithProgression", ::autofuse_twin::DtOf<T>::value, dst.View(),
                                 ::autofuse_twin::Bits(firstValue), ::autofuse_twin::Bits(diffValue), count);
}

}  // namespace AscendC

#endif
