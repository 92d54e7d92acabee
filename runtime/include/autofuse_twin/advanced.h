// High-level math functions with an explicit temporary buffer: dst, src and the buffer must not overlap, and the
// buffer must have at least the documented minimum size. Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_ADVANCED_H
#define AUTOFUSE_TWIN_ADVANCED_H

#include "tensor.h"

namespace AscendC {

#define AUTOFUSE_TWIN_MATH_CHECK(Name)                                                            \
    static_assert(::autofuse_twin::kOneOf<T, half, float>, Name ": A2 supports half, float");     \
    constexpr auto dt = ::autofuse_twin::DtOf<T>::value

#define AUTOFUSE_TWIN_MATH(Name)                                                                                    \
    template <typename T, bool isReuseSource = false>                                                               \
    inline void Name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                              \
                     const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t calCount AUTOFUSE_TWIN_HERE) {       \
        AUTOFUSE_TWIN_MATH_CHECK(#Name);                                                                            \
        ::autofuse_twin::Advanced({::autofuse_twin::Op::Name, dt, dt, &dstTensor.View(), &srcTensor.View(), nullptr, \
                                   isReuseSource, calCount, nullptr}, &sharedTmpBuffer.View());                     \
    }                                                                                                               \
    template <typename T, bool isReuseSource = false>                                                               \
    inline void Name(const LocalTensor<T>& dstTensor, const LocalTensor<T>& srcTensor,                              \
                     const LocalTensor<uint8_t>& sharedTmpBuffer AUTOFUSE_TWIN_HERE) {                                \
        Name<T, isReuseSource>(dstTensor, srcTensor, sharedTmpBuffer, srcTensor.GetSize());                         \
    }

AUTOFUSE_TWIN_MATH(Sigmoid)
AUTOFUSE_TWIN_MATH(Tanh)
AUTOFUSE_TWIN_MATH(Erf)
AUTOFUSE_TWIN_MATH(Sin)
AUTOFUSE_TWIN_MATH(Cos)

#define AUTOFUSE_TWIN_POWER_CHECK                                                                                    \
    static_assert(::autofuse_twin::kOneOf<T, half, float, int32_t>, "Power: A2 supports half, float, int32_t");      \
    constexpr auto dt = ::autofuse_twin::DtOf<T>::value

template <typename T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor, const LocalTensor<T>& src1Tensor,
                  const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_POWER_CHECK;
    ::autofuse_twin::Advanced({::autofuse_twin::Op::Power, dt, dt, &dstTensor.View(), &src0Tensor.View(),
                               &src1Tensor.View(), 0, calCount, nullptr}, &sharedTmpBuffer.View());
}
template <typename T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dstTensor, const LocalTensor<T>& src0Tensor, const T& src1Scalar,
                  const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_POWER_CHECK;
    ::autofuse_twin::Advanced({::autofuse_twin::Op::PowerTensorScalar, dt, dt, &dstTensor.View(), &src0Tensor.View(),
                               nullptr, ::autofuse_twin::Bits(src1Scalar), calCount, nullptr}, &sharedTmpBuffer.View());
}
template <typename T, bool isReuseSource = false>
inline void Power(const LocalTensor<T>& dstTensor, const T& src0Scalar, const LocalTensor<T>& src1Tensor,
                  const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_POWER_CHECK;
    ::autofuse_twin::Advanced({::autofuse_twin::Op::PowerScalarTensor, dt, dt, &dstTensor.View(), &src1Tensor.View(),
                               nullptr, ::autofuse_twin::Bits(src0Scalar), calCount, nullptr}, &sharedTmpBuffer.View());
}

template <typename T, bool isReuseSource = false>
inline void Silu(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal, uint32_t dataSize AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_MATH_CHECK("Silu");
    ::autofuse_twin::Advanced({::autofuse_twin::Op::Silu, dt, dt, &dstLocal.View(), &srcLocal.View(), nullptr, 0,
                               dataSize, nullptr}, nullptr);
}
template <typename T, bool highPrecision = false, bool highPerformance = false>
inline void Gelu(const LocalTensor<T>& dstLocal, const LocalTensor<T>& srcLocal,
                 const LocalTensor<uint8_t>& sharedTmpBuffer, const uint32_t dataSize AUTOFUSE_TWIN_HERE) {
    AUTOFUSE_TWIN_MATH_CHECK("Gelu");
    ::autofuse_twin::Advanced({::autofuse_twin::Op::Gelu, dt, dt, &dstLocal.View(), &srcLocal.View(), nullptr, 0,
                               dataSize, nullptr}, &sharedTmpBuffer.View());
}

#undef AUTOFUSE_TWIN_MATH_CHECK
#undef AUTOFUSE_TWIN_MATH
#undef AUTOFUSE_TWIN_POWER_CHECK

}  // namespace AscendC

#endif
