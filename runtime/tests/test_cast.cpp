// Cast: every A2 pair with every mode against an independent reference in double.
#include "kernel_support.h"

using namespace AscendC;

namespace {

double RoundTo(double v, RoundMode mode) {
    switch (mode) {
        case RoundMode::CAST_FLOOR: return std::floor(v);
        case RoundMode::CAST_CEIL: return std::ceil(v);
        case RoundMode::CAST_ROUND: return std::round(v);
        case RoundMode::CAST_TRUNC: return std::trunc(v);
        default: return std::nearbyint(v);
    }
}

template <typename D> D Clamp(double v) {
    if (std::isnan(v)) return 0;
    const double lo = static_cast<double>(std::numeric_limits<D>::min());
    const double hi = static_cast<double>(std::numeric_limits<D>::max());
    if (v <= lo) return std::numeric_limits<D>::min();
    if (v >= hi) return std::numeric_limits<D>::max();
    return static_cast<D>(v);
}

template <typename D, typename S> std::vector<D> Run(const std::vector<S>& x, RoundMode mode) {
    return Apply<D>(x, [&](LocalTensor<D>& y, LocalTensor<S>& s, int32_t n) { Cast(y, s, mode, static_cast<uint32_t>(n)); });
}

const RoundMode kFive[] = {RoundMode::CAST_RINT, RoundMode::CAST_FLOOR, RoundMode::CAST_CEIL, RoundMode::CAST_ROUND,
                           RoundMode::CAST_TRUNC};

std::vector<float> Values() {
    std::vector<float> out = {0.0f, -0.0f, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, -2.5f, 0.49999997f, -0.49999997f, 8388607.5f, 8388609.0f,
                              127.5f, 128.0f, -128.5f, -129.0f, 255.5f, 256.0f, 32767.5f, -32768.5f, 65519.0f, 65520.0f, 65536.0f,
                              2147483520.0f, 2147483648.0f, -2147483648.0f, -2147483904.0f, 9.2e18f, 9.3e18f, -9.3e18f, 1e30f,
                              INFINITY, -INFINITY, NAN, 1e-8f, -1e-8f, 6e-8f, 3e-8f, 2.9802322e-8f, 1e-40f, 5.9604645e-8f};
    uint64_t state = 3;
    while (out.size() < 1000) {
        const float m = static_cast<float>(static_cast<int64_t>(Next(state) % 2000001) - 1000000) / 1000.0f;
        out.push_back(std::ldexp(m, static_cast<int>(Next(state) % 24) - 12));
    }
    return out;
}

template <typename D, typename S> void ToInt(const std::vector<S>& x) {
    for (RoundMode mode : kFive) {
        const auto y = Run<D>(x, mode);
        for (size_t i = 0; i < x.size(); ++i) {
            CHECK_EQ(y[i], Clamp<D>(RoundTo(static_cast<double>(static_cast<float>(x[i])), mode)));
        }
    }
}

// Reference rounding of a double to `digits` significant bits with a smallest unit of 2^min_exp.
double RoundBits(double v, int digits, int min_exp, RoundMode mode) {
    if (v == 0 || std::isnan(v) || std::isinf(v)) return v;
    int e = 0;
    std::frexp(v, &e);
    const int unit = std::max(e - digits, min_exp);
    const double scaled = std::ldexp(v, -unit);
    if (mode == RoundMode::CAST_ODD) {
        const double down = std::trunc(scaled);
        if (down == scaled || std::fmod(std::fabs(down), 2.0) == 1.0) return std::ldexp(down, unit);
        return std::ldexp(down + (v < 0 ? -1.0 : 1.0), unit);
    }
    return std::ldexp(RoundTo(scaled, mode), unit);
}

void ToHalf() {
    const auto x = Values();
    for (int m = 0; m <= 6; ++m) {
        const auto mode = static_cast<RoundMode>(m);
        const auto y = Run<half>(x, mode);
        for (size_t i = 0; i < x.size(); ++i) {
            const float got = y[i];
            const double want = RoundBits(static_cast<double>(x[i]), 11, -24, mode);
            if (std::isnan(want)) {
                CHECK(std::isnan(got));
            } else if (std::fabs(want) < 65536.0) {
                CHECK(static_cast<double>(got) == want);
            } else if (!std::isinf(x[i]) && (mode == RoundMode::CAST_TRUNC || (mode == RoundMode::CAST_FLOOR && want > 0))) {
                CHECK(std::fabs(got) == 65504.0f);
            } else if (mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT) {
                CHECK(std::isinf(got));
            }
        }
    }
}

void ToBf16() {
    const auto x = Values();
    for (RoundMode mode : kFive) {
        const auto y = Run<bfloat16_t>(x, mode);
        for (size_t i = 0; i < x.size(); ++i) {
            const double want = RoundBits(static_cast<double>(x[i]), 8, -133, mode);
            CHECK(std::isnan(want) ? std::isnan(static_cast<float>(y[i])) : static_cast<double>(static_cast<float>(y[i])) == want);
        }
    }
}

template <typename S> void IntToFloat() {
    std::vector<S> x;
    uint64_t state = 11;
    for (int i = 0; i < 800; ++i) {
        const uint64_t bits = Next(state) << 33 ^ Next(state) << 5 ^ Next(state);
        const S v = static_cast<S>(static_cast<S>(bits) >> (Next(state) % (sizeof(S) * 8 - 1)));
        x.push_back(i % 16 == 0 ? static_cast<S>((S(1) << (sizeof(S) * 8 - 5)) + (S(1) << (sizeof(S) * 8 - 30)) * (i / 16)) : v);
    }
    x.push_back(std::numeric_limits<S>::min());
    x.push_back(std::numeric_limits<S>::max());
    for (RoundMode mode : kFive) {
        const auto y = Run<float>(x, mode);
        for (size_t i = 0; i < x.size(); ++i) {
            // long double holds every 64-bit integer on x86; skip the check where it does not.
            if (std::numeric_limits<long double>::digits < 64 && sizeof(S) == 8) continue;
            const long double v = static_cast<long double>(x[i]);
            int e = 0;
            std::frexp(v, &e);
            const long double scaled = std::ldexp(v, e > 24 ? 24 - e : 0);
            long double r = 0;
            switch (mode) {
                case RoundMode::CAST_FLOOR: r = std::floor(scaled); break;
                case RoundMode::CAST_CEIL: r = std::ceil(scaled); break;
                case RoundMode::CAST_ROUND: r = std::round(scaled); break;
                case RoundMode::CAST_TRUNC: r = std::trunc(scaled); break;
                default: r = std::nearbyint(scaled); break;
            }
            CHECK(static_cast<long double>(y[i]) == std::ldexp(r, e > 24 ? e - 24 : 0));
        }
    }
}

}  // namespace

int main() {
    const auto f = Values();
    ToInt<int16_t>(f);
    ToInt<int32_t>(f);
    ToInt<int64_t>(f);
    const auto h = Halves(f);
    ToInt<int8_t>(h);
    ToInt<uint8_t>(h);
    ToInt<int16_t>(h);
    ToInt<int32_t>(h);
    ToInt<int32_t>(std::vector<bfloat16_t>(f.begin(), f.end()));
    for (RoundMode mode : kFive) {
        const auto y = Run<float>(f, mode);
        for (size_t i = 0; i < f.size(); ++i) {
            const double want = RoundTo(static_cast<double>(f[i]), mode);
            CHECK(std::isnan(want) ? std::isnan(y[i]) : (static_cast<double>(y[i]) == want && std::signbit(y[i]) == std::signbit(f[i])));
        }
    }
    ToHalf();
    ToBf16();
    IntToFloat<int32_t>();
    IntToFloat<int64_t>();

    std::vector<int16_t> s16;
    std::vector<int8_t> s8;
    std::vector<uint8_t> u8;
    for (int i = -500; i < 500; ++i) {
        s16.push_back(static_cast<int16_t>(i * 65));
        s8.push_back(static_cast<int8_t>(i));
        u8.push_back(static_cast<uint8_t>(i));
    }
    for (RoundMode mode : kFive) {
        const auto y = Run<half>(s16, mode);
        for (size_t i = 0; i < s16.size(); ++i) CHECK(static_cast<double>(static_cast<float>(y[i])) == RoundBits(s16[i], 11, -24, mode));
    }
    const auto f16 = Run<float>(s16, RoundMode::CAST_NONE);
    const auto h8 = Run<half>(s8, RoundMode::CAST_NONE);
    const auto hu8 = Run<half>(u8, RoundMode::CAST_NONE);
    for (size_t i = 0; i < s16.size(); ++i) {
        CHECK(f16[i] == s16[i] && static_cast<float>(h8[i]) == s8[i] && static_cast<float>(hu8[i]) == u8[i]);
    }
    const auto wide = Run<float>(h, RoundMode::CAST_NONE);
    for (size_t i = 0; i < h.size(); ++i) CHECK(wide[i] == static_cast<float>(h[i]) || std::isnan(wide[i]));
    const std::vector<int32_t> i32 = {0, 1, -1, 32767, 32768, -32768, -32769, 2147483647, -2147483647 - 1};
    CHECK((Run<int16_t>(i32, RoundMode::CAST_NONE) == std::vector<int16_t>{0, 1, -1, 32767, 32767, -32768, -32768, 32767, -32768}));
    const auto i64 = Run<int64_t>(i32, RoundMode::CAST_NONE);
    for (size_t i = 0; i < i32.size(); ++i) CHECK(i64[i] == i32[i]);
    CHECK((Run<int32_t>(std::vector<int64_t>{5, -5, int64_t{1} << 40, -(int64_t{1} << 40)}, RoundMode::CAST_NONE) ==
           std::vector<int32_t>{5, -5, 2147483647, -2147483647 - 1}));

    EXPECT_FINDING("cast-mode", 1, [] {
        Ub ub;
        auto x = ub.Make<half>(16);
        auto y = ub.Make<float>(16);
        Cast(y, x, RoundMode::CAST_RINT, 16);
    });
    return check::Failures() != 0;
}
