// Vector calls: count forms and high-dimensional forms (mask, repeat, strides), with their checks.
#include <cstring>

#include "core.h"

namespace autofuse_twin {
namespace {

constexpr uint32_t kBlock = 32;
constexpr uint32_t kRepeatBytes = 256;

struct Operand {
    const UbView* view;
    const char* name;
    uint32_t elem;
    uint32_t blk;  // stride of blocks inside a repeat, in blocks
    uint32_t rep;  // stride of repeats, in blocks

    uint64_t Offset(uint64_t r, uint32_t lane) const {
        const uint32_t per = kBlock / elem;
        return r * rep * kBlock + uint64_t{lane / per} * blk * kBlock + uint64_t{lane % per} * elem;
    }
};

// The lanes that take part, decoded from the mask of a call.
struct Lanes {
    uint64_t bits[2];      // lanes of a full repeat
    uint64_t repeats;
    uint32_t per_repeat;
    uint64_t last_bits[2];  // lanes of the last repeat (differs in counter mode only)

    static bool Has(const uint64_t* b, uint32_t lane) { return (b[lane >> 6] >> (lane & 63u) & 1u) != 0; }
};

void FirstN(uint64_t n, uint64_t* bits) {
    bits[0] = n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
    bits[1] = n >= 128 ? ~uint64_t{0} : (n > 64 ? (uint64_t{1} << (n - 64)) - 1 : 0);
}

Lanes DecodeMask(Core& core, const char* api, const Rep& rep, uint32_t elem) {
    Lanes out{};
    out.per_repeat = kRepeatBytes / elem;
    uint64_t lo = rep.lo;
    uint64_t hi = rep.hi;
    const bool from_register = rep.kind == Rep::kRegister;
    if (from_register) {
        lo = core.mask_lo;
        hi = core.mask_hi;
    }
    if (core.counter_mode) {
        if (lo > 0xffffffffu || (hi != 0 && rep.kind != Rep::kCount)) {
            Fail("mask-range", api, "counter mode needs an element count in the low mask word and 0 in the high one");
        }
        FirstN(out.per_repeat, out.bits);
        out.repeats = (lo + out.per_repeat - 1) / out.per_repeat;
        FirstN(lo == 0 ? 0 : (lo - 1) % out.per_repeat + 1, out.last_bits);
        if (!from_register) {
            core.mask_lo = lo;
            core.mask_hi = 0;
        }
        return out;
    }
    out.repeats = rep.repeat;
    if (rep.kind == Rep::kCount) {
        if (lo < 1 || lo > out.per_repeat) {
            Fail("mask-range", api, "mask %llu is outside of [1, %u] for %u-byte elements", static_cast<unsigned long long>(lo),
                 out.per_repeat, elem);
        }
        FirstN(lo, out.bits);
    } else {
        out.bits[0] = lo;
        out.bits[1] = hi;
        if (elem >= 4 && from_register) {
            out.bits[1] = 0;
        }
        if (out.bits[0] == 0 && out.bits[1] == 0) {
            Fail("mask-range", api, "no lane is enabled in mask {0x%llx, 0x%llx}", static_cast<unsigned long long>(lo),
                 static_cast<unsigned long long>(hi));
        }
        if (elem >= 4 && out.bits[1] != 0) {
            Fail("mask-range", api, "mask[1] must be 0 for %u-byte elements (it is 0x%llx)", elem,
                 static_cast<unsigned long long>(hi));
        }
    }
    if (!from_register) {
        core.mask_lo = out.bits[0];
        core.mask_hi = out.bits[1];
    }
    std::memcpy(out.last_bits, out.bits, sizeof(out.bits));
    return out;
}

// One past the last byte that a repeat touches, relative to its start.
uint64_t RepeatEnd(const Operand& o, const uint64_t* bits, uint32_t per_repeat) {
    uint64_t end = 0;
    for (uint32_t lane = 0; lane < per_repeat; ++lane) {
        if (Lanes::Has(bits, lane)) {
            const uint64_t e = o.Offset(0, lane) + o.elem;
            end = e > end ? e : end;
        }
    }
    return end;
}

void CheckOperand(Core& core, const char* api, const Operand& o, const Lanes& lanes) {
    const uint64_t step = uint64_t{o.rep} * kBlock;
    uint64_t end = (lanes.repeats - 1) * step + RepeatEnd(o, lanes.last_bits, lanes.per_repeat);
    if (lanes.repeats > 1) {
        const uint64_t earlier = (lanes.repeats - 2) * step + RepeatEnd(o, lanes.bits, lanes.per_repeat);
        end = earlier > end ? earlier : end;
    }
    CheckUb(core, api, o.name, *o.view, end, kBlock);
}

void CheckDstStride(const char* api, const Rep& rep) {
    if (rep.dstBlk == 0) {
        Fail("repeat-params", api, "dstBlkStride 0 is undefined");
    }
}

// Partial overlap of a result with a source gives no defined result; complete overlap is an in-place call.
void CheckOverlap(Core& core, const char* api, const UbView& d, uint64_t d_bytes, const UbView& s, const char* name,
                  uint64_t s_bytes, bool in_place_ok) {
    const bool apart = d.addr + d_bytes <= s.addr || s.addr + s_bytes <= d.addr;
    const bool same = d.addr == s.addr && d_bytes == s_bytes;
    if (!apart && !(same && in_place_ok)) {
        Fail("ub-overlap", api, "dst [%lld, %lld) and %s [%lld, %lld) overlap%s", static_cast<long long>(d.addr - core.ub),
             static_cast<long long>(d.addr - core.ub + static_cast<int64_t>(d_bytes)), name,
             static_cast<long long>(s.addr - core.ub),
             static_cast<long long>(s.addr - core.ub + static_cast<int64_t>(s_bytes)),
             in_place_ok ? " without being identical" : "; this function does not work in place");
    }
}

int64_t CheckCount(const char* api, int64_t count) {
    if (count < 0) {
        Fail("count-range", api, "count %lld is negative", static_cast<long long>(count));
    }
    return count;
}

// A count call programs the mask itself and leaves normal mode with all lanes on.
void CountCallMask(Core& core) {
    core.counter_mode = false;
    core.mask_lo = core.mask_hi = ~uint64_t{0};
}

// Round modes that exist per conversion, as bits 1 << RoundMode.
void CheckCastMode(Dt dst, Dt src, uint64_t mode) {
    constexpr uint32_t none = 1u << 0;
    constexpr uint32_t five = 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5;
    constexpr uint32_t odd = 1u << 6;
    uint32_t allowed = five;
    if (src == Dt::F16) {
        allowed = dst == Dt::F32 ? none : (dst == Dt::I8 || dst == Dt::U8 ? five | none : five);
    } else if (src == Dt::BF16) {
        allowed = dst == Dt::F32 ? none : five;
    } else if (src == Dt::F32) {
        allowed = dst == Dt::F16 ? five | odd | none : five;
    } else if (src == Dt::I8 || src == Dt::U8) {
        allowed = none;
    } else if (src == Dt::I16) {
        allowed = dst == Dt::F16 ? five | none : none;
    } else if (src == Dt::I32) {
        allowed = dst == Dt::F32 ? five | none : none;
    } else if (src == Dt::I64) {
        allowed = dst == Dt::I32 ? none : five;
    }
    static const char* const names[] = {"CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL",
                                        "CAST_ROUND", "CAST_TRUNC", "CAST_ODD", "CAST_HYBRID"};
    if (mode > 7 || (allowed >> mode & 1u) == 0) {
        Fail("cast-mode", "Cast", "%s -> %s does not support %s", DtName(src), DtName(dst), mode > 7 ? "this mode" : names[mode]);
    }
}

// Calls fn on runs of enabled lanes that are contiguous in every operand.
template <typename F>
void ForEachRun(const Lanes& lanes, const Operand* operands, int n, F fn) {
    bool dense = true;
    uint32_t step = lanes.per_repeat;
    for (int i = 0; i < n; ++i) {
        dense = dense && operands[i].blk == 1;
        const uint32_t per = kBlock / operands[i].elem;
        step = per < step ? per : step;
    }
    if (dense) {
        step = lanes.per_repeat;
    }
    for (uint64_t r = 0; r < lanes.repeats; ++r) {
        const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
        uint32_t lane = 0;
        while (lane < lanes.per_repeat) {
            if (!Lanes::Has(bits, lane)) {
                ++lane;
                continue;
            }
            uint32_t end = lane + 1;
            while (end < lanes.per_repeat && end % step != 0 && Lanes::Has(bits, end)) {
                ++end;
            }
            fn(r, lane, end - lane);
            lane = end;
        }
    }
}

ElementFn Lookup(const VecCall& c) {
    const ElementFn fn = Kernels().element(c.op, c.dst_dt, c.src_dt);
    if (fn == nullptr) {
        Fail("dtype", OpName(c.op), "no implementation for %s -> %s", DtName(c.src_dt), DtName(c.dst_dt));
    }
    return fn;
}

void RunRepeats(Core& core, const VecCall& c, ElementFn fn) {
    const char* api = OpName(c.op);
    const Rep& rep = *c.rep;
    const uint32_t ds = SizeOf(c.dst_dt);
    const uint32_t ss = SizeOf(c.src_dt);
    const Lanes lanes = DecodeMask(core, api, rep, ds > ss ? ds : ss);
    if (lanes.repeats == 0) {
        return;
    }
    CheckDstStride(api, rep);
    Operand ops[3];
    int n = 0;
    ops[n++] = {c.dst, "dst", ds, rep.dstBlk, rep.dstRep};
    if (c.src0 != nullptr) ops[n++] = {c.src0, c.src1 != nullptr ? "src0" : "src", ss, rep.src0Blk, rep.src0Rep};
    if (c.src1 != nullptr) ops[n++] = {c.src1, "src1", ss, rep.src1Blk, rep.src1Rep};
    for (int i = 0; i < n; ++i) {
        CheckOperand(core, api, ops[i], lanes);
    }
    ForEachRun(lanes, ops, n, [&](uint64_t r, uint32_t lane, uint32_t len) {
        uint8_t* d = c.dst->addr + ops[0].Offset(r, lane);
        const uint8_t* a = n > 1 ? ops[1].view->addr + ops[1].Offset(r, lane) : nullptr;
        const uint8_t* b = n > 2 ? ops[2].view->addr + ops[2].Offset(r, lane) : nullptr;
        fn(d, a, b, c.imm, len);
    });
}

void RunCount(Core& core, const VecCall& c, ElementFn fn) {
    const char* api = OpName(c.op);
    const uint64_t n = static_cast<uint64_t>(CheckCount(api, c.count));
    CountCallMask(core);
    const uint64_t d_bytes = n * SizeOf(c.dst_dt);
    const uint64_t s_bytes = n * SizeOf(c.src_dt);
    CheckUb(core, api, "dst", *c.dst, d_bytes, kBlock);
    if (c.src0 != nullptr) {
        const char* name = c.src1 != nullptr ? "src0" : "src";
        CheckUb(core, api, name, *c.src0, s_bytes, kBlock);
        CheckOverlap(core, api, *c.dst, d_bytes, *c.src0, name, s_bytes, true);
    }
    if (c.src1 != nullptr) {
        CheckUb(core, api, "src1", *c.src1, s_bytes, kBlock);
        CheckOverlap(core, api, *c.dst, d_bytes, *c.src1, "src1", s_bytes, true);
    }
    if (n != 0) {
        fn(c.dst->addr, c.src0 == nullptr ? nullptr : c.src0->addr, c.src1 == nullptr ? nullptr : c.src1->addr, c.imm, n);
    }
}

// Copies the enabled lanes of repeat r into a dense array; the other lanes become zero.
void Gather(const Operand& o, uint64_t r, const uint64_t* bits, uint32_t per_repeat, uint8_t* out) {
    std::memset(out, 0, uint64_t{per_repeat} * o.elem);
    for (uint32_t lane = 0; lane < per_repeat; ++lane) {
        if (Lanes::Has(bits, lane)) {
            std::memcpy(out + lane * o.elem, o.view->addr + o.Offset(r, lane), o.elem);
        }
    }
}

void CheckShift(const VecCall& c) {
    if (c.op != Op::ShiftLeft && c.op != Op::ShiftRight && c.op != Op::ShiftRightRound) {
        return;
    }
    const uint32_t bits = SizeOf(c.src_dt) * 8;
    int64_t by = static_cast<int64_t>(c.imm);
    by = c.src_dt == Dt::I16 ? static_cast<int16_t>(c.imm) : (c.src_dt == Dt::I32 ? static_cast<int32_t>(c.imm) : by);
    if (by < 0 || by > bits) {
        Fail("shift-range", OpName(c.op), "shift by %lld is outside of [0, %u]", static_cast<long long>(by), bits);
    }
}

void CheckMultipleOf256(const char* api, int64_t count, uint32_t elem) {
    if (static_cast<uint64_t>(count) * elem % kRepeatBytes != 0) {
        Fail("cmp-count", api, "count %lld of %u-byte elements covers %lld bytes; it must be a multiple of 256",
             static_cast<long long>(count), elem, static_cast<long long>(count) * elem);
    }
}

}  // namespace

void Elementwise(const VecCall& c) {
    Core& core = Current();
    if (c.op == Op::Cast) {
        CheckCastMode(c.dst_dt, c.src_dt, c.imm);
    }
    CheckShift(c);
    const ElementFn fn = Lookup(c);
    if (c.rep != nullptr) {
        RunRepeats(core, c, fn);
    } else {
        RunCount(core, c, fn);
    }
}

void Compare(const VecCall& c, int mode) {
    Core& core = Current();
    const char* api = OpName(c.op);
    const uint32_t elem = SizeOf(c.src_dt);
    if (c.src_dt == Dt::I32 && mode != static_cast<int>(AscendC::CMPMODE::EQ)) {
        Fail("cmp-mode", api, "int32_t supports only CMPMODE::EQ");
    }
    const CompareFn fn = Kernels().compare(c.src_dt);
    const char* src_name = c.src1 != nullptr ? "src0" : "src";
    if (c.rep == nullptr) {
        const uint64_t n = static_cast<uint64_t>(CheckCount(api, c.count));
        CheckMultipleOf256(api, c.count, elem);
        CountCallMask(core);
        CheckUb(core, api, "dst", *c.dst, n / 8, kBlock);
        CheckUb(core, api, src_name, *c.src0, n * elem, kBlock);
        CheckOverlap(core, api, *c.dst, n / 8, *c.src0, src_name, n * elem, false);
        if (c.src1 != nullptr) {
            CheckUb(core, api, "src1", *c.src1, n * elem, kBlock);
            CheckOverlap(core, api, *c.dst, n / 8, *c.src1, "src1", n * elem, false);
        }
        fn(c.dst->addr, c.src0->addr, c.src1 == nullptr ? nullptr : c.src1->addr, c.imm, mode, n);
        return;
    }
    const Lanes lanes = DecodeMask(core, api, *c.rep, elem);
    if (lanes.repeats == 0) {
        return;
    }
    const uint32_t out = lanes.per_repeat / 8;
    const Operand a{c.src0, src_name, elem, c.rep->src0Blk, c.rep->src0Rep};
    const Operand b{c.src1, "src1", elem, c.rep->src1Blk, c.rep->src1Rep};
    CheckOperand(core, api, a, lanes);
    if (c.src1 != nullptr) {
        CheckOperand(core, api, b, lanes);
    }
    if (c.dst != nullptr) {
        CheckUb(core, api, "dst", *c.dst, lanes.repeats * out, kBlock);
    }
    for (uint64_t r = 0; r < lanes.repeats; ++r) {
        const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
        alignas(32) uint8_t x[kRepeatBytes];
        alignas(32) uint8_t y[kRepeatBytes];
        uint8_t result[16];
        Gather(a, r, bits, lanes.per_repeat, x);
        if (c.src1 != nullptr) {
            Gather(b, r, bits, lanes.per_repeat, y);
        }
        fn(result, x, c.src1 == nullptr ? nullptr : y, c.imm, mode, lanes.per_repeat);
        for (uint32_t i = 0; i < out; ++i) {
            result[i] = static_cast<uint8_t>(result[i] & (bits[i / 8] >> (i % 8 * 8)));
        }
        std::memcpy(c.dst != nullptr ? c.dst->addr + r * out : core.cmp_mask, result, out);
    }
}

void Select(const VecCall& c, const UbView* mask, int mode) {
    Core& core = Current();
    const char* api = "Select";
    const uint32_t elem = SizeOf(c.dst_dt);
    const bool scalar = c.src1 == nullptr;
    const bool repeat_bits = mode == static_cast<int>(AscendC::SELMODE::VSEL_CMPMASK_SPR);
    if (scalar != (mode == static_cast<int>(AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE))) {
        Fail("select-mode", api, "VSEL_TENSOR_SCALAR_MODE goes with a scalar src1, the other modes with a tensor");
    }
    const SelectFn fn = Kernels().select(elem);
    const uint32_t per_repeat = kRepeatBytes / elem;
    const uint32_t mask_bytes = per_repeat / 8;
    if (c.rep == nullptr) {
        const uint64_t n = static_cast<uint64_t>(CheckCount(api, c.count));
        CheckMultipleOf256(api, c.count, elem);
        CountCallMask(core);
        CheckUb(core, api, "dst", *c.dst, n * elem, kBlock);
        CheckUb(core, api, "selMask", *mask, repeat_bits ? mask_bytes : n / 8, kBlock);
        CheckUb(core, api, "src0", *c.src0, n * elem, kBlock);
        CheckOverlap(core, api, *c.dst, n * elem, *c.src0, "src0", n * elem, true);
        if (!scalar) {
            CheckUb(core, api, "src1", *c.src1, n * elem, kBlock);
            CheckOverlap(core, api, *c.dst, n * elem, *c.src1, "src1", n * elem, true);
        }
        const uint64_t step = repeat_bits ? per_repeat : n;
        for (uint64_t i = 0; i < n; i += step) {
            fn(c.dst->addr + i * elem, mask->addr + (repeat_bits ? 0 : i / 8), c.src0->addr + i * elem,
               scalar ? nullptr : c.src1->addr + i * elem, c.imm, step);
        }
        return;
    }
    const Lanes lanes = DecodeMask(core, api, *c.rep, elem);
    if (lanes.repeats == 0) {
        return;
    }
    CheckDstStride(api, *c.rep);
    const Operand d{c.dst, "dst", elem, c.rep->dstBlk, c.rep->dstRep};
    const Operand a{c.src0, "src0", elem, c.rep->src0Blk, c.rep->src0Rep};
    const Operand b{c.src1, "src1", elem, c.rep->src1Blk, c.rep->src1Rep};
    CheckOperand(core, api, d, lanes);
    CheckOperand(core, api, a, lanes);
    if (!scalar) {
        CheckOperand(core, api, b, lanes);
    }
    if (mask != nullptr) {
        CheckUb(core, api, "selMask", *mask, (repeat_bits ? 1 : lanes.repeats) * mask_bytes, kBlock);
    }
    for (uint64_t r = 0; r < lanes.repeats; ++r) {
        const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
        alignas(32) uint8_t x[kRepeatBytes];
        alignas(32) uint8_t y[kRepeatBytes];
        alignas(32) uint8_t z[kRepeatBytes];
        Gather(a, r, bits, per_repeat, x);
        if (!scalar) {
            Gather(b, r, bits, per_repeat, y);
        }
        const uint8_t* take = mask == nullptr ? core.cmp_mask : mask->addr + (repeat_bits ? 0 : r * mask_bytes);
        fn(z, take, x, scalar ? nullptr : y, c.imm, per_repeat);
        for (uint32_t lane = 0; lane < per_repeat; ++lane) {
            if (Lanes::Has(bits, lane)) {
                std::memcpy(c.dst->addr + d.Offset(r, lane), z + lane * elem, elem);
            }
        }
    }
}

void CmpMaskTransfer(const UbView& view, bool to_register) {
    Core& core = Current();
    CheckUb(core, to_register ? "SetCmpMask" : "GetCmpMask", to_register ? "src" : "dst", view, sizeof(core.cmp_mask), 16);
    std::memcpy(to_register ? core.cmp_mask : view.addr, to_register ? view.addr : core.cmp_mask, sizeof(core.cmp_mask));
}

namespace {

// Smallest legal temporary buffer in bytes.
uint32_t MinTmpBytes(Op op, Dt dt) {
    const bool half_type = dt == Dt::F16;
    switch (op) {
        case Op::Sigmoid: return 256;
        case Op::Tanh: return 256u * (half_type ? 4 : 1);
        case Op::Erf: return 256u * (half_type ? 8 : 3);
        case Op::Sin:
        case Op::Cos: return 256u * (half_type ? 8 : 3);
        case Op::Gelu: return 768;
        case Op::Power: return 256u * (half_type ? 14 : (dt == Dt::I32 ? 6 : 4));
        case Op::PowerTensorScalar:
        case Op::PowerScalarTensor: return 256u * (half_type ? 14 : (dt == Dt::I32 ? 7 : 5)) + 256;
        default: return 0;
    }
}

}  // namespace

void Advanced(const VecCall& c, const UbView* tmp) {
    Core& core = Current();
    const char* api = OpName(c.op);
    const uint64_t n = static_cast<uint64_t>(CheckCount(api, c.count));
    const uint64_t bytes = n * SizeOf(c.dst_dt);
    const bool in_place = c.op == Op::Gelu;
    CheckUb(core, api, "dst", *c.dst, bytes, kBlock);
    CheckUb(core, api, "src", *c.src0, bytes, kBlock);
    CheckOverlap(core, api, *c.dst, bytes, *c.src0, "src", bytes, in_place);
    if (c.src1 != nullptr) {
        CheckUb(core, api, "src1", *c.src1, bytes, kBlock);
        CheckOverlap(core, api, *c.dst, bytes, *c.src1, "src1", bytes, false);
    }
    if (tmp != nullptr) {
        // Sin and Cos need one part less when the source may be overwritten (imm = isReuseSource).
        const bool less = (c.op == Op::Sin || c.op == Op::Cos) && c.imm != 0 && c.dst_dt == Dt::F32;
        const uint32_t need = MinTmpBytes(c.op, c.dst_dt) - (less ? 256u : 0u);
        if (tmp->size < need) {
            Fail("tmp-size", api, "sharedTmpBuffer has %u bytes, the minimum for %s is %u", tmp->size, DtName(c.dst_dt), need);
        }
        CheckUb(core, api, "sharedTmpBuffer", *tmp, tmp->size, kBlock);
        CheckOverlap(core, api, *c.dst, bytes, *tmp, "sharedTmpBuffer", tmp->size, false);
        CheckOverlap(core, api, *tmp, tmp->size, *c.src0, "src", bytes, false);
        if (c.src1 != nullptr) {
            CheckOverlap(core, api, *tmp, tmp->size, *c.src1, "src1", bytes, false);
        }
    }
    CountCallMask(core);
    if (n != 0) {
        Lookup(c)(c.dst->addr, c.src0->addr, c.src1 == nullptr ? nullptr : c.src1->addr, c.imm, n);
    }
    if (tmp != nullptr) {
        std::memset(tmp->addr, 0xff, tmp->size);  // its contents are undefined afterwards
    }
}

namespace {

void WriteIndex(Dt dt, uint8_t* d, uint64_t first, uint64_t i) {
    switch (dt) {
        case Dt::I16: {
            const uint16_t v = static_cast<uint16_t>(first + i);
            std::memcpy(d, &v, 2);
            return;
        }
        case Dt::I32: {
            const uint32_t v = static_cast<uint32_t>(first + i);
            std::memcpy(d, &v, 4);
            return;
        }
        case Dt::F16: {
            const uint16_t v = FloatToHalfBits(HalfBitsToFloat(static_cast<uint16_t>(first)) + static_cast<float>(i));
            std::memcpy(d, &v, 2);
            return;
        }
        default: {
            const float v = BitsFloat(static_cast<uint32_t>(first)) + static_cast<float>(i);
            std::memcpy(d, &v, 4);
        }
    }
}

}  // namespace

void VecIndex(Dt dt, const UbView& dst, uint64_t first, int64_t count, const Rep* rep) {
    Core& core = Current();
    const char* api = "CreateVecIndex";
    const uint32_t elem = SizeOf(dt);
    if (rep == nullptr) {
        const uint64_t n = static_cast<uint64_t>(CheckCount(api, count));
        CountCallMask(core);
        CheckUb(core, api, "dst", dst, n * elem, kBlock);
        for (uint64_t i = 0; i < n; ++i) {
            WriteIndex(dt, dst.addr + i * elem, first, i);
        }
        return;
    }
    const Lanes lanes = DecodeMask(core, api, *rep, elem);
    if (lanes.repeats == 0) {
        return;
    }
    CheckDstStride(api, *rep);
    const Operand d{&dst, "dst", elem, rep->dstBlk, rep->dstRep};
    CheckOperand(core, api, d, lanes);
    ForEachRun(lanes, &d, 1, [&](uint64_t r, uint32_t lane, uint32_t len) {
        for (uint32_t i = 0; i < len; ++i) {
            WriteIndex(dt, dst.addr + d.Offset(r, lane + i), first, r * lanes.per_repeat + lane + i);
        }
    });
}

void BrcbBlocks(uint32_t elem, const UbView& dst, const UbView& src, uint32_t repeat, uint32_t dstBlk, uint32_t dstRep) {
    Core& core = Current();
    const char* api = "Brcb";
    if (repeat == 0) {
        return;
    }
    if (dstBlk == 0) {
        Fail("repeat-params", api, "dstBlkStride 0 is undefined");
    }
    const uint64_t end = (uint64_t{repeat - 1} * dstRep + 7 * uint64_t{dstBlk} + 1) * kBlock;
    const uint64_t src_bytes = uint64_t{repeat} * 8 * elem;
    CheckUb(core, api, "dst", dst, end, kBlock);
    CheckUb(core, api, "src0", src, src_bytes, kBlock);
    CheckOverlap(core, api, dst, end, src, "src0", src_bytes, false);
    for (uint32_t r = 0; r < repeat; ++r) {
        for (uint32_t k = 0; k < 8; ++k) {
            uint8_t* d = dst.addr + (uint64_t{r} * dstRep + uint64_t{k} * dstBlk) * kBlock;
            for (uint32_t at = 0; at < kBlock; at += elem) {
                std::memcpy(d + at, src.addr + (uint64_t{r} * 8 + k) * elem, elem);
            }
        }
    }
}

void MaskModeSet(bool counter) { Current().counter_mode = counter; }
void MaskReset() {
    Core& core = Current();
    core.mask_lo = core.mask_hi = ~uint64_t{0};
}
void MaskSet(uint64_t hi, uint64_t lo, uint32_t elem) {
    Core& core = Current();
    if (elem == 0 && hi != 0) {
        Fail("mask-range", "SetVectorMask", "counter mode needs 0 in the high mask word");
    }
    core.mask_lo = lo;
    core.mask_hi = hi;
}

}  // namespace autofuse_twin
