// half and bfloat16_t: every bit pattern, and rounding against an independent computation in double.
#include <cmath>

#include "check.h"
#include "kernel_operator.h"

namespace {

double HalfValue(uint32_t bits) {
    const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
    const uint32_t e = bits >> 10 & 31u;
    const uint32_t m = bits & 1023u;
    if (e == 31) return m != 0 ? std::nan("") : sign * INFINITY;
    return sign * (e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, static_cast<int>(e) - 25));
}

// Nearest half of a finite double by comparing with both neighbours.
uint16_t NearestHalf(double v) {
    const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
    const double mag = std::fabs(v);
    uint32_t lo = 0;
    uint32_t hi = 0x7c00;
    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;
        (HalfValue(mid) <= mag ? lo : hi) = mid;
    }
    const double below = HalfValue(lo);
    const double above = hi == 0x7c00 ? 65536.0 : HalfValue(hi);
    const double to_below = mag - below;
    const double to_above = above - mag;
    const uint32_t pick = to_below < to_above || (to_below == to_above && (lo & 1u) == 0) ? lo : hi;
    return static_cast<uint16_t>(sign | pick);
}

}  // namespace

int main() {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const half h = half::FromBits(static_cast<uint16_t>(bits));
        const float f = h;
        const double expected = HalfValue(bits);
        CHECK(std::isnan(expected) ? std::isnan(f) : (static_cast<double>(f) == expected && std::signbit(f) == std::signbit(expected)));
        if (!std::isnan(expected)) {
            CHECK_EQ(half(f).Bits(), static_cast<uint16_t>(bits));
            const bfloat16_t b = bfloat16_t::FromBits(static_cast<uint16_t>(bits));
            if (!std::isnan(static_cast<float>(b))) {
                CHECK_EQ(bfloat16_t(static_cast<float>(b)).Bits(), static_cast<uint16_t>(bits));
            }
        }
    }
    uint64_t state = 1;
    for (int i = 0; i < 400000; ++i) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        uint32_t bits = static_cast<uint32_t>(state >> 32);
        if (i % 2 != 0) {
            // Around the half range, with many exact ties.
            bits = (bits & 0x80000000u) | ((100u + bits % 45u) << 23) | (bits & 0x7fffffu & ~(i % 4 == 1 ? 0xfffu : 0u));
        }
        const float f = autofuse_twin::BitsFloat(bits);
        if (std::isnan(f)) continue;
        const uint16_t expected = std::isinf(f) ? static_cast<uint16_t>(std::signbit(f) ? 0xfc00 : 0x7c00) : NearestHalf(f);
        if (half(f).Bits() != expected) {
            CHECK_EQ(half(f).Bits(), expected);
            break;
        }
    }
    // Language use in generated code.
    const half a = static_cast<half>(1.5f);
    half b(2);
    b += a;
    CHECK(static_cast<float>(b) == 3.5f);
    CHECK(a < b && half(0.1) == half(0.1f) && static_cast<int32_t>(b) == 3);
    CHECK(static_cast<float>(bfloat16_t(1.0f + 1.0f / 256)) == 1.0f);            // tie to even
    CHECK(static_cast<float>(bfloat16_t(1.0f + 3.0f / 256)) == 1.0f + 4.0f / 256);
    CHECK(std::isnan(static_cast<float>(half(NAN))) && std::isnan(static_cast<float>(bfloat16_t(NAN))));
    constexpr half c = 0.25f;
    static_assert(c.Bits() == 0x3400, "compile-time conversion");
    return check::Failures() != 0;
}
