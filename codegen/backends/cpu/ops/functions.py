"""C++ functions that generated files define on demand, besides those of ``autofuse.codegen.nests.formulas``.

Float functions have no branches and no calls, so that g++ vectorises loops over them; the C library would be called
once per element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autofuse.implgraph.ops.formulas.coefficients import COS, EXP, LOG, SIN

__all__ = ["FUNCTIONS"]


def _horner(name: str, x: str, coefficients: Sequence[float]) -> str:
    """Return statements that evaluate a polynomial in ``x`` into ``name``; the highest coefficient comes last."""
    *rest, top = coefficients
    steps = (f"{name} = {name} * {x} {'-' if c < 0 else '+'} {abs(c)!r}f;" for c in reversed(rest))
    return "\n    ".join((f"float {name} = {top!r}f;", *steps))


_BIT_CAST = """\
// Reinterprets the bits of a value as another type of the same size.
template <typename To, typename From>
inline To bit_cast(From x) {
    static_assert(sizeof(To) == sizeof(From), "both types have the same size");
    To y;
    std::memcpy(&y, &x, sizeof(To));
    return y;
}
"""

_FROM_HALF = """\
inline float from_half(half x) {
    // Sign extension lets one shift move both the sign and the exponent to their places in a float.
    const uint32_t wide = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(x)));
    const uint32_t bits = (wide << 13) & 0x8fffe000u;
    const uint32_t special = (bits & 0x0f800000u) == 0x0f800000u ? 0x7f800000u : 0u;
    return bit_cast<float>(bit_cast<uint32_t>(bit_cast<float>(bits) * 0x1p112f) | special);
}
"""

_TO_HALF = """\
// Rounds to the nearest float16, ties to even; infinity from 65520 on.
inline half to_half(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x), size = bits & 0x7fffffffu;
    const uint32_t usual = (size + 0xfffu + ((size >> 13) & 1u) - 0x38000000u) >> 13;
    // The last bit of 0.5f has the weight of the last bit of a subnormal float16.
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
// Rounds to the nearest bfloat16, ties to even.
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
// e^x = 2^n e^r with |r| <= ln(2) / 2; multiplies by 2^n in two steps, since 2^n may not be a normal float.
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
// 2^x, computed like e^x.
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

_LOGARITHM = """\
// ln(x) times ``scale``; ``high`` + ``low`` is ln(2) times ``scale``.
inline float logarithm(float x, float high, float low, float scale) {
    const bool tiny = x < 0x1p-126f;
    const uint32_t bits = bit_cast<uint32_t>(tiny ? x * 0x1p23f : x) - 0x3f3504f3u;
    const float n = static_cast<float>(static_cast<int32_t>(bits) >> 23) - (tiny ? 23.0f : 0.0f);
    // The mantissa, between sqrt(1/2) and sqrt(2), minus 1.
    const float f = bit_cast<float>((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    {LOG}
    const float square = f * f;
    const float near = f + (square * f * tail - 0.5f * square);
    const float value = n * high + (near * scale + n * low);
    const float edge = x == 0.0f ? -INFINITY : NAN;
    return x > 0.0f ? (x < INFINITY ? value : x) : edge;
}
""".replace("{LOG}", _horner("tail", "f", LOG))

_QUARTER_TURNS = """\
struct Turns {
    uint64_t high[136], low[136];
};

// The bits of 2/pi from one on, for every exponent: 64 of them, and the next 32.
constexpr Turns turns_by_exponent() {
    // After 32 zero bits.
    constexpr uint32_t words[9] = {0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                   0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};
    Turns found{};
    for (int at = 0; at < 136; ++at) {
        const uint64_t a = words[at >> 5], b = words[(at >> 5) + 1];
        const uint64_t c = words[(at >> 5) + 2], d = words[(at >> 5) + 3];
        const int shift = at & 31;
        found.high[at] = (((a << 32 | b) << shift) >> 32) << 32 | ((b << 32 | c) << shift) >> 32;
        found.low[at] = ((c << 32 | d) << shift) >> 32;
    }
    return found;
}

static constexpr Turns two_over_pi = turns_by_exponent();

struct Angle {
    float r;          // from -pi/4 to pi/4
    uint32_t quarter; // x - r is this many times pi/2
};

// A float is an integer times 2^e. Multiply it by the 96 bits of 2/pi that are neither multiples of 4 nor
// negligible: the two highest bits of the product are the quarter, the bits below them the remainder.
inline Angle quarter_turns(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x) & 0x7fffffffu;
    const uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
    const int32_t exponent = static_cast<int32_t>(bits >> 23) - 120;
    // Infinities and NaN have the exponent 135.
    const int64_t at = exponent < 0 ? 0 : exponent;
    const uint64_t turns = mantissa * two_over_pi.high[at] + ((mantissa * two_over_pi.low[at]) >> 32);
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

_MAX = """\
// The larger value; propagates NaN.
inline float max(float a, float b) {
    const float larger = a < b ? b : a;
    return b != b ? b : larger;
}
"""

_MIN = """\
// The smaller value; propagates NaN.
inline float min(float a, float b) {
    const float smaller = a > b ? b : a;
    return b != b ? b : smaller;
}
"""

_TO_INT = """\
// Converts to an integer, rounding towards zero; saturates, and converts NaN to 0.
template <typename T>
inline T to_int(float x) {
    constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    // The first float above the range is a power of 2.
    const float end = static_cast<float>(high / 2 + 1) * 2.0f;
    const bool inside = (x >= static_cast<float>(low)) & (x < end);
    const T value = static_cast<T>(inside ? x : 0.0f);
    return inside ? value : x != x ? T{0} : x < 0.0f ? low : high;
}
"""

_PART = """\
// Type of partial sums: vector lanes split the rounding errors of a sum; without optimisation there is just one lane.
#if defined(__OPTIMIZE__)
using part = float;
#else
using part = double;
#endif
"""

_INTERLEAVE = """\
// Interleaves the elements of both halves.
template <int count, typename T>
inline void interleave(const T* in, T* out) {
    for (int k = 0; k < count / 2; ++k) {
        out[2 * k] = in[k];
        out[2 * k + 1] = in[k + count / 2];
    }
}
"""

_SEPARATE = """\
// Undoes interleave.
template <int count, typename T>
inline void separate(const T* in, T* out) {
    for (int k = 0; k < count / 2; ++k) {
        out[k] = in[2 * k];
        out[k + count / 2] = in[2 * k + 1];
    }
}
"""


def _five_steps(name: str, step: str, words: str) -> str:
    """Return the text of a function that applies a step on 32 rows five times."""
    hops = (("in", "a"), ("a", "b"), ("b", "a"), ("a", "b"), ("b", "out"))
    steps = "\n    ".join(f"{step}<32 * cols>({x}, {y});" for x, y in hops)
    return f"""\
{words}
template <int cols, typename T>
inline void {name}(const T* in, T* out) {{
    T a[32 * cols], b[32 * cols];
    {steps}
}}
"""


_TURN = _five_steps(
    "turn",
    "interleave",
    "// Transposes 32 rows in five steps, each of which doubles the distance of the elements of a row, with vector\n"
    "// instructions instead of moves of single elements.",
)
_TURN_BACK = _five_steps("turn_back", "separate", "// Undoes turn.")

#: Name -> text.
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
    "logarithm": _LOGARITHM,
    "quarter_turns": _QUARTER_TURNS,
    "sine": _SINE,
    "max": _MAX,
    "min": _MIN,
    "to_int": _TO_INT,
    "interleave": _INTERLEAVE,
    "separate": _SEPARATE,
    "turn": _TURN,
    "turn_back": _TURN_BACK,
    "part": _PART,
}
