// Compare (all modes, bit order) and Select (all modes), count and repeat forms.
#include "kernel_support.h"

using namespace AscendC;

namespace {

template <typename T> bool Reference(T a, T b, CMPMODE mode) {
    const float x = static_cast<float>(a);
    const float y = static_cast<float>(b);
    switch (mode) {
        case CMPMODE::LT: return x < y;
        case CMPMODE::GT: return x > y;
        case CMPMODE::EQ: return x == y;
        case CMPMODE::LE: return x <= y;
        case CMPMODE::GE: return x >= y;
        default: return x != y;
    }
}

template <typename T> std::vector<T> Values(uint32_t n, uint64_t seed) {
    std::vector<T> out;
    for (uint32_t i = 0; i < n; ++i) {
        out.push_back(T(static_cast<float>(static_cast<int64_t>(Next(seed) % 9) - 4)));
    }
    out[3] = T(NAN);
    return out;
}

template <typename T> void All() {
    constexpr uint32_t kPerRepeat = 256 / sizeof(T);
    const uint32_t n = kPerRepeat * 6;
    const auto a = Values<T>(n, 1);
    const auto b = Values<T>(n, 2);
    for (int m = 0; m < 6; ++m) {
        const auto mode = static_cast<CMPMODE>(m);
        EXPECT_CLEAN(1, [&] {
            Ub ub;
            auto x = ub.Make(a);
            auto y = ub.Make(b);
            auto z = ub.Make<T>(n);
            auto bits = ub.Make<uint8_t>(n / 8);
            const auto bit = [&](uint32_t i) { return (bits.GetValue(i / 8) >> (i % 8) & 1) != 0; };
            Compare(bits, x, y, mode, n);
            for (uint32_t i = 0; i < n; ++i) CHECK(bit(i) == Reference(a[i], b[i], mode));
            Select(z, bits, x, y, SELMODE::VSEL_TENSOR_TENSOR_MODE, n);
            for (uint32_t i = 0; i < n; ++i) CHECK(z.GetValue(i) == (bit(i) ? a[i] : b[i]) || i == 3);
            Select(z, bits, x, T(9.0f), SELMODE::VSEL_TENSOR_SCALAR_MODE, n);
            for (uint32_t i = 0; i < n; ++i) CHECK(z.GetValue(i) == (bit(i) ? a[i] : T(9.0f)) || i == 3);
            Select(z, bits, x, y, SELMODE::VSEL_CMPMASK_SPR, n);
            for (uint32_t i = 0; i < n; ++i) CHECK(z.GetValue(i) == (bit(i % kPerRepeat) ? a[i] : b[i]) || i == 3);
            // Repeat forms over every second row.
            const BinaryRepeatParams p{1, 1, 1, 16, 16, 16};
            Duplicate(z, T(0.0f), static_cast<int32_t>(n));
            Select(z, bits, x, y, SELMODE::VSEL_TENSOR_TENSOR_MODE, uint64_t{kPerRepeat}, 3, p);
            for (uint32_t i = 0; i < n; ++i) {
                const uint32_t row = i / kPerRepeat;
                const uint32_t k = row / 2 * kPerRepeat + i % kPerRepeat;
                const T want = row % 2 == 0 ? (bit(k) ? a[i] : b[i]) : T(0.0f);
                CHECK(z.GetValue(i) == want || i == 3);
            }
            Compares(bits, x, T(1.0f), mode, n);
            for (uint32_t i = 0; i < n; ++i) CHECK(bit(i) == Reference(a[i], T(1.0f), mode));
            CompareScalar(bits, x, T(-1.0f), mode, uint64_t{kPerRepeat}, 6, UnaryRepeatParams{});
            for (uint32_t i = 0; i < n; ++i) CHECK(bit(i) == Reference(a[i], T(-1.0f), mode));
            // Through the compare-mask register.
            Compare(x, y, mode, uint64_t{kPerRepeat}, BinaryRepeatParams{});
            Select<T, SELMODE::VSEL_CMPMASK_SPR>(z, x, y, 2, BinaryRepeatParams{});
            for (uint32_t i = 0; i < 2 * kPerRepeat; ++i) {
                const uint32_t k = i % kPerRepeat;
                CHECK(z.GetValue(i) == (Reference(a[k], b[k], mode) ? a[i] : b[i]) || i == 3);
            }
            ResetMask();
        });
    }
}

}  // namespace

int main() {
    All<float>();
    All<half>();
    EXPECT_CLEAN(1, [] {
        Ub ub;
        auto x = ub.Make(std::vector<int32_t>(64, 4));
        auto y = ub.Make(std::vector<int32_t>(64, 5));
        y.SetValue(10, 4);
        auto bits = ub.Make<uint8_t>(8);
        Compare(bits, x, y, CMPMODE::EQ, 64);
        CHECK(bits.GetValue(0) == 0 && bits.GetValue(1) == 4);
    });
    return check::Failures() != 0;
}
