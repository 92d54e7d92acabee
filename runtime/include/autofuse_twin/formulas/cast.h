// Conversions of one number with the documented rounding modes. Included like bits.h, after it.

enum Mode { kNone, kRint, kFloor, kCeil, kRound, kTrunc, kOdd };

// Rounds to an integral value in float without relying on the rounding-mode register.
template <int M> AUTOFUSE_FORMULA float Integral(float x) {
    const uint32_t sign = BitCast<uint32_t>(x) & 0x80000000u;
    const float mag = BitCast<float>(BitCast<uint32_t>(x) & 0x7fffffffu);
    const float even = (mag + 8388608.0f) - 8388608.0f;
    float r = even;
    if constexpr (M == kTrunc || M == kRound) {
        const float down = even > mag ? even - 1.0f : even;
        r = M == kRound && mag - down >= 0.5f ? down + 1.0f : down;
    }
    if constexpr (M == kFloor || M == kCeil) {
        const bool away = (M == kCeil) == (sign == 0);  // larger magnitude
        const float up = even < mag ? even + 1.0f : even;
        const float down = even > mag ? even - 1.0f : even;
        r = away ? up : down;
    }
    // From 2^23 on every float is integral (infinities and NaN included).
    const float value = mag < 8388608.0f ? r : mag;
    return BitCast<float>(BitCast<uint32_t>(value) | sign);
}

template <typename D> AUTOFUSE_FORMULA D Saturate(float x) {
    constexpr bool narrow = sizeof(D) < 4;
    constexpr float hi_open = static_cast<float>(uint64_t{1} << std::numeric_limits<D>::digits);
    constexpr float lo = std::is_signed<D>::value ? -hi_open : 0.0f;
    // The largest float below the limit; 2^-24 * limit is its distance for the wide types.
    constexpr float hi = narrow ? hi_open - 1.0f : hi_open - hi_open / 16777216.0f;
    const float safe = x != x ? 0.0f : x;
    const float low = safe < lo ? lo : safe;
    const float clamped = low > hi ? hi : low;
    const auto value = static_cast<typename std::conditional<narrow, int32_t, D>::type>(clamped);
    return x >= hi_open ? std::numeric_limits<D>::max() : static_cast<D>(value);
}

// Increment decision for a truncated magnitude: `rest` of `unit` was cut off.
AUTOFUSE_FORMULA uint32_t RoundUp(int mode, bool negative, uint32_t kept, uint64_t rest, uint64_t unit) {
    const uint64_t tie = unit >> 1;
    switch (mode) {
        case kFloor: return negative && rest != 0;
        case kCeil: return !negative && rest != 0;
        case kRound: return rest >= tie && rest != 0;
        case kTrunc: return 0;
        case kOdd: return rest != 0 && (kept & 1u) == 0;
        default: return rest > tie || (rest == tie && rest != 0 && (kept & 1u) != 0);
    }
}

AUTOFUSE_FORMULA uint16_t FloatToHalfMode(float v, int mode) {
    const uint32_t bits = BitCast<uint32_t>(v);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((mag >> 13) & 0x3ffu));
    if (mag == 0x7f800000u) return static_cast<uint16_t>(sign | 0x7c00u);
    const bool negative = sign != 0;
    if (mag >= 0x47800000u) {
        // Beyond the largest half: a directed mode that rounds towards zero stays at 65504.
        const bool stay = mode == kTrunc || mode == kOdd || (mode == kFloor && !negative) || (mode == kCeil && negative);
        return static_cast<uint16_t>(sign | (stay ? 0x7bffu : 0x7c00u));
    }
    const uint32_t exponent = mag >> 23;
    if (exponent >= 113) {
        const uint32_t kept = (mag - 0x38000000u) >> 13;
        return static_cast<uint16_t>(sign | (kept + RoundUp(mode, negative, kept, mag & 0x1fffu, 0x2000u)));
    }
    const uint32_t mantissa = exponent == 0 ? mag : ((mag & 0x7fffffu) | 0x800000u);
    const uint32_t shift = exponent < 87 ? 40u : 126u - exponent;
    const uint64_t unit = 1ull << shift;
    const uint32_t kept = static_cast<uint32_t>(static_cast<uint64_t>(mantissa) >> shift);
    return static_cast<uint16_t>(sign | (kept + RoundUp(mode, negative, kept, mantissa & (unit - 1), unit)));
}

AUTOFUSE_FORMULA uint16_t FloatToBf16Mode(float v, int mode) {
    const uint32_t bits = BitCast<uint32_t>(v);
    const uint32_t mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
    if (mag == 0x7f800000u) return static_cast<uint16_t>(bits >> 16);
    const uint32_t kept = mag >> 16;
    const bool negative = (bits >> 31) != 0;
    return static_cast<uint16_t>((bits >> 31) << 15 | (kept + RoundUp(mode, negative, kept, mag & 0xffffu, 0x10000u)));
}

AUTOFUSE_FORMULA float IntToFloatMode(int64_t v, int mode) {
    const bool negative = v < 0;
    const uint64_t mag = negative ? 0u - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
#if defined(__CUDA_ARCH__)
    const int bits = 64 - __clzll(static_cast<long long>(mag));
#else
    const int bits = mag == 0 ? 0 : 64 - __builtin_clzll(mag);
#endif
    const int shift = bits > 24 ? bits - 24 : 0;
    const uint32_t kept = static_cast<uint32_t>(mag >> shift);
    const uint64_t unit = 1ull << shift;
    const uint32_t rounded = kept + RoundUp(mode, negative, kept, mag & (unit - 1), unit);
    const float value = static_cast<float>(rounded) * BitCast<float>(static_cast<uint32_t>(127 + shift) << 23);
    return negative ? -value : value;
}
