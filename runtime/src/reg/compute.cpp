// Arithmetic, comparison and conversion of registers. The formulas are those of the memory-level calls.
#include <algorithm>

#include "api/control.h"
#include "autofuse_twin/reg_types.h"
#include "reg/lanes.h"

namespace autofuse_twin {

void RegElementwise(Op what, const char* api, const RegRef& dst, const RegRef& a, const RegRef* b, const uint64_t* scalar,
                    const MaskRef& mask, bool merge, bool flush) {
    RegOp op(api);
    const bool reads = what == Op::RegMulAddDst || what == Op::RegMulDstAdd;
    const ElementFn wraps = Find(api, what, dst.dt, a.dt);
    const ElementFn held = IntegersSaturate(op.core()) ? SaturatingIntegers(what, dst.dt) : nullptr;
    const ElementFn fn = held != nullptr ? held : wraps;
    const bool saturates = HalvesSaturate(op.core(), dst.dt);
    const uint8_t* x = op.Read(a);
    const uint8_t* y = b == nullptr ? nullptr : op.Read(*b);
    const uint64_t* m = op.Read(mask);
    const uint8_t* old = merge || reads ? op.Read(dst) : nullptr;
    RegCell* cells[3] = {};
    MaskCell* on = nullptr;
    RegCell* was = nullptr;
    int n = 0;
    if (op.Checked()) {
        cells[n++] = op.Cell(a);
        if (b != nullptr) cells[n++] = op.Cell(*b);
        if (reads) cells[n++] = op.Cell(dst);
        was = merge ? op.Cell(dst) : nullptr;
        on = op.Cell(mask);
    }
    uint8_t* d = op.Write(dst);
    KnowLanes(op, dst, cells, n, on, was);
    const uint64_t imm = scalar == nullptr ? 0 : *scalar;
    const bool fill = scalar != nullptr;
    const uint32_t lanes = dst.lanes;
    const uint32_t elem = dst.elem;
    const Dt dt = dst.dt;
    op.Do([=] {
        alignas(64) uint8_t t[kPair];
        alignas(64) uint8_t u[kPair];
        alignas(64) uint8_t v[kPair];
        if (reads) {
            std::memcpy(t, old, lanes * elem);
        }
        const uint8_t* p = x;
        const uint8_t* q = y;
        if (fill) {
            FillLanes(u, imm, lanes, elem);
            q = u;
        }
        if (flush) {
            std::memcpy(v, p, lanes * elem);
            Flush(v, lanes, dt);
            p = v;
            if (q != nullptr) {
                std::memmove(u, q, lanes * elem);
                Flush(u, lanes, dt);
                q = u;
            }
        }
        fn(t, p, q, imm, lanes);
        if (flush) {
            Flush(t, lanes, dt);
        }
        if (saturates) {
            SaturateFloats(t, lanes, dt);
        }
        Blend(d, t, merge ? old : nullptr, m, lanes, elem);
    });
}

void RegCompare(const MaskRef& dst, const RegRef& a, const RegRef* b, uint64_t scalar, int mode, const MaskRef& mask) {
    RegOp op(b == nullptr ? "Compares" : "Compare");
    const uint8_t* x = op.Read(a);
    const uint8_t* y = b == nullptr ? nullptr : op.Read(*b);
    const uint64_t* m = op.Read(mask);
    const MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    uint64_t* d = op.Write(dst);
    const uint32_t lanes = a.lanes;
    const uint32_t step = MaskStep(a);
    if (op.Checked()) {
        MaskCell* cell = op.Cell(dst);
        std::memset(cell->may, 0, sizeof(cell->may));
        const auto defined = [&](const RegRef& r, uint32_t i) {
            const uint8_t* known = op.Cell(r)->known;
            return known == nullptr || std::all_of(known + i * r.elem, known + (i + 1) * r.elem, [](uint8_t v) { return v == 0xff; });
        };
        for (uint32_t i = 0; i < lanes; ++i) {
            const uint32_t bit = i * step;
            if (MaskHas(on->may, bit)) {
                MaskSetBit(cell->may, bit);
                if (!MaskHas(on->known, bit) || !defined(a, i) || (b != nullptr && !defined(*b, i))) {
                    cell->known[bit >> 6] &= ~(uint64_t{1} << (bit & 63u));
                }
            }
        }
    }
    const CompareFn fn = Kernels().compare(a.dt);
    if (fn == nullptr) {
        Fail("dtype", op.api(), "no implementation for %s", DtName(a.dt));
    }
    op.Do([=] {
        uint8_t dense[kVl / 8];
        fn(dense, x, y, scalar, mode, lanes);
        uint64_t out[4] = {};
        for (uint32_t i = 0; i < lanes; ++i) {
            if ((dense[i / 8] >> (i % 8) & 1u) != 0 && MaskHas(m, i * step)) {
                MaskSetBit(out, i * step);
            }
        }
        std::memcpy(d, out, sizeof(out));
    });
}

void RegSelect(const RegRef& dst, const RegRef& a, const RegRef& b, const MaskRef& mask) {
    RegOp op("Select");
    const uint8_t* x = op.Read(a);
    const uint8_t* y = op.Read(b);
    const uint64_t* m = op.Read(mask);
    RegCell* cells[] = {op.Checked() ? op.Cell(a) : nullptr};
    RegCell* other = op.Checked() ? op.Cell(b) : nullptr;
    MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    uint8_t* d = op.Write(dst);
    KnowLanes(op, dst, cells, 1, on, other);
    const uint32_t lanes = dst.lanes;
    const uint32_t elem = dst.elem;
    op.Do([=] {
        uint8_t t[kPair];
        Blend(t, x, y, m, lanes, elem);
        std::memcpy(d, t, lanes * elem);
    });
}

void RegMove(const RegRef& dst, const RegRef& src, const MaskRef* mask, bool merge) {
    RegOp op("Move");
    const uint8_t* x = op.Read(src);
    const uint64_t* m = mask == nullptr ? nullptr : op.Read(*mask);
    const uint8_t* old = mask != nullptr && merge ? op.Read(dst) : nullptr;
    RegCell* cells[] = {op.Checked() ? op.Cell(src) : nullptr};
    RegCell* was = op.Checked() && old != nullptr ? op.Cell(dst) : nullptr;
    MaskCell* on = op.Checked() && mask != nullptr ? op.Cell(*mask) : nullptr;
    uint8_t* d = op.Write(dst);
    KnowLanes(op, dst, cells, 1, on, was);
    const uint32_t lanes = dst.lanes;
    const uint32_t elem = dst.elem;
    op.Do([=] {
        if (m == nullptr) {
            std::memmove(d, x, lanes * elem);
        } else {
            Blend(d, x, old, m, lanes, elem);
        }
    });
}

void RegFill(const RegRef& dst, uint64_t value, const MaskRef* mask, bool merge) {
    RegOp op("Duplicate");
    const uint64_t* m = mask == nullptr ? nullptr : op.Read(*mask);
    const uint8_t* old = mask != nullptr && merge ? op.Read(dst) : nullptr;
    RegCell* was = op.Checked() && old != nullptr ? op.Cell(dst) : nullptr;
    MaskCell* on = op.Checked() && mask != nullptr ? op.Cell(*mask) : nullptr;
    uint8_t* d = op.Write(dst);
    KnowLanes(op, dst, nullptr, 0, on, was);
    const uint32_t lanes = dst.lanes;
    const uint32_t elem = dst.elem;
    op.Do([=] {
        if (m == nullptr) {
            FillLanes(d, value, lanes, elem);
            return;
        }
        uint8_t t[kPair];
        FillLanes(t, value, lanes, elem);
        Blend(d, t, old, m, lanes, elem);
    });
}

void RegFillLane(const RegRef& dst, const RegRef& src, bool last, const MaskRef& mask, bool merge) {
    RegOp op("Duplicate");
    const uint8_t* x = op.Read(src);
    const uint64_t* m = op.Read(mask);
    const uint8_t* old = merge ? op.Read(dst) : nullptr;
    RegCell* from = op.Checked() ? op.Cell(src) : nullptr;
    RegCell* was = op.Checked() && merge ? op.Cell(dst) : nullptr;
    MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    uint8_t* d = op.Write(dst);
    const uint32_t lanes = dst.lanes;
    const uint32_t elem = dst.elem;
    const uint32_t lane = last ? lanes - 1 : 0;
    if (op.Checked()) {
        // The single lane represents all of them.
        RegCell spread{nullptr, nullptr, 0};
        uint8_t known[kPair];
        if (from->known != nullptr) {
            for (uint32_t i = 0; i < lanes; ++i) {
                std::memcpy(known + i * elem, from->known + lane * elem, elem);
            }
            spread.known = known;
        }
        RegCell* cells[] = {&spread};
        KnowLanes(op, dst, cells, 1, on, was);
    }
    op.Do([=] {
        uint8_t t[kPair];
        for (uint32_t i = 0; i < lanes; ++i) {
            std::memcpy(t + i * elem, x + lane * elem, elem);
        }
        Blend(d, t, old, m, lanes, elem);
    });
}

void RegArange(const RegRef& dst, uint64_t first, bool down) {
    RegOp op("Arange");
    const bool saturates = HalvesSaturate(op.core(), dst.dt);
    uint8_t* d = op.Write(dst);
    const uint32_t lanes = dst.lanes;
    const uint32_t elem = dst.elem;
    const Dt dt = dst.dt;
    op.Do([=] {
        for (uint32_t i = 0; i < lanes; ++i) {
            uint64_t bits = down ? first - i : first + i;
            if (dt == Dt::F32) {
                const float start = BitsFloat(static_cast<uint32_t>(first));
                bits = FloatBits(down ? start - static_cast<float>(i) : start + static_cast<float>(i));
            } else if (dt == Dt::F16) {
                const float start = HalfBitsToFloat(static_cast<uint16_t>(first));
                bits = FloatToHalfBits(down ? start - static_cast<float>(i) : start + static_cast<float>(i));
            }
            std::memcpy(d + i * elem, &bits, elem);
        }
        if (saturates) {
            SaturateFloats(d, lanes, dt);
        }
    });
}

void RegCarry(const MaskRef& carry, const RegRef& dst, const RegRef& a, const RegRef& b, const MaskRef* carry_in,
              const MaskRef& mask) {
    RegOp op(carry_in == nullptr ? "Add" : "AddC");
    const uint8_t* x = op.Read(a);
    const uint8_t* y = op.Read(b);
    const uint64_t* in = carry_in == nullptr ? nullptr : op.Read(*carry_in);
    const uint64_t* m = op.Read(mask);
    RegCell* cells[] = {op.Checked() ? op.Cell(a) : nullptr, op.Checked() ? op.Cell(b) : nullptr};
    MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    const MaskCell* before = op.Checked() && carry_in != nullptr ? op.Cell(*carry_in) : nullptr;
    uint8_t* d = op.Write(dst);
    uint64_t* out = op.Write(carry);
    KnowLanes(op, dst, cells, 2, on, nullptr);
    if (op.Checked()) {
        MaskCell* cell = op.Cell(carry);
        RegCell* sum = op.Cell(dst);
        std::memcpy(cell->may, on->may, sizeof(cell->may));
        for (uint32_t i = 0; i < dst.lanes; ++i) {
            const bool sure = before == nullptr || MaskHas(before->known, 4 * i);
            if (!sure) {
                std::memset(op.Known(sum, kVl) + 4 * i, 0, 4);
            }
            if (sum->known != nullptr && sum->known[4 * i] != 0xff) {
                cell->known[i >> 4] &= ~(uint64_t{1} << (4 * i & 63u));
            }
        }
    }
    const uint32_t lanes = dst.lanes;
    op.Do([=] {
        uint64_t bits[4] = {};
        uint8_t t[kVl] = {};
        for (uint32_t i = 0; i < lanes; ++i) {
            uint32_t p;
            uint32_t q;
            std::memcpy(&p, x + 4 * i, 4);
            std::memcpy(&q, y + 4 * i, 4);
            const uint64_t sum = uint64_t{p} + q + (in != nullptr && MaskHas(in, 4 * i) ? 1 : 0);
            if (MaskHas(m, 4 * i)) {
                const uint32_t low = static_cast<uint32_t>(sum);
                std::memcpy(t + 4 * i, &low, 4);
                if (sum >> 32 != 0) {
                    MaskSetBit(bits, 4 * i);
                }
            }
        }
        std::memcpy(d, t, kVl);
        std::memcpy(out, bits, sizeof(bits));
    });
}

void RegMull(const RegRef& low, const RegRef& high, const RegRef& a, const RegRef& b, const MaskRef& mask) {
    RegOp op("Mull");
    const uint8_t* x = op.Read(a);
    const uint8_t* y = op.Read(b);
    const uint64_t* m = op.Read(mask);
    RegCell* cells[] = {op.Checked() ? op.Cell(a) : nullptr, op.Checked() ? op.Cell(b) : nullptr};
    MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    uint8_t* d = op.Write(low);
    uint8_t* e = op.Write(high);
    KnowLanes(op, low, cells, 2, on, nullptr);
    KnowLanes(op, high, cells, 2, on, nullptr);
    const bool is_signed = a.dt == Dt::I32;
    const uint32_t lanes = a.lanes;
    op.Do([=] {
        uint8_t t[kVl] = {};
        uint8_t u[kVl] = {};
        for (uint32_t i = 0; i < lanes; ++i) {
            uint32_t p;
            uint32_t q;
            std::memcpy(&p, x + 4 * i, 4);
            std::memcpy(&q, y + 4 * i, 4);
            const uint64_t product =
                is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(p)} * static_cast<int32_t>(q)) : uint64_t{p} * q;
            if (MaskHas(m, 4 * i)) {
                const uint32_t parts[] = {static_cast<uint32_t>(product), static_cast<uint32_t>(product >> 32)};
                std::memcpy(t + 4 * i, &parts[0], 4);
                std::memcpy(u + 4 * i, &parts[1], 4);
            }
        }
        std::memcpy(d, t, kVl);
        std::memcpy(e, u, kVl);
    });
}

}  // namespace autofuse_twin
