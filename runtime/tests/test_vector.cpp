// Vector functions: results of the count forms per type, and the high-dimensional forms against a lane model.
#include <algorithm>

#include "kernel_support.h"

using namespace AscendC;

namespace {

std::vector<float> Floats(uint32_t n, uint64_t seed) {
    std::vector<float> out(n);
    for (float& v : out) {
        v = static_cast<float>(static_cast<int64_t>(Next(seed) % 4001) - 2000) / 64.0f;
    }
    return out;
}
template <typename T> std::vector<T> Ints(uint32_t n, uint64_t seed) {
    std::vector<T> out(n);
    for (T& v : out) {
        v = static_cast<T>(Next(seed) << 7 ^ Next(seed));
    }
    return out;
}

template <typename T, typename F> void ExpectEach(const std::vector<T>& got, size_t n, F want) {
    for (size_t i = 0; i < n; ++i) {
        const T w = want(i);
        if (std::memcmp(&got[i], &w, sizeof(T)) != 0) {
            check::Fail(__FILE__, __LINE__, "element " + std::to_string(i) + ": " + std::to_string(static_cast<double>(got[i])) +
                                                " instead of " + std::to_string(static_cast<double>(w)));
            return;
        }
    }
}

#define UNARY(T, Name) Apply<T>(a, [](LocalTensor<T>& d, LocalTensor<T>& s, int32_t n) { Name(d, s, n); })
#define BINARY(T, Name) \
    Apply2<T>(a, b, [](LocalTensor<T>& d, LocalTensor<T>& s0, LocalTensor<T>& s1, int32_t n) { Name(d, s0, s1, n); })
#define SCALAR(T, Name, value) \
    Apply<T>(a, [](LocalTensor<T>& d, LocalTensor<T>& s, int32_t n) { Name(d, s, static_cast<T>(value), n); })

template <typename T> void FloatOps(uint32_t n) {
    const auto fa = Floats(n, 1);
    const auto fb = Floats(n, 2);
    const std::vector<T> a(fa.begin(), fa.end());
    const std::vector<T> b(fb.begin(), fb.end());
    const auto A = [&](size_t i) { return static_cast<float>(a[i]); };
    const auto B = [&](size_t i) { return static_cast<float>(b[i]); };
    ExpectEach(BINARY(T, Add), n, [&](size_t i) { return T(A(i) + B(i)); });
    ExpectEach(BINARY(T, Sub), n, [&](size_t i) { return T(A(i) - B(i)); });
    ExpectEach(BINARY(T, Mul), n, [&](size_t i) { return T(A(i) * B(i)); });
    ExpectEach(BINARY(T, Max), n, [&](size_t i) { return T(std::fmax(A(i), B(i))); });
    ExpectEach(BINARY(T, Min), n, [&](size_t i) { return T(std::fmin(A(i), B(i))); });
    ExpectEach(BINARY(T, AddRelu), n, [&](size_t i) { return T(std::fmax(A(i) + B(i), 0.0f)); });
    ExpectEach(UNARY(T, Abs), n, [&](size_t i) { return T(std::fabs(A(i))); });
    ExpectEach(UNARY(T, Relu), n, [&](size_t i) { return T(A(i) < 0 ? 0.0f : A(i)); });
    // Exp is accurate to one unit in the last place (test_math.cpp).
    const auto exp = UNARY(T, Exp);
    for (size_t i = 0; i < n; ++i) {
        const double want = std::exp(static_cast<double>(A(i)));
        const double got = static_cast<float>(exp[i]);
        const double unit = sizeof(T) == 2 ? std::max(want, 0x1p-14) * 0x1p-10 : want * 0x1p-23;
        CHECK(std::fabs(got - want) <= unit || (sizeof(T) == 2 && std::isinf(got) && want >= 65520.0));
    }
    ExpectEach(SCALAR(T, Adds, 1.5f), n, [&](size_t i) { return T(A(i) + 1.5f); });
    ExpectEach(SCALAR(T, Muls, -3.0f), n, [&](size_t i) { return T(A(i) * -3.0f); });
    ExpectEach(SCALAR(T, Maxs, 0.25f), n, [&](size_t i) { return T(std::fmax(A(i), 0.25f)); });
    ExpectEach(SCALAR(T, Mins, 0.25f), n, [&](size_t i) { return T(std::fmin(A(i), 0.25f)); });
    ExpectEach(SCALAR(T, LeakyRelu, 0.125f), n, [&](size_t i) { return T(A(i) >= 0 ? A(i) : A(i) * 0.125f); });
    // dst is read: start from 2.
    const auto axpy = Apply<T>(a, [](LocalTensor<T>& d, LocalTensor<T>& s, int32_t c) {
        Duplicate(d, T(2.0f), c);
        Axpy(d, s, T(0.5f), c);
    });
    ExpectEach(axpy, n, [&](size_t i) { return T(2.0f + A(i) * 0.5f); });
    const auto mad = Apply2<T>(a, b, [](LocalTensor<T>& d, LocalTensor<T>& s, LocalTensor<T>& t, int32_t c) {
        Duplicate(d, T(2.0f), c);
        MulAddDst(d, s, t, c);
    });
    ExpectEach(mad, n, [&](size_t i) { return T(2.0f + A(i) * B(i)); });
    const auto fma = Apply2<T>(a, b, [](LocalTensor<T>& d, LocalTensor<T>& s, LocalTensor<T>& t, int32_t c) {
        Duplicate(d, T(2.0f), c);
        FusedMulAdd(d, s, t, c);
    });
    ExpectEach(fma, n, [&](size_t i) { return T(2.0f * A(i) + B(i)); });
}

template <typename T> void IntOps(uint32_t n) {
    const auto a = Ints<T>(n, 1);
    const auto b = Ints<T>(n, 2);
    ExpectEach(BINARY(T, Add), n, [&](size_t i) { return static_cast<T>(static_cast<uint32_t>(a[i]) + static_cast<uint32_t>(b[i])); });
    ExpectEach(BINARY(T, Sub), n, [&](size_t i) { return static_cast<T>(static_cast<uint32_t>(a[i]) - static_cast<uint32_t>(b[i])); });
    ExpectEach(BINARY(T, Mul), n, [&](size_t i) { return static_cast<T>(static_cast<uint32_t>(a[i]) * static_cast<uint32_t>(b[i])); });
    ExpectEach(BINARY(T, Max), n, [&](size_t i) { return a[i] > b[i] ? a[i] : b[i]; });
    ExpectEach(SCALAR(T, Mins, 77), n, [&](size_t i) { return a[i] < 77 ? a[i] : static_cast<T>(77); });
    ExpectEach(SCALAR(T, ShiftRight, 3), n, [&](size_t i) { return static_cast<T>(a[i] >> 3); });
    ExpectEach(SCALAR(T, ShiftLeft, 3), n, [&](size_t i) { return static_cast<T>(static_cast<uint32_t>(a[i]) << 3); });
}

void NanAndInfinity() {
    const std::vector<float> a = {NAN, 1.0f, INFINITY, -INFINITY, -1.0f, 0.0f, 0.0f, 1.0f};
    const std::vector<float> b = {1.0f, NAN, 1.0f, 1.0f, 0.0f, 0.0f, NAN, 0.0f};
    const auto max = BINARY(float, Max);
    const auto min = BINARY(float, Min);
    CHECK(std::isnan(max[0]) && std::isnan(max[1]) && std::isnan(min[0]) && std::isnan(min[1]) && std::isnan(max[6]));
    const auto div = BINARY(float, Div);
    CHECK(std::isinf(div[4]) && div[4] < 0 && std::isnan(div[5]) && std::isinf(div[7]) && std::isinf(div[2]));
    const auto ln = UNARY(float, Ln);
    CHECK(std::isnan(ln[4]) && std::isinf(ln[5]) && ln[5] < 0 && std::isnan(ln[3]));
}

// Strided, masked repeats compared with the documented address rule.
void HighDimensional() {
    const auto a = Floats(2048, 5);
    const auto b = Floats(2048, 6);
    BinaryRepeatParams p{2, 1, 0, 20, 9, 4};
    uint64_t mask[2] = {0xf0f0a5a5deadbeefull, 0};
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(a);
        auto y = ub.Make(b);
        auto d = ub.Make<float>(2048);
        Duplicate(d, -7.0f, 2048);
        Add(d, x, y, mask, 3, p);
        auto got = Read(d, 2048);
        std::vector<float> want(2048, -7.0f);
        for (uint32_t r = 0; r < 3; ++r) {
            for (uint32_t i = 0; i < 64; ++i) {
                if ((mask[0] >> i & 1u) != 0) {
                    want[r * 20 * 8 + i / 8 * 2 * 8 + i % 8] = a[r * 9 * 8 + i] + b[r * 4 * 8 + i % 8];
                }
            }
        }
        CHECK(got == want);
        // The same through the mask register, and with a count mask.
        Duplicate(d, -7.0f, 2048);
        SetVectorMask<float>(0, mask[0]);
        Add<float, false>(d, x, y, MASK_PLACEHOLDER, 3, p);
        CHECK(Read(d, 2048) == want);
        ResetMask();
        Duplicate(d, 0.0f, 2048);
        Muls(d, x, 2.0f, uint64_t{40}, 2, UnaryRepeatParams{1, 1, 8, 8});
        got = Read(d, 2048);
        for (uint32_t i = 0; i < 128; ++i) CHECK(got[i] == (i % 64 < 40 ? 2 * a[i] : 0.0f));
        // Counter mode: 100 elements whatever the repeat count says.
        Duplicate(d, 0.0f, 2048);
        SetMaskCount();
        SetVectorMask<float, MaskMode::COUNTER>(0, 100);
        Abs<float, false>(d, x, MASK_PLACEHOLDER, 1, UnaryRepeatParams{});
        SetMaskNorm();
        ResetMask();
        got = Read(d, 2048);
        for (uint32_t i = 0; i < 2048; ++i) CHECK(got[i] == (i < 100 ? std::fabs(a[i]) : 0.0f));
        // Accumulation chain over repeats into one row.
        Duplicate(d, 0.0f, 64);
        Add(d, x, d, uint64_t{64}, 5, BinaryRepeatParams{1, 1, 1, 0, 8, 0});
        for (uint32_t i = 0; i < 64; ++i) {
            CHECK(d.GetValue(i) == (((a[i] + 0.0f) + a[64 + i]) + a[128 + i] + a[192 + i]) + a[256 + i]);
        }
    });
}

// Source and destination of different widths: lanes per repeat follow the wider type.
void MixedWidth() {
    const auto h = Halves(Floats(256, 9));
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(h);
        auto y = ub.Make<float>(256);
        Cast(y, x, RoundMode::CAST_NONE, uint64_t{64}, 4, UnaryRepeatParams{1, 1, 8, 4});
        for (uint32_t i = 0; i < 256; ++i) CHECK(y.GetValue(i) == static_cast<float>(h[i]));
        auto acc = ub.Make<float>(256);
        Duplicate(acc, 1.0f, 256);
        Axpy(acc, x, half(2.0f), 256);
        for (uint32_t i = 0; i < 256; ++i) CHECK(acc.GetValue(i) == 1.0f + 2.0f * static_cast<float>(h[i]));
    });
}

void FillAndIndex() {
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto i16 = ub.Make<int16_t>(100);
        CreateVecIndex(i16, static_cast<int16_t>(-3), 100u);
        for (uint32_t i = 0; i < 100; ++i) CHECK(i16.GetValue(i) == static_cast<int16_t>(i) - 3);
        auto f = ub.Make<float>(256);
        Duplicate(f, 9.0f, 256);
        CreateVecIndex(f, 0.5f, uint64_t{33}, 2, 1, 8);
        CHECK(f.GetValue(0) == 0.5f && f.GetValue(32) == 32.5f && f.GetValue(33) == 9.0f && f.GetValue(64) == 64.5f);
        auto src = ub.Make<half>(std::vector<half>(16, half(1.0f)));
        src.SetValue(9, half(5.0f));
        auto dst = ub.Make<half>(256);
        Brcb(dst, src, 2, BrcbRepeatParams{1, 8});
        for (uint32_t i = 0; i < 256; ++i) CHECK(static_cast<float>(dst.GetValue(i)) == (i / 16 == 9 ? 5.0f : 1.0f));
        auto u = ub.Make<uint32_t>(128);
        auto v = ub.Make<uint32_t>(128);
        Duplicate(u, 3u, 128);
        Duplicate(v, 1u, 128);
        Copy(v, u, uint64_t{64}, 1, CopyRepeatParams{1, 1, 8, 8});
        CHECK(v.GetValue(63) == 3u && v.GetValue(64) == 1u);
        auto n = ub.Make<uint16_t>(std::vector<uint16_t>{0x00ff, 0x1234});
        auto m = ub.Make<uint16_t>(2);
        Not(m, n, 2);
        CHECK(m.GetValue(0) == 0xff00 && m.GetValue(1) == 0xedcb);
        And(m, m, n, 2);
        CHECK(m.GetValue(0) == 0);
        auto r = ub.Make<int16_t>(std::vector<int16_t>(128, 11));
        ShiftRight(r, r, static_cast<int16_t>(2), uint64_t{128}, 1, UnaryRepeatParams{}, true);
        CHECK(r.GetValue(5) == 3);
    });
}

void AdvancedFunctions() {
    const std::vector<float> a = {-2.0f, -0.5f, 0.0f, 0.5f, 1.0f, 2.0f, 3.0f, 10.0f};
    const auto with_tmp = [&](auto op) {
        std::vector<float> out;
        EXPECT_CLEAN(1, [&] {
            Ub ub;
            auto x = ub.Make(a);
            auto y = ub.Make<float>(8);
            auto tmp = ub.Make<uint8_t>(4096);
            op(y, x, tmp);
            out = Read(y, 8);
        });
        out.resize(8);
        return out;
    };
    const auto sig = with_tmp([](auto& y, auto& x, auto& t) { Sigmoid(y, x, t, 8); });
    const auto tanh = with_tmp([](auto& y, auto& x, auto& t) { Tanh(y, x, t, 8); });
    const auto pow = with_tmp([](auto& y, auto& x, auto& t) { Power(y, x, 3.0f, t, 8); });
    const auto base = with_tmp([](auto& y, auto& x, auto& t) { Power(y, 2.0f, x, t, 8); });
    const auto sin = with_tmp([](auto& y, auto& x, auto& t) { Sin(y, x, t, 8); });
    const auto erf = with_tmp([](auto& y, auto& x, auto& t) { Erf(y, x, t, 8); });
    for (size_t i = 0; i < 8; ++i) {
        const double v = static_cast<double>(a[i]);
        CHECK(sig[i] == static_cast<float>(1.0 / (1.0 + std::exp(-v))));
        CHECK(tanh[i] == static_cast<float>(std::tanh(v)));
        CHECK(pow[i] == static_cast<float>(v * v * v));
        CHECK(base[i] == static_cast<float>(std::exp2(v)));
        CHECK(sin[i] == static_cast<float>(std::sin(v)));
        CHECK(erf[i] == static_cast<float>(std::erf(v)));
    }
    EXPECT_CLEAN(1, [] {
        Ub ub;
        auto x = ub.Make(std::vector<int32_t>{2, -1, -3, 3, 7});
        auto e = ub.Make(std::vector<int32_t>{10, 3, -1, 40, 0});
        auto y = ub.Make<int32_t>(5);
        auto tmp = ub.Make<uint8_t>(1536);
        Power(y, x, e, tmp, 5);
        uint32_t wrapped = 1;
        for (int i = 0; i < 40; ++i) wrapped *= 3u;
        CHECK(y.GetValue(3) == static_cast<int32_t>(wrapped));
        CHECK(y.GetValue(0) == 1024 && y.GetValue(1) == -1 && y.GetValue(2) == 0 && y.GetValue(4) == 1);
    });
}

// Copy as broadcasts use it, against its definition: block i of repeat r moves from src to dst by the strides.
template <typename T> void CopyForms() {
    constexpr uint32_t per = 32 / sizeof(T);
    constexpr uint32_t lanes = 256 / sizeof(T);
    struct Form {
        uint64_t mask;
        uint8_t repeats;
        uint16_t dst_blk, src_blk, dst_rep, src_rep;
    };
    const Form forms[] = {
        {lanes, 5, 1, 1, 8, 8},      {lanes, 5, 1, 0, 8, 0},      {lanes, 5, 1, 0, 8, 1},     {lanes, 4, 1, 1, 16, 8},
        {lanes, 4, 1, 1, 8, 0},      {lanes - 3, 4, 1, 1, 8, 8},  {lanes - 3, 4, 1, 0, 8, 0}, {5, 3, 1, 0, 2, 1},
        {lanes / 2, 4, 1, 1, 4, 4},  {lanes, 3, 2, 1, 16, 8},     {lanes, 3, 1, 2, 8, 16},    {lanes - 1, 3, 2, 0, 16, 3},
        {per, 6, 1, 0, 1, 0},        {1, 2, 1, 1, 1, 1},
    };
    for (const Form& f : forms) {
        std::vector<T> x(8192 / sizeof(T));
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(i + 1);
        std::vector<T> want(16384 / sizeof(T), T(9999));
        for (uint32_t r = 0; r < f.repeats; ++r) {
            for (uint32_t i = 0; i < f.mask; ++i) {
                want[(r * f.dst_rep + i / per * f.dst_blk) * per + i % per] =
                    x[(r * f.src_rep + i / per * f.src_blk) * per + i % per];
            }
        }
        std::vector<T> got;
        EXPECT_CLEAN(1, [&] {
            Ub ub;
            auto s = ub.Make(x);
            auto d = ub.Make(std::vector<T>(want.size(), T(9999)));
            Copy(d, s, f.mask, f.repeats, CopyRepeatParams{f.dst_blk, f.src_blk, f.dst_rep, f.src_rep});
            got = Read(d, static_cast<uint32_t>(want.size()));
        });
        CHECK(got == want);
        // Bits of the mask with a hole: lanes 0 to 2 and 4.
        const uint64_t holes[2] = {0x17, 0};
        EXPECT_CLEAN(1, [&] {
            Ub ub;
            auto s = ub.Make(x);
            auto d = ub.Make(std::vector<T>(64, T(9999)));
            Copy(d, s, holes, 2, CopyRepeatParams{1, 1, 1, 1});
            got = Read(d, 64);
        });
        for (uint32_t i = 0; i < 64; ++i) {
            const uint32_t lane = i % per;
            const bool taken = i < 2 * per && (lane < 3 || lane == 4);
            CHECK(got[i] == (taken ? x[i] : T(9999)));
        }
    }
}

}  // namespace

int main() {
    CopyForms<int32_t>();
    CopyForms<int16_t>();
    for (uint32_t n : {1u, 8u, 100u, 1000u}) {
        FloatOps<float>(n);
        FloatOps<half>(n);
        IntOps<int16_t>(n);
        IntOps<int32_t>(n);
    }
    NanAndInfinity();
    HighDimensional();
    MixedWidth();
    FillAndIndex();
    AdvancedFunctions();
    return check::Failures() != 0;
}
