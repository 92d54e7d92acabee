// Bit patterns of numbers, and conversions between float and the 16-bit floats. Included inside the user's namespace,
// so that no function is shared between instruction sets, or between a CPU and a card. AUTOFUSE_FORMULA: function
// prefix.
#ifndef AUTOFUSE_FORMULA
#define AUTOFUSE_FORMULA inline
#endif

template <typename To, typename From> AUTOFUSE_FORMULA To BitCast(From v) { return __builtin_bit_cast(To, v); }

AUTOFUSE_FORMULA float HalfToFloat1(uint16_t h) {
    const uint32_t sign = (h & 0x8000u) << 16;
    const uint32_t mag = h & 0x7fffu;
    const uint32_t special = 0x7f800000u | (mag & 0x3ffu) << 13 | (mag > 0x7c00u ? 0x400000u : 0u);
    const uint32_t normal = (mag << 13) + 0x38000000u;
    const uint32_t tiny = BitCast<uint32_t>(static_cast<float>(static_cast<int32_t>(mag)) * 5.9604644775390625e-8f);
    return BitCast<float>(sign | (mag >= 0x7c00u ? special : mag >= 0x400u ? normal : tiny));
}

AUTOFUSE_FORMULA uint16_t FloatToHalf1(float v) {
    const uint32_t bits = BitCast<uint32_t>(v);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t mag = bits & 0x7fffffffu;
    const uint32_t nan = 0x7e00u | ((mag >> 13) & 0x3ffu);
    const uint32_t shifted = mag - 0x38000000u;
    const uint32_t normal = (shifted + 0xfffu + ((shifted >> 13) & 1u)) >> 13;
    // Adding 0.5 aligns units of 2^-24 with the last mantissa bit, so the float adder does the rounding.
    const uint32_t tiny = BitCast<uint32_t>(BitCast<float>(mag) + 0.5f) - 0x3f000000u;
    const uint32_t finite = mag < 0x38800000u ? tiny : normal;
    return static_cast<uint16_t>(sign | (mag > 0x7f800000u ? nan : mag >= 0x47800000u ? 0x7c00u : finite));
}

AUTOFUSE_FORMULA uint16_t FloatToBf16Even(float v) {
    const uint32_t bits = BitCast<uint32_t>(v);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}
