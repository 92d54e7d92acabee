// Every run-time check of memory, masks and parameters reports its own code.
#include "kernel_support.h"

using namespace AscendC;

namespace {

using F32 = LocalTensor<float>;

// Runs body(dst, src, ub) with two float tensors of 256 elements in separate buffers.
template <typename F> void Two(const char* code, F body) {
    EXPECT_FINDING(code, 1, [&] {
        TPipe pipe;
        TBuf<> a;
        TBuf<> b;
        pipe.InitBuffer(a, 1024);
        pipe.InitBuffer(b, 1024);
        F32 d = a.Get<float>();
        F32 s = b.Get<float>();
        body(d, s);
    });
}

void UbChecks() {
    Two("ub-oob", [](F32& d, F32& s) { Abs(d, s, 257); });
    Two("ub-oob", [](F32& d, F32& s) { Abs(d, s[8], 256); });
    Two("ub-oob", [](F32& d, F32& s) { Add(d, s, s, uint64_t{64}, 5, BinaryRepeatParams{}); });
    Two("ub-oob", [](F32& d, F32& s) { Abs(d, s, uint64_t{1}, 2, UnaryRepeatParams{1, 1, 255, 8}); });
    Two("ub-oob", [](F32& d, F32&) { d.SetValue(256, 1.0f); });
    Two("ub-oob", [](F32& d, F32&) { (void)d.GetValue(1u << 20); });
    Two("ub-oob", [](F32& d, F32&) { Duplicate(d[0xfffffff8u], 1.0f, 8); });
    Two("ub-align", [](F32& d, F32& s) { Abs(d[1], s, 8); });
    Two("ub-align", [](F32& d, F32& s) { Add(d, s, s[4], 8); });
    Two("ub-overlap", [](F32& d, F32&) { Abs(d[8], d, 16); });
    Two("", [](F32& d, F32& s) { Add(d, d, s, 256); });
    Two("ub-overlap", [](F32& d, F32&) { Cast(d.ReinterpretCast<half>(), d, RoundMode::CAST_NONE, 64); });
    Two("ub-null", [](F32& d, F32&) { Abs(d, F32(), 8); });
    Two("count-range", [](F32& d, F32& s) { Abs(d, s, -1); });
    Two("", [](F32& d, F32& s) { Abs(d, s, 0); });
    EXPECT_FINDING("ub-oob", 1, [] {
        TPipe pipe;
        TBuf<> a;
        pipe.InitBuffer(a, 100);  // rounded up to 128
        (void)a.Get<float>(33);
    });
    EXPECT_FINDING("ub-align", 1, [] {
        TPipe pipe;
        TBuf<> a;
        pipe.InitBuffer(a, 128);
        (void)a.GetWithOffset<float>(8, 16);
    });
}

void MaskChecks() {
    Two("mask-range", [](F32& d, F32& s) { Abs(d, s, uint64_t{65}, 1, UnaryRepeatParams{}); });
    Two("mask-range", [](F32& d, F32& s) { Abs(d, s, uint64_t{0}, 1, UnaryRepeatParams{}); });
    Two("mask-range", [](F32& d, F32& s) {
        uint64_t mask[2] = {1, 1};
        Abs(d, s, mask, 1, UnaryRepeatParams{});
    });
    Two("mask-range", [](F32&, F32&) { SetVectorMask<float, MaskMode::COUNTER>(1, 5); });
    Two("", [](F32& d, F32& s) { Abs(d, s, uint64_t{64}, 0, UnaryRepeatParams{}); });
    Two("repeat-params", [](F32& d, F32& s) { Abs(d, s, uint64_t{64}, 1, UnaryRepeatParams{0, 1, 8, 8}); });
    Two("mask-mode", [](F32&, F32&) { SetMaskCount(); });
}

void SelectChecks() {
    Two("cmp-count", [](F32& d, F32& s) { Compare(d.ReinterpretCast<uint8_t>(), s, s, CMPMODE::LT, 63); });
    Two("cmp-count", [](F32& d, F32& s) { Select(d, s.ReinterpretCast<uint8_t>(), d, d, SELMODE::VSEL_TENSOR_TENSOR_MODE, 8); });
    Two("select-mode", [](F32& d, F32& s) {
        Select(d, s.ReinterpretCast<uint8_t>(), d, 1.0f, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);
    });
    Two("ub-oob", [](F32& d, F32& s) {
        Select(d[192], s.ReinterpretCast<uint8_t>(), d, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 128);
    });
    Two("ub-overlap", [](F32& d, F32& s) { Compare(d.ReinterpretCast<uint8_t>(), d, s, CMPMODE::LT, 64); });
    Two("cmp-mode", [](F32& d, F32& s) {
        auto i = s.ReinterpretCast<int32_t>();
        Compare(d.ReinterpretCast<uint8_t>(), i, i, CMPMODE::LT, 64);
    });
    Two("shift-range", [](F32& d, F32& s) { ShiftLeft(d.ReinterpretCast<int32_t>(), s.ReinterpretCast<int32_t>(), 33, 8); });
}

void AdvancedChecks() {
    const auto run = [](const char* code, uint32_t tmp_bytes, auto body) {
        EXPECT_FINDING(code, 1, [&] {
            Ub ub;
            auto d = ub.Make<half>(64);
            auto s = ub.Make<half>(64);
            auto t = ub.Make<uint8_t>(tmp_bytes);
            Duplicate(s, half(0.5f), 64);
            body(d, s, t);
        });
    };
    run("", 1024, [](auto& d, auto& s, auto& t) { Tanh(d, s, t, 64); });
    run("tmp-size", 992, [](auto& d, auto& s, auto& t) { Tanh(d, s, t, 64); });
    run("tmp-size", 224, [](auto& d, auto& s, auto& t) { Sigmoid(d, s, t, 64); });
    run("tmp-size", 2016, [](auto& d, auto& s, auto& t) { Erf(d, s, t, 64); });
    run("tmp-size", 2016, [](auto& d, auto& s, auto& t) { Sin(d, s, t, 64); });
    run("tmp-size", 3584, [](auto& d, auto& s, auto& t) { Power(d, s, half(2.0f), t, 64); });
    run("", 3584, [](auto& d, auto& s, auto& t) { Power(d, s, s, t, 64); });
    run("ub-overlap", 1024, [](auto& d, auto&, auto& t) { Tanh(d, d, t, 64); });
    run("ub-overlap", 1024, [](auto& d, auto& s, auto& t) { 
        (void)t;
        LocalTensor<uint8_t> tmp = s.template ReinterpretCast<uint8_t>();
        tmp.SetSize(256);
        Sigmoid(d, s, tmp, 8);
    });
    run("", 1024, [](auto& d, auto& s, auto& t) { Gelu(d, s, t, 64); Silu(d, s, 64); });
}

void GmChecks() {
    std::vector<float> x(100, 1.0f);
    std::vector<float> y(100, 0.0f);
    std::vector<float> other(100, 0.0f);
    const auto run = [&](const char* code, auto body) {
        autofuse_twin_gm_clear();
        autofuse_twin_gm_add(x.data(), 400, "x", 0);
        autofuse_twin_gm_add(y.data(), 400, "y", 1);
        EXPECT_FINDING(code, 1, [&] {
            Ub ub;
            GlobalTensor<float> gx, gy, go;
            gx.SetGlobalBuffer(x.data());
            gy.SetGlobalBuffer(y.data());
            go.SetGlobalBuffer(other.data());
            auto t = ub.Make<float>(512);
            body(gx, gy, go, t);
        });
        autofuse_twin_gm_clear();
    };
    const DataCopyPadExtParams<float> pad;
    run("", [&](auto& gx, auto& gy, auto&, auto& t) {
        DataCopyPad(t, gx, DataCopyExtParams{1, 400, 0, 0, 0}, pad);
        DataCopyPad(gy, t, DataCopyExtParams{1, 400, 0, 0, 0});
    });
    run("gm-oob", [&](auto& gx, auto&, auto&, auto& t) { DataCopyPad(t, gx[1], DataCopyExtParams{1, 400, 0, 0, 0}, pad); });
    run("gm-oob", [&](auto& gx, auto&, auto&, auto& t) { DataCopyPad(t, gx, DataCopyExtParams{2, 200, 4, 0, 0}, pad); });
    run("gm-oob", [&](auto&, auto& gy, auto&, auto& t) { DataCopyPad(gy[99], t, DataCopyExtParams{1, 8, 0, 0, 0}); });
    run("gm-oob", [&](auto& gx, auto&, auto&, auto& t) { DataCopy(t, gx, 104); });
    run("gm-oob", [&](auto&, auto&, auto& go, auto& t) { DataCopy(t, go, 8); });
    run("gm-oob", [&](auto& gx, auto&, auto&, auto&) { (void)gx.GetValue(100); });
    run("gm-oob", [&](auto&, auto& gy, auto&, auto&) { gy.SetValue(100, 1.0f); });
    run("gm-readonly", [&](auto& gx, auto&, auto&, auto& t) { DataCopy(gx, t, 8); });
    run("gm-readonly", [&](auto& gx, auto&, auto&, auto&) { gx.SetValue(0, 1.0f); });
    run("gm-null", [&](auto&, auto&, auto&, auto& t) { DataCopy(t, GlobalTensor<float>(), 8); });
    run("gm-align", [&](auto&, auto&, auto&, auto&) {
        GlobalTensor<float> g;
        g.SetGlobalBuffer(reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(x.data()) + 1));
    });
    run("ub-oob", [&](auto& gx, auto&, auto&, auto& t) {
        DataCopyPad(t[16384 - 512], gx, DataCopyExtParams{1, 400, 0, 0, 0}, pad);
        DataCopyPad(t[16384 - 8], gx, DataCopyExtParams{1, 36, 0, 0, 0}, pad);
    });
    run("ub-align", [&](auto& gx, auto&, auto&, auto& t) { DataCopy(t[1], gx, 8); });
    run("dma-params", [&](auto& gx, auto&, auto&, auto& t) { DataCopyPad(t, gx, DataCopyExtParams{4096, 4, 0, 0, 0}, pad); });
    run("dma-params", [&](auto& gx, auto&, auto&, auto& t) { DataCopyPad(t, gx, DataCopyExtParams{1, 2097152, 0, 0, 0}, pad); });
    run("dma-params", [&](auto& gx, auto&, auto&, auto& t) { DataCopyPad(t, gx, DataCopyExtParams{1, 6, 0, 0, 0}, pad); });
    run("dma-params", [&](auto& gx, auto&, auto&, auto& t) {
        DataCopyPad(t, gx, DataCopyExtParams{1, 4, 0, 0, 0}, DataCopyPadExtParams<float>{true, 9, 0, 0.0f});
    });
    run("atomic-type", [&](auto&, auto& gy, auto&, auto& t) {
        SetAtomicAdd<int32_t>();
        DataCopy(gy, t, 8);
    });
    run("atomic-mode", [&](auto&, auto&, auto&, auto&) { SetAtomicAdd<float>(); });
}

void Poison() {
    EXPECT_CLEAN(4, [] {
        Ub ub;
        auto t = ub.Make<float>(4096);
        CHECK(std::isnan(t.GetValue(0)) && std::isnan(t.GetValue(4095)));
        Duplicate(t, 1.0f, 4096);
    });
}

}  // namespace

int main() {
    UbChecks();
    MaskChecks();
    SelectChecks();
    AdvancedChecks();
    GmChecks();
    Poison();
    return check::Failures() != 0;
}
