// Body of base.cpp, avx2.cpp and avx512.cpp: float, integer and 16-bit float loops that the compiler vectorises.
// Included inside an anonymous namespace so that no function is shared between instruction sets.
//
// 16-bit floats are widened to float in chunks, computed, and rounded once per operation.

// Promises that the iterations of the next loop do not depend on each other (a result may replace its source).
#if defined(__clang__)
#define TWIN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TWIN_INDEPENDENT _Pragma("GCC ivdep")
#endif

#include "kernels/half.h"

// ---- element functions in float ----

#include "autofuse_twin/formulas/math.h"

#include "autofuse_twin/formulas/operations.h"

// A function with a cheaper form for numbers in a plain range: Key(bits) < kLimit there, and g(x) equals f(x).
template <typename O> struct Plain {
    static constexpr bool kExists = false;
};
template <> struct Plain<ExpF> {
    static constexpr bool kExists = true;
    static constexpr uint32_t kLimit = 0x42ae0001u;  // up to 87 in magnitude
    static inline uint32_t Key(uint32_t bits) { return bits & 0x7fffffffu; }
    static inline float g(float x) { return ExpPlain(x); }
};
template <> struct Plain<LnF> {
    static constexpr bool kExists = true;
    static constexpr uint32_t kLimit = 0x7f000000u;  // positive, normal and finite
    static inline uint32_t Key(uint32_t bits) { return bits - 0x00800000u; }
    static inline float g(float x) { return LogPlain(x); }
};

// Numbers are mostly in the plain range, so one check of a chunk lets all of it take the short way.
template <typename O>
void PlainLoop(float* d, const float* a, size_t n) {
    for (size_t i = 0; i < n; i += kChunk) {
        const size_t m = n - i < kChunk ? n - i : kChunk;
        const float* x = a + i;
        float* y = d + i;
        uint32_t largest = 0;
        for (size_t k = 0; k < m; ++k) {
            const uint32_t key = Plain<O>::Key(BitCast<uint32_t>(x[k]));
            largest = key > largest ? key : largest;
        }
        if (largest < Plain<O>::kLimit) {
            TWIN_INDEPENDENT
            for (size_t k = 0; k < m; ++k) {
                y[k] = Plain<O>::g(x[k]);
            }
        } else {
            TWIN_INDEPENDENT
            for (size_t k = 0; k < m; ++k) {
                y[k] = O::f(x[k], 0.0f, 0.0f, 0.0f);
            }
        }
    }
}

// d == a or d == b is common (in place), so the loops promise the compiler that iterations are independent.
template <typename O>
void FloatLoop(float* d, const float* a, const float* b, float s, size_t n) {
    if constexpr (Plain<O>::kExists) {
        PlainLoop<O>(d, a, n);
    } else if constexpr (O::kSources == 2) {
        TWIN_INDEPENDENT
        for (size_t i = 0; i < n; ++i) {
            d[i] = O::f(a[i], b[i], O::kReadsDst ? d[i] : 0.0f, s);
        }
    } else {
        TWIN_INDEPENDENT
        for (size_t i = 0; i < n; ++i) {
            d[i] = O::f(a[i], 0.0f, O::kReadsDst ? d[i] : 0.0f, s);
        }
    }
}

template <typename O>
void RunF32(void* d, const void* a, const void* b, uint64_t imm, size_t n) {
    FloatLoop<O>(static_cast<float*>(d), static_cast<const float*>(a), static_cast<const float*>(b),
                 BitCast<float>(static_cast<uint32_t>(imm)), n);
}

template <typename O>
void RunF16(void* d, const void* a, const void* b, uint64_t imm, size_t n) {
    alignas(64) float x[kChunk];
    alignas(64) float y[kChunk];
    alignas(64) float old[kChunk];
    float* z = O::kReadsDst ? old : x;
    const float s = HalfToFloat1(static_cast<uint16_t>(imm));
    for (size_t i = 0; i < n; i += kChunk) {
        const size_t m = n - i < kChunk ? n - i : kChunk;
        HalfToFloat(static_cast<const uint16_t*>(a) + i, x, m);
        if constexpr (O::kSources == 2) {
            HalfToFloat(static_cast<const uint16_t*>(b) + i, y, m);
        }
        if constexpr (O::kReadsDst) {
            HalfToFloat(static_cast<const uint16_t*>(d) + i, z, m);
        }
        FloatLoop<O>(z, x, y, s, m);
        FloatToHalf(z, static_cast<uint16_t*>(d) + i, m);
    }
}

// Half sources accumulated into a float destination.
template <typename O>
void RunF16ToF32(void* d, const void* a, const void* b, uint64_t imm, size_t n) {
    alignas(64) float x[kChunk];
    alignas(64) float y[kChunk];
    const float s = HalfToFloat1(static_cast<uint16_t>(imm));
    for (size_t i = 0; i < n; i += kChunk) {
        const size_t m = n - i < kChunk ? n - i : kChunk;
        HalfToFloat(static_cast<const uint16_t*>(a) + i, x, m);
        if constexpr (O::kSources == 2) {
            HalfToFloat(static_cast<const uint16_t*>(b) + i, y, m);
        }
        FloatLoop<O>(static_cast<float*>(d) + i, x, y, s, m);
    }
}

// bfloat16 computes in float and rounds once, as half does.
template <typename O>
void RunBF16(void* d, const void* a, const void* b, uint64_t imm, size_t n) {
    alignas(64) float x[kChunk];
    alignas(64) float y[kChunk];
    const float s = BitCast<float>(static_cast<uint32_t>(imm) << 16);
    for (size_t i = 0; i < n; i += kChunk) {
        const size_t m = n - i < kChunk ? n - i : kChunk;
        Bf16ToFloat(static_cast<const uint16_t*>(a) + i, x, m);
        if constexpr (O::kSources == 2) {
            Bf16ToFloat(static_cast<const uint16_t*>(b) + i, y, m);
        }
        FloatLoop<O>(x, x, y, s, m);
        for (size_t k = 0; k < m; ++k) {
            static_cast<uint16_t*>(d)[i + k] = FloatToBf16Even(x[k]);
        }
    }
}

// ---- integers ----

template <typename O, typename T>
void RunInt(void* dv, const void* av, const void* bv, uint64_t imm, size_t n) {
    T* d = static_cast<T*>(dv);
    const T* a = static_cast<const T*>(av);
    const T* b = static_cast<const T*>(bv);
    const T s = static_cast<T>(imm);
    if constexpr (O::kSources == 2) {
        TWIN_INDEPENDENT
        for (size_t i = 0; i < n; ++i) {
            d[i] = O::template f<T>(a[i], b[i], s);
        }
    } else {
        TWIN_INDEPENDENT
        for (size_t i = 0; i < n; ++i) {
            d[i] = O::template f<T>(a[i], T(0), s);
        }
    }
}

template <typename T>
void RunCopy(void* d, const void* a, const void*, uint64_t, size_t n) {
    __builtin_memmove(d, a, n * sizeof(T));
}
template <typename T>
void RunFill(void* dv, const void*, const void*, uint64_t imm, size_t n) {
    T* d = static_cast<T*>(dv);
    const T v = static_cast<T>(imm);
    for (size_t i = 0; i < n; ++i) {
        d[i] = v;
    }
}

#include "kernels/cast.h"
#include "kernels/copy.h"

// ---- a * b + c with one rounding ----

// The product of two floats is exact in double. The rounding error of the addition decides the last bit, so that a
// later rounding to fewer bits is correct.
inline double FusedOdd(float a, float b, float c) {
    const double p = static_cast<double>(a) * static_cast<double>(b);
    const double q = c;
    // The compiler chooses which NaN a sum or a product returns.
    const double s = a != a ? a : b != b ? b : c != c ? c : p + q;
    const double t = s - p;
    const double lost = (p - (s - t)) + (q - t);
    const uint64_t bits = BitCast<uint64_t>(s);
    // If the last bit is even, move towards the lost part: one step of the magnitude up or down.
    const bool adjust = (lost > 0.0 || lost < 0.0) && (bits & 1u) == 0;
    const bool up = (lost > 0.0) == (s > 0.0);
    return adjust ? BitCast<double>(up ? bits + 1 : bits - 1) : s;
}
// Rounding to a float with an odd last bit.
inline float OddFloat(double v) {
    const float f = static_cast<float>(v);
    const uint32_t bits = BitCast<uint32_t>(f);
    const bool exact = static_cast<double>(f) == v || !(v - v == 0.0);
    if (exact || (bits & 1u) != 0) {
        return f;
    }
    if ((bits & 0x7fffffffu) == 0x7f800000u) {
        return BitCast<float>(bits - 1);  // finite, and larger than every float
    }
    const bool beyond = (v < 0.0 ? -v : v) > (f < 0.0f ? -static_cast<double>(f) : static_cast<double>(f));
    return BitCast<float>(beyond ? bits + 1 : bits - 1);
}

// d = d + a * b, or with kDst d = d * a + b.
template <bool kDst, Dt D>
void RunFused(void* dv, const void* av, const void* bv, uint64_t, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        if constexpr (D == Dt::F32) {
            float* d = static_cast<float*>(dv) + i;
            const float a = static_cast<const float*>(av)[i];
            const float b = static_cast<const float*>(bv)[i];
            *d = static_cast<float>(kDst ? FusedOdd(*d, a, b) : FusedOdd(a, b, *d));
        } else {
            const auto wide = [](uint16_t v) {
                return D == Dt::F16 ? HalfToFloat1(v) : BitCast<float>(static_cast<uint32_t>(v) << 16);
            };
            uint16_t* d = static_cast<uint16_t*>(dv) + i;
            const float a = wide(static_cast<const uint16_t*>(av)[i]);
            const float b = wide(static_cast<const uint16_t*>(bv)[i]);
            const float r = OddFloat(kDst ? FusedOdd(wide(*d), a, b) : FusedOdd(a, b, wide(*d)));
            *d = D == Dt::F16 ? FloatToHalf1(r) : FloatToBf16Even(r);
        }
    }
}
template <typename T>
void RunFusedInt(void* dv, const void* av, const void* bv, uint64_t, size_t n) {
    T* d = static_cast<T*>(dv);
    for (size_t i = 0; i < n; ++i) {
        const uint32_t p = static_cast<uint32_t>(static_cast<const T*>(av)[i]) * static_cast<uint32_t>(static_cast<const T*>(bv)[i]);
        d[i] = static_cast<T>(static_cast<uint32_t>(d[i]) + p);
    }
}
ElementFn PickFused(bool dst, Dt dt) {
    switch (dt) {
        case Dt::F32: return dst ? RunFused<true, Dt::F32> : RunFused<false, Dt::F32>;
        case Dt::F16: return dst ? RunFused<true, Dt::F16> : RunFused<false, Dt::F16>;
        case Dt::BF16: return dst ? RunFused<true, Dt::BF16> : RunFused<false, Dt::BF16>;
        case Dt::I16: return RunFusedInt<int16_t>;
        case Dt::U16: return RunFusedInt<uint16_t>;
        case Dt::I32: return RunFusedInt<int32_t>;
        case Dt::U32: return RunFusedInt<uint32_t>;
        default: return nullptr;
    }
}

// ---- compare and select ----

// Compares one chunk to bytes of 0/1; b may be null (scalar s).
template <int Mode, typename T>
void CompareChunk(uint8_t* flags, const T* a, const T* b, T s, size_t n) {
    if (b != nullptr) {
        for (size_t i = 0; i < n; ++i) flags[i] = Test<Mode>(a[i], b[i]);
    } else {
        for (size_t i = 0; i < n; ++i) flags[i] = Test<Mode>(a[i], s);
    }
}

template <typename T>
void CompareFlags(uint8_t* flags, const T* a, const T* b, T s, int mode, size_t n) {
    switch (mode) {
        case 0: return CompareChunk<0>(flags, a, b, s, n);
        case 1: return CompareChunk<1>(flags, a, b, s, n);
        case 2: return CompareChunk<2>(flags, a, b, s, n);
        case 3: return CompareChunk<3>(flags, a, b, s, n);
        case 4: return CompareChunk<4>(flags, a, b, s, n);
        default: return CompareChunk<5>(flags, a, b, s, n);
    }
}

void PackFlags(uint8_t* bits, uint8_t* flags, size_t n) {
    for (size_t i = n; i % 8 != 0; ++i) flags[i] = 0;
    for (size_t i = 0; i < n; i += 8) {
        uint8_t byte = 0;
        for (size_t k = 0; k < 8; ++k) byte = static_cast<uint8_t>(byte | flags[i + k] << k);
        bits[i / 8] = byte;
    }
}

template <typename T>
void RunCompare(uint8_t* bits, const void* a, const void* b, uint64_t imm, int mode, size_t n) {
    uint8_t flags[kChunk];
    T s;
    __builtin_memcpy(&s, &imm, sizeof(T));
    for (size_t i = 0; i < n; i += kChunk) {
        const size_t m = n - i < kChunk ? n - i : kChunk;
        CompareFlags(flags, static_cast<const T*>(a) + i, b == nullptr ? nullptr : static_cast<const T*>(b) + i, s, mode, m);
        PackFlags(bits + i / 8, flags, m);
    }
}

template <void (*Widen)(const uint16_t*, float*, size_t)>
void RunCompareF16(uint8_t* bits, const void* a, const void* b, uint64_t imm, int mode, size_t n) {
    uint8_t flags[kChunk];
    float x[kChunk];
    float y[kChunk];
    const uint16_t scalar = static_cast<uint16_t>(imm);
    float s = 0.0f;
    Widen(&scalar, &s, 1);
    for (size_t i = 0; i < n; i += kChunk) {
        const size_t m = n - i < kChunk ? n - i : kChunk;
        Widen(static_cast<const uint16_t*>(a) + i, x, m);
        if (b != nullptr) Widen(static_cast<const uint16_t*>(b) + i, y, m);
        CompareFlags(flags, x, b == nullptr ? nullptr : y, s, mode, m);
        PackFlags(bits + i / 8, flags, m);
    }
}

template <typename T>
void RunSelect(void* dv, const uint8_t* bits, const void* av, const void* bv, uint64_t imm, size_t n) {
    T* d = static_cast<T*>(dv);
    const T* a = static_cast<const T*>(av);
    const T* b = static_cast<const T*>(bv);
    const T s = static_cast<T>(imm);
    for (size_t i = 0; i < n; ++i) {
        const bool take = (bits[i >> 3] >> (i & 7u) & 1u) != 0;
        const T other = b == nullptr ? s : b[i];
        d[i] = take ? a[i] : other;
    }
}

// ---- lookup ----

template <typename O> ElementFn PickFloat(Dt dst, Dt src) {
    if (dst == Dt::F32) return src == Dt::F16 ? RunF16ToF32<O> : RunF32<O>;
    return dst == Dt::F16 ? RunF16<O> : nullptr;
}
template <typename O> ElementFn PickBrief(Dt dst, Dt src) { return dst == Dt::BF16 ? RunBF16<O> : PickFloat<O>(dst, src); }
template <typename O> ElementFn PickInt(Dt dt) {
    switch (dt) {
        case Dt::I16: return RunInt<O, int16_t>;
        case Dt::U16: return RunInt<O, uint16_t>;
        case Dt::I32: return RunInt<O, int32_t>;
        case Dt::U32: return RunInt<O, uint32_t>;
        default: return nullptr;
    }
}
// Operations of registers, on integers of every width.
template <typename O> ElementFn PickWidth(Dt dt) {
    switch (dt) {
        case Dt::I8: return RunInt<O, int8_t>;
        case Dt::U8: return RunInt<O, uint8_t>;
        case Dt::I64: return RunInt<O, int64_t>;
        case Dt::U64: return RunInt<O, uint64_t>;
        default: return PickInt<O>(dt);
    }
}
template <typename O> ElementFn PickPow(Dt dt) { return dt == Dt::I32 ? RunInt<O, int32_t> : nullptr; }

ElementFn PickElement(Op op, Dt dst, Dt src) {
    const bool is_float = dst == Dt::F32 || dst == Dt::F16 || dst == Dt::BF16;
    switch (op) {
#define FLOAT_CASE(Name) case Op::Name: return PickFloat<Name##F>(dst, src);
#define BOTH_CASE(Name) case Op::Name: return is_float ? PickFloat<Name##F>(dst, src) : PickInt<Name##I>(dst);
#define WIDE_CASE(Name) case Op::Name: return is_float ? PickFloat<Name##F>(dst, src) : PickWidth<Name##I>(dst);
#define FULL_CASE(Name) case Op::Name: return is_float ? PickBrief<Name##F>(dst, src) : PickWidth<Name##I>(dst);
#define BITS_CASE(Name) case Op::Name: return PickWidth<Name##I>(dst);
#define INT_CASE(Name) case Op::Name: return PickInt<Name##I>(dst);
#define POW_CASE(Name) case Op::Name: return is_float ? PickFloat<Name##F>(dst, src) : PickPow<Name##I>(dst);
        FLOAT_CASE(Exp) FLOAT_CASE(Ln) FLOAT_CASE(Sqrt) FLOAT_CASE(Rsqrt) FLOAT_CASE(Reciprocal)
        FLOAT_CASE(LeakyRelu) FLOAT_CASE(Axpy) FLOAT_CASE(MulAddDst) FLOAT_CASE(FusedMulAdd)
        FLOAT_CASE(FusedMulAddRelu) FLOAT_CASE(Sigmoid) FLOAT_CASE(Tanh) FLOAT_CASE(Erf) FLOAT_CASE(Sin) FLOAT_CASE(Cos)
        FLOAT_CASE(Silu) FLOAT_CASE(Gelu)
        FLOAT_CASE(AbsSub) FLOAT_CASE(ExpSub) FLOAT_CASE(Log2) FLOAT_CASE(Log10) FLOAT_CASE(Prelu) FLOAT_CASE(RegLeakyRelu)
        WIDE_CASE(Abs) WIDE_CASE(Neg) WIDE_CASE(Relu) WIDE_CASE(Div)
        FULL_CASE(Add) FULL_CASE(Sub) FULL_CASE(Mul) FULL_CASE(RegMax) FULL_CASE(RegMin)
        BITS_CASE(And) BITS_CASE(Or) BITS_CASE(Xor) BITS_CASE(Not) BITS_CASE(ShiftLeftBy) BITS_CASE(ShiftRightBy)
        BOTH_CASE(Max) BOTH_CASE(Min) BOTH_CASE(AddRelu)
        BOTH_CASE(SubRelu) BOTH_CASE(Adds) BOTH_CASE(Muls) BOTH_CASE(Maxs) BOTH_CASE(Mins)
        INT_CASE(ShiftLeft) INT_CASE(ShiftRight) INT_CASE(ShiftRightRound)
        POW_CASE(Power) POW_CASE(PowerTensorScalar) POW_CASE(PowerScalarTensor)
#undef FLOAT_CASE
#undef BOTH_CASE
#undef INT_CASE
#undef WIDE_CASE
#undef FULL_CASE
#undef BITS_CASE
#undef POW_CASE
        case Op::Copy: return SizeOf(dst) == 2 ? RunCopy<uint16_t> : RunCopy<uint32_t>;
        case Op::Duplicate: return SizeOf(dst) == 2 ? RunFill<uint16_t> : RunFill<uint32_t>;
        case Op::RegMulAddDst: return PickFused(false, dst);
        case Op::RegMulDstAdd: return PickFused(true, dst);
        case Op::Cast: return PickCast(dst, src);
        default: return nullptr;
    }
}

CompareFn PickCompare(Dt dt) {
    switch (dt) {
        case Dt::F32: return RunCompare<float>;
        case Dt::I32: return RunCompare<int32_t>;
        case Dt::F16: return RunCompareF16<HalfToFloat>;
        case Dt::BF16: return RunCompareF16<Bf16ToFloat>;
        case Dt::I8: return RunCompare<int8_t>;
        case Dt::U8: return RunCompare<uint8_t>;
        case Dt::I16: return RunCompare<int16_t>;
        case Dt::U16: return RunCompare<uint16_t>;
        case Dt::U32: return RunCompare<uint32_t>;
        case Dt::I64: return RunCompare<int64_t>;
        case Dt::U64: return RunCompare<uint64_t>;
        default: return nullptr;
    }
}

SelectFn PickSelect(uint32_t elem) { return elem == 2 ? RunSelect<uint16_t> : RunSelect<uint32_t>; }
