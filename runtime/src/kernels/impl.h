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

#include "kernels/math.h"

inline float MaxNan(float a, float b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }
inline float MinNan(float a, float b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }
// Of the two zeros the positive one, as max(a, +0) is; NaN stays.
inline float ReluValue(float a) { return a <= 0.0f ? 0.0f : a; }

#define FLOAT_OP(Name, Sources, ReadsDst, expr)                                    \
    struct Name##F {                                                               \
        static constexpr int kSources = Sources;                                   \
        static constexpr bool kReadsDst = ReadsDst;                                \
        static inline float f([[maybe_unused]] float a, [[maybe_unused]] float b,  \
                              [[maybe_unused]] float d, [[maybe_unused]] float s) { \
            return expr;                                                           \
        }                                                                          \
    };
FLOAT_OP(Abs, 1, false, BitCast<float>(BitCast<uint32_t>(a) & 0x7fffffffu))
FLOAT_OP(Exp, 1, false, ExpFloat(a))
FLOAT_OP(Ln, 1, false, LogFloat(a))
FLOAT_OP(Sqrt, 1, false, __builtin_sqrtf(a))
FLOAT_OP(Rsqrt, 1, false, static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a))))
FLOAT_OP(Reciprocal, 1, false, 1.0f / a)
FLOAT_OP(Relu, 1, false, ReluValue(a))
FLOAT_OP(Add, 2, false, a + b)
FLOAT_OP(Sub, 2, false, a - b)
FLOAT_OP(Mul, 2, false, a * b)
FLOAT_OP(Div, 2, false, a / b)
FLOAT_OP(Max, 2, false, MaxNan(a, b))
FLOAT_OP(Min, 2, false, MinNan(a, b))
FLOAT_OP(AddRelu, 2, false, ReluValue(a + b))
FLOAT_OP(SubRelu, 2, false, ReluValue(a - b))
FLOAT_OP(Adds, 1, false, a + s)
FLOAT_OP(Muls, 1, false, a * s)
FLOAT_OP(Maxs, 1, false, MaxNan(a, s))
FLOAT_OP(Mins, 1, false, MinNan(a, s))
FLOAT_OP(LeakyRelu, 1, false, a >= 0.0f ? a : a * s)
FLOAT_OP(Axpy, 1, true, d + a * s)
FLOAT_OP(MulAddDst, 2, true, d + a * b)
FLOAT_OP(FusedMulAdd, 2, true, d * a + b)
FLOAT_OP(FusedMulAddRelu, 2, true, ReluValue(d * a + b))
FLOAT_OP(Sigmoid, 1, false, static_cast<float>(1.0 / (1.0 + ExpDouble(-static_cast<double>(a)))))
FLOAT_OP(Silu, 1, false, static_cast<float>(a / (1.0 + ExpDouble(-static_cast<double>(a)))))

FLOAT_OP(Tanh, 1, false, TanhFloat(a))
FLOAT_OP(Gelu, 1, false, GeluFloat(a))
FLOAT_OP(Erf, 1, false, static_cast<float>(__builtin_erf(a)))
FLOAT_OP(Sin, 1, false, static_cast<float>(__builtin_sin(a)))
FLOAT_OP(Cos, 1, false, static_cast<float>(__builtin_cos(a)))
FLOAT_OP(Power, 2, false, static_cast<float>(__builtin_pow(a, b)))
FLOAT_OP(PowerTensorScalar, 1, false, static_cast<float>(__builtin_pow(a, s)))
FLOAT_OP(PowerScalarTensor, 1, false, static_cast<float>(__builtin_pow(s, a)))
#undef FLOAT_OP

// A function that needs less for numbers in a plain range: Key(bits) < kLimit there, and g(x) gives what f(x) gives.
template <typename O> struct Plain {
    static constexpr bool kExists = false;
};
template <> struct Plain<ExpF> {
    static constexpr bool kExists = true;
    static constexpr uint32_t kLimit = 0x42ae0001u;  // up to 87 on both sides
    static inline uint32_t Key(uint32_t bits) { return bits & 0x7fffffffu; }
    static inline float g(float x) { return ExpPlain(x); }
};
template <> struct Plain<LnF> {
    static constexpr bool kExists = true;
    static constexpr uint32_t kLimit = 0x7f000000u;  // positive, normal and finite
    static inline uint32_t Key(uint32_t bits) { return bits - 0x00800000u; }
    static inline float g(float x) { return LogPlain(x); }
};

// Numbers are mostly in the plain range, so one look at a part of them saves all of them the rest.
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

// half sources accumulated into a float destination.
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

// ---- integers: wrap on overflow ----


template <typename T> inline T PowInt(T base, T exponent) {
    if (exponent < 0) {
        return base == 1 ? 1 : (base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0);
    }
    uint32_t result = 1;
    uint32_t factor = static_cast<uint32_t>(base);
    for (uint32_t e = static_cast<uint32_t>(exponent); e != 0; e >>= 1) {
        result *= (e & 1u) != 0 ? factor : 1u;
        factor *= factor;
    }
    return static_cast<T>(result);
}

// Arithmetic right shift with rounding: add back the last bit shifted out.
template <typename T> inline T ShiftRightRounded(T a, uint32_t s) {
    const T shifted = s >= sizeof(T) * 8 ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> s);
    const T last = s == 0 ? T(0) : static_cast<T>((s - 1 >= sizeof(T) * 8 ? (a < 0 ? -1 : 0) : a >> (s - 1)) & 1);
    return static_cast<T>(shifted + last);
}

#define INT_OP(Name, Sources, expr)                                                             \
    struct Name##I {                                                                            \
        static constexpr int kSources = Sources;                                                \
        template <typename T>                                                                   \
        static inline T f([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T s) {   \
            [[maybe_unused]] const uint32_t ua = static_cast<uint32_t>(a);                      \
            [[maybe_unused]] const uint32_t ub = static_cast<uint32_t>(b);                      \
            [[maybe_unused]] const uint32_t us = static_cast<uint32_t>(s);                      \
            return static_cast<T>(expr);                                                        \
        }                                                                                       \
    };
INT_OP(Add, 2, ua + ub)
INT_OP(Sub, 2, ua - ub)
INT_OP(Mul, 2, ua * ub)
INT_OP(Max, 2, a > b ? a : b)
INT_OP(Min, 2, a < b ? a : b)
INT_OP(And, 2, ua & ub)
INT_OP(Or, 2, ua | ub)
INT_OP(Not, 1, ~ua)
INT_OP(Relu, 1, a > 0 ? a : 0)
INT_OP(AddRelu, 2, static_cast<T>(ua + ub) > 0 ? static_cast<T>(ua + ub) : 0)
INT_OP(SubRelu, 2, static_cast<T>(ua - ub) > 0 ? static_cast<T>(ua - ub) : 0)
INT_OP(Adds, 1, ua + us)
INT_OP(Muls, 1, ua * us)
INT_OP(Maxs, 1, a > s ? a : s)
INT_OP(Mins, 1, a < s ? a : s)
INT_OP(ShiftLeft, 1, us >= sizeof(T) * 8 ? 0u : ua << (us & 31u))
INT_OP(ShiftRight, 1, us >= sizeof(T) * 8 ? (a < 0 ? -1 : 0) : a >> (us & 31u))
INT_OP(ShiftRightRound, 1, ShiftRightRounded(a, us))
INT_OP(Power, 2, PowInt(a, b))
INT_OP(PowerTensorScalar, 1, PowInt(a, s))
INT_OP(PowerScalarTensor, 1, PowInt(s, a))
#undef INT_OP

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

// ---- compare and select ----

template <int Mode, typename T> inline bool Test(T a, T b) {
    if constexpr (Mode == 0) return a < b;
    if constexpr (Mode == 1) return a > b;
    if constexpr (Mode == 2) return a == b;
    if constexpr (Mode == 3) return a <= b;
    if constexpr (Mode == 4) return a >= b;
    if constexpr (Mode == 5) return a != b;
    return false;
}

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

void RunCompareF16(uint8_t* bits, const void* a, const void* b, uint64_t imm, int mode, size_t n) {
    uint8_t flags[kChunk];
    float x[kChunk];
    float y[kChunk];
    const float s = HalfToFloat1(static_cast<uint16_t>(imm));
    for (size_t i = 0; i < n; i += kChunk) {
        const size_t m = n - i < kChunk ? n - i : kChunk;
        HalfToFloat(static_cast<const uint16_t*>(a) + i, x, m);
        if (b != nullptr) HalfToFloat(static_cast<const uint16_t*>(b) + i, y, m);
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
template <typename O> ElementFn PickInt(Dt dt) {
    switch (dt) {
        case Dt::I16: return RunInt<O, int16_t>;
        case Dt::U16: return RunInt<O, uint16_t>;
        case Dt::I32: return RunInt<O, int32_t>;
        case Dt::U32: return RunInt<O, uint32_t>;
        default: return nullptr;
    }
}
template <typename O> ElementFn PickPow(Dt dt) { return dt == Dt::I32 ? RunInt<O, int32_t> : nullptr; }

ElementFn PickElement(Op op, Dt dst, Dt src) {
    const bool is_float = dst == Dt::F32 || dst == Dt::F16;
    switch (op) {
#define FLOAT_CASE(Name) case Op::Name: return PickFloat<Name##F>(dst, src);
#define BOTH_CASE(Name) case Op::Name: return is_float ? PickFloat<Name##F>(dst, src) : PickInt<Name##I>(dst);
#define INT_CASE(Name) case Op::Name: return PickInt<Name##I>(dst);
#define POW_CASE(Name) case Op::Name: return is_float ? PickFloat<Name##F>(dst, src) : PickPow<Name##I>(dst);
        FLOAT_CASE(Abs) FLOAT_CASE(Exp) FLOAT_CASE(Ln) FLOAT_CASE(Sqrt) FLOAT_CASE(Rsqrt) FLOAT_CASE(Reciprocal)
        FLOAT_CASE(Div) FLOAT_CASE(LeakyRelu) FLOAT_CASE(Axpy) FLOAT_CASE(MulAddDst) FLOAT_CASE(FusedMulAdd)
        FLOAT_CASE(FusedMulAddRelu) FLOAT_CASE(Sigmoid) FLOAT_CASE(Tanh) FLOAT_CASE(Erf) FLOAT_CASE(Sin) FLOAT_CASE(Cos)
        FLOAT_CASE(Silu) FLOAT_CASE(Gelu)
        BOTH_CASE(Relu) BOTH_CASE(Add) BOTH_CASE(Sub) BOTH_CASE(Mul) BOTH_CASE(Max) BOTH_CASE(Min) BOTH_CASE(AddRelu)
        BOTH_CASE(SubRelu) BOTH_CASE(Adds) BOTH_CASE(Muls) BOTH_CASE(Maxs) BOTH_CASE(Mins)
        INT_CASE(And) INT_CASE(Or) INT_CASE(Not) INT_CASE(ShiftLeft) INT_CASE(ShiftRight) INT_CASE(ShiftRightRound)
        POW_CASE(Power) POW_CASE(PowerTensorScalar) POW_CASE(PowerScalarTensor)
#undef FLOAT_CASE
#undef BOTH_CASE
#undef INT_CASE
#undef POW_CASE
        case Op::Copy: return SizeOf(dst) == 2 ? RunCopy<uint16_t> : RunCopy<uint32_t>;
        case Op::Duplicate: return SizeOf(dst) == 2 ? RunFill<uint16_t> : RunFill<uint32_t>;
        case Op::Cast: return PickCast(dst, src);
        default: return nullptr;
    }
}

CompareFn PickCompare(Dt dt) {
    switch (dt) {
        case Dt::F32: return RunCompare<float>;
        case Dt::I32: return RunCompare<int32_t>;
        case Dt::F16: return RunCompareF16;
        default: return nullptr;
    }
}

SelectFn PickSelect(uint32_t elem) { return elem == 2 ? RunSelect<uint16_t> : RunSelect<uint32_t>; }
