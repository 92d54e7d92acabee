// Compare and Select. Comparison results are bits, least significant first, one per element.
// count * sizeof(T) must be a multiple of 256 bytes. Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_SELECT_H
#define AUTOFUSE_TWIN_SELECT_H

#include "vector.h"

namespace AscendC {

#define AUTOFUSE_TWIN_CMP_CHECK(Name)                                                                                 \
    static_assert(::autofuse_twin::kOneOf<T, half, float, int32_t>, Name ": A2 supports half, float, int32_t (EQ only)"); \
    constexpr auto dt = ::autofuse_twin::DtOf<T>::value
#define AUTOFUSE_TWIN_BITS_CHECK(Name, U) \
    static_assert(::autofuse_twin::kOneOf<U, uint8_t, int8_t>, Name ": the result tensor is uint8_t or int8_t")

template <typename T, typename U>
inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
                    uint32_t count AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_CMP_CHECK("Compare");
    AUTOFUSE_TWIN_BITS_CHECK("Compare", U);
    ::autofuse_twin::Compare({::autofuse_twin::Op::Compare, ::autofuse_twin::Dt::U8, dt, &dst.View(), &src0.View(),
                              &src1.View(), 0, count, nullptr}, static_cast<int>(cmpMode));
}

#define AUTOFUSE_TWIN_COMPARE_REP(MaskType)                                                                           \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,            \
                        CMPMODE cmpMode, MaskType mask, uint8_t repeatTime, const BinaryRepeatParams& repeatParams    \
                            AUTOFUSE_TWIN_HERE) {                                                                     \
        AUTOFUSE_TWIN_CMP_CHECK("Compare");                                                                           \
        AUTOFUSE_TWIN_BITS_CHECK("Compare", U);                                                                       \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Compare({::autofuse_twin::Op::Compare, ::autofuse_twin::Dt::U8, dt, &dst.View(),             \
                                  &src0.View(), &src1.View(), 0, 0, &rep}, static_cast<int>(cmpMode));                \
    }                                                                                                                 \
    template <typename T, bool isSetMask = true>                                                                      \
    inline void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, MaskType mask,       \
                        const BinaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {                                  \
        AUTOFUSE_TWIN_CMP_CHECK("Compare");                                                                           \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), 1, repeatParams);         \
        ::autofuse_twin::Compare({::autofuse_twin::Op::Compare, ::autofuse_twin::Dt::U8, dt, nullptr, &src0.View(),   \
                                  &src1.View(), 0, 0, &rep}, static_cast<int>(cmpMode));                              \
    }
AUTOFUSE_TWIN_COMPARE_REP(const uint64_t*)
AUTOFUSE_TWIN_COMPARE_REP(uint64_t)

// Compares and CompareScalar are the new and the old name of one function.
#define AUTOFUSE_TWIN_COMPARES(Name)                                                                                  \
    template <typename T, typename U>                                                                                 \
    inline void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,      \
                     uint32_t count AUTOFUSE_TWIN_HERE) {                                                             \
        AUTOFUSE_TWIN_CMP_CHECK(#Name);                                                                               \
        static_assert(::autofuse_twin::Same<U, uint8_t>::value, #Name ": the result tensor is uint8_t");              \
        ::autofuse_twin::Compare({::autofuse_twin::Op::CompareScalar, ::autofuse_twin::Dt::U8, dt, &dst.View(),       \
                                  &src0.View(), nullptr, ::autofuse_twin::Bits(src1Scalar), count, nullptr},          \
                                 static_cast<int>(cmpMode));                                                          \
    }                                                                                                                 \
    AUTOFUSE_TWIN_COMPARES_REP(Name, const uint64_t*)                                                                 \
    AUTOFUSE_TWIN_COMPARES_REP(Name, uint64_t)
#define AUTOFUSE_TWIN_COMPARES_REP(Name, MaskType)                                                                    \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    inline void Name(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const T src1Scalar, CMPMODE cmpMode,      \
                     MaskType mask, uint8_t repeatTime, const UnaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {   \
        AUTOFUSE_TWIN_CMP_CHECK(#Name);                                                                               \
        static_assert(::autofuse_twin::Same<U, uint8_t>::value, #Name ": the result tensor is uint8_t");              \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Compare({::autofuse_twin::Op::CompareScalar, ::autofuse_twin::Dt::U8, dt, &dst.View(),       \
                                  &src0.View(), nullptr, ::autofuse_twin::Bits(src1Scalar), 0, &rep},                 \
                                 static_cast<int>(cmpMode));                                                          \
    }
AUTOFUSE_TWIN_COMPARES(Compares)
AUTOFUSE_TWIN_COMPARES(CompareScalar)

template <typename T> inline void GetCmpMask(const LocalTensor<T>& dst AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::CmpMaskTransfer(dst.View(), false);
}
template <typename T> inline void SetCmpMask(const LocalTensor<T>& src AUTOFUSE_TWIN_HERE) {
    ::autofuse_twin::CmpMaskTransfer(src.View(), true);
}

#define AUTOFUSE_TWIN_SEL_CHECK                                                                                       \
    static_assert(::autofuse_twin::kOneOf<T, half, float>, "Select: A2 supports half, float");                        \
    constexpr auto dt = ::autofuse_twin::DtOf<T>::value

// Bit 1 selects src0, bit 0 selects src1.
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
                   const LocalTensor<T>& src1, SELMODE selMode, uint32_t count AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_SEL_CHECK;
    ::autofuse_twin::Select({::autofuse_twin::Op::Select, dt, dt, &dst.View(), &src0.View(), &src1.View(), 0, count,
                             nullptr}, &selMask.View(), static_cast<int>(selMode));
}
template <typename T, typename U>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,
                   SELMODE selMode, uint32_t count AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_SEL_CHECK;
    ::autofuse_twin::Select({::autofuse_twin::Op::Select, dt, dt, &dst.View(), &src0.View(), nullptr,
                             ::autofuse_twin::Bits(src1), count, nullptr}, &selMask.View(), static_cast<int>(selMode));
}
#define AUTOFUSE_TWIN_SELECT_REP(MaskType)                                                                            \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,          \
                       const LocalTensor<T>& src1, SELMODE selMode, MaskType mask, uint8_t repeatTime,                \
                       const BinaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {                                   \
        AUTOFUSE_TWIN_SEL_CHECK;                                                                                      \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Select({::autofuse_twin::Op::Select, dt, dt, &dst.View(), &src0.View(), &src1.View(), 0, 0,  \
                                 &rep}, &selMask.View(), static_cast<int>(selMode));                                  \
    }                                                                                                                 \
    template <typename T, typename U, bool isSetMask = true>                                                          \
    inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, T src1,  \
                       SELMODE selMode, MaskType mask, uint8_t repeatTime, const BinaryRepeatParams& repeatParams     \
                           AUTOFUSE_TWIN_HERE) {                                                                      \
        AUTOFUSE_TWIN_SEL_CHECK;                                                                                      \
        const auto rep = ::autofuse_twin::MakeRep(::autofuse_twin::MaskOf<isSetMask>(mask), repeatTime, repeatParams); \
        ::autofuse_twin::Select({::autofuse_twin::Op::Select, dt, dt, &dst.View(), &src0.View(), nullptr,             \
                                 ::autofuse_twin::Bits(src1), 0, &rep}, &selMask.View(), static_cast<int>(selMode));  \
    }
AUTOFUSE_TWIN_SELECT_REP(const uint64_t*)
AUTOFUSE_TWIN_SELECT_REP(uint64_t)
template <typename T, SELMODE selMode>
inline void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                   uint8_t repeatTime, const BinaryRepeatParams& repeatParams AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_SEL_CHECK;
    static_assert(selMode == SELMODE::VSEL_CMPMASK_SPR, "Select with the compare-mask register: mode VSEL_CMPMASK_SPR");
    const auto rep = ::autofuse_twin::MakeRep({0, 0, ::autofuse_twin::Rep::kRegister}, repeatTime, repeatParams);
    ::autofuse_twin::Select({::autofuse_twin::Op::Select, dt, dt, &dst.View(), &src0.View(), &src1.View(), 0, 0, &rep},
                            nullptr, static_cast<int>(selMode));
}

#undef AUTOFUSE_TWIN_CMP_CHECK
#undef AUTOFUSE_TWIN_BITS_CHECK
#undef AUTOFUSE_TWIN_COMPARE_REP
#undef AUTOFUSE_TWIN_COMPARES
#undef AUTOFUSE_TWIN_COMPARES_REP
#undef AUTOFUSE_TWIN_SEL_CHECK
#undef AUTOFUSE_TWIN_SELECT_REP

}  // namespace AscendC

#endif
