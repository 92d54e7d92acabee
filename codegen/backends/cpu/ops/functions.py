"""C++ functions that generated files define where they use them.

Those of floats have no branches and no calls, so that g++ turns a loop that calls them into vector instructions; the
functions of the C library are calls, one per element.  A function stands behind those that it calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autofuse.codegen.nests.polynomials import LOG1P
from autofuse.implgraph.ops.formulas.coefficients import COS, ERF, EXP, LOG, NORMAL_TAIL, SIN, TANH

__all__ = ["FUNCTIONS", "with_called"]


def _horner(name: str, x: str, coefficients: Sequence[float]) -> str:
    """Statements that make ``name`` a polynomial in ``x``; the highest coefficient last."""
    *rest, top = coefficients
    steps = (f"{name} = {name} * {x} {'-' if c < 0 else '+'} {abs(c)!r}f;" for c in reversed(rest))
    return "\n    ".join((f"float {name} = {top!r}f;", *steps))


_BIT_CAST = """\
// The bits of a value as another type of the same size.
template <typename To, typename From>
inline To bit_cast(From x) {
    static_assert(sizeof(To) == sizeof(From), "the bits of one type fill the other");
    To y;
    std::memcpy(&y, &x, sizeof(To));
    return y;
}
"""

_FROM_HALF = """\
inline float from_half(half x) {
    // The sign is extended, so that one shift puts it and the exponent where those of a float begin.
    const uint32_t wide = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(x)));
    const uint32_t bits = (wide << 13) & 0x8fffe000u;
    const uint32_t special = (bits & 0x0f800000u) == 0x0f800000u ? 0x7f800000u : 0u;
    return bit_cast<float>(bit_cast<uint32_t>(bit_cast<float>(bits) * 0x1p112f) | special);
}
"""

_TO_HALF = """\
// The nearest float16, the even one of two; infinity from 65520 on.
inline half to_half(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x), size = bits & 0x7fffffffu;
    const uint32_t usual = (size + 0xfffu + ((size >> 13) & 1u) - 0x38000000u) >> 13;
    // The last bit of 0.5 is that of a subnormal float16.
    const uint32_t tiny = bit_cast<uint32_t>(bit_cast<float>(size) + 0.5f) - 0x3f000000u;
    const uint32_t huge = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t near = size < 0x38800000u ? tiny : usual;
    return static_cast<half>((size < 0x47800000u ? near : huge) | (bits & 0x80000000u) >> 16);
}
"""

_WIDEN = """\
inline void widen(const half* x, float* y, int64_t count) {
    int64_t k = 0;
#if defined(__AVX512F__)
    for (; k + 16 <= count; k += 16) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k));
        _mm512_storeu_ps(y + k, _mm512_cvtph_ps(bits));
    }
#elif defined(__F16C__)
    for (; k + 8 <= count; k += 8) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + k));
        _mm256_storeu_ps(y + k, _mm256_cvtph_ps(bits));
    }
#endif
    for (; k < count; ++k) {
        y[k] = from_half(x[k]);
    }
}
"""

_NARROW = """\
inline void narrow(const float* x, half* y, int64_t count) {
    int64_t k = 0;
#if defined(__AVX512F__)
    for (; k + 16 <= count; k += 16) {
        const __m256i bits = _mm512_cvtps_ph(_mm512_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + k), bits);
    }
#elif defined(__F16C__)
    for (; k + 8 <= count; k += 8) {
        const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + k), bits);
    }
#endif
    for (; k < count; ++k) {
        y[k] = to_half(x[k]);
    }
}
"""

_FROM_BFLOAT16 = """\
inline float from_bfloat16(bfloat16 x) {
    return bit_cast<float>(static_cast<uint32_t>(x) << 16);
}
"""

_TO_BFLOAT16 = """\
// The nearest bfloat16, the even one of two.
inline bfloat16 to_bfloat16(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x);
    const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return static_cast<bfloat16>((x != x ? bits | 0x400000u : rounded) >> 16);
}
"""

_POWER_OF_2 = """\
// 2^n for n from -126 to 127.
inline float power_of_2(int32_t n) {
    return bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}
"""

_EXP = """\
// e^x: 2^n e^r with |r| <= ln(2) / 2; 2^n in two steps, as it need not be a normal float.
inline float exp(float x) {
    const float a = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    const float shifted = a * 1.44269504f + 12582912.0f;
    const float turns = shifted - 12582912.0f;
    const float r = (a - turns * 0.693359375f) + turns * 2.12194440e-4f;
    {EXP}
    const int32_t n = bit_cast<int32_t>(shifted) - 0x4b400000;
    const int32_t half = n >> 1;
    return (1.0f + (r + r * r * tail)) * power_of_2(half) * power_of_2(n - half);
}
""".replace("{EXP}", _horner("tail", "r", EXP))

_EXP2 = """\
// 2^x, as exp().
inline float exp2(float x) {
    const float a = x < -151.0f ? -151.0f : x > 129.0f ? 129.0f : x;
    const float shifted = a + 12582912.0f;
    const float r = (a - (shifted - 12582912.0f)) * 0.693147181f;
    {EXP}
    const int32_t n = bit_cast<int32_t>(shifted) - 0x4b400000;
    const int32_t half = n >> 1;
    return (1.0f + (r + r * r * tail)) * power_of_2(half) * power_of_2(n - half);
}
""".replace("{EXP}", _horner("tail", "r", EXP))

_EXPM1 = """\
// e^x - 1 = 2^n (e^r - 1) + (2^n - 1), both halved so that 2^128 is not needed.
inline float expm1(float x) {
    const float a = x < -30.0f ? -30.0f : x;
    const float scaled = a * 1.44269504f;
    const float shifted = (scaled > 128.0f ? 128.0f : scaled) + 12583038.0f;
    const float turns = shifted - 12583038.0f;
    const float r = (a - turns * 0.693359375f) + turns * 2.12194440e-4f;
    {EXP}
    const float half = bit_cast<float>(bit_cast<uint32_t>(shifted) << 23);
    const float value = (r + r * r * tail) * half + (half - 0.5f);
    // A zero keeps its sign.
    return x == 0.0f ? x : value + value;
}
""".replace("{EXP}", _horner("tail", "r", EXP))

_LOGARITHM = """\
// ln(x) times ``scale``; ``high`` + ``low`` is that of 2.
inline float logarithm(float x, float high, float low, float scale) {
    const bool tiny = x < 0x1p-126f;
    const uint32_t bits = bit_cast<uint32_t>(tiny ? x * 0x1p23f : x) - 0x3f3504f3u;
    const float n = static_cast<float>(static_cast<int32_t>(bits) >> 23) - (tiny ? 23.0f : 0.0f);
    // The mantissa, from sqrt(1/2) to sqrt(2), less 1.
    const float f = bit_cast<float>((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    {LOG}
    const float square = f * f;
    const float near = f + (square * f * tail - 0.5f * square);
    const float value = n * high + (near * scale + n * low);
    const float edge = x == 0.0f ? -INFINITY : NAN;
    return x > 0.0f ? (x < INFINITY ? value : x) : edge;
}
""".replace("{LOG}", _horner("tail", "f", LOG))

_SOFTPLUS = """\
// ln(1 + e^x).
inline float softplus(float x) {
    const float e = exp(-std::fabs(x));
    {LOG1P}
    return (x < 0.0f ? 0.0f : x) + (e + e * e * tail);
}
""".replace("{LOG1P}", _horner("tail", "e", LOG1P))

_TANH = """\
// A polynomial up to 0.6, beyond that of the exponential.
inline float tanh(float x) {
    const float size = std::fabs(x), square = x * x;
    {TANH}
    const float far = 1.0f - 2.0f / (exp(2.0f * size) + 1.0f);
    return size < 0.6f ? x + x * square * tail : std::copysign(far, x);
}
""".replace("{TANH}", _horner("tail", "square", TANH))

_NORMAL_TAIL = """\
// e^(a^2/2) times the normal distribution function at -a, for a from 0 on.
inline float normal_tail(float a) {
    {ABOVE}
    {BELOW}
    return above / below;
}
""".replace("{ABOVE}", _horner("above", "a", NORMAL_TAIL[0])).replace(
    "{BELOW}", _horner("below", "a", (*NORMAL_TAIL[1], 1.0))
)

_ERF = """\
// A polynomial up to 1, beyond that of the tail of the normal distribution.
inline float erf(float x) {
    const float size = std::fabs(x), square = x * x;
    {ERF}
    const float a = size > 5.0f ? 5.0f : size;
    const float far = 1.0f - 2.0f * exp(-a * a) * normal_tail(a * 1.41421356f);
    return size < 1.0f ? x + x * tail : x != x ? x : std::copysign(far, x);
}
""".replace("{ERF}", _horner("tail", "square", ERF))

_GELU = """\
// x times the normal distribution function at x, accurate also where that is small.
inline float gelu(float x) {
    const float size = std::fabs(x), a = size > 15.0f ? 15.0f : size;
    // e^(-a^2/2) = e^(-near^2/2) e^(-(a - near)(a + near)/2): the square of near is exact.
    const float near = (a + 49152.0f) - 49152.0f;
    const float decay = exp(near * near * -0.5f) * exp((a - near) * (a + near) * -0.5f);
    const float below = normal_tail(a) * (a * decay);
    return (x < 0.0f ? 0.0f : x) - below;
}
"""

_QUARTER_TURNS = """\
// 2/pi in binary, behind 32 bits of zeros.
static const uint32_t two_over_pi[9] = {0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                        0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};

struct Angle {
    float r;          // from -pi/4 to pi/4
    uint32_t quarter; // x - r is this many times pi/2
};

// A float is an integer times 2^e: its product with the 96 bits of 2/pi that are neither multiples of 4
// nor too small to matter has the quarter in its highest two bits, and what is left of it behind them.
inline Angle quarter_turns(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x) & 0x7fffffffu;
    const uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
    const int32_t exponent = static_cast<int32_t>(bits >> 23) - 120;
    const uint32_t at = static_cast<uint32_t>(exponent < 0 ? 0 : exponent);
    const uint32_t word = at >> 5, shift = at & 31u;
    const uint64_t a = two_over_pi[word], b = two_over_pi[word + 1];
    const uint64_t c = two_over_pi[word + 2], d = two_over_pi[word + 3];
    const uint64_t high = ((a << 32 | b) << shift) >> 32, middle = ((b << 32 | c) << shift) >> 32;
    const uint64_t low = ((c << 32 | d) << shift) >> 32;
    const uint64_t turns = ((mantissa * high) << 32) + mantissa * middle + ((mantissa * low) >> 32);
    const uint64_t quarter = (turns + 0x2000000000000000u) >> 62;
    const int64_t rest = static_cast<int64_t>(turns - (quarter << 62));
    const float r = static_cast<float>(static_cast<double>(rest) * 3.4061215800304515e-19);
    const bool small = bits < 0x3f490fdbu, negative = bit_cast<uint32_t>(x) >> 31 != 0;
    const uint32_t q = small ? 0u : static_cast<uint32_t>(quarter);
    const float signed_r = small ? x : negative ? -r : r;
    return {bits < 0x7f800000u ? signed_r : NAN, negative ? 0u - q : q};
}
"""

_SINE = """\
inline float sine_within(float r) {
    const float square = r * r;
    {SIN}
    return r + r * square * tail;
}

inline float cosine_within(float r) {
    const float square = r * r;
    {COS}
    return 1.0f + (square * square * tail - 0.5f * square);
}

// The sine of x plus ``ahead`` quarter turns.
inline float sine(float x, uint32_t ahead) {
    const Angle angle = quarter_turns(x);
    const uint32_t quarter = angle.quarter + ahead;
    const float s = sine_within(angle.r), c = cosine_within(angle.r);
    const float size = (quarter & 1u) != 0 ? c : s;
    return (quarter & 2u) != 0 ? -size : size;
}
""".replace("{SIN}", _horner("tail", "square", SIN)).replace(
    "{COS}", _horner("tail", "square", COS)
)

_ROUND_AWAY = """\
// The nearest integral value, of two the one away from zero.
inline float round_away(float x) {
    const float whole = std::trunc(x);
    return std::fabs(x - whole) >= 0.5f ? whole + std::copysign(1.0f, x) : whole;
}
"""

_ROUND = """\
// The nearest integral value, the even one of two.
inline float round_even(float x) {
    const float size = std::fabs(x);
    const float whole = (size + 8388608.0f) - 8388608.0f;
    return size < 8388608.0f ? std::copysign(whole, x) : x;
}
"""

_EXTREMES = """\
// The larger; NaN wins.
inline float max(float a, float b) {
    return a > b || a != a ? a : b;
}

// The smaller; NaN wins.
inline float min(float a, float b) {
    return a < b || a != a ? a : b;
}
"""

_INTEGER_EXTREMES = """\
template <typename T>
inline T max_int(T a, T b) {
    return a > b ? a : b;
}

template <typename T>
inline T min_int(T a, T b) {
    return a < b ? a : b;
}
"""

_DIVISIONS = """\
// a / b rounded to zero; 0 where b is 0, and -a, which wraps, where b is -1.
template <typename T>
inline T trunc_div(T a, T b) {
    using U = std::make_unsigned_t<T>;
    const bool negates = std::is_signed<T>::value && b == static_cast<T>(-1);
    const T quotient = static_cast<T>(a / (b == 0 || negates ? T{1} : b));
    return b == 0 ? T{0} : negates ? static_cast<T>(U{0} - static_cast<U>(a)) : quotient;
}

// What trunc_div leaves, with the sign of a; 0 where b is 0.
template <typename T>
inline T trunc_mod(T a, T b) {
    const bool negates = std::is_signed<T>::value && b == static_cast<T>(-1);
    return static_cast<T>(a % (b == 0 || negates ? T{1} : b));
}

// a / b rounded down; 0 where b is 0.
template <typename T>
inline T floor_div(T a, T b) {
    const bool rounded = trunc_mod(a, b) != 0 && (a < 0) != (b < 0);
    return static_cast<T>(trunc_div(a, b) - (rounded ? 1 : 0));
}

// What floor_div leaves, with the sign of b; 0 where b is 0.
template <typename T>
inline T floor_mod(T a, T b) {
    const T rest = trunc_mod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}
"""

_SHIFTS = """\
// x << count; 0 for a count from the width on, and for a negative one.
template <typename T>
inline T shift_left(T x, T count) {
    using U = std::make_unsigned_t<T>;
    const U places = static_cast<U>(count);
    const bool inside = places < sizeof(T) * 8;
    return inside ? static_cast<T>(static_cast<uint64_t>(static_cast<U>(x)) << (inside ? places : U{0})) : T{0};
}

// x >> count with the sign of x; a count from the width on and a negative one leave the sign alone.
template <typename T>
inline T shift_right(T x, T count) {
    using U = std::make_unsigned_t<T>;
    const U places = static_cast<U>(count);
    const bool inside = places < sizeof(T) * 8;
    const T sign = x < 0 ? static_cast<T>(-1) : T{0};
    return inside ? static_cast<T>(x >> (inside ? places : U{0})) : sign;
}
"""

_POWER_INT = """\
// x^y of integers, which wraps; of a negative y the integral part.
template <typename T>
inline T power_int(T x, T y) {
    using U = std::make_unsigned_t<T>;
    uint64_t total = 1, factor = static_cast<U>(x), rest = static_cast<U>(y);
    for (int bit = 0; bit < static_cast<int>(sizeof(T) * 8); ++bit) {
        total = (rest & 1u) != 0 ? total * factor : total;
        factor *= factor;
        rest >>= 1;
    }
    const T sign = (y & 1) != 0 ? static_cast<T>(-1) : T{1};
    const T unit = x == 1 ? T{1} : x == static_cast<T>(-1) ? sign : T{0};
    return y < 0 ? unit : static_cast<T>(total);
}
"""

_TO_INT = """\
// x rounded to zero as an integer; the nearest out of range, 0 of NaN.
template <typename T>
inline T to_int(float x) {
    constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    // The first float above the range is a power of 2.
    const float end = static_cast<float>(high / 2 + 1) * 2.0f;
    const bool inside = x >= static_cast<float>(low) && x < end;
    const T value = static_cast<T>(inside ? x : 0.0f);
    return inside ? value : x != x ? T{0} : x < 0.0f ? low : high;
}
"""

_TURNED = """\
// The elements of both halves in turns.
template <typename T>
inline void interleave(const T* in, T* out) {
    for (int k = 0; k < 512; ++k) {
        out[2 * k] = in[k];
        out[2 * k + 1] = in[k + 512];
    }
}

// A square of 32 by 32 elements with rows and columns exchanged: in five steps the bits of the column become
// those of the row, which are vector instructions where single elements would be moved otherwise.
template <typename T>
inline void turn(const T* in, T* out) {
    T a[1024], b[1024];
    interleave(in, a);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    interleave(b, out);
}
"""

#: Name -> text; a function stands behind those that it calls.
FUNCTIONS: Mapping[str, str] = {
    "bit_cast": _BIT_CAST,
    "from_half": _FROM_HALF,
    "to_half": _TO_HALF,
    "widen": _WIDEN,
    "narrow": _NARROW,
    "from_bfloat16": _FROM_BFLOAT16,
    "to_bfloat16": _TO_BFLOAT16,
    "power_of_2": _POWER_OF_2,
    "exp": _EXP,
    "exp2": _EXP2,
    "expm1": _EXPM1,
    "logarithm": _LOGARITHM,
    "softplus": _SOFTPLUS,
    "tanh": _TANH,
    "normal_tail": _NORMAL_TAIL,
    "erf": _ERF,
    "gelu": _GELU,
    "quarter_turns": _QUARTER_TURNS,
    "sine": _SINE,
    "round_away": _ROUND_AWAY,
    "round_even": _ROUND,
    "extremes": _EXTREMES,
    "integer_extremes": _INTEGER_EXTREMES,
    "divisions": _DIVISIONS,
    "shifts": _SHIFTS,
    "power_int": _POWER_INT,
    "to_int": _TO_INT,
    "turn": _TURNED,
}

_CALLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("from_half", "to_half", "from_bfloat16", "to_bfloat16"), ("bit_cast",)),
    **dict.fromkeys(("power_of_2", "expm1", "logarithm", "quarter_turns"), ("bit_cast",)),
    **dict.fromkeys(("exp", "exp2"), ("power_of_2",)),
    **dict.fromkeys(("softplus", "tanh"), ("exp",)),
    **dict.fromkeys(("erf", "gelu"), ("exp", "normal_tail")),
    "sine": ("quarter_turns",),
    "widen": ("from_half",),
    "narrow": ("to_half",),
}


def with_called(names: Iterable[str]) -> tuple[str, ...]:
    """The functions and those that they call, in the order in which a file defines them."""
    wanted: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo.extend(_CALLS.get(name, ()))
    return tuple(name for name in FUNCTIONS if name in wanted)
