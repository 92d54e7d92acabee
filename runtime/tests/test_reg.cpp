// Register operations against rules: every operation has a reference over edge values, in half, bfloat16, float,
// integers.
#include <algorithm>
#include <functional>
#include <type_traits>

#include "kernel_support.h"
#include "autofuse_twin/control.h"
#include "autofuse_twin/reg.h"

using namespace AscendC;
namespace R = AscendC::Reg;

namespace {

template <typename T> uint64_t BitsOf(T v) { return autofuse_twin::Bits(v); }
template <typename T> bool IsNan(T v) {
    if constexpr (std::is_integral<T>::value) {
        return false;
    } else {
        return float(v) != float(v);
    }
}
template <typename T> bool SameValue(T a, T b) { return (IsNan(a) && IsNan(b)) || BitsOf(a) == BitsOf(b); }

template <typename T> std::vector<T> Edges() {
    std::vector<T> out;
    if constexpr (std::is_integral<T>::value) {
        const T lo = std::numeric_limits<T>::min();
        const T hi = std::numeric_limits<T>::max();
        out = {T(0), T(1), T(2), T(3), T(7), T(100), lo, T(lo + 1), hi, T(hi - 1), T(hi / 2), T(-1), T(-7)};
    } else {
        const float inf = std::numeric_limits<float>::infinity();
        for (float f : {0.0f, 1.0f, 0.5f, 1.5f, 2.5f, 3.0f, 0.1f, 1e-3f, 100.0f, 1000.5f, 65504.0f, inf, 3.4028235e38f, 1e-38f, 6e-8f, 6.1e-5f}) {
            out.push_back(T(f));
            out.push_back(T(-f));
        }
        out.push_back(T(std::numeric_limits<float>::quiet_NaN()));
    }
    return out;
}

// All pairs of edges, up to whole registers.
template <typename T> void Pairs(std::vector<T>& a, std::vector<T>& b) {
    const auto e = Edges<T>();
    for (T x : e) {
        for (T y : e) {
            a.push_back(x);
            b.push_back(y);
        }
    }
    while (a.size() % 256 != 0) {
        a.push_back(e[a.size() % e.size()]);
        b.push_back(e[(a.size() * 7) % e.size()]);
    }
}

// op(dst, a, b, mask) over registers of a, b and the old values c.
template <typename D, typename T, const R::RegTrait& trait = R::RegTraitNumOne, typename F>
std::vector<D> Run(const std::vector<T>& a, const std::vector<T>& b, const std::vector<D>& c, F op) {
    std::vector<D> out(c.size());
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(a);
        auto y = ub.Make(b);
        auto z = ub.Make(c);
        constexpr uint32_t n = R::RegTensor<T, trait>::kLanes;
        constexpr uint32_t m = R::RegTensor<D, trait>::kLanes;
        auto* px = x.GetPhyAddr();
        auto* py = y.GetPhyAddr();
        auto* pz = z.GetPhyAddr();
        for (uint32_t i = 0; i * n < a.size(); ++i) {
            R::RegTensor<T, trait> ra, rb;
            R::RegTensor<D, trait> rd;
            R::LoadAlign(ra, px + i * n);
            R::LoadAlign(rb, py + i * n);
            R::LoadAlign(rd, pz + i * m);
            auto mask = R::CreateMask<D, R::MaskPattern::ALL, trait>();
            op(rd, ra, rb, mask);
            R::StoreAlign(pz + i * m, rd, mask);
        }
        out = Read(z, static_cast<uint32_t>(out.size()));
    });
    out.resize(c.size());
    return out;
}

template <typename T, const R::RegTrait& trait = R::RegTraitNumOne, typename F, typename G>
void Check2(const char* name, F op, G reference) {
    std::vector<T> a, b;
    Pairs(a, b);
    std::vector<T> c(a.rbegin(), a.rend());
    const auto got = Run<T, T, trait>(a, b, c, op);
    for (size_t i = 0; i < a.size(); ++i) {
        const T want = reference(a[i], b[i], c[i]);
        if (!SameValue(got[i], want)) {
            check::Fail(__FILE__, __LINE__, std::string(name) + " of " + std::to_string(a[i]) + ", " + std::to_string(b[i]) + ", " +
                                                std::to_string(c[i]) + " (" + std::to_string(BitsOf(a[i])) + ", " + std::to_string(BitsOf(b[i])) + ", " +
                                                std::to_string(BitsOf(c[i])) + "): bits " + std::to_string(BitsOf(got[i])) + " and not " +
                                                std::to_string(BitsOf(want)));
            return;
        }
    }
}

#define OP2(Name) [](auto& d, auto& a, auto& b, R::MaskReg& m) { R::Name(d, a, b, m); }
#define OP1(Name) [](auto& d, auto& a, auto&, R::MaskReg& m) { R::Name(d, a, m); }

template <typename T> T Flushed(T v) {
    const double tiny = std::is_same<T, half>::value ? 6.103515625e-05 : 1.1754943508222875e-38;
    return std::fabs(double(float(v))) < tiny ? T(std::copysign(0.0f, float(v))) : v;
}
template <typename T> T Larger(T a, T b) {
    if (IsNan(a) || IsNan(b)) return IsNan(a) ? a : b;
    if (float(a) == float(b)) return std::signbit(float(a)) ? b : a;
    return float(a) > float(b) ? a : b;
}
template <typename T> T Smaller(T a, T b) {
    if (IsNan(a) || IsNan(b)) return IsNan(a) ? a : b;
    if (float(a) == float(b)) return std::signbit(float(a)) ? a : b;
    return float(a) < float(b) ? a : b;
}

template <typename T> void Floats() {
    Check2<T>("Add", OP2(Add), [](T a, T b, T) { return T(float(a) + float(b)); });
    Check2<T>("Sub", OP2(Sub), [](T a, T b, T) { return T(float(a) - float(b)); });
    Check2<T>("Mul", OP2(Mul), [](T a, T b, T) { return T(float(a) * float(b)); });
    Check2<T>("Max", OP2(Max), [](T a, T b, T) { return Larger(a, b); });
    Check2<T>("Min", OP2(Min), [](T a, T b, T) { return Smaller(a, b); });
    const auto fused = [](T a, T b, T c) {
        if constexpr (std::is_same<T, float>::value) {
            return std::fma(a, b, c);
        } else {
            const float r = std::fma(float(a), float(b), float(c));
            // The product is exact in long double, and so is its difference to the rounded result.
            const long double lost = static_cast<long double>(float(a)) * float(b) - r + float(c);
            if (!std::isfinite(r) || lost == 0 || (autofuse_twin::FloatBits(r) & 1u) != 0) return T(r);
            // If the rounded result is even, one step towards the exact value makes the second rounding correct.
            return T(std::nextafter(r, lost > 0 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity()));
        }
    };
    Check2<T>("MulAddDst", OP2(MulAddDst), [=](T a, T b, T d) { return fused(a, b, d); });
    Check2<T>("MulDstAdd", OP2(MulDstAdd), [=](T a, T b, T d) { return fused(d, a, b); });
    Check2<T>("Adds", [](auto& d, auto& a, auto&, R::MaskReg& m) { R::Adds(d, a, T(1.5f), m); },
              [](T a, T, T) { return T(float(a) + 1.5f); });
    if constexpr (!std::is_same<T, bfloat16_t>::value) {
        Check2<T>("Div", OP2(Div), [](T a, T b, T) { return Flushed(T(float(Flushed(a)) / float(Flushed(b)))); });
        Check2<T>("Abs", OP1(Abs), [](T a, T, T) { return T(std::fabs(float(a))); });
        Check2<T>("Neg", OP1(Neg), [](T a, T, T) { return T(-float(a)); });
        Check2<T>("Relu", OP1(Relu), [](T a, T, T) { return IsNan(a) ? a : T(float(a) > 0 ? float(a) : 0.0f); });
        Check2<T>("Sqrt", OP1(Sqrt), [](T a, T, T) { return T(std::sqrt(float(Flushed(a)))); });
        Check2<T>("AbsSub", OP2(AbsSub), [](T a, T b, T) { return T(std::fabs(float(a) - float(b))); });
        Check2<T>("Axpy", [](auto& d, auto& a, auto&, R::MaskReg& m) { R::Axpy(d, a, T(0.5f), m); },
                  [=](T a, T, T d) { return fused(a, T(0.5f), d); });
        Check2<T>("LeakyRelu", [](auto& d, auto& a, auto&, R::MaskReg& m) { R::LeakyRelu(d, a, T(-0.5f), m); },
                  [](T a, T, T) { return float(a) > 0 || BitsOf(a) == 0 ? a : T(float(a) * -0.5f); });
        Check2<T>("Prelu", OP2(Prelu), [](T a, T b, T) { return float(a) > 0 || BitsOf(a) == 0 ? a : T(float(a) * float(b)); });
        Check2<T>("Muls", [](auto& d, auto& a, auto&, R::MaskReg& m) { R::Muls(d, a, T(3.0f), m); },
                  [](T a, T, T) { return T(float(a) * 3.0f); });
    }
    Check2<T>("Truncate", [](auto& d, auto& a, auto&, R::MaskReg& m) { R::Truncate<T, RoundMode::CAST_RINT>(d, a, m); },
              [](T a, T, T) { return T(std::nearbyint(float(a))); });
}

template <typename T, const R::RegTrait& trait = R::RegTraitNumOne> void Ints() {
    using W = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    Check2<T, trait>("Add", OP2(Add), [](T a, T b, T) { return T(W(a) + W(b)); });
    Check2<T, trait>("Sub", OP2(Sub), [](T a, T b, T) { return T(W(a) - W(b)); });
    Check2<T, trait>("Max", OP2(Max), [](T a, T b, T) { return std::max(a, b); });
    Check2<T, trait>("Min", OP2(Min), [](T a, T b, T) { return std::min(a, b); });
    Check2<T, trait>("And", OP2(And), [](T a, T b, T) { return T(a & b); });
    Check2<T, trait>("Or", OP2(Or), [](T a, T b, T) { return T(a | b); });
    Check2<T, trait>("Xor", OP2(Xor), [](T a, T b, T) { return T(a ^ b); });
    Check2<T, trait>("Not", OP1(Not), [](T a, T, T) { return T(~a); });
    Check2<T, trait>("ShiftRights", [](auto& d, auto& a, auto&, R::MaskReg& m) { R::ShiftRights(d, a, int16_t(3), m); },
                     [](T a, T, T) { return T(a >> 3); });
    Check2<T, trait>("ShiftLefts", [](auto& d, auto& a, auto&, R::MaskReg& m) { R::ShiftLefts(d, a, int16_t(100), m); },
                     [](T, T, T) { return T(0); });
    if constexpr (sizeof(T) > 1) {
        Check2<T, trait>("Mul", OP2(Mul), [](T a, T b, T) { return T(W(a) * W(b)); });
        Check2<T, trait>("Muls", [](auto& d, auto& a, auto&, R::MaskReg& m) { R::Muls(d, a, T(3), m); },
                         [](T a, T, T) { return T(W(a) * 3u); });
        Check2<T, trait>("Div", OP2(Div), [](T a, T b, T) {
            if (b == 0) return T(-1);
            return std::is_signed<T>::value && b == T(-1) ? T(W(0) - W(a)) : T(a / b);
        });
    }
    if constexpr (std::is_signed<T>::value) {
        Check2<T, trait>("Abs", OP1(Abs), [](T a, T, T) { return a < 0 ? T(W(0) - W(a)) : a; });
        Check2<T, trait>("Neg", OP1(Neg), [](T a, T, T) { return T(W(0) - W(a)); });
    }
}

template <typename T> void Choices() {
    Check2<T>("Compare", [](auto& d, auto& a, auto& b, R::MaskReg& m) {
        R::MaskReg less;
        R::Compare<T, CMPMODE::LT>(less, a, b, m);
        R::Select(d, b, a, less);
    }, [](T a, T b, T) { return a < b ? b : a; });
    Check2<T>("Compares", [](auto& d, auto& a, auto& b, R::MaskReg& m) {
        R::MaskReg other;
        R::Compares<T, CMPMODE::NE>(other, a, T(1), m);
        R::Select(d, b, a, other);
    }, [](T a, T b, T) { return a != T(1) ? b : a; });
    // Three lanes and zeros, or the previous contents.
    std::vector<T> a(512 / sizeof(T), T(2)), b(a.size(), T(1)), c(a.size(), T(5));
    const auto zeroed = Run<T, T>(a, b, c, [](auto& d, auto& x, auto& y, R::MaskReg&) {
        auto three = R::CreateMask<T, R::MaskPattern::VL3>();
        R::Add(d, x, y, three);
    });
    const auto merged = Run<T, T>(a, b, c, [](auto& d, auto& x, auto& y, R::MaskReg&) {
        auto three = R::CreateMask<T, R::MaskPattern::VL3>();
        R::Add<T, R::MaskMergeMode::MERGING>(d, x, y, three);
    });
    const uint32_t lanes = 256 / sizeof(T);
    for (uint32_t i = 0; i < a.size(); ++i) {
        const bool on = i % lanes < 3;
        CHECK_EQ(zeroed[i], on ? T(3) : T(0));
        CHECK_EQ(merged[i], on ? T(3) : T(5));
    }
}

// ---- conversions ----

constexpr R::CastTrait kLow{R::RegLayout::ZERO, R::SatMode::UNKNOWN, R::MaskMergeMode::ZEROING, RoundMode::UNKNOWN};
constexpr R::CastTrait kHigh{R::RegLayout::ONE, R::SatMode::UNKNOWN, R::MaskMergeMode::ZEROING, RoundMode::UNKNOWN};
constexpr R::CastTrait kNarrowLow{R::RegLayout::ZERO, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kNarrowHigh{R::RegLayout::ONE, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kSatLow{R::RegLayout::ZERO, R::SatMode::SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kWhole{R::RegLayout::UNKNOWN, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_TRUNC};
constexpr R::CastTrait kWholeSat{R::RegLayout::UNKNOWN, R::SatMode::SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_TRUNC};
constexpr R::CastTrait kIntSat{R::RegLayout::ONE, R::SatMode::SAT, R::MaskMergeMode::ZEROING, RoundMode::UNKNOWN};
constexpr R::CastTrait kIntCut{R::RegLayout::ONE, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::UNKNOWN};

template <typename D, typename S, const R::CastTrait& trait> std::vector<D> CastOne(const std::vector<S>& in) {
    std::vector<D> out;
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        SetCtrlSpr<60, 60>(0);  // the instruction decides
        auto x = ub.Make(in);
        auto y = ub.Make<D>(256 / sizeof(D));
        R::RegTensor<S> s;
        R::RegTensor<D> d;
        auto all = R::CreateMask<S>();
        auto store = R::CreateMask<D>();
        R::LoadAlign(s, x.GetPhyAddr());
        R::Cast<D, S, trait>(d, s, all);
        R::StoreAlign(y.GetPhyAddr(), d, store);
        SetCtrlSpr<60, 60>(1);
        out = Read(y, 256 / sizeof(D));
    });
    out.resize(256 / sizeof(D));
    return out;
}

template <typename T> std::vector<T> Fill() {
    const auto e = Edges<T>();
    std::vector<T> out;
    for (uint32_t i = 0; i < 256 / sizeof(T); ++i) {
        out.push_back(e[i % e.size()]);
    }
    return out;
}

void Casts() {
    const auto h = Fill<half>();
    const auto low = CastOne<float, half, kLow>(h);
    const auto high = CastOne<float, half, kHigh>(h);
    for (uint32_t i = 0; i < 64; ++i) {
        CHECK(SameValue(low[i], float(h[2 * i])) && SameValue(high[i], float(h[2 * i + 1])));
    }
    const auto f = Fill<float>();
    const auto even = CastOne<half, float, kNarrowLow>(f);
    const auto odd = CastOne<half, float, kNarrowHigh>(f);
    const auto sat = CastOne<half, float, kSatLow>(f);
    const auto brain = CastOne<bfloat16_t, float, kNarrowHigh>(f);
    const auto whole = CastOne<int32_t, float, kWhole>(f);
    const auto whole_sat = CastOne<int32_t, float, kWholeSat>(f);
    for (uint32_t i = 0; i < 64; ++i) {
        CHECK(SameValue(even[2 * i], half(f[i])) && BitsOf(even[2 * i + 1]) == 0);
        CHECK(SameValue(odd[2 * i + 1], half(f[i])) && BitsOf(odd[2 * i]) == 0);
        CHECK(SameValue(brain[2 * i + 1], bfloat16_t(f[i])));
        const float big = std::isnan(f[i]) ? 0.0f : std::min(65504.0f, std::max(-65504.0f, f[i]));
        CHECK(SameValue(sat[2 * i], half(big)));
        const double v = f[i];
        const int32_t clamped = std::isnan(v) ? 0 : v >= 2147483648.0 ? 2147483647 : v < -2147483648.0 ? -2147483647 - 1 : static_cast<int32_t>(v);
        CHECK_EQ(whole_sat[i], clamped);
        // The largest float is a multiple of 2^32.
        CHECK_EQ(whole[i], std::isinf(v) || std::fabs(v) < 2e9 || std::isnan(v) ? clamped : 0);
    }
    const auto i = Fill<int32_t>();
    const auto cut = CastOne<int16_t, int32_t, kIntCut>(i);
    const auto clip = CastOne<int16_t, int32_t, kIntSat>(i);
    const auto bytes = CastOne<uint8_t, int16_t, kIntSat>(Fill<int16_t>());
    for (uint32_t k = 0; k < 64; ++k) {
        CHECK_EQ(cut[2 * k + 1], static_cast<int16_t>(i[k]));
        CHECK_EQ(clip[2 * k + 1], std::min(32767, std::max(-32768, i[k])));
        CHECK_EQ(cut[2 * k], 0);
    }
    const auto s = Fill<int16_t>();
    for (uint32_t k = 0; k < 128; ++k) {
        CHECK_EQ(bytes[2 * k + 1], std::min<int>(255, std::max<int>(0, s[k])));
    }
    std::vector<half> over(128, half(257.0f));
    CHECK_EQ((CastOne<uint8_t, half, kNarrowLow>(over)[0]), 1);
    CHECK_EQ((CastOne<uint8_t, half, kSatLow>(over)[0]), 255);
    const auto unsign = CastOne<uint32_t, int16_t, kLow>(std::vector<int16_t>(128, -5));
    CHECK_EQ(unsign[0], 0u);
}

// ---- reductions ----

template <typename D, typename S, typename F> std::vector<D> Once(const std::vector<S>& in, F op) {
    std::vector<D> out;
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(in);
        auto y = ub.Make<D>(256 / sizeof(D));
        R::RegTensor<S> s;
        R::RegTensor<D> d;
        auto all = R::CreateMask<D>();
        R::LoadAlign(s, x.GetPhyAddr());
        op(d, s);
        R::StoreAlign(y.GetPhyAddr(), d, all);
        out = Read(y, 256 / sizeof(D));
    });
    out.resize(256 / sizeof(D));
    return out;
}

void Reductions() {
    // A sum that reveals its order: large neighbours cancel in the first step of the tree.
    std::vector<float> v(64);
    for (uint32_t i = 0; i < 64; ++i) {
        v[i] = i % 2 == 0 ? 1e8f + static_cast<float>(i) * 8 : -1e8f;
    }
    std::vector<float> tree = v;
    for (size_t n = 32; n != 0; n /= 2) {
        for (size_t i = 0; i < n; ++i) tree[i] = tree[2 * i] + tree[2 * i + 1];
    }
    auto sum = Once<float>(v, [](auto& d, auto& s) { R::Reduce<ReduceType::SUM>(d, s, R::CreateMask<float>()); });
    CHECK(sum[0] == tree[0] && sum[1] == 0.0f && sum[63] == 0.0f);
    auto part = Once<float>(std::vector<float>(64, 1.0f),
                            [](auto& d, auto& s) { R::Reduce<ReduceType::SUM>(d, s, R::CreateMask<float, R::MaskPattern::VL3>()); });
    CHECK_EQ(part[0], 3.0f);
    v.assign(64, -3.0f);
    v[7] = v[20] = 5.0f;
    auto best = Once<float>(v, [](auto& d, auto& s) { R::Reduce<ReduceType::MAX>(d, s, R::CreateMask<float>()); });
    CHECK(best[0] == 5.0f && BitsOf(best[1]) == 7 && best[2] == 0.0f);
    v[40] = std::numeric_limits<float>::quiet_NaN();
    best = Once<float>(v, [](auto& d, auto& s) { R::Reduce<ReduceType::MIN>(d, s, R::CreateMask<float>()); });
    CHECK(std::isnan(best[0]) && BitsOf(best[1]) == 40);
    v.assign(64, -0.0f);
    v[9] = 0.0f;
    best = Once<float>(v, [](auto& d, auto& s) { R::Reduce<ReduceType::MAX>(d, s, R::CreateMask<float>()); });
    CHECK_EQ(BitsOf(best[0]), 0u);
    auto wide = Once<int32_t>(std::vector<int16_t>(128, 32767), [](auto& d, auto& s) {
        R::Reduce<ReduceType::SUM>(d, s, R::CreateMask<int16_t>());
    });
    CHECK_EQ(wide[0], 32767 * 128);
    std::vector<uint16_t> u(128, 9);
    u[100] = 1;
    auto least = Once<uint16_t>(u, [](auto& d, auto& s) { R::Reduce<ReduceType::MIN>(d, s, R::CreateMask<uint16_t>()); });
    CHECK(least[0] == 1 && least[1] == 100);
    std::vector<float> ramp(64);
    for (uint32_t i = 0; i < 64; ++i) ramp[i] = static_cast<float>(i);
    auto blocks = Once<float>(ramp, [](auto& d, auto& s) { R::ReduceDataBlock<ReduceType::SUM>(d, s, R::CreateMask<float>()); });
    auto pairs = Once<float>(ramp, [](auto& d, auto& s) { R::PairReduceElem(d, s, R::CreateMask<float>()); });
    for (uint32_t i = 0; i < 8; ++i) CHECK_EQ(blocks[i], static_cast<float>(28 + 64 * i));
    CHECK(blocks[8] == 0.0f && pairs[1] == 5.0f && pairs[31] == 125.0f && pairs[32] == 0.0f);
}

// ---- rearrangements ----

void Moves() {
    std::vector<uint16_t> ramp(128);
    for (uint32_t i = 0; i < 128; ++i) ramp[i] = static_cast<uint16_t>(i);
    auto squeezed = Once<uint16_t>(ramp, [](auto& d, auto& s) {
        auto third = R::CreateMask<uint16_t, R::MaskPattern::M3>();
        R::Squeeze(d, s, third);
    });
    CHECK(squeezed[1] == 3 && squeezed[42] == 126 && squeezed[43] == 0);
    auto counted = Once<uint16_t>(ramp, [](auto& d, auto&) {
        auto fourth = R::CreateMask<uint16_t, R::MaskPattern::M4>();
        R::Unsqueeze(d, fourth);
    });
    CHECK(counted[0] == 0 && counted[1] == 1 && counted[4] == 1 && counted[5] == 2);
    auto woven = Once<uint16_t>(ramp, [](auto& d, auto& s) {
        R::RegTensor<uint16_t> zero, high;
        R::Duplicate(zero, uint16_t(0));
        R::Interleave(d, high, s, zero);
        R::DeInterleave(d, high, d, high);
    });
    CHECK(woven == ramp);
    auto picked = Once<uint16_t>(ramp, [](auto& d, auto& s) {
        R::RegTensor<uint16_t> last, index;
        auto all = R::CreateMask<uint16_t>();
        R::Duplicate(last, uint16_t(127));
        R::Sub(index, last, s, all);
        R::Gather(d, s, index);
    });
    auto spread = Once<uint16_t>(ramp, [](auto& d, auto& s) {
        auto all = R::CreateMask<uint16_t>();
        R::Duplicate<uint16_t, R::HighLowPart::HIGHEST>(d, s, all);
    });
    auto packed = Once<uint8_t>(ramp, [](auto& d, auto& s) { R::Pack<uint8_t, uint16_t, R::HighLowPart::HIGHEST>(d, s); });
    auto wide = Once<uint32_t>(ramp, [](auto& d, auto& s) { R::UnPack<uint32_t, uint16_t, R::HighLowPart::HIGHEST>(d, s); });
    auto signs = Once<int16_t>(std::vector<int8_t>(256, -3), [](auto& d, auto& s) { R::UnPack(d, s); });
    for (uint32_t i = 0; i < 128; ++i) {
        CHECK_EQ(picked[i], 127 - i);
        CHECK_EQ(spread[i], 127);
        CHECK(packed[128 + i] == i && packed[i] == 0);
        CHECK_EQ(signs[i], -3);
    }
    for (uint32_t i = 0; i < 64; ++i) CHECK_EQ(wide[i], 64 + i);
    auto steps = Once<half>(Halves(std::vector<float>(128, 0.0f)), [](auto& d, auto&) { R::Arange(d, half(2047.0f)); });
    CHECK(float(steps[1]) == 2048.0f && float(steps[2]) == 2048.0f);  // 2049 is a tie
    auto product = Once<int32_t>(std::vector<int32_t>(64, -3), [](auto& d, auto& s) {
        R::RegTensor<int32_t> low, b;
        auto all = R::CreateMask<int32_t>();
        R::Duplicate(b, int32_t(5));
        R::Mull(low, d, s, b, all);
    });
    CHECK_EQ(product[0], -1);
    auto carried = Once<uint32_t>(std::vector<uint32_t>(64, 0xffffffffu), [](auto& d, auto& s) {
        R::RegTensor<uint32_t> low, zero;
        R::MaskReg carry, again;
        auto all = R::CreateMask<uint32_t>();
        R::Duplicate(zero, uint32_t(0));
        R::Add(carry, low, s, s, all);
        R::AddC(again, d, low, zero, carry, all);
    });
    CHECK_EQ(carried[5], 0xffffffffu);
    const auto h = Fill<half>();
    auto grown = Once<float>(h, [](auto& d, auto& s) {
        R::RegTensor<half> one;
        auto all = R::CreateMask<half>();
        R::Duplicate(one, half(1.0f));
        R::ExpSub<float, half, R::RegLayout::ONE>(d, s, one, all);
    });
    CHECK(std::fabs(grown[0] - std::exp(float(h[1]) - 1.0f)) <= 1e-6f * grown[0]);
    auto narrow = Once<half>(std::vector<float>(64, 1.00048828125f), [](auto& d, auto& s) {
        auto all = R::CreateMask<float>();
        R::MulsCast(d, s, 1.0f, all);
    });
    CHECK(float(narrow[0]) == 1.0009765625f && BitsOf(narrow[1]) == 0);  // a tie goes away from zero
}

// ---- distributions ----

template <typename D, typename F> std::vector<D> Loaded(F op) {
    std::vector<D> in(512);
    for (uint32_t i = 0; i < 512; ++i) in[i] = static_cast<D>(i);
    std::vector<D> out(512 / sizeof(D) * 2);
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        auto x = ub.Make(in);
        auto y = ub.Make(std::vector<D>(512));
        op(x.GetPhyAddr(), y.GetPhyAddr());
        out = Read(y, 512);
    });
    out.resize(512);
    return out;
}

template <typename T, R::LoadDist dist> std::vector<T> LoadWith() {
    return Loaded<T>([](T* x, T* y) {
        R::RegTensor<T> r;
        auto all = R::CreateMask<T>();
        R::LoadAlign<T, dist>(r, x);
        R::StoreAlign(y, r, all);
    });
}

void Distributions() {
    using L = R::LoadDist;
    using S = R::StoreDist;
    CHECK_EQ((LoadWith<float, L::DIST_BRC_B32>()[63]), 0.0f);
    CHECK_EQ((LoadWith<uint16_t, L::DIST_US_B16>()[127]), 63);
    CHECK_EQ((LoadWith<uint16_t, L::DIST_DS_B16>()[127]), 254);
    const auto unpacked = LoadWith<uint16_t, L::DIST_UNPACK_B16>();
    CHECK(unpacked[126] == 63 && unpacked[127] == 0);
    const auto four = LoadWith<uint8_t, L::DIST_UNPACK4_B8>();
    CHECK(four[4] == 1 && four[5] == 0 && four[252] == 63);
    CHECK_EQ((LoadWith<uint32_t, L::DIST_BLK>()[63]), 7u);
    CHECK_EQ((LoadWith<uint32_t, L::DIST_E2B_B32>()[63]), 7u);
    CHECK_EQ((LoadWith<uint16_t, L::DIST_E2B_B16>()[17]), 1);
    const auto both = Loaded<uint16_t>([](uint16_t* x, uint16_t* y) {
        R::RegTensor<uint16_t> a, b;
        auto all = R::CreateMask<uint16_t>();
        R::LoadAlign<uint16_t, L::DIST_DINTLV_B16>(a, b, x);
        R::StoreAlign<uint16_t, S::DIST_INTLV_B16>(y, a, b, all);
        R::StoreAlign(y + 256, b, all);
    });
    CHECK(both[255] == 255 && both[256] == 1 && both[383] == 255);
    const auto packs = Loaded<uint16_t>([](uint16_t* x, uint16_t* y) {
        R::RegTensor<uint16_t> a;
        auto few = R::CreateMask<float, R::MaskPattern::VL16>();
        R::LoadAlign<uint16_t, L::DIST_UNPACK_B16>(a, x);
        R::StoreAlign<uint16_t, S::DIST_PACK_B32>(y, a, few);
        R::LoadAlign(a, x + 16);
        auto all = R::CreateMask<uint16_t>();
        R::StoreAlign<uint16_t, S::DIST_FIRST_ELEMENT_B16>(y + 33, a, all);
    });
    CHECK(packs[15] == 15 && packs[16] == 0 && packs[33] == 16 && packs[34] == 0);
    // Post-update, address registers and blocks with a stride.
    const auto steps = Loaded<float>([](float* x, float* y) {
        R::RegTensor<float> a;
        uint32_t n = 100;
        for (uint16_t i = 0; i < 2; ++i) {
            auto m = R::UpdateMask<float>(n);
            R::LoadAlign<float, R::PostLiteral::POST_MODE_UPDATE>(a, x, 64);
            auto at = R::CreateAddrReg<float>(i, 64);
            R::StoreAlign(y, a, at, m);
        }
        CHECK_EQ(n, 0u);
    });
    CHECK(steps[99] == 99.0f && steps[100] == 0.0f);
    const auto blocks = Loaded<float>([](float* x, float* y) {
        R::RegTensor<float> a;
        auto m = R::CreateMask<float, R::MaskPattern::VL16>();
        R::LoadAlign<float, R::DataCopyMode::DATA_BLOCK_COPY>(a, x, 3, m);
        R::StoreAlign<float, R::DataCopyMode::DATA_BLOCK_COPY>(y, a, 2, m);
    });
    CHECK(blocks[7] == 7.0f && blocks[16] == 24.0f && blocks[8] == 0.0f && blocks[32] == 0.0f);
    // Any alignment: three pieces of 20 elements from an odd place to an odd place.
    const auto streams = Loaded<float>([](float* x, float* y) {
        R::RegTensor<float> a;
        R::UnalignRegForLoad in;
        R::UnalignRegForStore to;
        float* from = x + 3;
        float* at = y + 5;
        R::LoadUnAlignPre(in, from);
        for (uint16_t i = 0; i < 3; ++i) {
            R::LoadUnAlign(a, in, from, 20);
            R::StoreUnAlign(at, a, to, 20);
        }
        R::StoreUnAlignPost(at, to, 0);
        R::Load(a, x + 1);
        R::Store(y + 101, a, 3);
    });
    CHECK(streams[4] == 0.0f && streams[5] == 3.0f && streams[64] == 62.0f && streams[65] == 0.0f);
    CHECK(streams[101] == 1.0f && streams[103] == 3.0f && streams[104] == 0.0f);
    const auto indexed = Loaded<uint32_t>([](uint32_t* x, uint32_t* y) {
        R::RegTensor<uint32_t> a, b;
        auto all = R::CreateMask<uint32_t>();
        R::LoadAlign(a, x);
        R::ShiftLefts(a, a, int16_t(1), all);
        R::Gather(b, x, a, all);
        R::Scatter(y, b, a, all);
        R::ShiftLefts(a, a, int16_t(5), all);
        auto blocks = R::CreateMask<uint8_t>();
        R::GatherB(b, x, a, blocks);
        R::StoreAlign(y + 256, b, all);
    });
    CHECK(indexed[126] == 126 && indexed[1] == 0 && indexed[256] == 0 && indexed[256 + 8] == 16 && indexed[256 + 63] == 7 * 16 + 7);
    const auto bytes = Loaded<int16_t>([](int16_t* x, int16_t* y) {
        R::RegTensor<int16_t> d;
        R::RegTensor<uint16_t> index;
        auto all = R::CreateMask<int16_t>();
        R::Duplicate(index, uint16_t(4));
        R::Gather(d, reinterpret_cast<int8_t*>(x), index, all);
        R::StoreAlign(y, d, all);
    });
    CHECK_EQ(bytes[77], 2);
    const auto masks = Loaded<uint8_t>([](uint8_t*, uint8_t* y) {
        auto m = R::CreateMask<uint16_t, R::MaskPattern::VL3>();
        auto all = R::CreateMask<uint8_t>();
        R::MaskReg n, back;
        R::StoreAlign(y, m);
        R::Not(n, m, all);
        R::StoreAlign(y + 32, n);
        R::LoadAlign(back, y);
        R::StoreAlign<uint8_t, R::MaskDist::DIST_PACK>(y + 64, back);
        R::Interleave<uint16_t>(n, back, m, m);
        R::StoreAlign(y + 96, n);
        R::UnPack(back, m);
        R::StoreAlign(y + 128, back);
    });
    CHECK(masks[0] == 0x15 && masks[32] == 0xea && masks[33] == 0xff && masks[64] == 0x07 && masks[65] == 0);
    CHECK(masks[96] == 0x55 && masks[97] == 0x05 && masks[128] == 0x11 && masks[129] == 0x01);
}

}  // namespace

int main() {
    Floats<half>();
    Floats<bfloat16_t>();
    Floats<float>();
    Ints<int8_t>();
    Ints<uint8_t>();
    Ints<int16_t>();
    Ints<uint16_t>();
    Ints<int32_t>();
    Ints<uint32_t>();
    Ints<int64_t, R::RegTraitNumTwo>();
    Choices<float>();
    Choices<half>();
    Choices<int8_t>();
    Casts();
    Reductions();
    Moves();
    Distributions();
    return check::Failures() == 0 ? 0 : 1;
}
