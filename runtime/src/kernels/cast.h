// Conversions with the documented rounding modes. Included by impl.h inside its anonymous namespace.
// imm is the RoundMode. Two stages: source -> float chunk -> destination; int32/int64 sources have direct routes.

enum Mode { kNone, kRint, kFloor, kCeil, kRound, kTrunc, kOdd };

// Round to an integral value in float without relying on the rounding-mode register.
template <int M> inline float Integral(float x) {
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
    // From 2^23 on every float is integral (also infinities and NaN).
    const float value = mag < 8388608.0f ? r : mag;
    return BitCast<float>(BitCast<uint32_t>(value) | sign);
}

template <typename D> inline D Saturate(float x) {
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

template <typename D, int M> void FloatToInt(const float* x, D* d, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        d[i] = Saturate<D>(Integral<M>(x[i]));
    }
}

// Increment decision for a truncated magnitude: `rest` of `unit` was cut off.
inline uint32_t RoundUp(int mode, bool negative, uint32_t kept, uint64_t rest, uint64_t unit) {
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

inline uint16_t FloatToHalfMode(float v, int mode) {
    const uint32_t bits = BitCast<uint32_t>(v);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((mag >> 13) & 0x3ffu));
    if (mag == 0x7f800000u) return static_cast<uint16_t>(sign | 0x7c00u);
    const bool negative = sign != 0;
    if (mag >= 0x47800000u) {
        // Beyond the largest half: a directed mode that points back stays at 65504.
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

inline uint16_t FloatToBf16Mode(float v, int mode) {
    const uint32_t bits = BitCast<uint32_t>(v);
    const uint32_t mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
    if (mag == 0x7f800000u) return static_cast<uint16_t>(bits >> 16);
    const uint32_t kept = mag >> 16;
    const bool negative = (bits >> 31) != 0;
    return static_cast<uint16_t>((bits >> 31) << 15 | (kept + RoundUp(mode, negative, kept, mag & 0xffffu, 0x10000u)));
}

inline float IntToFloatMode(int64_t v, int mode) {
    const bool negative = v < 0;
    const uint64_t mag = negative ? 0u - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
    const int bits = mag == 0 ? 0 : 64 - __builtin_clzll(mag);
    const int shift = bits > 24 ? bits - 24 : 0;
    const uint32_t kept = static_cast<uint32_t>(mag >> shift);
    const uint64_t unit = 1ull << shift;
    const uint32_t rounded = kept + RoundUp(mode, negative, kept, mag & (unit - 1), unit);
    const float value = static_cast<float>(rounded) * BitCast<float>(static_cast<uint32_t>(127 + shift) << 23);
    return negative ? -value : value;
}

template <typename S> void ToFloat(const void* src, float* x, size_t n) {
    const S* s = static_cast<const S*>(src);
    for (size_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(s[i]);
    }
}

void LoadAsFloat(Dt dt, const void* src, float* x, size_t n, int mode) {
    switch (dt) {
        case Dt::F16: return HalfToFloat(static_cast<const uint16_t*>(src), x, n);
        case Dt::BF16: return Bf16ToFloat(static_cast<const uint16_t*>(src), x, n);
        case Dt::I8: return ToFloat<int8_t>(src, x, n);
        case Dt::U8: return ToFloat<uint8_t>(src, x, n);
        case Dt::I16: return ToFloat<int16_t>(src, x, n);
        case Dt::I32:
            if (mode == kNone || mode == kRint) return ToFloat<int32_t>(src, x, n);
            for (size_t i = 0; i < n; ++i) x[i] = IntToFloatMode(static_cast<const int32_t*>(src)[i], mode);
            return;
        case Dt::I64:
            for (size_t i = 0; i < n; ++i) x[i] = IntToFloatMode(static_cast<const int64_t*>(src)[i], mode);
            return;
        default: __builtin_memcpy(x, src, n * sizeof(float)); return;
    }
}

template <typename D> void StoreInt(const float* x, void* dst, size_t n, int mode) {
    D* d = static_cast<D*>(dst);
    switch (mode) {
        case kFloor: return FloatToInt<D, kFloor>(x, d, n);
        case kCeil: return FloatToInt<D, kCeil>(x, d, n);
        case kRound: return FloatToInt<D, kRound>(x, d, n);
        case kTrunc: return FloatToInt<D, kTrunc>(x, d, n);
        default: return FloatToInt<D, kRint>(x, d, n);
    }
}

template <int M> void IntegralLoop(const float* x, float* d, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        d[i] = Integral<M>(x[i]);
    }
}

void StoreFromFloat(Dt dt, Dt src, const float* x, void* dst, size_t n, int mode) {
    switch (dt) {
        case Dt::F16:
            if (mode == kNone || mode == kRint) return FloatToHalf(x, static_cast<uint16_t*>(dst), n);
            for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[i] = FloatToHalfMode(x[i], mode);
            return;
        case Dt::BF16:
            if (mode == kNone || mode == kRint) {
                for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[i] = FloatToBf16Even(x[i]);
                return;
            }
            for (size_t i = 0; i < n; ++i) static_cast<uint16_t*>(dst)[i] = FloatToBf16Mode(x[i], mode);
            return;
        case Dt::I8: return StoreInt<int8_t>(x, dst, n, mode);
        case Dt::U8: return StoreInt<uint8_t>(x, dst, n, mode);
        case Dt::I16: return StoreInt<int16_t>(x, dst, n, mode);
        case Dt::I32: return StoreInt<int32_t>(x, dst, n, mode);
        case Dt::I64: return StoreInt<int64_t>(x, dst, n, mode);
        default: {
            float* d = static_cast<float*>(dst);
            if (src != Dt::F32) {
                __builtin_memcpy(d, x, n * sizeof(float));
                return;
            }
            switch (mode) {
                case kFloor: return IntegralLoop<kFloor>(x, d, n);
                case kCeil: return IntegralLoop<kCeil>(x, d, n);
                case kRound: return IntegralLoop<kRound>(x, d, n);
                case kTrunc: return IntegralLoop<kTrunc>(x, d, n);
                default: return IntegralLoop<kRint>(x, d, n);
            }
        }
    }
}

template <Dt D, Dt S>
void RunCast(void* dst, const void* src, const void*, uint64_t imm, size_t n) {
    alignas(64) float x[kChunk];
    const int mode = static_cast<int>(imm);
    for (size_t i = 0; i < n; i += kChunk) {
        const size_t m = n - i < kChunk ? n - i : kChunk;
        LoadAsFloat(S, static_cast<const uint8_t*>(src) + i * SizeOf(S), x, m, mode);
        StoreFromFloat(D, S, x, static_cast<uint8_t*>(dst) + i * SizeOf(D), m, mode);
    }
}

// Exact widening or saturating narrowing between integers.
template <typename D, typename S>
void RunIntCast(void* dst, const void* src, const void*, uint64_t, size_t n) {
    D* d = static_cast<D*>(dst);
    const S* s = static_cast<const S*>(src);
    for (size_t i = 0; i < n; ++i) {
        if constexpr (sizeof(D) < sizeof(S)) {
            const S lo = static_cast<S>(std::numeric_limits<D>::min());
            const S hi = static_cast<S>(std::numeric_limits<D>::max());
            d[i] = static_cast<D>(s[i] < lo ? lo : (s[i] > hi ? hi : s[i]));
        } else {
            d[i] = static_cast<D>(s[i]);
        }
    }
}

ElementFn PickCast(Dt dst, Dt src) {
#define CAST_CASE(D, S) if (dst == Dt::D && src == Dt::S) return RunCast<Dt::D, Dt::S>;
    CAST_CASE(F16, I8) CAST_CASE(F16, U8) CAST_CASE(F16, I16) CAST_CASE(F32, I16)
    CAST_CASE(I8, F16) CAST_CASE(U8, F16) CAST_CASE(I16, F16) CAST_CASE(I32, F16) CAST_CASE(F32, F16)
    CAST_CASE(I32, BF16) CAST_CASE(F32, BF16) CAST_CASE(F32, I32) CAST_CASE(F32, I64)
    CAST_CASE(I16, F32) CAST_CASE(F16, F32) CAST_CASE(BF16, F32) CAST_CASE(I32, F32) CAST_CASE(F32, F32)
    CAST_CASE(I64, F32) CAST_CASE(BF16, F16) CAST_CASE(F16, BF16)
#undef CAST_CASE
    if (dst == Dt::I16 && src == Dt::I32) return RunIntCast<int16_t, int32_t>;
    if (dst == Dt::I64 && src == Dt::I32) return RunIntCast<int64_t, int32_t>;
    if (dst == Dt::I32 && src == Dt::I64) return RunIntCast<int32_t, int64_t>;
    return nullptr;
}
