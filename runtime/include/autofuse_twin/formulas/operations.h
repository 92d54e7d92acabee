// Vector functions, one element at a time: on floats (16-bit ones are widened, and rounded once per operation), on
// integers (wrap on overflow), and comparisons. Included like bits.h, after it and math.h.

AUTOFUSE_FORMULA float MaxNan(float a, float b) { return a != a ? a : (b != b ? b : (a > b ? a : b)); }
AUTOFUSE_FORMULA float MinNan(float a, float b) { return a != a ? a : (b != b ? b : (a < b ? a : b)); }
// Of two zeros the positive one, as max(a, +0) is; NaN stays NaN.
AUTOFUSE_FORMULA float ReluValue(float a) { return a <= 0.0f ? 0.0f : a; }

// Registers distinguish the zeros: +0 is the larger one.
AUTOFUSE_FORMULA float MaxZero(float a, float b) {
    return a == b ? BitCast<float>(BitCast<uint32_t>(a) & BitCast<uint32_t>(b)) : MaxNan(a, b);
}
AUTOFUSE_FORMULA float MinZero(float a, float b) {
    return a == b ? BitCast<float>(BitCast<uint32_t>(a) | BitCast<uint32_t>(b)) : MinNan(a, b);
}
// The slope applies to values with a sign, including -0. The compiler chooses which of two NaN a product returns.
AUTOFUSE_FORMULA float Leaky(float a, float slope) {
    const bool keeps = a > 0.0f || BitCast<uint32_t>(a) == 0 || a != a;
    return keeps ? a : slope != slope ? slope : a * slope;
}

#define FLOAT_OP(Name, Sources, ReadsDst, expr)                                    \
    struct Name##F {                                                               \
        static constexpr int kSources = Sources;                                   \
        static constexpr bool kReadsDst = ReadsDst;                                \
        static AUTOFUSE_FORMULA float f([[maybe_unused]] float a, [[maybe_unused]] float b,   \
                                        [[maybe_unused]] float d, [[maybe_unused]] float s) { \
            return expr;                                                           \
        }                                                                          \
    };
FLOAT_OP(Abs, 1, false, BitCast<float>(BitCast<uint32_t>(a) & 0x7fffffffu))
FLOAT_OP(Exp, 1, false, ExpFloat(a))
FLOAT_OP(Ln, 1, false, LogFloat(a))
FLOAT_OP(Sqrt, 1, false, ::sqrtf(a))
FLOAT_OP(Rsqrt, 1, false, static_cast<float>(1.0 / ::sqrt(static_cast<double>(a))))
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
FLOAT_OP(Neg, 1, false, BitCast<float>(BitCast<uint32_t>(a) ^ 0x80000000u))
FLOAT_OP(AbsSub, 2, false, AbsF::f(a - b, 0.0f, 0.0f, 0.0f))
FLOAT_OP(ExpSub, 2, false, ExpFloat(a - b))
FLOAT_OP(Log2, 1, false, static_cast<float>(::log2(static_cast<double>(a))))
FLOAT_OP(Log10, 1, false, static_cast<float>(::log10(static_cast<double>(a))))
FLOAT_OP(Sigmoid, 1, false, static_cast<float>(1.0 / (1.0 + ExpDouble(-static_cast<double>(a)))))
FLOAT_OP(Silu, 1, false, static_cast<float>(a / (1.0 + ExpDouble(-static_cast<double>(a)))))

FLOAT_OP(RegMax, 2, false, MaxZero(a, b))
FLOAT_OP(RegMin, 2, false, MinZero(a, b))
FLOAT_OP(Prelu, 2, false, Leaky(a, b))
FLOAT_OP(RegLeakyRelu, 1, false, Leaky(a, s))
FLOAT_OP(Tanh, 1, false, TanhFloat(a))
FLOAT_OP(Gelu, 1, false, GeluFloat(a))
FLOAT_OP(Erf, 1, false, static_cast<float>(::erf(static_cast<double>(a))))
FLOAT_OP(Sin, 1, false, static_cast<float>(::sin(static_cast<double>(a))))
FLOAT_OP(Cos, 1, false, static_cast<float>(::cos(static_cast<double>(a))))
FLOAT_OP(Power, 2, false, static_cast<float>(::pow(static_cast<double>(a), static_cast<double>(b))))
FLOAT_OP(PowerTensorScalar, 1, false, static_cast<float>(::pow(static_cast<double>(a), static_cast<double>(s))))
FLOAT_OP(PowerScalarTensor, 1, false, static_cast<float>(::pow(static_cast<double>(s), static_cast<double>(a))))
#undef FLOAT_OP

template <typename T> AUTOFUSE_FORMULA T PowInt(T base, T exponent) {
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
template <typename T> AUTOFUSE_FORMULA T ShiftRightRounded(T a, uint32_t s) {
    const T shifted = s >= sizeof(T) * 8 ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> s);
    const T last = s == 0 ? T(0) : static_cast<T>((s - 1 >= sizeof(T) * 8 ? (a < 0 ? -1 : 0) : a >> (s - 1)) & 1);
    return static_cast<T>(shifted + last);
}

#define INT_OP(Name, Sources, expr)                                                             \
    struct Name##I {                                                                            \
        static constexpr int kSources = Sources;                                                \
        template <typename T>                                                                   \
        static AUTOFUSE_FORMULA T f([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T s) {   \
            using W = typename std::conditional<sizeof(T) == 8, uint64_t, uint32_t>::type;      \
            [[maybe_unused]] const W ua = static_cast<W>(a);                                    \
            [[maybe_unused]] const W ub = static_cast<W>(b);                                    \
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
INT_OP(Xor, 2, ua ^ ub)
INT_OP(Neg, 1, W(0) - ua)
INT_OP(Abs, 1, a < 0 ? W(0) - ua : ua)
INT_OP(RegMax, 2, a > b ? a : b)
INT_OP(RegMin, 2, a < b ? a : b)
INT_OP(Div, 2, b == 0 ? W(0) - 1 : (b == static_cast<T>(-1) && std::is_signed<T>::value ? W(0) - ua : static_cast<W>(a / b)))
INT_OP(ShiftLeftBy, 2, ub >= sizeof(T) * 8 ? W(0) : ua << (ub & (sizeof(W) * 8 - 1)))
INT_OP(ShiftRightBy, 2, ub >= sizeof(T) * 8 ? (a < 0 ? -1 : 0) : a >> (ub & (sizeof(W) * 8 - 1)))
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

template <int Mode, typename T> AUTOFUSE_FORMULA bool Test(T a, T b) {
    if constexpr (Mode == 0) return a < b;
    if constexpr (Mode == 1) return a > b;
    if constexpr (Mode == 2) return a == b;
    if constexpr (Mode == 3) return a <= b;
    if constexpr (Mode == 4) return a >= b;
    if constexpr (Mode == 5) return a != b;
    return false;
}
