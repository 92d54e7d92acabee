// The control register of Ascend 950: overflow, infinities and NaN of conversions and calculations under each setting
// of its bits, on memory and on registers. The expected values are the vendor's tables of edge values.
#define __NPU_ARCH__ 3510
#include "kernel_support.h"

using namespace AscendC;
namespace R = AscendC::Reg;

namespace {

// Ascend 950 as in the target file: every round mode, and the control register.
struct Chip {
    Chip() {
        std::memset(chip_.modes, 0xff, sizeof(chip_.modes));
        chip_.name = "3510";
        chip_.control = uint64_t{1} << 60;
        autofuse_twin_set_architecture(&chip_);
    }
    ~Chip() { autofuse_twin_set_architecture(nullptr); }

private:
    autofuse_twin_architecture chip_{};
};

struct Bits {
    int floats, integers, casts, global;  // 48, 53, 59, 60
};
constexpr Bits kAtStart{0, 0, 0, 1};

void Set(const Bits& b) {
    SetCtrlSpr<48, 48>(b.floats);
    SetCtrlSpr<53, 53>(b.integers);
    SetCtrlSpr<59, 59>(b.casts);
    SetCtrlSpr<60, 60>(b.global);
}

// op(dst, src, n) with these bits, which are restored at the end.
template <typename D, typename S, typename F> std::vector<D> With(const Bits& bits, const std::vector<S>& x, F op) {
    std::vector<D> out;
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        Set(bits);
        auto s = ub.Make(x);
        auto d = ub.Make<D>(static_cast<uint32_t>(x.size()));
        op(d, s, static_cast<int32_t>(x.size()));
        out = Read(d, static_cast<uint32_t>(x.size()));
        Set(kAtStart);
    });
    out.resize(x.size());
    return out;
}

template <typename D, typename S> std::vector<D> OfMemory(const Bits& bits, const std::vector<S>& x, RoundMode mode) {
    return With<D>(bits, x, [&](auto& d, auto& s, int32_t n) { Cast(d, s, mode, static_cast<uint32_t>(n)); });
}

// Variant on registers: 64 lanes of the wider type.
template <typename D, typename S, const R::CastTrait& trait> std::vector<D> OfRegister(const Bits& bits, std::vector<S> x) {
    constexpr uint32_t lanes = 256 / (sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S));
    const size_t wanted = x.size();
    x.resize(256 / sizeof(S));
    std::vector<D> out;
    EXPECT_CLEAN(1, [&] {
        Ub ub;
        Set(bits);
        auto s = ub.Make(x);
        auto d = ub.Make<D>(256 / sizeof(D));
        R::RegTensor<S> from;
        R::RegTensor<D> to;
        auto all = R::CreateMask<S>();
        auto store = R::CreateMask<D>();
        R::LoadAlign(from, s.GetPhyAddr());
        R::Cast<D, S, trait>(to, from, all);
        R::StoreAlign(d.GetPhyAddr(), to, store);
        for (uint32_t i = 0; i < lanes; ++i) {
            out.push_back(d.GetValue(i * (256 / sizeof(D) / lanes)));
        }
        Set(kAtStart);
    });
    out.resize(wanted);
    return out;
}

template <typename T> void CheckSame(const std::vector<T>& got, const std::vector<float>& want) {
    CHECK_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
        const float g = static_cast<float>(got[i]);
        CHECK(std::isnan(want[i]) ? std::isnan(g) : g == want[i]);
    }
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr R::CastTrait kSat{R::RegLayout::ZERO, R::SatMode::SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kNoSat{R::RegLayout::ZERO, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kSatWhole{R::RegLayout::UNKNOWN, R::SatMode::SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kNoSatWhole{R::RegLayout::UNKNOWN, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};
constexpr R::CastTrait kSatInts{R::RegLayout::ZERO, R::SatMode::SAT, R::MaskMergeMode::ZEROING, RoundMode::UNKNOWN};
constexpr R::CastTrait kNoSatInts{R::RegLayout::ZERO, R::SatMode::NO_SAT, R::MaskMergeMode::ZEROING, RoundMode::UNKNOWN};
constexpr R::CastTrait kHalfToBfloat{R::RegLayout::UNKNOWN, R::SatMode::UNKNOWN, R::MaskMergeMode::ZEROING, RoundMode::CAST_RINT};

// Every setting of 48, 59 and 60, with the conversion under it: on memory, by a SAT and by a NO_SAT instruction.
template <typename F> void UnderEach(const F& check) {
    for (int k = 0; k < 8; ++k) {
        const Bits b{k & 1, 0, k >> 1 & 1, k >> 2};
        const bool floats = b.global != 0 ? b.floats == 0 : true;
        const bool casts = b.global != 0 ? b.casts == 0 : true;
        check(b, floats, casts);
    }
}

void Floats() {
    const std::vector<float> x{1e6f, -1e6f, 65519.0f, 65520.0f, kInf, -kInf, kNan, 1.5f};
    const std::vector<float> kept{kInf, -kInf, 65504.0f, kInf, kInf, -kInf, kNan, 1.5f};
    const std::vector<float> held{65504.0f, -65504.0f, 65504.0f, 65504.0f, 65504.0f, -65504.0f, 0.0f, 1.5f};
    const float top = 3.38953139e38f;
    const std::vector<float> y{3.4028235e38f, -3.4028235e38f, kInf, -kInf, kNan, 0.25f};
    const std::vector<float> brain_kept{kInf, -kInf, kInf, -kInf, kNan, 0.25f};
    const std::vector<float> brain_held{top, -top, top, -top, 0.0f, 0.25f};
    UnderEach([&](const Bits& b, bool saturates, bool) {
        const auto& want = saturates ? held : kept;
        const auto& brain = saturates ? brain_held : brain_kept;
        CheckSame(OfMemory<half>(b, x, RoundMode::CAST_RINT), want);
        CheckSame(OfMemory<half>(b, x, RoundMode::CAST_NONE), want);
        CheckSame(OfMemory<bfloat16_t>(b, y, RoundMode::CAST_RINT), brain);
        const bool own = b.global == 0;
        CheckSame(OfRegister<half, float, kSat>(b, x), own ? held : want);
        CheckSame(OfRegister<half, float, kNoSat>(b, x), own ? kept : want);
        CheckSame(OfRegister<bfloat16_t, float, kSat>(b, y), own ? brain_held : brain);
        CheckSame(OfRegister<bfloat16_t, float, kNoSat>(b, y), own ? brain_kept : brain);
        // Wider floats hold all of them.
        CheckSame(OfMemory<float>(b, Halves({kInf, kNan, 65504.0f}), RoundMode::CAST_NONE), {kInf, kNan, 65504.0f});
        CheckSame(OfRegister<bfloat16_t, half, kHalfToBfloat>(b, Halves({kInf, -kInf, kNan})), {kInf, -kInf, kNan});
    });
}

void Integers() {
    const std::vector<float> x{1e6f, -1e6f, 40000.0f, kInf, -kInf, kNan, -3.0f};
    const std::vector<float> held{32767, -32768, 32767, 32767, -32768, 0, -3};
    const std::vector<float> cut{16960, -16960, -25536, 32767, -32768, 0, -3};
    const std::vector<float> y{3e9f, -3e9f, kInf, -kInf, kNan, 7.0f};
    const std::vector<float> wide_held{2147483648.0f, -2147483648.0f, 2147483648.0f, -2147483648.0f, 0, 7};
    const std::vector<float> wide_cut{-1294967296.0f, 1294967296.0f, 2147483648.0f, -2147483648.0f, 0, 7};
    const auto h = Halves({257.0f, -200.0f, kInf, -kInf, kNan, 5.0f});
    const std::vector<float> bytes_held{127, -128, 127, -128, 0, 5};
    const std::vector<float> bytes_cut{1, 56, 127, -128, 0, 5};
    const std::vector<float> plain_held{255, 0, 255, 0, 0, 5};
    const std::vector<float> plain_cut{1, 56, 255, 0, 0, 5};
    const std::vector<int32_t> i{40000, -2147483647 - 1, 2147483647, -5};
    const std::vector<float> short_held{32767, -32768, 32767, -5};
    const std::vector<float> short_cut{-25536, 0, -1, -5};
    UnderEach([&](const Bits& b, bool, bool saturates) {
        const auto pick = [&](const std::vector<float>& yes, const std::vector<float>& no) { return saturates ? yes : no; };
        CheckSame(OfMemory<int16_t>(b, x, RoundMode::CAST_RINT), pick(held, cut));
        CheckSame(OfMemory<int32_t>(b, y, RoundMode::CAST_TRUNC), pick(wide_held, wide_cut));
        CheckSame(OfMemory<int8_t>(b, h, RoundMode::CAST_RINT), pick(bytes_held, bytes_cut));
        CheckSame(OfMemory<uint8_t>(b, h, RoundMode::CAST_RINT), pick(plain_held, plain_cut));
        CheckSame(OfMemory<int16_t>(b, i, RoundMode::CAST_NONE), pick(short_held, short_cut));
        const bool own = b.global == 0;
        CheckSame(OfRegister<int16_t, float, kSat>(b, x), own ? held : pick(held, cut));
        CheckSame(OfRegister<int16_t, float, kNoSat>(b, x), own ? cut : pick(held, cut));
        CheckSame(OfRegister<int32_t, float, kSatWhole>(b, y), own ? wide_held : pick(wide_held, wide_cut));
        CheckSame(OfRegister<int32_t, float, kNoSatWhole>(b, y), own ? wide_cut : pick(wide_held, wide_cut));
        CheckSame(OfRegister<int8_t, half, kSat>(b, h), own ? bytes_held : pick(bytes_held, bytes_cut));
        CheckSame(OfRegister<uint8_t, half, kNoSat>(b, h), own ? plain_cut : pick(plain_held, plain_cut));
        CheckSame(OfRegister<int16_t, int32_t, kSatInts>(b, i), own ? short_held : pick(short_held, short_cut));
        CheckSame(OfRegister<int16_t, int32_t, kNoSatInts>(b, i), own ? short_cut : pick(short_held, short_cut));
        // Wider integers hold all of them.
        CheckSame(OfMemory<int64_t>(b, std::vector<int32_t>{-5, 1 << 30}, RoundMode::CAST_NONE), {-5, 1073741824.0f});
    });
}

// Calculations in half saturate where 60 is 1 and 48 is 0, those in float never do.
void Halfs() {
    const auto h = Halves({65504.0f, -65504.0f, kInf, -kInf, kNan, 2.0f});
    const std::vector<float> kept{kInf, -kInf, kInf, -kInf, kNan, 4.0f};
    const std::vector<float> held{65504.0f, -65504.0f, 65504.0f, -65504.0f, 0.0f, 4.0f};
    const std::vector<float> f{3.4028235e38f, kNan, 2.0f};
    UnderEach([&](const Bits& b, bool, bool) {
        const auto& want = b.global != 0 && b.floats == 0 ? held : kept;
        CheckSame(With<half>(b, h, [](auto& d, auto& s, int32_t n) { Add(d, s, s, n); }), want);
        CheckSame(With<half>(b, h, [](auto& d, auto& s, int32_t n) { Muls(d, s, half(2.0f), n); }), want);
        CheckSame(With<half>(b, h, [](auto& d, auto& s, int32_t) { Add(d, s, s, 6, 1, {1, 1, 1, 8, 8, 8}); }), want);
        CheckSame(With<float>(b, f, [](auto& d, auto& s, int32_t n) { Add(d, s, s, n); }), {kInf, kNan, 4.0f});
        const auto on_registers = With<half>(b, h, [](auto& d, auto& s, int32_t) {
            R::RegTensor<half> x, y;
            auto some = R::CreateMask<half, R::MaskPattern::VL8>();
            R::LoadAlign(x, s.GetPhyAddr());
            R::Add(y, x, x, some);
            R::StoreAlign(d.GetPhyAddr(), y, some);
        });
        CheckSame(on_registers, want);
        const float sum = b.global != 0 && b.floats == 0 ? 65504.0f : kInf;
        const auto big = Halves(std::vector<float>(128, 60000.0f));
        const auto total = With<half>(b, big, [](auto& d, auto& s, int32_t) { WholeReduceSum(d, s, 128, 1, 1, 1, 8); });
        CheckSame(std::vector<half>{total[0]}, {sum});
        // Pure moves of elements preserve them.
        CheckSame(With<half>(b, h, [](auto& d, auto&, int32_t n) { Duplicate(d, half(kInf), n); }),
                  std::vector<float>(6, kInf));
    });
}

void Wholes() {
    const std::vector<int16_t> x{32767, -32768, 5};
    const std::vector<int32_t> y{2147483647, -2147483647 - 1, 5};
    for (int on = 0; on < 2; ++on) {
        const Bits b{0, on, 0, 1};
        const auto twice = With<int16_t>(b, x, [](auto& d, auto& s, int32_t n) { Add(d, s, s, n); });
        CHECK_EQ(twice[0], on != 0 ? 32767 : -2);
        CHECK_EQ(twice[1], on != 0 ? -32768 : 0);
        CHECK_EQ(twice[2], 10);
        const auto product = With<int32_t>(b, y, [](auto& d, auto& s, int32_t n) { Mul(d, s, s, n); });
        CHECK_EQ(product[0], on != 0 ? 2147483647 : 1);
        CHECK_EQ(product[1], on != 0 ? 2147483647 : 0);
        const auto more = With<int32_t>(b, y, [](auto& d, auto& s, int32_t n) { Adds(d, s, 1, n); });
        CHECK_EQ(more[0], on != 0 ? 2147483647 : -2147483647 - 1);
        const auto on_registers = With<int32_t>(b, y, [](auto& d, auto& s, int32_t) {
            R::RegTensor<int32_t> a, c;
            auto some = R::CreateMask<int32_t, R::MaskPattern::VL8>();
            R::LoadAlign(a, s.GetPhyAddr());
            R::Sub(c, a, a, some);
            R::Adds(c, a, 1, some);
            R::StoreAlign(d.GetPhyAddr(), c, some);
        });
        CHECK_EQ(on_registers[0], on != 0 ? 2147483647 : -2147483647 - 1);
    }
}

int64_t All() {
    return GetCtrlSpr<48, 48>() | GetCtrlSpr<53, 53>() << 1 | GetCtrlSpr<59, 59>() << 2 | GetCtrlSpr<60, 60>() << 3;
}

void Register() {
    EXPECT_CLEAN(3, [] {
        CHECK_EQ(All(), 8);
        Set({1, 1, 1, 0});
        CHECK_EQ(All(), 7);
        TPipe pipe;  // keeps bit 48 alone
        CHECK_EQ(All(), 9);
        Set({1, 1, 1, 0});
        pipe.Reset();
        CHECK_EQ(All(), 9);
        CHECK_EQ((GetCtrlSpr<0, 63>()), static_cast<int64_t>(uint64_t{1} << 60 | uint64_t{1} << 48));
        ResetCtrlSpr<48, 48>();
        CHECK_EQ(All(), 8);
    });
    // A kernel must restore the register as it found it, rather than to the default.
    EXPECT_FINDING("control-bits", 2, [] { SetCtrlSpr<48, 48>(1); });
    EXPECT_FINDING("control-bits", 2, [] { SetCtrlSpr<60, 60>(0); });
    EXPECT_FINDING("control-bits", 1, [] { SetCtrlSpr<53, 53>(1); });
    EXPECT_FINDING("control-bits", 1, [] { SetCtrlSpr<59, 59>(1); });
    EXPECT_FINDING("control-value", 1, [] { SetCtrlSpr<48, 48>(2); });
}

}  // namespace

int main() {
    const Chip chip;
    Floats();
    Integers();
    Halfs();
    Wholes();
    Register();
    return check::Failures() == 0 ? 0 : 1;
}
