// Element-wise vector functions: count forms, and the high-dimensional forms with mask, repeat and strides.
// Element types are the ones documented for Atlas A2. Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_VECTOR_H
#define AUTOFUSE_TWIN_VECTOR_H

#include "tensor.h"

namespace autofuse_twin {

struct MaskArg {
    uint64_t lo, hi;
    Rep::Kind kind;
};
template <bool isSetMask> inline MaskArg MaskOf(uint64_t mask) {
    return {mask, 0, isSetMask ? Rep::kCount : Rep::kRegister};
}
template <bool isSetMask> inline MaskArg MaskOf(const uint64_t* mask) {
    return {mask[0], mask[1], isSetMask ? Rep::kBits : Rep::kRegister};
}
inline Rep MakeRep(const MaskArg& m, uint8_t repeat, const AscendC::UnaryRepeatParams& p) {
    return {m.lo, m.hi, m.kind, repeat, p.dstBlkStride, p.srcBlkStride, 1, p.dstRepStride, p.srcRepStride, 8};
}
inline Rep MakeRep(const MaskArg& m, uint8_t repeat, const AscendC::BinaryRepeatParams& p) {
    return {m.lo, m.hi, m.kind, repeat, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride,
            p.dstRepStride, p.src0RepStride, p.src1RepStride};
}

}  // namespace autofuse_twin

namespace AscendC {

#define AUTOFUSE_TWIN_TYPES_CHECK(Name, T, text, ...) \
    static_assert(::autofuse_twin::kOneOf<T, __VA_ARGS__>, Name ": element types on A2 are " text)

#define AUTOFUSE_TWIN_UNARY(Name, text, ...)                                                                          \
    template <typename T> inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const int32_t& count \
        AUTOFUSE_TWIN_HERE) {                                                                                         \
        AUTOFUSE_TWIN_TYPES_CHECK(#Name, T, text, __VA_ARGS__);                                                       \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        ::autofuse_twin::Elementwise(                                                                                 \
            {::autofuse_twin::Op::Name, dt, dt, &dst.View(), &src.View(), nullptr, 0, count, nullptr});               \
    }                                                                                                                 \
    AUTOFUSE_TWIN_UNARY_REP(Name, const uint64_t*, text, __VA_ARGS__)                                                 \
    AUTOFUSE_TWIN_UNARY_REP(Name, uint64_t, text, __VA_ARGS__)
#define AUTOFUSE_TWIN_UNARY_REP(Name, MaskType, text, ...)                                                            \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, MaskType mask, const uint8_t repeatTime,   \
                     const UnaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {                                      \
        AUTOFUSE_TWIN_TYPES_CHECK(#Name, T, text, __VA_ARGS__);                                                       \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Elementwise(                                                                                 \
            {::autofuse_twin::Op::Name, dt, dt, &dst.View(), &src.View(), nullptr, 0, 0, &rep});                      \
    }

AUTOFUSE_TWIN_UNARY(Abs, "half, float", half, float)
AUTOFUSE_TWIN_UNARY(Exp, "half, float", half, float)
AUTOFUSE_TWIN_UNARY(Ln, "half, float", half, float)
AUTOFUSE_TWIN_UNARY(Sqrt, "half, float", half, float)
AUTOFUSE_TWIN_UNARY(Rsqrt, "half, float", half, float)
AUTOFUSE_TWIN_UNARY(Reciprocal, "half, float", half, float)
AUTOFUSE_TWIN_UNARY(Relu, "half, float, int32_t", half, float, int32_t)
AUTOFUSE_TWIN_UNARY(Not, "int16_t, uint16_t", int16_t, uint16_t)

#define AUTOFUSE_TWIN_BINARY(Name, text, ...)                                                                         \
    template <typename T>                                                                                             \
    inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,               \
                     const int32_t& count AUTOFUSE_TWIN_HERE) {                                                       \
        AUTOFUSE_TWIN_TYPES_CHECK(#Name, T, text, __VA_ARGS__);                                                       \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        ::autofuse_twin::Elementwise(                                                                                 \
            {::autofuse_twin::Op::Name, dt, dt, &dst.View(), &src0.View(), &src1.View(), 0, count, nullptr});         \
    }                                                                                                                 \
    AUTOFUSE_TWIN_BINARY_REP(Name, const uint64_t*, text, __VA_ARGS__)                                                \
    AUTOFUSE_TWIN_BINARY_REP(Name, uint64_t, text, __VA_ARGS__)
#define AUTOFUSE_TWIN_BINARY_REP(Name, MaskType, text, ...)                                                           \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, MaskType mask, \
                     const uint8_t repeatTime, const BinaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {           \
        AUTOFUSE_TWIN_TYPES_CHECK(#Name, T, text, __VA_ARGS__);                                                       \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Elementwise(                                                                                 \
            {::autofuse_twin::Op::Name, dt, dt, &dst.View(), &src0.View(), &src1.View(), 0, 0, &rep});                \
    }

AUTOFUSE_TWIN_BINARY(Add, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_BINARY(Sub, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_BINARY(Mul, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_BINARY(Max, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_BINARY(Min, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_BINARY(Div, "half, float", half, float)
AUTOFUSE_TWIN_BINARY(And, "int16_t, uint16_t", int16_t, uint16_t)
AUTOFUSE_TWIN_BINARY(Or, "int16_t, uint16_t", int16_t, uint16_t)
AUTOFUSE_TWIN_BINARY(AddRelu, "int16_t, half, float", int16_t, half, float)
AUTOFUSE_TWIN_BINARY(SubRelu, "int16_t, half, float", int16_t, half, float)
// dst = dst * src0 + src1
AUTOFUSE_TWIN_BINARY(FusedMulAdd, "half, float", half, float)
AUTOFUSE_TWIN_BINARY(FusedMulAddRelu, "half, float", half, float)

// The scalar must have exactly the element type of the tensors, as in the documented signatures.
#define AUTOFUSE_TWIN_SCALAR(Name, text, ...)                                                                         \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, const int32_t& count \
        AUTOFUSE_TWIN_HERE) {                                                                                         \
        AUTOFUSE_TWIN_TYPES_CHECK(#Name, T, text, __VA_ARGS__);                                                       \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        ::autofuse_twin::Elementwise({::autofuse_twin::Op::Name, dt, dt, &dst.View(), &src.View(), nullptr,           \
                                      ::autofuse_twin::Bits(scalarValue), count, nullptr});                           \
    }
#define AUTOFUSE_TWIN_SCALAR_REP(Name, MaskType, text, ...)                                                           \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, MaskType mask,       \
                     const uint8_t repeatTime, const UnaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {            \
        AUTOFUSE_TWIN_TYPES_CHECK(#Name, T, text, __VA_ARGS__);                                                       \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Elementwise({::autofuse_twin::Op::Name, dt, dt, &dst.View(), &src.View(), nullptr,           \
                                      ::autofuse_twin::Bits(scalarValue), 0, &rep});                                  \
    }
#define AUTOFUSE_TWIN_SCALAR_ALL(Name, text, ...)                      \
    AUTOFUSE_TWIN_SCALAR(Name, text, __VA_ARGS__)                      \
    AUTOFUSE_TWIN_SCALAR_REP(Name, const uint64_t*, text, __VA_ARGS__) \
    AUTOFUSE_TWIN_SCALAR_REP(Name, uint64_t, text, __VA_ARGS__)

AUTOFUSE_TWIN_SCALAR_ALL(Adds, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_SCALAR_ALL(Muls, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_SCALAR_ALL(Maxs, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_SCALAR_ALL(Mins, "int16_t, half, int32_t, float", int16_t, half, int32_t, float)
AUTOFUSE_TWIN_SCALAR_ALL(LeakyRelu, "half, float", half, float)
AUTOFUSE_TWIN_SCALAR_ALL(ShiftLeft, "(u)int16_t, (u)int32_t", int16_t, uint16_t, int32_t, uint32_t)
AUTOFUSE_TWIN_SCALAR(ShiftRight, "(u)int16_t, (u)int32_t", int16_t, uint16_t, int32_t, uint32_t)

#define AUTOFUSE_TWIN_SHIFT_RIGHT(MaskType)                                                                           \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, MaskType mask, \
                           const uint8_t repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn = false      \
                               AUTOFUSE_TWIN_HERE) {                                                                  \
        AUTOFUSE_TWIN_TYPES_CHECK("ShiftRight", T, "(u)int16_t, (u)int32_t", int16_t, uint16_t, int32_t, uint32_t);   \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Elementwise(                                                                                 \
            {roundEn ? ::autofuse_twin::Op::ShiftRightRound : ::autofuse_twin::Op::ShiftRight, dt, dt, &dst.View(),   \
             &src.View(), nullptr, ::autofuse_twin::Bits(scalarValue), 0, &rep});                                     \
    }
AUTOFUSE_TWIN_SHIFT_RIGHT(const uint64_t*)
AUTOFUSE_TWIN_SHIFT_RIGHT(uint64_t)

template <typename T, typename U> constexpr bool kTwinFused =
    ::autofuse_twin::kOneOf<T, half, float> && (::autofuse_twin::Same<T, U>::value ||
    (::autofuse_twin::Same<T, float>::value && ::autofuse_twin::Same<U, half>::value));

// dst = dst + src * scalar
template <typename T, typename U>
inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, const int32_t& count
    AUTOFUSE_TWIN_HERE) {
    static_assert(kTwinFused<T, U>, "Axpy: A2 supports half, float and half -> float");
    ::autofuse_twin::Elementwise({::autofuse_twin::Op::Axpy, ::autofuse_twin::DtOf<T>::value,
                                  ::autofuse_twin::DtOf<U>::value, &dst.View(), &src.View(), nullptr,
                                  ::autofuse_twin::Bits(scalarValue), count, nullptr});
}
// dst = dst + src0 * src1
template <typename T, typename U>
inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,
                      const int32_t& count AUTOFUSE_TWIN_HERE) {
    static_assert(kTwinFused<T, U>, "MulAddDst: A2 supports half, float and half -> float");
    ::autofuse_twin::Elementwise({::autofuse_twin::Op::MulAddDst, ::autofuse_twin::DtOf<T>::value,
                                  ::autofuse_twin::DtOf<U>::value, &dst.View(), &src0.View(), &src1.View(), 0, count,
                                  nullptr});
}
#define AUTOFUSE_TWIN_FUSED_REP(MaskType)                                                                             \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U& scalarValue, MaskType mask,       \
                     const uint8_t repeatTime, const UnaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {            \
        static_assert(kTwinFused<T, U>, "Axpy: A2 supports half, float and half -> float");                           \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Elementwise({::autofuse_twin::Op::Axpy, ::autofuse_twin::DtOf<T>::value,                     \
                                      ::autofuse_twin::DtOf<U>::value, &dst.View(), &src.View(), nullptr,             \
                                      ::autofuse_twin::Bits(scalarValue), 0, &rep});                                  \
    }                                                                                                                 \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    inline void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1,          \
                          MaskType mask, const uint8_t repeatTime, const BinaryRepeatParams& repeatParams             \
                              AUTOFUSE_TWIN_HERE) {                                                                   \
        static_assert(kTwinFused<T, U>, "MulAddDst: A2 supports half, float and half -> float");                      \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Elementwise({::autofuse_twin::Op::MulAddDst, ::autofuse_twin::DtOf<T>::value,                \
                                      ::autofuse_twin::DtOf<U>::value, &dst.View(), &src0.View(), &src1.View(), 0, 0, \
                                      &rep});                                                                         \
    }
AUTOFUSE_TWIN_FUSED_REP(const uint64_t*)
AUTOFUSE_TWIN_FUSED_REP(uint64_t)

// Conversions on A2 (destination, source). The round mode is checked at run time.
template <typename D, typename S> constexpr bool kTwinCast =
    (::autofuse_twin::Same<S, half>::value && ::autofuse_twin::kOneOf<D, int8_t, uint8_t, int16_t, int32_t, float>) ||
    (::autofuse_twin::Same<S, float>::value &&
     ::autofuse_twin::kOneOf<D, int16_t, half, bfloat16_t, int32_t, float, int64_t>) ||
    (::autofuse_twin::Same<S, bfloat16_t>::value && ::autofuse_twin::kOneOf<D, int32_t, float>) ||
    (::autofuse_twin::kOneOf<S, int8_t, uint8_t> && ::autofuse_twin::Same<D, half>::value) ||
    (::autofuse_twin::Same<S, int16_t>::value && ::autofuse_twin::kOneOf<D, half, float>) ||
    (::autofuse_twin::Same<S, int32_t>::value && ::autofuse_twin::kOneOf<D, int16_t, float, int64_t>) ||
    (::autofuse_twin::Same<S, int64_t>::value && ::autofuse_twin::kOneOf<D, int32_t, float>);

#define AUTOFUSE_TWIN_CAST_CHECK \
    static_assert(kTwinCast<T, U>, "Cast: this pair of element types does not exist on A2; convert in two steps")

template <typename T, typename U>
inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint32_t count
    AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_CAST_CHECK;
    ::autofuse_twin::Elementwise({::autofuse_twin::Op::Cast, ::autofuse_twin::DtOf<T>::value,
                                  ::autofuse_twin::DtOf<U>::value, &dst.View(), &src.View(), nullptr,
                                  static_cast<uint64_t>(roundMode), count, nullptr});
}
#define AUTOFUSE_TWIN_CAST_REP(MaskType)                                                                              \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, MaskType mask, \
                     const uint8_t repeatTime, const UnaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {            \
        AUTOFUSE_TWIN_CAST_CHECK;                                                                                     \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Elementwise({::autofuse_twin::Op::Cast, ::autofuse_twin::DtOf<T>::value,                     \
                                      ::autofuse_twin::DtOf<U>::value, &dst.View(), &src.View(), nullptr,             \
                                      static_cast<uint64_t>(roundMode), 0, &rep});                                    \
    }
AUTOFUSE_TWIN_CAST_REP(const uint64_t*)
AUTOFUSE_TWIN_CAST_REP(uint64_t)

#define AUTOFUSE_TWIN_16_32(Name) \
    AUTOFUSE_TWIN_TYPES_CHECK(Name, T, "16- and 32-bit", int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float)

// UB -> UB copy by the vector unit.
template <typename T> inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t count
    AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_16_32("Copy");
    constexpr auto dt = ::autofuse_twin::DtOf<T>::value;
    ::autofuse_twin::Elementwise({::autofuse_twin::Op::Copy, dt, dt, &dst.View(), &src.View(), nullptr, 0, count, nullptr});
}
// Fill with one value.
template <typename T> inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, const int32_t& count
    AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_16_32("Duplicate");
    constexpr auto dt = ::autofuse_twin::DtOf<T>::value;
    ::autofuse_twin::Elementwise({::autofuse_twin::Op::Duplicate, dt, dt, &dst.View(), nullptr, nullptr,
                                  ::autofuse_twin::Bits(scalarValue), count, nullptr});
}
// dst[i] = firstValue + i
template <typename T> inline void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count
    AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_TYPES_CHECK("CreateVecIndex", T, "int16_t, half, int32_t, float", int16_t, half, int32_t, float);
    ::autofuse_twin::VecIndex(::autofuse_twin::DtOf<T>::value, dst.View(), ::autofuse_twin::Bits(firstValue), count, nullptr);
}
#define AUTOFUSE_TWIN_FILL_REP(MaskType)                                                                              \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, MaskType mask, const uint8_t repeatTime,   \
                     const CopyRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {                                       \
        AUTOFUSE_TWIN_16_32("Copy");                                                                                  \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        const auto m = ::autofuse_twin::MaskOf<isSetMask>(mask);                                                      \
        const ::autofuse_twin::Rep rep{m.lo, m.hi, m.kind, repeatTime, repeatParams.dstStride, repeatParams.srcStride, \
                                       1, repeatParams.dstRepeatSize, repeatParams.srcRepeatSize, 8};                 \
        ::autofuse_twin::Elementwise(                                                                                 \
            {::autofuse_twin::Op::Copy, dt, dt, &dst.View(), &src.View(), nullptr, 0, 0, &rep});                      \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, MaskType mask, const uint8_t repeatTime,   \
                          const uint16_t dstBlockStride, const uint8_t dstRepeatStride AUTOFUSE_TWIN_HERE) {          \
        AUTOFUSE_TWIN_16_32("Duplicate");                                                                             \
        constexpr auto dt = ::autofuse_twin::DtOf<T>::value;                                                          \
        const auto m = ::autofuse_twin::MaskOf<isSetMask>(mask);                                                      \
        const ::autofuse_twin::Rep rep{m.lo, m.hi, m.kind, repeatTime, dstBlockStride, 1, 1, dstRepeatStride, 8, 8};  \
        ::autofuse_twin::Elementwise({::autofuse_twin::Op::Duplicate, dt, dt, &dst.View(), nullptr, nullptr,          \
                                      ::autofuse_twin::Bits(scalarValue), 0, &rep});                                  \
    }                                                                                                                 \
    template <typename T>                                                                                             \
    inline void CreateVecIndex(LocalTensor<T>& dst, const T& firstValue, MaskType mask, uint8_t repeatTime,           \
                               uint16_t dstBlkStride, uint8_t dstRepStride AUTOFUSE_TWIN_HERE) {                      \
        AUTOFUSE_TWIN_TYPES_CHECK("CreateVecIndex", T, "int16_t, half, int32_t, float", int16_t, half, int32_t, float); \
        const auto m = ::autofuse_twin::MaskOf<true>(mask);                                                           \
        const ::autofuse_twin::Rep rep{m.lo, m.hi, m.kind, repeatTime, dstBlkStride, 1, 1, dstRepStride, 8, 8};       \
        ::autofuse_twin::VecIndex(::autofuse_twin::DtOf<T>::value, dst.View(), ::autofuse_twin::Bits(firstValue), 0,  \
                                  &rep);                                                                              \
    }
AUTOFUSE_TWIN_FILL_REP(const uint64_t*)
AUTOFUSE_TWIN_FILL_REP(uint64_t)

// Every repeat broadcasts 8 source elements into 8 blocks of 32 bytes.
template <typename T>
inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t repeatTime,
                 const BrcbRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_16_32("Brcb");
    ::autofuse_twin::BrcbBlocks(sizeof(T), dst.View(), src0.View(), repeatTime, repeatParams.dstBlkStride,
                                repeatParams.dstRepStride);
}

#undef AUTOFUSE_TWIN_UNARY
#undef AUTOFUSE_TWIN_UNARY_REP
#undef AUTOFUSE_TWIN_BINARY
#undef AUTOFUSE_TWIN_BINARY_REP
#undef AUTOFUSE_TWIN_SCALAR
#undef AUTOFUSE_TWIN_SCALAR_REP
#undef AUTOFUSE_TWIN_SCALAR_ALL
#undef AUTOFUSE_TWIN_SHIFT_RIGHT
#undef AUTOFUSE_TWIN_FUSED_REP
#undef AUTOFUSE_TWIN_CAST_CHECK
#undef AUTOFUSE_TWIN_CAST_REP
#undef AUTOFUSE_TWIN_FILL_REP

}  // namespace AscendC

#endif
