// Conversions between registers of different elements. The formulas are those of the memory-level calls.
#include <algorithm>

#include "api/control.h"
#include "autofuse_twin/reg_types.h"
#include "reg/lanes.h"

namespace autofuse_twin {
namespace {

// The pairing of elements of registers with different widths: the wider one determines the number of elements.
struct Lanes2 {
    uint32_t n, src_step, dst_step, src_at, dst_at;
    uint32_t Src(uint32_t i) const { return i * src_step + src_at; }
    uint32_t Dst(uint32_t i) const { return i * dst_step + dst_at; }
};
Lanes2 Match(const RegRef& dst, const RegRef& src, int layout) {
    const uint32_t at = layout < 0 ? 0 : static_cast<uint32_t>(layout);
    if (dst.lanes < src.lanes) {
        return {dst.lanes, src.lanes / dst.lanes, 1, at, 0};
    }
    if (dst.lanes > src.lanes) {
        return {src.lanes, 1, dst.lanes / src.lanes, 0, at};
    }
    return {src.lanes, 1, 1, 0, 0};
}

// Elements of a conversion: which are defined. Unwritten bytes are 0.
void KnowMatched(RegOp& op, const RegRef& dst, const RegRef& src, const Lanes2& l, RegCell* const* cells, int n,
                 const MaskCell* on) {
    uint8_t known[kPair];
    std::memset(known, 0xff, sizeof(known));
    bool all = true;
    for (uint32_t i = 0; i < l.n; ++i) {
        const uint32_t bit = l.Src(i) * MaskStep(src);
        if (!MaskHas(on->may, bit)) {
            continue;
        }
        bool ok = MaskHas(on->known, bit);
        for (int k = 0; k < n && ok; ++k) {
            const uint8_t* from = cells[k]->known == nullptr ? nullptr : cells[k]->known + l.Src(i) * src.elem;
            ok = from == nullptr || std::all_of(from, from + src.elem, [](uint8_t b) { return b == 0xff; });
        }
        if (!ok) {
            std::memset(known + l.Dst(i) * dst.elem, 0, dst.elem);
            all = false;
        }
    }
    if (!all) {
        std::memcpy(op.Known(op.Cell(dst), dst.elem * dst.lanes), known, dst.elem * dst.lanes);
    }
}

bool IsFloat(Dt dt) { return dt == Dt::F16 || dt == Dt::BF16 || dt == Dt::F32; }

void Convert(const uint8_t* x, uint8_t* y, Dt dst, Dt src, bool saturate, int mode, uint32_t n) {
    if (!IsFloat(dst) && (!IsFloat(src) || !saturate)) {
        // Wider integers hold every number; unsigned ones saturate negative numbers.
        const bool clamps = !IsFloat(src) && (saturate || SizeOf(dst) > SizeOf(src));
        clamps ? ClampIntegers(y, dst, x, src, n) : CutToIntegers(y, dst, x, src, mode, n);
        return;
    }
    Kernels().element(Op::Cast, dst, src)(y, x, nullptr, static_cast<uint64_t>(mode), n);
    if (saturate && (dst == Dt::F16 || dst == Dt::BF16)) {
        SaturateFloats(y, n, dst);
    }
}

struct Spread {
    Lanes2 l;
    uint32_t es, ed, bytes, step;
    const uint64_t* mask;
    uint8_t* to;

    void Collect(const uint8_t* from, uint8_t* dense) const {
        for (uint32_t i = 0; i < l.n; ++i) {
            std::memcpy(dense + i * es, from + l.Src(i) * es, es);
        }
    }
    void Put(const uint8_t* dense) const {
        uint8_t t[kPair] = {};
        for (uint32_t i = 0; i < l.n; ++i) {
            if (MaskHas(mask, l.Src(i) * step)) {
                std::memcpy(t + l.Dst(i) * ed, dense + i * ed, ed);
            }
        }
        std::memcpy(to, t, bytes);
    }
};

Spread Between(const RegRef& dst, const RegRef& src, int layout, const uint64_t* mask, uint8_t* to) {
    return {Match(dst, src, layout), src.elem, dst.elem, dst.elem * dst.lanes, MaskStep(src), mask, to};
}

}  // namespace

void RegCast(const RegRef& dst, const RegRef& src, int layout, bool can, bool own, int mode, const MaskRef& mask) {
    RegOp op("Cast");
    const bool saturate = can && CastSaturates(op.core(), dst.dt, own);
    const bool ints = !IsFloat(dst.dt) && !IsFloat(src.dt);
    if (!ints) {
        Find("Cast", Op::Cast, dst.dt, src.dt);
    }
    const uint8_t* x = op.Read(src);
    const uint64_t* m = op.Read(mask);
    RegCell* cells[] = {op.Checked() ? op.Cell(src) : nullptr};
    const MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    const Spread s = Between(dst, src, layout, m, op.Write(dst));
    if (op.Checked()) {
        KnowMatched(op, dst, src, s.l, cells, 1, on);
    }
    const Dt dd = dst.dt;
    const Dt sd = src.dt;
    op.Do([=] {
        alignas(64) uint8_t a[kPair];
        alignas(64) uint8_t b[4 * kPair];
        s.Collect(x, a);
        Convert(a, b, dd, sd, saturate, mode, s.l.n);
        s.Put(b);
    });
}

void RegTruncate(const RegRef& dst, const RegRef& src, int mode, const MaskRef& mask) {
    RegOp op("Truncate");
    const uint8_t* x = op.Read(src);
    const uint64_t* m = op.Read(mask);
    RegCell* cells[] = {op.Checked() ? op.Cell(src) : nullptr};
    MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    uint8_t* d = op.Write(dst);
    KnowLanes(op, dst, cells, 1, on, nullptr);
    const uint32_t lanes = src.lanes;
    const uint32_t elem = src.elem;
    const Dt dt = src.dt;
    op.Do([=] {
        alignas(64) float wide[kVl];
        alignas(64) uint8_t t[kPair];
        const auto& table = Kernels();
        if (dt == Dt::F32) {
            std::memcpy(wide, x, lanes * elem);
        } else {
            table.element(Op::Cast, Dt::F32, dt)(wide, x, nullptr, 0, lanes);
        }
        table.element(Op::Cast, Dt::F32, Dt::F32)(wide, wide, nullptr, static_cast<uint64_t>(mode), lanes);
        if (dt == Dt::F32) {
            std::memcpy(t, wide, lanes * elem);
        } else {
            table.element(Op::Cast, dt, Dt::F32)(t, wide, nullptr, 1, lanes);
        }
        Blend(d, t, nullptr, m, lanes, elem);
    });
}

// Half registers: every second element, selected by `layout`, in float.
void RegExpSub(const RegRef& dst, const RegRef& a, const RegRef& b, int layout, const MaskRef& mask) {
    RegOp op("ExpSub");
    const ElementFn fn = Find("ExpSub", Op::ExpSub, Dt::F32, a.dt);
    const uint8_t* x = op.Read(a);
    const uint8_t* y = op.Read(b);
    const uint64_t* m = op.Read(mask);
    RegCell* cells[] = {op.Checked() ? op.Cell(a) : nullptr, op.Checked() ? op.Cell(b) : nullptr};
    const MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    const Spread s = Between(dst, a, layout, m, op.Write(dst));
    if (op.Checked()) {
        KnowMatched(op, dst, a, s.l, cells, 2, on);
    }
    op.Do([=] {
        alignas(64) uint8_t p[kPair];
        alignas(64) uint8_t q[kPair];
        alignas(64) uint8_t t[kPair];
        s.Collect(x, p);
        s.Collect(y, q);
        fn(t, p, q, 0, s.l.n);
        Flush(t, s.l.n, Dt::F32);
        s.Put(t);
    });
}

void RegMulsCast(const RegRef& dst, const RegRef& src, float scalar, int layout, const MaskRef& mask) {
    RegOp op("MulsCast");
    const bool saturates = HalvesSaturate(op.core(), Dt::F16);
    const uint8_t* x = op.Read(src);
    const uint64_t* m = op.Read(mask);
    RegCell* cells[] = {op.Checked() ? op.Cell(src) : nullptr};
    const MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    const Spread s = Between(dst, src, layout, m, op.Write(dst));
    if (op.Checked()) {
        KnowMatched(op, dst, src, s.l, cells, 1, on);
    }
    op.Do([=] {
        alignas(64) uint8_t t[kPair];
        alignas(64) uint8_t u[kPair];
        Kernels().element(Op::Muls, Dt::F32, Dt::F32)(t, x, nullptr, FloatBits(scalar), s.l.n);
        constexpr uint64_t round = static_cast<uint64_t>(AscendC::RoundMode::CAST_ROUND);
        Kernels().element(Op::Cast, Dt::F16, Dt::F32)(u, t, nullptr, round, s.l.n);
        if (saturates) {
            SaturateFloats(u, s.l.n, Dt::F16);
        }
        s.Put(u);
    });
}

}  // namespace autofuse_twin
