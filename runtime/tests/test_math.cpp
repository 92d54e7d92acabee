// Accuracy of the float functions against double, their special values, and equality of the instruction sets.
#include "../src/kernels/kernels.h"
#include "kernel_support.h"

using namespace autofuse_twin;

namespace {

float NextUp(float v) { return std::nextafter(v, INFINITY); }

double Ulps(float got, double want) {
    if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
    const float w = static_cast<float>(want);
    if (std::isinf(w) || std::isinf(got)) return got == w ? 0 : 1e9;
    const double unit = static_cast<double>(NextUp(std::fabs(w))) - std::fabs(w);
    return std::fabs(static_cast<double>(got) - want) / unit;
}

// Floats with pseudo-random signs, exponents and mantissas from a fixed seed, and the special values.
std::vector<float> Samples(size_t n, int lo_exp, int hi_exp, bool negative) {
    std::vector<float> out = {0.0f, 1.0f, 0.5f, 2.0f, NextUp(1.0f), std::nextafter(1.0f, 0.0f), INFINITY, NAN, 1e-45f, 3.4e38f};
    if (negative) out.insert(out.end(), {-0.0f, -1.0f, -0.5f, -INFINITY, -3.4e38f});
    uint64_t state = 7;
    while (out.size() < n) {
        const uint64_t r = Next(state);
        const float m = 1.0f + static_cast<float>(Next(state) % 8388608) / 8388608.0f;
        const float v = std::ldexp(m, lo_exp + static_cast<int>(r % static_cast<uint64_t>(hi_exp - lo_exp + 1)));
        out.push_back(negative && (r >> 20 & 1u) != 0 ? -v : v);
    }
    return out;
}

// All signs and exponents with many mantissas, including subnormal numbers, infinities and NaN.
std::vector<float> Stepped() {
    std::vector<float> out;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 7919) {
        const auto low = static_cast<uint32_t>(bits);
        float v;
        std::memcpy(&v, &low, sizeof(v));
        out.push_back(v);
    }
    return out;
}

// The 1001 floats around each value: boundaries between two ways to compute.
std::vector<float> Around(const std::vector<float>& values) {
    std::vector<float> out;
    for (const float v : values) {
        uint32_t bits;
        std::memcpy(&bits, &v, sizeof(bits));
        for (uint32_t i = 0; i <= 1000; ++i) {
            const uint32_t at = bits + i - 500;
            float x;
            std::memcpy(&x, &at, sizeof(x));
            out.push_back(x);
        }
    }
    return out;
}

float One(Op op, float x) {
    float y = 0;
    Kernels().element(op, Dt::F32, Dt::F32)(&y, &x, nullptr, 0, 1);
    return y;
}

// If a float holds the result exactly, the function returns it.
void ExactValues() {
    CHECK(One(Op::Exp, 0.0f) == 1.0f && One(Op::Exp, -0.0f) == 1.0f && One(Op::Exp, 1e-45f) == 1.0f);
    CHECK(One(Op::Exp, INFINITY) == INFINITY && One(Op::Exp, 3.4e38f) == INFINITY && One(Op::Exp, 88.73f) == INFINITY);
    CHECK(One(Op::Exp, -INFINITY) == 0.0f && !std::signbit(One(Op::Exp, -INFINITY)) && One(Op::Exp, -104.0f) == 0.0f);
    CHECK(One(Op::Exp, -103.9f) == 1e-45f && std::isnan(One(Op::Exp, NAN)));
    CHECK(One(Op::Ln, 1.0f) == 0.0f && !std::signbit(One(Op::Ln, 1.0f)));
    CHECK(One(Op::Ln, 0.0f) == -INFINITY && One(Op::Ln, -0.0f) == -INFINITY && One(Op::Ln, INFINITY) == INFINITY);
    CHECK(std::isnan(One(Op::Ln, -1e-45f)) && std::isnan(One(Op::Ln, -INFINITY)) && std::isnan(One(Op::Ln, NAN)));
}

void Accuracy(const char* name, Op op, const std::vector<float>& x, double (*f)(double), double limit) {
    std::vector<float> y(x.size());
    Kernels().element(op, Dt::F32, Dt::F32)(y.data(), x.data(), nullptr, 0, x.size());
    double worst = 0;
    float where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double u = Ulps(y[i], f(x[i]));
        if (u > worst) {
            worst = u;
            where = x[i];
        }
    }
    std::printf("%-12s worst %.4f ulp at %.9g\n", name, worst, static_cast<double>(where));
    CHECK(worst <= limit);
}

void SameOnAllSets(Op op, Dt dst, Dt src, const void* a, const void* b, uint64_t imm, size_t n) {
#if defined(AUTOFUSE_TWIN_X86)
    std::vector<uint8_t> x(n * 8, 0x3c);
    BaseKernels().element(op, dst, src)(x.data(), a, b, imm, n);
    for (const KernelTable* set : {HasAvx2() ? &Avx2Kernels() : nullptr, HasAvx512() ? &Avx512Kernels() : nullptr}) {
        if (set == nullptr) continue;
        std::vector<uint8_t> y(n * 8, 0x3c);
        set->element(op, dst, src)(y.data(), a, b, imm, n);
        if (x != y) {
            check::Fail(__FILE__, __LINE__,
                        std::string("base and ") + set->isa + " differ for op " + std::to_string(static_cast<int>(op)) +
                            " dtypes " + std::to_string(static_cast<int>(dst)) + "," + std::to_string(static_cast<int>(src)));
        }
    }
#else
    (void)op, (void)dst, (void)src, (void)a, (void)b, (void)imm, (void)n;
#endif
}

std::vector<const KernelTable*> Sets() {
    std::vector<const KernelTable*> out = {&BaseKernels()};
#if defined(AUTOFUSE_TWIN_X86)
    if (HasAvx2()) out.push_back(&Avx2Kernels());
    if (HasAvx512()) out.push_back(&Avx512Kernels());
#endif
    return out;
}

// Plain numbers take a shorter path if all their neighbours are plain: both paths give the same result.
template <typename T> void Neighbours(Op op, Dt dt, const std::vector<T>& plain, T odd) {
    for (const KernelTable* set : Sets()) {
        const ElementFn fn = set->element(op, dt, dt);
        std::vector<T> together(plain.size());
        fn(together.data(), plain.data(), nullptr, 0, plain.size());
        std::vector<T> mixed = plain;
        for (size_t i = 0; i < mixed.size(); i += 16) mixed[i] = odd;
        fn(mixed.data(), mixed.data(), nullptr, 0, mixed.size());
        for (size_t i = 0; i < plain.size(); ++i) {
            T alone;
            fn(&alone, &plain[i], nullptr, 0, 1);
            CHECK(std::memcmp(&alone, &together[i], sizeof(T)) == 0);
            CHECK(i % 16 == 0 || std::memcmp(&alone, &mixed[i], sizeof(T)) == 0);
        }
    }
}

void PlainRanges() {
    Neighbours(Op::Exp, Dt::F32, Samples(20001, -20, 5, true), NAN);
    Neighbours(Op::Exp, Dt::F32, Around({87.0f, -87.0f, 86.9f, 0.0f}), 1000.0f);
    Neighbours(Op::Ln, Dt::F32, Samples(20001, -126, 127, false), -1.0f);
    Neighbours(Op::Ln, Dt::F32, Around({1.17549435e-38f, 3.4028235e38f, 1.0f}), 0.0f);
    std::vector<uint16_t> halves;
    for (uint32_t i = 0; i < 0x7c00; ++i) halves.push_back(static_cast<uint16_t>(i));
    Neighbours<uint16_t>(Op::Ln, Dt::F16, halves, 0xbc00);
    for (uint32_t i = 0; i < 0x7c00; ++i) halves.push_back(static_cast<uint16_t>(i | 0x8000u));
    Neighbours<uint16_t>(Op::Exp, Dt::F16, halves, 0x7e00);
}

// Byte moves of any length and alignment, without touching bytes around them.
void Bytes() {
    std::vector<uint8_t> from(5000);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 37 + i / 251);
    alignas(64) static uint8_t to[4096];
    const auto around = [&](size_t lo, size_t n) {
        for (size_t i = 0; i < sizeof(to); ++i) {
            CHECK((i >= lo && i < lo + n) || to[i] == 0xee);
        }
    };
    for (const KernelTable* set : Sets()) {
        for (const size_t n : {0, 1, 31, 32, 33, 63, 64, 65, 127, 255, 256, 1000, 2048, 3001}) {
            for (const size_t lo : {0, 4, 32, 60}) {
                for (const size_t at : {0, 1, 16}) {
                    std::memset(to, 0xee, sizeof(to));
                    set->copy(to + lo, from.data() + at, n);
                    CHECK(std::memcmp(to + lo, from.data() + at, n) == 0);
                    around(lo, n);
                    std::memset(to, 0xee, sizeof(to));
                    set->tile(to + lo, from.data() + at, n);
                    for (size_t i = 0; i < n; ++i) CHECK(to[lo + i] == from[at + i % 32]);
                    around(lo, n);
                }
            }
            std::memset(to, 0xee, sizeof(to));
            const size_t lines = n / 64 * 64;
            set->stream(to + 64, from.data() + 3, lines);
            CHECK(std::memcmp(to + 64, from.data() + 3, lines) == 0);
            around(64, lines);
        }
    }
}

}  // namespace

int main() {
    PlainRanges();
    Bytes();
    const auto wide = Samples(300000, -126, 127, true);
    const auto small = Samples(300000, -30, 6, true);
    const auto positive = Samples(300000, -126, 127, false);
    // Exp and Ln are computed in float; the others are rounded once.
    const auto exp = [](double v) { return std::exp(v); };
    const auto ln = [](double v) { return std::log(v); };
    Accuracy("exp", Op::Exp, small, exp, 0.8);
    Accuracy("exp wide", Op::Exp, wide, exp, 0.8);
    Accuracy("exp stepped", Op::Exp, Stepped(), exp, 0.8);
    Accuracy("exp limits", Op::Exp, Around({88.7228394f, -87.3365479f, -103.972084f, 89.0f, -104.0f, 0.34657359f}), exp, 0.8);
    Accuracy("ln", Op::Ln, positive, ln, 0.85);
    Accuracy("ln near 1", Op::Ln, Samples(300000, -1, 0, false), ln, 0.85);
    Accuracy("ln stepped", Op::Ln, Stepped(), ln, 0.85);
    Accuracy("ln limits", Op::Ln, Around({1.0f, 0.70710678f, 1.41421356f, 1.17549435e-38f, 1e-40f, 3.4e38f}), ln, 0.85);
    ExactValues();
    Accuracy("sqrt", Op::Sqrt, wide, [](double v) { return std::sqrt(v); }, 0.501);
    Accuracy("rsqrt", Op::Rsqrt, positive, [](double v) { return 1.0 / std::sqrt(v); }, 0.501);
    Accuracy("reciprocal", Op::Reciprocal, wide, [](double v) { return 1.0 / v; }, 0.501);
    Accuracy("sigmoid", Op::Sigmoid, small, [](double v) { return 1.0 / (1.0 + std::exp(-v)); }, 0.501);
    Accuracy("silu", Op::Silu, small, [](double v) { return v / (1.0 + std::exp(-v)); }, 0.501);
    Accuracy("tanh", Op::Tanh, wide, [](double v) { return std::tanh(v); }, 0.501);
    Accuracy("tanh small", Op::Tanh, small, [](double v) { return std::tanh(v); }, 0.501);
    Accuracy("erf", Op::Erf, small, [](double v) { return std::erf(v); }, 0.501);
    Accuracy("sin", Op::Sin, small, [](double v) { return std::sin(v); }, 0.501);
    Accuracy("cos", Op::Cos, small, [](double v) { return std::cos(v); }, 0.501);
    Accuracy("gelu", Op::Gelu, small,
             [](double v) { return v / (1.0 + std::exp(-1.5957691216057308 * (v + 0.044715 * v * v * v))); }, 0.501);

    // Half operations: the float result rounded once.
    std::vector<float> a;
    std::vector<float> b;
    for (uint32_t i = 0; i < 60000; ++i) {
        a.push_back(HalfBitsToFloat(static_cast<uint16_t>(i * 7919u)));
        b.push_back(HalfBitsToFloat(static_cast<uint16_t>(i * 104729u + 5u)));
    }
    const auto ha = Halves(a);
    const auto hb = Halves(b);
    std::vector<half> hy(ha.size());
    Kernels().element(Op::Mul, Dt::F16, Dt::F16)(hy.data(), ha.data(), hb.data(), 0, ha.size());
    for (size_t i = 0; i < ha.size(); ++i) {
        const float want = static_cast<float>(ha[i]) * static_cast<float>(hb[i]);
        CHECK(std::isnan(want) ? std::isnan(static_cast<float>(hy[i])) : hy[i].Bits() == half(want).Bits());
    }

    for (int op = 0; op < static_cast<int>(Op::kCount); ++op) {
        const auto o = static_cast<Op>(op);
        if (o == Op::Cast || o == Op::Erf || o == Op::Sin || o == Op::Cos) continue;
        for (Dt dt : {Dt::F32, Dt::F16, Dt::I16, Dt::I32, Dt::U16, Dt::U32}) {
            if (Kernels().element(o, dt, dt) == nullptr) continue;
            const void* x = dt == Dt::F32 ? static_cast<const void*>(wide.data()) : static_cast<const void*>(ha.data());
            const void* y = dt == Dt::F32 ? static_cast<const void*>(small.data()) : static_cast<const void*>(hb.data());
            SameOnAllSets(o, dt, dt, x, y, o >= Op::ShiftLeft && o <= Op::ShiftRightRound ? 3 : 0x4200, 20000);
        }
    }
    for (uint64_t mode = 0; mode < 7; ++mode) {
        for (int d = 0; d < static_cast<int>(Dt::kCount); ++d) {
            for (int s = 0; s < static_cast<int>(Dt::kCount); ++s) {
                if (Kernels().element(Op::Cast, static_cast<Dt>(d), static_cast<Dt>(s)) == nullptr) continue;
                SameOnAllSets(Op::Cast, static_cast<Dt>(d), static_cast<Dt>(s), wide.data(), nullptr, mode, 20000);
            }
        }
    }
    std::printf("instruction set in use: %s\n", Kernels().isa);
    return check::Failures() != 0;
}
