// Reductions of the vector unit: one result per repeat, per 32-byte block or per pair, or of a whole tensor. Source
// strides count 32-byte blocks, result strides the results of a repeat. Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_REDUCE_H
#define AUTOFUSE_TWIN_REDUCE_H

#include "vector.h"

namespace autofuse_twin {

// Mask and strides as the caller wrote them; the library checks their ranges.
template <bool isSetMask> inline ReduceMask ReduceMaskOf(int32_t mask) {
    return {static_cast<uint64_t>(static_cast<int64_t>(mask)), 0, isSetMask ? Rep::kCount : Rep::kRegister};
}
template <bool isSetMask> inline ReduceMask ReduceMaskOf(const uint64_t* mask) {
    return {mask[0], mask[1], isSetMask ? Rep::kBits : Rep::kRegister};
}

}  // namespace autofuse_twin

namespace AscendC {

#define AUTOFUSE_TWIN_REDUCE_TYPES(Name) \
    static_assert(::autofuse_twin::kOneOf<T, half, float>, Name ": element types on A2 are half, float"); \
    constexpr auto dt = ::autofuse_twin::DtOf<T>::value

// One result per repeat, summed in a binary tree.
#define AUTOFUSE_TWIN_WHOLE_SUM(MaskType)                                                                             \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, MaskType mask,                   \
                               const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,      \
                               const int32_t srcRepStride AUTOFUSE_TWIN_HERE) {                                       \
        AUTOFUSE_TWIN_REDUCE_TYPES("WholeReduceSum");                                                                 \
        ::autofuse_twin::ReduceWhole({"WholeReduceSum", ::autofuse_twin::Fold::kSum, dt, &dst.View(), &src.View(),    \
                                      ::autofuse_twin::ReduceMaskOf<isSetMask>(mask), repeatTime, dstRepStride,       \
                                      srcBlkStride, srcRepStride},                                                    \
                                     static_cast<int>(ReduceOrder::ORDER_ONLY_VALUE));                                \
    }
// The extreme value of every repeat, and its first index inside the repeat, as bits of the element type.
#define AUTOFUSE_TWIN_WHOLE_EXTREME(Name, fold, MaskType)                                                             \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, MaskType mask, const int32_t repeatTime,   \
                     const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,              \
                     ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX AUTOFUSE_TWIN_HERE) {                         \
        AUTOFUSE_TWIN_REDUCE_TYPES(#Name);                                                                            \
        ::autofuse_twin::ReduceWhole({#Name, ::autofuse_twin::Fold::fold, dt, &dst.View(), &src.View(),               \
                                      ::autofuse_twin::ReduceMaskOf<isSetMask>(mask), repeatTime, dstRepStride,       \
                                      srcBlkStride, srcRepStride},                                                    \
                                     static_cast<int>(order));                                                        \
    }
// All three in one function. The order applies to MAX and MIN.
#define AUTOFUSE_TWIN_REDUCE_REPEAT(MaskType)                                                                         \
    template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                                   \
    inline void ReduceRepeat(const LocalTensor<T>& dst, const LocalTensor<U>& src, MaskType mask,                     \
                             const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,        \
                             const int32_t srcRepStride, ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX           \
                                 AUTOFUSE_TWIN_HERE) {                                                                \
        static_assert(::autofuse_twin::Same<T, U>::value, "ReduceRepeat: one element type on A2");                    \
        AUTOFUSE_TWIN_REDUCE_TYPES("ReduceRepeat");                                                                   \
        ::autofuse_twin::ReduceWhole({"ReduceRepeat", static_cast<::autofuse_twin::Fold>(reduceType), dt,             \
                                      &dst.View(), &src.View(), ::autofuse_twin::ReduceMaskOf<isSetMask>(mask),       \
                                      repeatTime, dstRepStride, srcBlkStride, srcRepStride},                          \
                                     static_cast<int>(reduceType == ReduceType::SUM ? ReduceOrder::ORDER_ONLY_VALUE   \
                                                                                    : order));                        \
    }
// One result per block of 32 bytes, 8 per repeat. Blocks without an enabled lane keep their result.
#define AUTOFUSE_TWIN_BLOCK(Name, fold, MaskType)                                                                     \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime, MaskType mask,   \
                     const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride               \
                         AUTOFUSE_TWIN_HERE) {                                                                        \
        AUTOFUSE_TWIN_REDUCE_TYPES(#Name);                                                                            \
        ::autofuse_twin::ReduceBlocks({#Name, ::autofuse_twin::Fold::fold, dt, &dst.View(), &src.View(),              \
                                       ::autofuse_twin::ReduceMaskOf<isSetMask>(mask), repeatTime, dstRepStride,      \
                                       srcBlkStride, srcRepStride});                                                  \
    }
#define AUTOFUSE_TWIN_REDUCE_BLOCK(MaskType)                                                                          \
    template <ReduceType reduceType, typename T, typename U, bool isSetMask = true>                                   \
    inline void ReduceDataBlock(const LocalTensor<T>& dst, const LocalTensor<U>& src, MaskType mask,                  \
                                const int32_t repeatTime, const int32_t dstRepStride, const int32_t srcBlkStride,     \
                                const int32_t srcRepStride AUTOFUSE_TWIN_HERE) {                                      \
        static_assert(::autofuse_twin::Same<T, U>::value, "ReduceDataBlock: one element type on A2");                 \
        AUTOFUSE_TWIN_REDUCE_TYPES("ReduceDataBlock");                                                                \
        ::autofuse_twin::ReduceBlocks({"ReduceDataBlock", static_cast<::autofuse_twin::Fold>(reduceType), dt,         \
                                       &dst.View(), &src.View(), ::autofuse_twin::ReduceMaskOf<isSetMask>(mask),      \
                                       repeatTime, dstRepStride, srcBlkStride, srcRepStride});                        \
    }
// Sums of adjacent even and odd elements: half a repeat of results.
#define AUTOFUSE_TWIN_PAIR(MaskType)                                                                                  \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t repeatTime,         \
                              MaskType mask, const int32_t dstRepStride, const int32_t srcBlkStride,                  \
                              const int32_t srcRepStride AUTOFUSE_TWIN_HERE) {                                        \
        AUTOFUSE_TWIN_REDUCE_TYPES("PairReduceSum");                                                                  \
        ::autofuse_twin::ReducePairs({"PairReduceSum", ::autofuse_twin::Fold::kSum, dt, &dst.View(), &src.View(),     \
                                      ::autofuse_twin::ReduceMaskOf<isSetMask>(mask), repeatTime, dstRepStride,       \
                                      srcBlkStride, srcRepStride});                                                   \
    }
#define AUTOFUSE_TWIN_REDUCTIONS(MaskType)                          \
    AUTOFUSE_TWIN_WHOLE_SUM(MaskType)                               \
    AUTOFUSE_TWIN_WHOLE_EXTREME(WholeReduceMax, kMax, MaskType)     \
    AUTOFUSE_TWIN_WHOLE_EXTREME(WholeReduceMin, kMin, MaskType)     \
    AUTOFUSE_TWIN_REDUCE_REPEAT(MaskType)                           \
    AUTOFUSE_TWIN_BLOCK(BlockReduceSum, kSum, MaskType)             \
    AUTOFUSE_TWIN_BLOCK(BlockReduceMax, kMax, MaskType)             \
    AUTOFUSE_TWIN_BLOCK(BlockReduceMin, kMin, MaskType)             \
    AUTOFUSE_TWIN_REDUCE_BLOCK(MaskType)                            \
    AUTOFUSE_TWIN_PAIR(MaskType)
AUTOFUSE_TWIN_REDUCTIONS(const int32_t)
AUTOFUSE_TWIN_REDUCTIONS(const uint64_t*)

// Reduces the first `count` elements to one. A2 does not use the buffer.
template <typename T, bool isSetMask = true>
inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,
                      const int32_t count AUTOFUSE_TWIN_HERE) {
    static_assert(isSetMask, "ReduceSum: the twin has no mask set from outside");
    AUTOFUSE_TWIN_REDUCE_TYPES("ReduceSum");
    ::autofuse_twin::ReduceCount({"ReduceSum", ::autofuse_twin::Fold::kSum, dt, &dst.View(), &src.View(), {}, 0, 0, 1, 8},
                                 sharedTmpBuffer.View(), count, false);
}
// The extreme value and, with calIndex, its index after it, as bits of the element type.
#define AUTOFUSE_TWIN_EXTREME(Name, fold)                                                                             \
    template <typename T>                                                                                             \
    inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,     \
                     const int32_t count, bool calIndex = false AUTOFUSE_TWIN_HERE) {                                 \
        AUTOFUSE_TWIN_REDUCE_TYPES(#Name);                                                                            \
        ::autofuse_twin::ReduceCount(                                                                                 \
            {#Name, ::autofuse_twin::Fold::fold, dt, &dst.View(), &src.View(), {}, 0, 0, 1, 8},                       \
            sharedTmpBuffer.View(), count, calIndex);                                                                 \
    }
AUTOFUSE_TWIN_EXTREME(ReduceMax, kMax)
AUTOFUSE_TWIN_EXTREME(ReduceMin, kMin)

#undef AUTOFUSE_TWIN_REDUCE_TYPES
#undef AUTOFUSE_TWIN_WHOLE_SUM
#undef AUTOFUSE_TWIN_WHOLE_EXTREME
#undef AUTOFUSE_TWIN_REDUCE_REPEAT
#undef AUTOFUSE_TWIN_BLOCK
#undef AUTOFUSE_TWIN_REDUCE_BLOCK
#undef AUTOFUSE_TWIN_PAIR
#undef AUTOFUSE_TWIN_REDUCTIONS
#undef AUTOFUSE_TWIN_EXTREME

}  // namespace AscendC

#endif
