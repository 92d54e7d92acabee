// Arithmetic, comparison, selection and conversion of registers. Element types are those documented for Ascend 950.
// Source: Ascend C public documentation of Ascend 950.
#ifndef AUTOFUSE_TWIN_REG_COMPUTE_H
#define AUTOFUSE_TWIN_REG_COMPUTE_H

#include "reg_types.h"

namespace autofuse_twin {

using AscendC::Reg::MaskMergeMode;

// Types of a call: those that fit one register, and 64-bit integers in pairs of registers if `wide` allows it.
template <typename T, typename R, bool wide, typename... List> constexpr bool RegTypes() {
    using A = typename R::ActualT;
    return RegArg<T, R>::ok && (kOneOf<A, List...> || (wide && R::REG_NUM == 2 && kOneOf<A, int64_t, uint64_t>));
}
#define AUTOFUSE_TWIN_REG_ALL8 int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float
#define AUTOFUSE_TWIN_REG_INTS int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t

// The template argument `mode` is a MaskMergeMode, or the address of a structure with one and an algorithm.
template <auto mode> constexpr MaskMergeMode MergeOf() {
    if constexpr (Same<decltype(mode), MaskMergeMode>::value) {
        return mode;
    } else {
        return mode->mrgMode;
    }
}
template <auto mode, typename Algo, Algo... keeps> constexpr bool Flushes() {
    if constexpr (Same<decltype(mode), MaskMergeMode>::value) {
        return true;
    } else {
        return !((mode->algo == keeps) || ...);
    }
}
template <auto mode> constexpr bool IsPrecise() {
    using namespace AscendC::Reg;
    if constexpr (Same<decltype(mode), const DivSpecificMode*>::value) {
        return mode->algo == DivAlgo::DIFF_COMPENSATION || mode->algo == DivAlgo::PRECISION_0ULP_FTZ_TRUE ||
               mode->algo == DivAlgo::PRECISION_0ULP_FTZ_FALSE;
    } else if constexpr (Same<decltype(mode), const SqrtSpecificMode*>::value) {
        return mode->algo == SqrtAlgo::FAST_INVERSE || mode->algo == SqrtAlgo::PRECISION_0ULP_FTZ_FALSE;
    } else {
        return false;
    }
}
template <auto mode, bool can> constexpr bool Merges() {
    static_assert(MergeOf<mode>() != MaskMergeMode::UNKNOWN, "the merge mode is MERGING or ZEROING");
    static_assert(can || MergeOf<mode>() == MaskMergeMode::ZEROING, "this operation has no MERGING on Ascend 950");
    return MergeOf<mode>() == MaskMergeMode::MERGING;
}

}  // namespace autofuse_twin

namespace AscendC {
namespace Reg {

// ---- one source ----

#define AUTOFUSE_TWIN_REG_UNARY(Name, ModeType, OpName, wide, flush, text, ...)                                       \
    template <typename T = DefaultType, ModeType mode = MaskMergeMode::ZEROING, typename U>                          \
    __simd_callee__ inline void Name(U& dstReg, U& srcReg, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {                    \
        static_assert(::autofuse_twin::RegTypes<T, U, wide, __VA_ARGS__>(), #Name ": element types are " text);       \
        static_assert(!::autofuse_twin::IsPrecise<mode>() || ::autofuse_twin::Same<typename U::ActualT, float>::value, \
                      #Name ": this algorithm is for float");                                                         \
        constexpr bool merge = ::autofuse_twin::Merges<mode, false>();                                                \
        ::autofuse_twin::RegElementwise(::autofuse_twin::Op::OpName, #Name, dstReg.Ref(), srcReg.Ref(), nullptr,      \
                                        nullptr, mask.Ref(), merge, flush);                                           \
    }
AUTOFUSE_TWIN_REG_UNARY(Abs, MaskMergeMode, Abs, true, false, "int8_t, int16_t, half, int32_t, float, int64_t pairs", int8_t,
                        int16_t, half, int32_t, float)
AUTOFUSE_TWIN_REG_UNARY(Neg, MaskMergeMode, Neg, true, false, "int8_t, int16_t, half, int32_t, float, int64_t pairs", int8_t,
                        int16_t, half, int32_t, float)
AUTOFUSE_TWIN_REG_UNARY(Relu, MaskMergeMode, Relu, true, false, "half, int32_t, float, int64_t pairs", half, int32_t, float)
#define AUTOFUSE_TWIN_REG_FLUSH (::autofuse_twin::Flushes<mode, ExpAlgo, ExpAlgo::PRECISION_1ULP_FTZ_FALSE>())
AUTOFUSE_TWIN_REG_UNARY(Exp, auto, Exp, false, AUTOFUSE_TWIN_REG_FLUSH, "half, float", half, float)
AUTOFUSE_TWIN_REG_UNARY(Ln, auto, Ln, false, AUTOFUSE_TWIN_REG_FLUSH, "half, float", half, float)
AUTOFUSE_TWIN_REG_UNARY(Log, auto, Ln, false, AUTOFUSE_TWIN_REG_FLUSH, "half, float", half, float)
AUTOFUSE_TWIN_REG_UNARY(Log2, auto, Log2, false, AUTOFUSE_TWIN_REG_FLUSH, "half, float", half, float)
AUTOFUSE_TWIN_REG_UNARY(Log10, auto, Log10, false, AUTOFUSE_TWIN_REG_FLUSH, "half, float", half, float)
#undef AUTOFUSE_TWIN_REG_FLUSH
#define AUTOFUSE_TWIN_REG_FLUSH                                                                  \
    (::autofuse_twin::Flushes<mode, SqrtAlgo, SqrtAlgo::FAST_INVERSE, SqrtAlgo::PRECISION_0ULP_FTZ_FALSE, \
                              SqrtAlgo::PRECISION_1ULP_FTZ_FALSE>())
AUTOFUSE_TWIN_REG_UNARY(Sqrt, auto, Sqrt, false, AUTOFUSE_TWIN_REG_FLUSH, "half, float", half, float)
#undef AUTOFUSE_TWIN_REG_FLUSH
#undef AUTOFUSE_TWIN_REG_UNARY

// For half and float, the bits.
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U>
__simd_callee__ inline void Not(U& dstReg, U& srcReg, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, U, true, AUTOFUSE_TWIN_REG_INTS, half, float>(),
                  "Not: element types are integers, half and float");
    constexpr bool merge = ::autofuse_twin::Merges<mode, false>();
    using ::autofuse_twin::Dt;
    auto dst = dstReg.Ref();
    auto src = srcReg.Ref();
    dst.dt = src.dt = src.dt == Dt::F16 ? Dt::U16 : src.dt == Dt::F32 ? Dt::U32 : src.dt;
    ::autofuse_twin::RegElementwise(::autofuse_twin::Op::Not, "Not", dst, src, nullptr, nullptr, mask.Ref(), merge, false);
}

// ---- two sources ----

#define AUTOFUSE_TWIN_REG_BINARY(Name, ModeType, OpName, wide, merges, flush, text, ...)                              \
    template <typename T = DefaultType, ModeType mode = MaskMergeMode::ZEROING, typename U>                          \
    __simd_callee__ inline void Name(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {       \
        static_assert(::autofuse_twin::RegTypes<T, U, wide, __VA_ARGS__>(), #Name ": element types are " text);       \
        static_assert(!::autofuse_twin::IsPrecise<mode>() || ::autofuse_twin::Same<typename U::ActualT, float>::value, \
                      #Name ": this algorithm is for float");                                                         \
        constexpr bool merge = ::autofuse_twin::Merges<mode, merges>();                                               \
        constexpr bool ftz = flush && !::autofuse_twin::kOneOf<typename U::ActualT, AUTOFUSE_TWIN_REG_INTS, int64_t, uint64_t>; \
        const auto b = srcReg1.Ref();                                                                                 \
        ::autofuse_twin::RegElementwise(::autofuse_twin::Op::OpName, #Name, dstReg.Ref(), srcReg0.Ref(), &b, nullptr, \
                                        mask.Ref(), merge, ftz);                                                      \
    }
#define AUTOFUSE_TWIN_REG_NUMBERS "8-, 16- and 32-bit numbers, 64-bit integers in pairs"
AUTOFUSE_TWIN_REG_BINARY(Add, MaskMergeMode, Add, true, true, false, AUTOFUSE_TWIN_REG_NUMBERS, AUTOFUSE_TWIN_REG_ALL8)
AUTOFUSE_TWIN_REG_BINARY(Sub, MaskMergeMode, Sub, true, false, false, AUTOFUSE_TWIN_REG_NUMBERS, AUTOFUSE_TWIN_REG_ALL8)
AUTOFUSE_TWIN_REG_BINARY(Max, MaskMergeMode, RegMax, true, true, false, AUTOFUSE_TWIN_REG_NUMBERS, AUTOFUSE_TWIN_REG_ALL8)
AUTOFUSE_TWIN_REG_BINARY(Min, MaskMergeMode, RegMin, true, true, false, AUTOFUSE_TWIN_REG_NUMBERS, AUTOFUSE_TWIN_REG_ALL8)
AUTOFUSE_TWIN_REG_BINARY(Mul, MaskMergeMode, Mul, true, false, false, "16- and 32-bit numbers, 64-bit integers in pairs",
                         int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float)
AUTOFUSE_TWIN_REG_BINARY(Div, auto, Div, true, false,
                         (::autofuse_twin::Flushes<mode, DivAlgo, DivAlgo::PRECISION_0ULP_FTZ_FALSE>()),
                         "16- and 32-bit numbers but bfloat16_t, 64-bit integers in pairs", int16_t, uint16_t, half, int32_t,
                         uint32_t, float)
AUTOFUSE_TWIN_REG_BINARY(And, MaskMergeMode, And, true, false, false, "integers", AUTOFUSE_TWIN_REG_INTS)
AUTOFUSE_TWIN_REG_BINARY(Or, MaskMergeMode, Or, true, false, false, "integers", AUTOFUSE_TWIN_REG_INTS)
AUTOFUSE_TWIN_REG_BINARY(Xor, MaskMergeMode, Xor, true, false, false, "integers", AUTOFUSE_TWIN_REG_INTS)
AUTOFUSE_TWIN_REG_BINARY(Prelu, MaskMergeMode, Prelu, false, false, false, "half, float", half, float)
AUTOFUSE_TWIN_REG_BINARY(AbsSub, MaskMergeMode, AbsSub, false, false, false, "half, float", half, float)
// dst = src0 * src1 + dst and dst = dst * src0 + src1, rounded once.
AUTOFUSE_TWIN_REG_BINARY(MulAddDst, MaskMergeMode, RegMulAddDst, false, false, false, "16- and 32-bit numbers", int16_t,
                         uint16_t, half, bfloat16_t, int32_t, uint32_t, float)
AUTOFUSE_TWIN_REG_BINARY(MulDstAdd, MaskMergeMode, RegMulDstAdd, false, false, false, "half, bfloat16_t, float", half,
                         bfloat16_t, float)
#undef AUTOFUSE_TWIN_REG_BINARY

// The shift counts are signed and as wide as the elements.
#define AUTOFUSE_TWIN_REG_SHIFT(Name)                                                                                 \
    template <typename T = DefaultType, typename U = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING,       \
              typename S, typename V>                                                                                \
    __simd_callee__ inline void Name(S& dstReg, S& srcReg0, V& srcReg1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {       \
        using N = typename V::ActualT;                                                                                \
        static_assert(::autofuse_twin::RegTypes<T, S, true, AUTOFUSE_TWIN_REG_INTS>(), #Name ": elements are integers"); \
        static_assert(::autofuse_twin::RegTypes<U, V, true, int8_t, int16_t, int32_t>() &&                           \
                          sizeof(N) == sizeof(typename S::ActualT) && !::autofuse_twin::Same<N, uint64_t>::value,     \
                      #Name ": shift counts are signed integers as wide as the elements");                            \
        constexpr bool merge = ::autofuse_twin::Merges<mode, false>();                                                \
        const auto b = srcReg1.Ref();                                                                                 \
        ::autofuse_twin::RegElementwise(::autofuse_twin::Op::Name##By, #Name, dstReg.Ref(), srcReg0.Ref(), &b, nullptr, \
                                        mask.Ref(), merge, false);                                                    \
    }                                                                                                                 \
    template <typename T = DefaultType, typename U, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S>         \
    __simd_callee__ inline void Name##s(S& dstReg, S& srcReg, U scalarValue, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {  \
        static_assert(::autofuse_twin::RegTypes<T, S, true, AUTOFUSE_TWIN_REG_INTS>(), #Name "s: elements are integers"); \
        static_assert(::autofuse_twin::Same<U, int16_t>::value, #Name "s: the shift count is int16_t");               \
        constexpr bool merge = ::autofuse_twin::Merges<mode, false>();                                                \
        const uint64_t bits = static_cast<uint64_t>(scalarValue > 127 || scalarValue < 0 ? 127 : scalarValue);        \
        ::autofuse_twin::RegElementwise(::autofuse_twin::Op::Name##By, #Name "s", dstReg.Ref(), srcReg.Ref(), nullptr, \
                                        &bits, mask.Ref(), merge, false);                                             \
    }
AUTOFUSE_TWIN_REG_SHIFT(ShiftLeft)
AUTOFUSE_TWIN_REG_SHIFT(ShiftRight)
#undef AUTOFUSE_TWIN_REG_SHIFT

// ---- a register and a scalar of its element type ----

#define AUTOFUSE_TWIN_REG_SCALAR(Name, OpName, wide, text, ...)                                                       \
    template <typename T = DefaultType, typename U, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S>         \
    __simd_callee__ inline void Name(S& dstReg, S& srcReg, U scalarValue, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {     \
        static_assert(::autofuse_twin::RegTypes<T, S, wide, __VA_ARGS__>(), #Name ": element types are " text);       \
        static_assert(::autofuse_twin::Same<U, typename S::ActualT>::value, #Name ": the scalar has the element type"); \
        constexpr bool merge = ::autofuse_twin::Merges<mode, false>();                                                \
        const uint64_t bits = ::autofuse_twin::Bits(scalarValue);                                                     \
        ::autofuse_twin::RegElementwise(::autofuse_twin::Op::OpName, #Name, dstReg.Ref(), srcReg.Ref(), nullptr, &bits, \
                                        mask.Ref(), merge, false);                                                    \
    }
AUTOFUSE_TWIN_REG_SCALAR(Adds, Add, true, AUTOFUSE_TWIN_REG_NUMBERS, AUTOFUSE_TWIN_REG_ALL8)
AUTOFUSE_TWIN_REG_SCALAR(Maxs, RegMax, true, AUTOFUSE_TWIN_REG_NUMBERS, AUTOFUSE_TWIN_REG_ALL8)
AUTOFUSE_TWIN_REG_SCALAR(Mins, RegMin, true, AUTOFUSE_TWIN_REG_NUMBERS, AUTOFUSE_TWIN_REG_ALL8)
AUTOFUSE_TWIN_REG_SCALAR(Muls, Mul, true, "16- and 32-bit numbers but bfloat16_t, 64-bit integers in pairs", int16_t,
                         uint16_t, half, int32_t, uint32_t, float)
AUTOFUSE_TWIN_REG_SCALAR(LeakyRelu, RegLeakyRelu, false, "half, float", half, float)
// dst = src * scalar + dst, rounded once.
AUTOFUSE_TWIN_REG_SCALAR(Axpy, RegMulAddDst, false, "half, float", half, float)
#undef AUTOFUSE_TWIN_REG_SCALAR

// ---- with a carry; halves of a product ----

template <typename T = DefaultType, typename U>
__simd_callee__ inline void Add(MaskReg& carry, U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, U, false, int32_t, uint32_t>(), "Add with carry: int32_t, uint32_t");
    ::autofuse_twin::RegCarry(carry.Ref(), dstReg.Ref(), srcReg0.Ref(), srcReg1.Ref(), nullptr, mask.Ref());
}
template <typename T = DefaultType, typename U>
__simd_callee__ inline void AddC(MaskReg& carry, U& dstReg, U& srcReg0, U& srcReg1, MaskReg& carrySrc,
                                 MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, U, false, int32_t, uint32_t>(), "AddC: int32_t, uint32_t");
    const auto in = carrySrc.Ref();
    ::autofuse_twin::RegCarry(carry.Ref(), dstReg.Ref(), srcReg0.Ref(), srcReg1.Ref(), &in, mask.Ref());
}
template <typename T = DefaultType, typename U>
__simd_callee__ inline void Mull(U& dstReg0, U& dstReg1, U& srcReg0, U& srcReg1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, U, false, int32_t, uint32_t>(), "Mull: int32_t, uint32_t");
    ::autofuse_twin::RegMull(dstReg0.Ref(), dstReg1.Ref(), srcReg0.Ref(), srcReg1.Ref(), mask.Ref());
}

// ---- two steps in one ----

// e^(src0 - src1) in float; for half registers, the elements of one layout.
template <typename T = DefaultType, typename U = DefaultType, RegLayout layout = RegLayout::ZERO,
          MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
__simd_callee__ inline void ExpSub(S& dstReg, V& srcReg0, V& srcReg1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, S, false, float>() && ::autofuse_twin::RegTypes<U, V, false, half, float>(),
                  "ExpSub: half or float to float");
    static_assert(layout == RegLayout::ZERO || layout == RegLayout::ONE, "ExpSub: the layouts are ZERO and ONE");
    static_assert(!::autofuse_twin::Merges<mode, false>());
    ::autofuse_twin::RegExpSub(dstReg.Ref(), srcReg0.Ref(), srcReg1.Ref(), static_cast<int>(layout), mask.Ref());
}
// src * scalar to half, ties away from zero; the other halves become 0.
template <typename T0 = DefaultType, typename T1 = DefaultType, typename T2, RegLayout layout = RegLayout::ZERO, typename T3,
          typename T4>
__simd_callee__ inline void MulsCast(T3& dstReg, T4& srcReg, T2 scalarValue, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T0, T3, false, half>() && ::autofuse_twin::RegTypes<T1, T4, false, float>() &&
                      ::autofuse_twin::Same<T2, float>::value, "MulsCast: float times float to half");
    static_assert(layout == RegLayout::ZERO || layout == RegLayout::ONE, "MulsCast: the layouts are ZERO and ONE");
    ::autofuse_twin::RegMulsCast(dstReg.Ref(), srcReg.Ref(), scalarValue, static_cast<int>(layout), mask.Ref());
}

// ---- comparison and choice ----

#define AUTOFUSE_TWIN_REG_COMPARE(Name)                                                                        \
    static_assert(::autofuse_twin::RegTypes<T, U, true, AUTOFUSE_TWIN_REG_ALL8>(),                             \
                  Name ": element types are " AUTOFUSE_TWIN_REG_NUMBERS)
template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, typename U>
__simd_callee__ inline void Compare(MaskReg& dst, U& srcReg0, U& srcReg1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    AUTOFUSE_TWIN_REG_COMPARE("Compare");
    const auto b = srcReg1.Ref();
    ::autofuse_twin::RegCompare(dst.Ref(), srcReg0.Ref(), &b, 0, static_cast<int>(mode), mask.Ref());
}
template <typename T = DefaultType, CMPMODE mode = CMPMODE::EQ, typename U, typename S>
__simd_callee__ inline void Compares(MaskReg& dst, U& srcReg, S scalarValue, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    AUTOFUSE_TWIN_REG_COMPARE("Compares");
    static_assert(::autofuse_twin::Same<S, typename U::ActualT>::value, "Compares: the scalar has the element type");
    ::autofuse_twin::RegCompare(dst.Ref(), srcReg.Ref(), nullptr, ::autofuse_twin::Bits(scalarValue),
                                static_cast<int>(mode), mask.Ref());
}
#undef AUTOFUSE_TWIN_REG_COMPARE
template <typename T = DefaultType, typename U>
__simd_callee__ inline void Select(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok, "Select: one element type");
    ::autofuse_twin::RegSelect(dstReg.Ref(), srcReg0.Ref(), srcReg1.Ref(), mask.Ref());
}

// ---- copies and constants ----

template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::MERGING, typename U>
__simd_callee__ inline void Move(U& dstReg, U& srcReg, MaskReg mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok, "Move: one element type");
    const auto m = mask.Ref();
    ::autofuse_twin::RegMove(dstReg.Ref(), srcReg.Ref(), &m, ::autofuse_twin::Merges<mode, true>());
}
template <typename T = DefaultType, typename U>
__simd_callee__ inline void Move(U& dstReg, U& srcReg AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok, "Move: one element type");
    ::autofuse_twin::RegMove(dstReg.Ref(), srcReg.Ref(), nullptr, false);
}
template <typename T = DefaultType, typename U, typename S>
__simd_callee__ inline void Duplicate(S& dstReg, U scalarValue AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && ::autofuse_twin::Same<U, typename S::ActualT>::value,
                  "Duplicate: the scalar has the element type");
    ::autofuse_twin::RegFill(dstReg.Ref(), ::autofuse_twin::Bits(scalarValue), nullptr, false);
}
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U, typename S>
__simd_callee__ inline void Duplicate(S& dstReg, U scalarValue, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && ::autofuse_twin::Same<U, typename S::ActualT>::value,
                  "Duplicate: the scalar has the element type");
    const auto m = mask.Ref();
    ::autofuse_twin::RegFill(dstReg.Ref(), ::autofuse_twin::Bits(scalarValue), &m, ::autofuse_twin::Merges<mode, true>());
}
// Broadcasts the lowest lane of src, or the highest one, to all lanes.
template <typename T = DefaultType, HighLowPart pos = HighLowPart::LOWEST, MaskMergeMode mode = MaskMergeMode::ZEROING,
          typename S>
__simd_callee__ inline void Duplicate(S& dstReg, S& srcReg, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok, "Duplicate: one element type");
    ::autofuse_twin::RegFillLane(dstReg.Ref(), srcReg.Ref(), pos == HighLowPart::HIGHEST, mask.Ref(),
                                 ::autofuse_twin::Merges<mode, true>());
}
template <typename T = DefaultType, IndexOrder order = IndexOrder::INCREASE_ORDER, typename U, typename S>
__simd_callee__ inline void Arange(S& dstReg, U scalarValue AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, S, false, int8_t, int16_t, int32_t, half, float, int64_t>(),
                  "Arange: element types are int8_t, int16_t, int32_t, half, float, int64_t");
    static_assert(::autofuse_twin::Same<U, typename S::ActualT>::value, "Arange: the scalar has the element type");
    ::autofuse_twin::RegArange(dstReg.Ref(), ::autofuse_twin::Bits(scalarValue), order == IndexOrder::DECREASE_ORDER);
}

}  // namespace Reg
}  // namespace AscendC

// ---- conversions ----

namespace autofuse_twin {

// A pair of types: number of its layouts (0: RegLayout::UNKNOWN), whether it can saturate, and its round modes as bits
// 1 << RoundMode (0: none). `known`: the conversion exists.
struct CastRule {
    bool known;
    int layouts;
    bool saturates;
    uint32_t modes;
};
constexpr CastRule CastRuleOf(Dt dst, Dt src) {
    constexpr uint32_t five = 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5;
    constexpr uint32_t odd = 1u << 6;
    switch (src) {
        case Dt::F16:
            switch (dst) {
                case Dt::I8:
                case Dt::U8: return {true, 2, true, five};
                case Dt::I16: return {true, 0, true, five};
                case Dt::I32: return {true, 2, false, five};
                case Dt::BF16: return {true, 0, false, five};
                case Dt::F32: return {true, 2, false, 0};
                default: return {};
            }
        case Dt::BF16:
            switch (dst) {
                case Dt::I32: return {true, 2, true, five};
                case Dt::F16: return {true, 0, true, five};
                case Dt::F32: return {true, 2, false, 0};
                default: return {};
            }
        case Dt::F32:
            switch (dst) {
                case Dt::I16: return {true, 2, true, five};
                case Dt::I32: return {true, 0, true, five};
                case Dt::I64: return {true, 2, true, five};
                case Dt::F16: return {true, 2, true, five | odd};
                case Dt::BF16: return {true, 2, true, five};
                default: return {};
            }
        case Dt::I8:
            switch (dst) {
                case Dt::F16:
                case Dt::I16: return {true, 2, false, 0};
                case Dt::I32: return {true, 4, false, 0};
                default: return {};
            }
        case Dt::U8:
            switch (dst) {
                case Dt::F16:
                case Dt::U16: return {true, 2, false, 0};
                case Dt::U32: return {true, 4, false, 0};
                default: return {};
            }
        case Dt::I16:
            switch (dst) {
                case Dt::F16: return {true, 0, false, five};
                case Dt::F32:
                case Dt::I32:
                case Dt::U32: return {true, 2, false, 0};
                case Dt::U8: return {true, 2, true, 0};
                default: return {};
            }
        case Dt::U16: return dst == Dt::U32 ? CastRule{true, 2, false, 0} : dst == Dt::U8 ? CastRule{true, 2, true, 0} : CastRule{};
        case Dt::I32:
            switch (dst) {
                case Dt::F32: return {true, 0, false, five};
                case Dt::I64: return {true, 2, false, 0};
                case Dt::I16:
                case Dt::U16: return {true, 2, true, 0};
                case Dt::U8: return {true, 4, true, 0};
                default: return {};
            }
        case Dt::U32:
            return dst == Dt::I16 || dst == Dt::U16 ? CastRule{true, 2, true, 0}
                   : dst == Dt::U8                  ? CastRule{true, 4, true, 0}
                                                    : CastRule{};
        case Dt::I64:
            return dst == Dt::F32 ? CastRule{true, 2, false, five} : dst == Dt::I32 ? CastRule{true, 2, true, 0} : CastRule{};
        default: return {};
    }
}

}  // namespace autofuse_twin

namespace AscendC {
namespace Reg {

template <typename T = DefaultType, typename U = DefaultType, const CastTrait& trait = castTrait, typename S, typename V>
__simd_callee__ inline void Cast(S& dstReg, V& srcReg, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && ::autofuse_twin::RegArg<U, V>::ok, "Cast: the types of the registers");
    constexpr auto rule = ::autofuse_twin::CastRuleOf(::autofuse_twin::DtOf<typename S::ActualT>::value,
                                                      ::autofuse_twin::DtOf<typename V::ActualT>::value);
    constexpr int layout = static_cast<int>(trait.layoutMode);
    constexpr int round = static_cast<int>(trait.roundMode);
    static_assert(rule.known, "Cast: there is no conversion between these types");
    static_assert(rule.layouts == 0 ? layout < 0 : S::kLanes == V::kLanes || (layout >= 0 && layout < rule.layouts),
                  "Cast: the layout is not one of this conversion");
    static_assert(rule.saturates ? trait.satMode != SatMode::UNKNOWN : trait.satMode != SatMode::SAT,
                  "Cast: SatMode is SAT or NO_SAT where a conversion can saturate, and not SAT elsewhere");
    static_assert(rule.modes == 0 ? round <= 0 : round > 0 && (rule.modes >> (round > 0 ? round : 0) & 1u) != 0,
                  "Cast: the round mode is not one of this conversion");
    static_assert(trait.mrgMode != MaskMergeMode::MERGING, "Cast: there is ZEROING only");
    ::autofuse_twin::RegCast(dstReg.Ref(), srcReg.Ref(), layout, rule.saturates, trait.satMode == SatMode::SAT,
                             round > 0 ? round : 0, mask.Ref());
}
// Rounds to an integral number of the same type.
template <typename T = DefaultType, RoundMode roundMode = RoundMode::CAST_NONE, MaskMergeMode mode = MaskMergeMode::ZEROING,
          typename S>
__simd_callee__ inline void Truncate(S& dstReg, S& srcReg, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegTypes<T, S, false, half, bfloat16_t, float>(), "Truncate: half, bfloat16_t, float");
    static_assert(roundMode >= RoundMode::CAST_RINT && roundMode <= RoundMode::CAST_TRUNC,
                  "Truncate: round modes are CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC");
    static_assert(!::autofuse_twin::Merges<mode, false>());
    ::autofuse_twin::RegTruncate(dstReg.Ref(), srcReg.Ref(), static_cast<int>(roundMode), mask.Ref());
}

}  // namespace Reg
}  // namespace AscendC

#undef AUTOFUSE_TWIN_REG_NUMBERS

#endif
