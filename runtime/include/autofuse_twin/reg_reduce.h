// Reductions and rearrangements of registers. Source: Ascend C public documentation of Ascend 950.
#ifndef AUTOFUSE_TWIN_REG_REDUCE_H
#define AUTOFUSE_TWIN_REG_REDUCE_H

#include "reg_compute.h"

namespace autofuse_twin {

using AscendC::ReduceType;

constexpr Fold FoldOf(ReduceType type) {
    return type == ReduceType::SUM ? Fold::kSum : type == ReduceType::MAX ? Fold::kMax : Fold::kMin;
}
// Sums of 16-bit integers are 32 bits wide; all else keeps its type.
template <ReduceType type, typename S, typename V> constexpr bool ReduceTypes() {
    using D = typename S::ActualT;
    using A = typename V::ActualT;
    const bool wide = S::REG_NUM == 2 && V::REG_NUM == 2 && Same<A, int64_t>::value && Same<D, A>::value;
    if (type == ReduceType::SUM) {
        return wide || (Same<D, A>::value && kOneOf<A, half, float, int32_t, uint32_t>) ||
               (Same<A, int16_t>::value && Same<D, int32_t>::value) || (Same<A, uint16_t>::value && Same<D, uint32_t>::value);
    }
    return wide || (Same<D, A>::value && kOneOf<A, int16_t, uint16_t, half, int32_t, uint32_t, float>);
}

}  // namespace autofuse_twin

namespace AscendC {
namespace Reg {

// All lanes to lane 0. A sum is a binary tree over adjacent lanes; MAX and MIN put the first index into lane 1.
template <ReduceType type = ReduceType::SUM, typename T = DefaultType, typename U = DefaultType,
          MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
__simd_callee__ inline void Reduce(S& dstReg, V srcReg, MaskReg mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && ::autofuse_twin::RegArg<U, V>::ok, "Reduce: the types of the registers");
    static_assert(::autofuse_twin::ReduceTypes<type, S, V>(), "Reduce: there is no such reduction of this type");
    static_assert(!::autofuse_twin::Merges<mode, false>());
    ::autofuse_twin::RegReduce("Reduce", ::autofuse_twin::FoldOf(type), dstReg.Ref(), srcReg.Ref(), 0, mask.Ref());
}
// Every 32 bytes to one result, in the lowest lanes.
template <ReduceType type = ReduceType::SUM, typename T = DefaultType, typename U = DefaultType,
          MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
__simd_callee__ inline void ReduceDataBlock(S& dstReg, V srcReg, MaskReg mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && (::autofuse_twin::RegArg<U, V>::ok),
                  "ReduceDataBlock: the types of the registers");
    static_assert(::autofuse_twin::ReduceTypes<type, S, V>() && V::REG_NUM == 1 &&
                      !(type == ReduceType::SUM && ::autofuse_twin::Same<typename V::ActualT, uint16_t>::value),
                  "ReduceDataBlock: there is no such reduction of this type");
    static_assert(!::autofuse_twin::Merges<mode, false>());
    ::autofuse_twin::RegReduce("ReduceDataBlock", ::autofuse_twin::FoldOf(type), dstReg.Ref(), srcReg.Ref(),
                               32 / sizeof(typename V::ActualT), mask.Ref());
}
// Sums of adjacent lanes in the lower half, 0 in the upper one.
template <PairReduce type = PairReduce::SUM, typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U>
__simd_callee__ inline void PairReduceElem(U& dstReg, U srcReg, MaskReg mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, U, false, half, float>(), "PairReduceElem: half, float");
    static_assert(!::autofuse_twin::Merges<mode, false>());
    ::autofuse_twin::RegReduce("PairReduceElem", ::autofuse_twin::Fold::kSum, dstReg.Ref(), srcReg.Ref(), 2, mask.Ref());
}

// ---- rearrangements ----

template <typename T = DefaultType, typename U>
__simd_callee__ inline void Interleave(U& dstReg0, U& dstReg1, U& srcReg0, U& srcReg1 AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok && U::REG_NUM == 1, "Interleave: one element type, single registers");
    ::autofuse_twin::RegWeave(false, dstReg0.Ref(), dstReg1.Ref(), srcReg0.Ref(), srcReg1.Ref());
}
template <typename T = DefaultType, typename U>
__simd_callee__ inline void DeInterleave(U& dstReg0, U& dstReg1, U& srcReg0, U& srcReg1 AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok && U::REG_NUM == 1, "DeInterleave: one element type, single registers");
    ::autofuse_twin::RegWeave(true, dstReg0.Ref(), dstReg1.Ref(), srcReg0.Ref(), srcReg1.Ref());
}
// The lower half of every element goes to one half of dst; the other half becomes 0.
template <typename T = DefaultType, typename U = DefaultType, HighLowPart part = HighLowPart::LOWEST, typename S, typename V>
__simd_callee__ inline void Pack(S& dstReg, V& srcReg AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && ::autofuse_twin::RegArg<U, V>::ok, "Pack: the types of the registers");
    static_assert(sizeof(typename V::ActualT) == 2 * sizeof(typename S::ActualT) && V::REG_NUM == 1,
                  "Pack: the elements of the result are half as wide");
    ::autofuse_twin::RegPack(dstReg.Ref(), srcReg.Ref(), part == HighLowPart::HIGHEST);
}
// Widens one half of src to twice the element width, sign-extending signed integers.
template <typename T = DefaultType, typename U = DefaultType, HighLowPart part = HighLowPart::LOWEST, typename S, typename V>
__simd_callee__ inline void UnPack(S& dstReg, V& srcReg AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && ::autofuse_twin::RegArg<U, V>::ok, "UnPack: the types of the registers");
    static_assert(sizeof(typename S::ActualT) == 2 * sizeof(typename V::ActualT) && S::REG_NUM == 1,
                  "UnPack: the elements of the result are twice as wide");
    static_assert(::autofuse_twin::kOneOf<typename V::ActualT, AUTOFUSE_TWIN_REG_INTS>, "UnPack: integers");
    ::autofuse_twin::RegUnPack(dstReg.Ref(), srcReg.Ref(), part == HighLowPart::HIGHEST);
}
// dst[i] = src[index[i]]
template <typename T = DefaultType, typename U = DefaultType, typename S, typename V>
__simd_callee__ inline void Gather(S& dstReg, S& srcReg, V& indexReg AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && ::autofuse_twin::RegTypes<U, V, false, uint8_t, uint16_t, uint32_t>() &&
                      sizeof(typename S::ActualT) == sizeof(typename V::ActualT),
                  "Gather: indices are unsigned and as wide as the elements");
    ::autofuse_twin::RegPick(dstReg.Ref(), srcReg.Ref(), indexReg.Ref());
}
// Packs the elements whose mask is on, at the low end, followed by 0.
template <typename T = DefaultType, GatherMaskMode store = GatherMaskMode::NO_STORE_REG, typename U>
__simd_callee__ inline void Squeeze(U& dstReg, U& srcReg, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, U, false, AUTOFUSE_TWIN_REG_INTS, half, float>(),
                  "Squeeze: element types are integers up to 32 bits, half, float");
    ::autofuse_twin::RegSqueeze(dstReg.Ref(), srcReg.Ref(), mask.Ref());
}
// dst[i]: number of enabled lanes below i.
template <typename T = DefaultType, typename U>
__simd_callee__ inline void Unsqueeze(U& dstReg, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, U, false, AUTOFUSE_TWIN_REG_INTS>(), "Unsqueeze: integers up to 32 bits");
    ::autofuse_twin::RegUnsqueeze(dstReg.Ref(), mask.Ref());
}

}  // namespace Reg
}  // namespace AscendC

#endif
