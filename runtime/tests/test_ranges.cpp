// Documented ranges of arguments, one by one, in checked mode: a call out of range is reported with its code, its
// function and its line, and a call at the limit is not.
#include "check.h"
#include "kernel_operator.h"

using namespace AscendC;

namespace {

using F32 = LocalTensor<float>;
constexpr uint32_t kFloats = 512;

// Operands of a call: GM tensors x (input) and y, a loaded tensor in, a tensor to store out, and scratch with defined
// contents; its part `spare` is disjoint from `calc`.
struct Place {
    TPipe pipe;
    TBuf<TPosition::VECIN> in_buf;
    TBuf<TPosition::VECOUT> out_buf;
    TBuf<TPosition::VECCALC> calc_buf, spare_buf;
    GlobalTensor<float> x, y;
    F32 in, out, calc, spare;

    Place(std::vector<float>& from, std::vector<float>& to) {
        pipe.InitBuffer(in_buf, kFloats * 4);
        pipe.InitBuffer(out_buf, kFloats * 4);
        pipe.InitBuffer(calc_buf, 4 * kFloats * 4);
        pipe.InitBuffer(spare_buf, kFloats * 4);
        x.SetGlobalBuffer(from.data());
        y.SetGlobalBuffer(to.data());
        in = in_buf.Get<float>();
        out = out_buf.Get<float>();
        calc = calc_buf.Get<float>();
        spare = spare_buf.Get<float>();
        Duplicate(in, 1.0f, kFloats);
        Duplicate(out, 1.0f, kFloats);
        Duplicate(calc, 1.0f, 4 * kFloats);
        Duplicate(spare, 1.0f, kFloats);
        PipeBarrier<PIPE_ALL>();
    }
};

template <typename Body> std::string Run(Body body) {
    std::vector<float> from(4096 * 8, 1.0f);
    std::vector<float> to(4096 * 8);
    autofuse_twin_gm_clear();
    autofuse_twin_gm_add(from.data(), from.size() * 4, "x", 0);
    autofuse_twin_gm_add(to.data(), to.size() * 4, "y", AUTOFUSE_TWIN_GM_WRITABLE);
    autofuse_twin_set_check(1, 0);
    autofuse_twin::Launch(1, [&] {
        Place place(from, to);
        body(place);
    });
    autofuse_twin_set_check(0, 0);
    autofuse_twin_gm_clear();
    return check::Findings();
}

template <typename Body> void Refused(int line, const char* code, const char* api, Body body) {
    const std::string found = Run(body);
    const std::string head = "{\"code\": \"" + std::string(code) + "\"";
    const auto has = [&](const std::string& text) { return found.find(text) != std::string::npos; };
    const bool there = has(head) && has("\"" + std::string(api) + "\"") &&
                       has("\"line\": " + std::to_string(line) + ",");
    if (!there) {
        check::Fail(__FILE__, line, std::string("expected ") + code + " of " + api + ", got " + found);
    }
}
template <typename Body> void Taken(int line, Body body) {
    const std::string found = Run(body);
    if (found != "[]") {
        check::Fail(__FILE__, line, "expected no finding, got " + found);
    }
}

// The call stands on the line of the macro, which the finding must name.
#define REFUSED(code, api, ...) Refused(__LINE__, code, api, [&]([[maybe_unused]] Place& p) { __VA_ARGS__; })
#define TAKEN(...) Taken(__LINE__, [&]([[maybe_unused]] Place& p) { __VA_ARGS__; })

DataCopyPadExtParams<float> Pad(uint8_t left = 0, uint8_t right = 0) { return {true, left, right, 0.0f}; }

void PaddedCopies() {
    const char* api = "DataCopyPad";
    TAKEN(DataCopyPad(p.in, p.x, DataCopyExtParams{1, 2048, 0, 0, 0}, Pad()));
    TAKEN(DataCopyPad(p.y, p.out, DataCopyExtParams{1, 2048, 0, 0, 0}));
    // blockCount is in [0, 4095], blockLen in [0, 2097151]; 0 is documented as a NOP: nothing is checked.
    TAKEN(DataCopyPad(p.in, p.x, DataCopyExtParams{0, 32, 0, 0, 0}, Pad()));
    TAKEN(DataCopyPad(p.in, p.x, DataCopyExtParams{4095, 0, 0, 0, 0}, Pad()));
    TAKEN(DataCopyPad(p.y, p.out, DataCopyExtParams{0, 32, 0, 0, 0}));
    TAKEN(DataCopyPad(p.y, p.out, DataCopyExtParams{1, 0, 0, 0, 0}));
    REFUSED("dma-params", api, DataCopyPad(p.in, p.x, DataCopyExtParams{4096, 0, 0, 0, 0}, Pad()));
    REFUSED("dma-params", api, DataCopyPad(p.in, p.x, DataCopyExtParams{0, 2097152, 0, 0, 0}, Pad()));
    REFUSED("dma-params", api, DataCopyPad(p.y, p.out, DataCopyExtParams{4096, 4, 0, 0, 0}));
    REFUSED("dma-params", api, DataCopyPad(p.y, p.out, DataCopyExtParams{0, 2097152, 0, 0, 0}));
    // A multiple of the element size.
    REFUSED("dma-params", api, DataCopyPad(p.in, p.x, DataCopyExtParams{1, 30, 0, 0, 0}, Pad()));
    REFUSED("dma-params", api, DataCopyPad(p.y, p.out, DataCopyExtParams{1, 30, 0, 0, 0}));
    // Paddings of at most 32 bytes; 64-bit elements are padded with 0 only.
    TAKEN(DataCopyPad(p.in, p.x, DataCopyExtParams{1, 32, 0, 0, 0}, Pad(8, 8)));
    REFUSED("dma-params", api, DataCopyPad(p.in, p.x, DataCopyExtParams{1, 32, 0, 0, 0}, Pad(9, 0)));
    REFUSED("dma-params", api, DataCopyPad(p.in, p.x, DataCopyExtParams{1, 32, 0, 0, 0}, Pad(0, 9)));
    const auto to = [](Place& p) { return p.in.ReinterpretCast<int64_t>(); };
    const auto from = [](Place& p) { return p.x.ReinterpretCast<int64_t>(); };
    const auto with = [](int64_t value) { return DataCopyPadExtParams<int64_t>{true, 0, 1, value}; };
    TAKEN(DataCopyPad(to(p), from(p), DataCopyExtParams{1, 8, 0, 0, 0}, with(0)));
    REFUSED("dma-params", api, DataCopyPad(to(p), from(p), DataCopyExtParams{1, 8, 0, 0, 0}, with(1)));
    // Bounds reached by the strides, alignment and position in UB.
    REFUSED("ub-oob", api, DataCopyPad(p.in, p.x, DataCopyExtParams{2, 1024, 0, 1, 0}, Pad()));
    REFUSED("ub-oob", api, DataCopyPad(p.y, p.out, DataCopyExtParams{2, 1024, 1, 0, 0}));
    REFUSED("gm-oob", api, DataCopyPad(p.in, p.x, DataCopyExtParams{2, 4, 131072, 0, 0}, Pad()));
    REFUSED("gm-oob", api, DataCopyPad(p.y, p.out, DataCopyExtParams{2, 4, 0, 131072, 0}));
    REFUSED("ub-align", api, DataCopyPad(p.in[4], p.x, DataCopyExtParams{1, 4, 0, 0, 0}, Pad()));
    REFUSED("ub-align", api, DataCopyPad(p.y, p.out[4], DataCopyExtParams{1, 4, 0, 0, 0}));
    REFUSED("dma-position", api, DataCopyPad(p.calc, p.x, DataCopyExtParams{1, 4, 0, 0, 0}, Pad()));
    REFUSED("dma-position", api, DataCopyPad(p.y, p.calc, DataCopyExtParams{1, 4, 0, 0, 0}));
}

void BlockCopies() {
    const char* api = "DataCopy";
    TAKEN(DataCopy(p.in, p.x, DataCopyParams{2, 32, 0, 0}));
    TAKEN(DataCopy(p.y, p.out, DataCopyParams{2, 32, 0, 0}));
    TAKEN(DataCopy(p.calc, p.in, DataCopyParams{2, 32, 0, 0}));
    TAKEN(DataCopy(p.in, p.x, DataCopyParams{0, 1, 0, 0}));
    TAKEN(DataCopy(p.y, p.out, DataCopyParams{1, 0, 0, 0}));
    TAKEN(DataCopy(p.calc, p.calc, DataCopyParams{1, 0, 0, 0}));
    REFUSED("dma-params", api, DataCopy(p.in, p.x, DataCopyParams{4096, 0, 0, 0}));
    REFUSED("dma-params", api, DataCopy(p.y, p.out, DataCopyParams{4096, 0, 0, 0}));
    REFUSED("dma-params", api, DataCopy(p.calc, p.in, DataCopyParams{4096, 0, 0, 0}));
    REFUSED("ub-oob", api, DataCopy(p.in, p.x, DataCopyParams{2, 32, 0, 1}));
    REFUSED("ub-oob", api, DataCopy(p.y, p.out, DataCopyParams{2, 32, 1, 0}));
    REFUSED("gm-oob", api, DataCopy(p.in, p.x, DataCopyParams{2, 1, 4096, 0}));
    REFUSED("gm-oob", api, DataCopy(p.y, p.out, DataCopyParams{2, 1, 0, 4096}));
    REFUSED("ub-align", api, DataCopy(p.in[4], p.x, DataCopyParams{1, 1, 0, 0}));
    REFUSED("dma-position", api, DataCopy(p.calc, p.x, DataCopyParams{1, 1, 0, 0}));
    REFUSED("dma-position", api, DataCopy(p.y, p.calc, DataCopyParams{1, 1, 0, 0}));
    // Interleaved rows of both sides are disjoint; overlapping rows are not.
    TAKEN(DataCopy(p.calc[8], p.calc, DataCopyParams{4, 1, 1, 1}));
    REFUSED("ub-overlap", api, DataCopy(p.calc[8], p.calc, DataCopyParams{4, 1, 0, 1}));
    REFUSED("ub-overlap", api, DataCopy(p.calc, p.calc[8], DataCopyParams{1, 2, 0, 0}));
}

void CountCopies() {
    const char* api = "DataCopy";
    TAKEN(DataCopy(p.in, p.x, kFloats));
    TAKEN(DataCopy(p.y, p.out, kFloats));
    TAKEN(DataCopy(p.calc, p.in, kFloats));
    REFUSED("copy-count", api, DataCopy(p.in, p.x, 12));
    REFUSED("copy-count", api, DataCopy(p.y, p.out, 12));
    REFUSED("copy-count", api, DataCopy(p.calc, p.in, 12));
    REFUSED("count-range", api, DataCopy(p.in, p.x, 0));
    REFUSED("count-range", api, DataCopy(p.y, p.out, 0));
    REFUSED("count-range", api, DataCopy(p.calc, p.in, 0));
    REFUSED("dma-position", api, DataCopy(p.calc, p.x, 8));
    REFUSED("dma-position", api, DataCopy(p.y, p.calc, 8));
    REFUSED("ub-overlap", api, DataCopy(p.calc[8], p.calc, 16));
    REFUSED("ub-overlap", api, DataCopy(p.calc, p.calc, 16));
    REFUSED("ub-oob", api, DataCopy(p.in, p.x, kFloats + 8));
}

// Element-wise calls on the first elements: count 0 is documented as a NOP.
void CountCalls() {
    TAKEN(Abs(p.calc, p.in, 0); Add(p.calc, p.in, p.out, 0); Adds(p.calc, p.in, 1.0f, 0); Duplicate(p.calc, 1.0f, 0));
    TAKEN(Cast(p.calc.ReinterpretCast<half>(), p.in, RoundMode::CAST_RINT, 0));
    TAKEN(Compare(p.calc.ReinterpretCast<uint8_t>(), p.in, p.out, CMPMODE::LT, 0));
    REFUSED("count-range", "Abs", Abs(p.calc, p.in, -1));
    REFUSED("count-range", "Add", Add(p.calc, p.in, p.in, -1));
    REFUSED("count-range", "Adds", Adds(p.calc, p.in, 1.0f, -1));
    REFUSED("count-range", "Duplicate", Duplicate(p.calc, 1.0f, -1));
    REFUSED("ub-oob", "Abs", Abs(p.in, p.calc, kFloats + 1));
    REFUSED("ub-oob", "Cast", Cast(p.calc.ReinterpretCast<half>(), p.in, RoundMode::CAST_RINT, kFloats + 1));
    REFUSED("ub-oob", "Duplicate", Duplicate(p.in, 1.0f, kFloats + 1));
    REFUSED("ub-align", "Add", Add(p.calc, p.in, p.in[1], 8));
    REFUSED("ub-align", "Duplicate", Duplicate(p.calc[2], 1.0f, 8));
    REFUSED("ub-overlap", "Add", Add(p.calc, p.calc[8], p.in, 16));
    REFUSED("ub-overlap", "Add", Add(p.calc, p.in, p.calc[8], 16));
    REFUSED("cast-mode", "Cast", Cast(p.calc.ReinterpretCast<half>(), p.in, RoundMode::CAST_HYBRID, 8));
    auto i32 = [](const F32& t) { return t.ReinterpretCast<int32_t>(); };
    TAKEN(ShiftLeft(i32(p.calc), i32(p.in), 32, 8));
    REFUSED("shift-range", "ShiftLeft", ShiftLeft(i32(p.calc), i32(p.in), 33, 8));
    REFUSED("shift-range", "ShiftRight", ShiftRight(i32(p.calc), i32(p.in), -1, 8));
    REFUSED("cmp-mode", "Compare", Compare(p.calc.ReinterpretCast<uint8_t>(), i32(p.in), i32(p.out), CMPMODE::NE, 64));
}

void SelectCalls() {
    const auto bits = [](const F32& t) { return t.ReinterpretCast<uint8_t>(); };
    const auto tensors = SELMODE::VSEL_TENSOR_TENSOR_MODE;
    const auto scalar = SELMODE::VSEL_TENSOR_SCALAR_MODE;
    TAKEN(Select(p.calc, bits(p.spare), p.in, p.out, tensors, 64));
    TAKEN(Select(p.calc, bits(p.spare), p.in, 1.0f, scalar, 64));
    REFUSED("count-range", "Select", Select(p.calc, bits(p.spare), p.in, p.out, tensors, 0));
    REFUSED("count-range", "Select", Select(p.calc, bits(p.spare), p.in, 1.0f, scalar, 0));
    REFUSED("cmp-count", "Select", Select(p.calc, bits(p.spare), p.in, p.out, tensors, 65));
    REFUSED("cmp-count", "Compare", Compare(bits(p.calc), p.in, p.out, CMPMODE::LT, 65));
    REFUSED("cmp-count", "CompareScalar", CompareScalar(bits(p.calc), p.in, 0.0f, CMPMODE::LT, 65));
    REFUSED("ub-overlap", "Select", Select(p.calc, bits(p.calc), p.in, p.out, tensors, 64));
    REFUSED("ub-overlap", "Select", Select(p.calc, bits(p.calc[8]), p.in, 1.0f, scalar, 64));
    REFUSED("ub-overlap", "Select", Select(p.calc, bits(p.spare), p.calc[8], p.out, tensors, 64));
    REFUSED("ub-overlap", "Compare", Compare(bits(p.in), p.in, p.out, CMPMODE::LT, 64));
    REFUSED("select-mode", "Select", Select(p.calc, bits(p.spare), p.in, p.out, scalar, 64));
    REFUSED("ub-align", "Select", Select(p.calc, bits(p.spare)[16], p.in, p.out, tensors, 64));
}

// Copy with a mask and repeats, and Brcb: the parts of broadcasts in UB.
void RepeatCalls() {
    const uint64_t all = 64;
    TAKEN(Copy(p.calc, p.in, all, 8, {1, 1, 8, 8}));
    TAKEN(Copy(p.calc, p.in, all, 0, {1, 1, 8, 8}));
    TAKEN(Copy(p.calc, p.in, all, 1, {1, 1, 4095, 4095}));
    REFUSED("repeat-params", "Copy", Copy(p.calc, p.in, all, 1, {1, 1, 4096, 8}));
    REFUSED("repeat-params", "Copy", Copy(p.calc, p.in, all, 1, {1, 1, 8, 4096}));
    REFUSED("repeat-params", "Copy", Copy(p.calc, p.in, all, 1, {0, 1, 8, 8}));
    REFUSED("mask-range", "Copy", Copy(p.calc, p.in, uint64_t{0}, 1, {1, 1, 8, 8}));
    REFUSED("mask-range", "Copy", Copy(p.calc, p.in, uint64_t{65}, 1, {1, 1, 8, 8}));
    const uint64_t none[2] = {0, 0};
    REFUSED("mask-range", "Copy", Copy(p.calc, p.in, none, 1, {1, 1, 8, 8}));
    const uint64_t high[2] = {1, 1};
    REFUSED("mask-range", "Copy", Copy(p.calc, p.in, high, 1, {1, 1, 8, 8}));
    REFUSED("ub-oob", "Copy", Copy(p.calc, p.in, all, 9, {1, 1, 8, 8}));
    REFUSED("ub-align", "Copy", Copy(p.calc[4], p.in, all, 1, {1, 1, 8, 8}));
    // Inside a repeat: disjoint or identical.
    TAKEN(Copy(p.calc, p.calc, all, 8, {1, 1, 8, 8}));
    TAKEN(Copy(p.calc, p.calc[64], all, 1, {1, 1, 8, 8}));
    REFUSED("ub-overlap", "Copy", Copy(p.calc, p.calc[8], all, 1, {1, 1, 8, 8}));
    REFUSED("ub-overlap", "Copy", Copy(p.calc, p.calc, all, 1, {2, 1, 8, 8}));
    REFUSED("ub-overlap", "Copy", Copy(p.calc, p.calc, all, 1, {1, 0, 8, 8}));
    // No repeat reads data that an earlier one wrote; the reverse is legal.
    REFUSED("ub-overlap", "Copy", Copy(p.calc[64], p.calc, all, 2, {1, 1, 8, 8}));
    TAKEN(Copy(p.calc, p.calc[64], all, 2, {1, 1, 8, 8}));
    REFUSED("ub-overlap", "Copy", Copy(p.calc, p.calc, all, 2, {1, 1, 8, 0}));
    REFUSED("ub-overlap", "Adds", Adds(p.calc, p.calc, 1.0f, all, 2, {1, 1, 8, 0}));
    // The second source may accumulate where its stride or that of the result is 0; the first may not.
    TAKEN(Add(p.calc, p.in, p.calc, all, 8, {1, 1, 1, 0, 8, 0}));
    REFUSED("ub-overlap", "Add", Add(p.calc, p.calc, p.in, all, 8, {1, 1, 1, 0, 0, 8}));
    TAKEN(Brcb(p.calc, p.in, 8, {1, 8}));
    TAKEN(Brcb(p.calc, p.in, 0, {1, 8}));
    REFUSED("repeat-params", "Brcb", Brcb(p.calc, p.in, 1, {0, 8}));
    REFUSED("ub-oob", "Brcb", Brcb(p.in, p.calc, 9, {1, 8}));
    REFUSED("ub-oob", "Brcb", Brcb(p.calc, p.in, 65, {1, 1}));
    REFUSED("ub-overlap", "Brcb", Brcb(p.calc, p.calc, 1, {1, 8}));
    REFUSED("ub-align", "Brcb", Brcb(p.calc, p.in[8 + 4], 1, {1, 8}));
}

void AdvancedCalls() {
    const auto tmp = [](const F32& t, uint32_t bytes) {
        LocalTensor<uint8_t> out = t.ReinterpretCast<uint8_t>();
        out.SetSize(bytes);
        return out;
    };
    TAKEN(auto t = tmp(p.spare, 256); Sigmoid(p.calc, p.in, t, 64));
    REFUSED("count-range", "Sigmoid", auto t = tmp(p.spare, 256); Sigmoid(p.calc, p.in, t, 0));
    REFUSED("count-range", "Silu", Silu(p.calc, p.in, 0));
    REFUSED("tmp-size", "Sigmoid", auto t = tmp(p.spare, 255); Sigmoid(p.calc, p.in, t, 64));
    REFUSED("tmp-size", "Tanh", auto t = tmp(p.spare, 255); Tanh(p.calc, p.in, t, 64));
    REFUSED("tmp-size", "Erf", auto t = tmp(p.spare, 767); Erf(p.calc, p.in, t, 64));
    REFUSED("tmp-size", "Sin", auto t = tmp(p.spare, 767); Sin(p.calc, p.in, t, 64));
    REFUSED("tmp-size", "Cos", auto t = tmp(p.spare, 767); Cos(p.calc, p.in, t, 64));
    REFUSED("tmp-size", "Gelu", auto t = tmp(p.spare, 767); Gelu(p.calc, p.in, t, 64));
    REFUSED("tmp-size", "Power", auto t = tmp(p.spare, 1023); Power(p.calc, p.in, p.out, t, 64));
    REFUSED("ub-overlap", "Sigmoid", auto t = tmp(p.spare, 256); Sigmoid(p.in, p.in, t, 64));
    REFUSED("ub-overlap", "Sigmoid", auto t = tmp(p.calc, 256); Sigmoid(p.calc, p.in, t, 64));
    REFUSED("ub-overlap", "Sigmoid", auto t = tmp(p.in, 256); Sigmoid(p.calc, p.in, t, 64));
    REFUSED("ub-align", "Sigmoid", auto t = tmp(p.spare[4], 256); Sigmoid(p.calc, p.in, t, 64));
    REFUSED("ub-oob", "Sigmoid", auto t = tmp(p.spare, 256); Sigmoid(p.calc, p.in, t, kFloats + 1));
}

}  // namespace

int main() {
    PaddedCopies();
    BlockCopies();
    CountCopies();
    CountCalls();
    SelectCalls();
    RepeatCalls();
    AdvancedCalls();
    return check::Failures() != 0;
}
