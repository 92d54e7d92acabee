// Conversions with the documented rounding modes. Included by impl.h inside its anonymous namespace.
// imm is the RoundMode. Two stages: source -> float chunk -> destination; int32/int64 sources have direct routes.

#include "autofuse_twin/formulas/cast.h"

template <typename D, int M> void FloatToInt(const float* x, D* d, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        d[i] = Saturate<D>(Integral<M>(x[i]));
    }
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
