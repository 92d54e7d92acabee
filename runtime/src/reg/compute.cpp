// Arithmetic, comparison and conversion of registers. The formulas are those of the memory-level calls.
#include <algorithm>
#include <limits>

#include "autofuse_twin/reg_types.h"
#include "reg/vf.h"

namespace autofuse_twin {
namespace {

bool AllOn(const uint64_t* mask, uint32_t lanes, uint32_t step) {
    for (uint32_t i = 0; i < lanes; ++i) {
        if (!MaskHas(mask, i * step)) {
            return false;
        }
    }
    return true;
}

// d: `on` where the mask is on, else `off` (null: 0). d may be either of them.
void Blend(uint8_t* d, const uint8_t* on, const uint8_t* off, const uint64_t* mask, uint32_t lanes, uint32_t elem) {
    const uint32_t step = kVl / lanes;
    if (AllOn(mask, lanes, step)) {
        std::memmove(d, on, lanes * elem);
        return;
    }
    for (uint32_t i = 0; i < lanes; ++i) {
        const uint32_t at = i * elem;
        if (MaskHas(mask, i * step)) {
            std::memmove(d + at, on + at, elem);
        } else if (off != nullptr) {
            std::memmove(d + at, off + at, elem);
        } else {
            std::memset(d + at, 0, elem);
        }
    }
}

void FillLanes(uint8_t* d, uint64_t value, uint32_t lanes, uint32_t elem) {
    for (uint32_t i = 0; i < lanes; ++i) {
        std::memcpy(d + i * elem, &value, elem);
    }
}

// Subnormal numbers become zeros of their sign.
void Flush(uint8_t* v, uint32_t lanes, Dt dt) {
    for (uint32_t i = 0; i < lanes; ++i) {
        if (dt == Dt::F32) {
            uint32_t bits;
            std::memcpy(&bits, v + 4 * i, 4);
            bits = (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
            std::memcpy(v + 4 * i, &bits, 4);
        } else {
            uint16_t bits;
            std::memcpy(&bits, v + 2 * i, 2);
            bits = static_cast<uint16_t>((bits & 0x7c00u) == 0 ? bits & 0x8000u : bits);
            std::memcpy(v + 2 * i, &bits, 2);
        }
    }
}

ElementFn Find(const char* api, Op op, Dt dst, Dt src) {
    const ElementFn fn = Kernels().element(op, dst, src);
    if (fn == nullptr) {
        Fail("dtype", api, "no implementation for %s -> %s", DtName(src), DtName(dst));
    }
    return fn;
}

}  // namespace

void RegElementwise(Op what, const char* api, const RegRef& dst, const RegRef& a, const RegRef* b, const uint64_t* scalar,
                    const MaskRef& mask, bool merge, bool flush) {
    RegOp op(api);
    const bool reads = what == Op::RegMulAddDst || what == Op::RegMulDstAdd;
    const ElementFn fn = Find(api, what, dst.dt, a.dt);
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
        // The one lane stands for all of them.
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

// ---- conversions ----

namespace {

// Which element of one register goes with which of another, of another width: the wider one decides how many there are.
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

// Elements of a conversion: which are defined. What no element is written to is 0.
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
bool IsSigned(Dt dt) { return dt == Dt::I8 || dt == Dt::I16 || dt == Dt::I32 || dt == Dt::I64; }

int64_t ReadInt(const uint8_t* at, Dt dt) {
    uint64_t v = 0;
    const uint32_t bytes = SizeOf(dt);
    std::memcpy(&v, at, bytes);
    const uint32_t unused = 64 - 8 * bytes;
    return IsSigned(dt) ? static_cast<int64_t>(v << unused) >> unused : static_cast<int64_t>(v);
}

void IntToInt(const uint8_t* x, uint8_t* y, Dt dst, Dt src, bool clamp, uint32_t n) {
    const uint32_t ed = SizeOf(dst);
    const uint32_t es = SizeOf(src);
    const int64_t top = ed == 8 ? std::numeric_limits<int64_t>::max()
                                : (int64_t{1} << (8 * ed - (IsSigned(dst) ? 1 : 0))) - 1;
    const int64_t bottom = IsSigned(dst) ? -top - 1 : 0;
    for (uint32_t i = 0; i < n; ++i) {
        int64_t v = ReadInt(x + i * es, src);
        if (clamp) {
            v = std::min(std::max(v, bottom), top);
        }
        std::memcpy(y + i * ed, &v, ed);
    }
}

// The low bits of an integral float; infinities give the extreme values, NaN gives 0.
uint64_t LowBits(float v, Dt dst) {
    const uint32_t bits = FloatBits(v);
    const uint32_t exponent = bits >> 23 & 0xffu;
    const bool negative = bits >> 31 != 0;
    if (exponent == 0xffu) {
        if ((bits & 0x7fffffu) != 0) {
            return 0;
        }
        const uint64_t top = ~uint64_t{0} >> (64 - 8 * SizeOf(dst) + (IsSigned(dst) ? 1 : 0));
        return negative ? (IsSigned(dst) ? ~top : 0) : top;
    }
    const uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
    uint64_t mag = 0;
    if (exponent >= 150) {
        mag = exponent - 150 < 64 ? mantissa << (exponent - 150) : 0;
    } else if (exponent >= 127) {
        mag = mantissa >> (150 - exponent);
    }
    return negative ? 0 - mag : mag;
}

// Saturation of 16-bit floats: NaN gives 0, what is beyond the largest number gives that.
uint16_t Saturated(uint16_t bits, Dt dst) {
    const uint32_t inf = dst == Dt::F16 ? 0x7c00u : 0x7f80u;
    const uint32_t mag = bits & 0x7fffu;
    if (mag > inf) {
        return 0;
    }
    return static_cast<uint16_t>(mag == inf ? (bits & 0x8000u) | (inf - 1) : bits);
}

void Convert(const uint8_t* x, uint8_t* y, Dt dst, Dt src, bool saturate, int mode, uint32_t n) {
    if (!IsFloat(dst) && !IsFloat(src)) {
        IntToInt(x, y, dst, src, saturate || SizeOf(dst) > SizeOf(src), n);
        return;
    }
    const uint64_t imm = static_cast<uint64_t>(mode);
    if (IsFloat(src) && !IsFloat(dst) && !saturate) {
        alignas(64) float wide[kVl];
        if (src == Dt::F32) {
            std::memcpy(wide, x, uint64_t{n} * 4);
        } else {
            Kernels().element(Op::Cast, Dt::F32, src)(wide, x, nullptr, 0, n);
        }
        Kernels().element(Op::Cast, Dt::F32, Dt::F32)(wide, wide, nullptr, imm, n);
        for (uint32_t i = 0; i < n; ++i) {
            const uint64_t bits = LowBits(wide[i], dst);
            std::memcpy(y + i * SizeOf(dst), &bits, SizeOf(dst));
        }
        return;
    }
    Kernels().element(Op::Cast, dst, src)(y, x, nullptr, imm, n);
    if (saturate && (dst == Dt::F16 || dst == Dt::BF16)) {
        for (uint32_t i = 0; i < n; ++i) {
            uint16_t bits;
            std::memcpy(&bits, y + 2 * i, 2);
            bits = Saturated(bits, dst);
            std::memcpy(y + 2 * i, &bits, 2);
        }
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

void RegCast(const RegRef& dst, const RegRef& src, int layout, bool saturate, int mode, const MaskRef& mask) {
    RegOp op("Cast");
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

// Half registers: every second element, as `layout` says, in float.
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
        s.Put(u);
    });
}

}  // namespace autofuse_twin
