// Scalar types and language macros of the Ascend C kernel language, for a host compiler.
//
// On the chip `half` and `bfloat16_t` are built-in types of the device compiler; here they are two-byte
// classes in the global namespace. Both convert from float with round-to-nearest-even and to float exactly.
// Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_TYPES_H
#define AUTOFUSE_TWIN_TYPES_H

#include <cstddef>
#include <cstdint>

#ifndef __aicore__
#ifdef AUTOFUSE_TWIN_CALLS
#define __aicore__ __attribute__((transaction_unsafe))
#else
#define __aicore__
#endif
#endif
#ifndef __global__
#define __global__
#endif
#ifndef __gm__
#define __gm__
#endif
#ifndef __ubuf__
#define __ubuf__
#endif
#ifndef __vector__
#define __vector__
#endif
#ifndef __cube__
#define __cube__
#endif
#ifndef __mix__
#define __mix__(aic, aiv)
#endif
#ifndef GM_ADDR
#define GM_ADDR __gm__ uint8_t*
#endif

// Only vector (AIV) cores are modelled.
#ifndef ASCEND_IS_AIV
#define ASCEND_IS_AIV (true)
#endif
#ifndef ASCEND_IS_AIC
#define ASCEND_IS_AIC (false)
#endif

namespace autofuse_twin {

constexpr uint32_t FloatBits(float v) { return __builtin_bit_cast(uint32_t, v); }
constexpr float BitsFloat(uint32_t v) { return __builtin_bit_cast(float, v); }

// float -> IEEE binary16, ties to even; NaN keeps its upper payload bits and becomes quiet.
constexpr uint16_t FloatToHalfBits(float value) {
    const uint32_t bits = FloatBits(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) {
        return static_cast<uint16_t>(sign | 0x7e00u | ((mag >> 13) & 0x3ffu));
    }
    if (mag >= 0x47800000u) {
        return static_cast<uint16_t>(sign | 0x7c00u);
    }
    if (mag >= 0x38800000u) {
        const uint32_t shifted = mag - 0x38000000u;
        return static_cast<uint16_t>(sign | ((shifted + 0xfffu + ((shifted >> 13) & 1u)) >> 13));
    }
    const uint32_t exponent = mag >> 23;
    if (exponent < 102u) {
        return static_cast<uint16_t>(sign);
    }
    const uint32_t mantissa = (mag & 0x7fffffu) | 0x800000u;
    const uint32_t shift = 126u - exponent;
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1u);
    const uint32_t tie = 1u << (shift - 1u);
    const uint32_t up = (rest > tie || (rest == tie && (kept & 1u) != 0u)) ? 1u : 0u;
    return static_cast<uint16_t>(sign | (kept + up));
}

constexpr float HalfBitsToFloat(uint16_t value) {
    const uint32_t sign = (static_cast<uint32_t>(value) & 0x8000u) << 16;
    const uint32_t mag = value & 0x7fffu;
    if (mag >= 0x7c00u) {
        return BitsFloat(sign | 0x7f800000u | ((mag & 0x3ffu) << 13) | (mag > 0x7c00u ? 0x400000u : 0u));
    }
    if (mag >= 0x400u) {
        return BitsFloat(sign | ((mag << 13) + 0x38000000u));
    }
    // Zero and denormals: mag units of 2^-24, exact in float.
    return BitsFloat(sign | FloatBits(static_cast<float>(mag) * 5.9604644775390625e-8f));
}

constexpr uint16_t FloatToBf16Bits(float value) {
    const uint32_t bits = FloatBits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return static_cast<uint16_t>((bits >> 16) | 0x40u);
    }
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float Bf16BitsToFloat(uint16_t value) { return BitsFloat(static_cast<uint32_t>(value) << 16); }

}  // namespace autofuse_twin

// Arithmetic on both classes happens in float through the conversion operator, as C++ promotion would do it.
#define AUTOFUSE_TWIN_FLOAT16(Name, FromFloat, ToFloat)                                            \
    class Name {                                                                                   \
    public:                                                                                        \
        Name() = default;                                                                          \
        constexpr Name(float v) : bits_(::autofuse_twin::FromFloat(v)) {}                          \
        constexpr Name(double v) : Name(static_cast<float>(v)) {}                                  \
        constexpr Name(bool v) : Name(v ? 1.0f : 0.0f) {}                                          \
        constexpr Name(int v) : Name(static_cast<float>(v)) {}                                     \
        constexpr Name(unsigned v) : Name(static_cast<float>(v)) {}                                \
        constexpr Name(long v) : Name(static_cast<float>(v)) {}                                    \
        constexpr Name(unsigned long v) : Name(static_cast<float>(v)) {}                           \
        constexpr Name(long long v) : Name(static_cast<float>(v)) {}                               \
        constexpr Name(unsigned long long v) : Name(static_cast<float>(v)) {}                      \
        constexpr operator float() const { return ::autofuse_twin::ToFloat(bits_); }               \
        static constexpr Name FromBits(uint16_t bits) {                                            \
            Name out(0.0f);                                                                        \
            out.bits_ = bits;                                                                      \
            return out;                                                                            \
        }                                                                                          \
        constexpr uint16_t Bits() const { return bits_; }                                          \
        constexpr Name& operator+=(Name o) { return *this = Name(float(*this) + float(o)); }       \
        constexpr Name& operator-=(Name o) { return *this = Name(float(*this) - float(o)); }       \
        constexpr Name& operator*=(Name o) { return *this = Name(float(*this) * float(o)); }       \
        constexpr Name& operator/=(Name o) { return *this = Name(float(*this) / float(o)); }       \
                                                                                                   \
    private:                                                                                       \
        uint16_t bits_;                                                                            \
    }

AUTOFUSE_TWIN_FLOAT16(half, FloatToHalfBits, HalfBitsToFloat);
AUTOFUSE_TWIN_FLOAT16(bfloat16_t, FloatToBf16Bits, Bf16BitsToFloat);
#undef AUTOFUSE_TWIN_FLOAT16

static_assert(sizeof(half) == 2 && sizeof(bfloat16_t) == 2, "16-bit types must be two bytes");

#endif
