// Element-wise vector calls, Compare and Select: count forms and high-dimensional forms (mask, repeat, strides).
#include "api/function.h"

namespace autofuse_twin {
namespace {

constexpr uint32_t kMaxCopyRepeat = 4095;  // maximum repeat stride of Copy; the other calls have 8 bits for it

// Round modes of Atlas A2 for a conversion, as bits 1 << RoundMode.
uint32_t DefaultModes(Dt dst, Dt src) {
    constexpr uint32_t none = 1u << 0;
    constexpr uint32_t five = 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5;
    constexpr uint32_t odd = 1u << 6;
    if (src == Dt::F16) {
        return dst == Dt::F32 ? none : (dst == Dt::I8 || dst == Dt::U8 ? five | none : five);
    }
    if (src == Dt::BF16) {
        return dst == Dt::F32 ? none : five;
    }
    if (src == Dt::F32) {
        return dst == Dt::F16 ? five | odd | none : five;
    }
    if (src == Dt::I8 || src == Dt::U8) {
        return none;
    }
    if (src == Dt::I16) {
        return dst == Dt::F16 ? five | none : none;
    }
    if (src == Dt::I32) {
        return dst == Dt::F32 ? five | none : none;
    }
    return src == Dt::I64 && dst == Dt::I32 ? none : five;
}

void CheckCastMode(const Core& core, Dt dst, Dt src, uint64_t mode) {
    static_assert(static_cast<int>(Dt::kCount) == AUTOFUSE_TWIN_TYPES, "a row of modes for every element type");
    const autofuse_twin_architecture* own = core.run->architecture;
    const uint32_t allowed =
        own == nullptr ? DefaultModes(dst, src) : own->modes[static_cast<int>(src)][static_cast<int>(dst)];
    static const char* const names[] = {"CAST_NONE", "CAST_RINT", "CAST_FLOOR", "CAST_CEIL",
                                        "CAST_ROUND", "CAST_TRUNC", "CAST_ODD", "CAST_HYBRID"};
    if (mode > 7 || (allowed >> mode & 1u) == 0) {
        Fail("cast-mode", "Cast", "%s -> %s does not support %s%s%s", DtName(src), DtName(dst),
             mode > 7 ? "this mode" : names[mode], own == nullptr ? "" : " on architecture ", own == nullptr ? "" : own->name);
    }
}

// Number of enabled lanes if they are the first ones; 0 if there is a gap among them.
uint32_t FirstLanes(const uint64_t* bits, uint32_t per_repeat) {
    const uint32_t n = LanesEnd(bits, per_repeat);
    uint64_t want[2];
    FirstN(n, want);
    return (bits[0] & want[0]) == want[0] && (bits[1] & want[1]) == want[1] ? n : 0;
}

// Rows of a Copy: `full` bytes per repeat, `last` in the last one; the steps are bytes. `spread`: broadcast one 32-byte
// block.
struct CopyRows {
    uint8_t* d;
    const uint8_t* s;
    uint64_t repeats, d_step, s_step, full, last;
    bool spread;

    void operator()() const {
        const auto tile = Kernels().tile;
        for (uint64_t r = 0; r < repeats; ++r) {
            uint8_t* to = d + r * d_step;
            const uint8_t* from = s + r * s_step;
            const uint64_t bytes = r + 1 == repeats ? last : full;
            if (spread) {
                tile(to, from, bytes);
            } else {
                std::memmove(to, from, bytes);
            }
        }
    }
};

// Recognises the copies of broadcasts and row moves: whole repeats, or their first lanes. False for other calls.
bool CopiesRows(Core& core, const Lanes& lanes, const Operand& d, const Operand& s) {
    const uint32_t full = FirstLanes(lanes.bits, lanes.per_repeat);
    const uint32_t last = FirstLanes(lanes.last_bits, lanes.per_repeat);
    if (full == 0 || last == 0 || d.blk != 1 || s.blk > 1) {
        return false;
    }
    CopyRows rows{d.base, s.base, lanes.repeats, uint64_t{d.rep} * kBlock, uint64_t{s.rep} * kBlock,
                  uint64_t{full} * d.elem, uint64_t{last} * d.elem, s.blk == 0};
    // Merge contiguous repeats into one.
    if (rows.full == kRepeatBytes && d.rep == 8 && s.rep == (rows.spread ? 0 : 8)) {
        rows.last += (rows.repeats - 1) * kRepeatBytes;
        rows.repeats = 1;
    }
    Execute(core, kPipeV, rows);
    return true;
}

void RunRepeats(Core& core, const VecCall& c, const Function& fn) {
    const char* api = OpName(c.op);
    const Rep& rep = *c.rep;
    const uint32_t ds = SizeOf(c.dst_dt);
    const uint32_t ss = SizeOf(c.src_dt);
    const Lanes lanes = DecodeMask(core, api, rep, ds > ss ? ds : ss);
    if (lanes.repeats == 0) {
        CheckNothing(core, api);
        return;
    }
    CheckDstStride(api, rep);
    if (c.op == Op::Copy && (rep.dstRep > kMaxCopyRepeat || rep.src0Rep > kMaxCopyRepeat)) {
        Fail("repeat-params", api, "dstRepeatSize %u / srcRepeatSize %u are outside of [0, %u]", rep.dstRep, rep.src0Rep,
             kMaxCopyRepeat);
    }
    Operand ops[3];
    int n = 0;
    ops[n++] = {c.dst, "dst", ds, rep.dstBlk, rep.dstRep};
    if (c.src0 != nullptr) ops[n++] = {c.src0, c.src1 != nullptr ? "src0" : "src", ss, rep.src0Blk, rep.src0Rep};
    if (c.src1 != nullptr) ops[n++] = {c.src1, "src1", ss, rep.src1Blk, rep.src1Rep};
    for (int i = 0; i < n; ++i) {
        CheckOperand(core, api, ops[i], lanes);
        if (i > 0) {
            CheckRepeatOverlap(core, c, ops[0], ops[i], lanes);
        }
    }
    if (core.check != nullptr) {
        Span spans[3];
        for (int i = 0; i < n; ++i) {
            spans[i] = SpanOf(ops[i], lanes, i == 0);
        }
        Issue(core, api, spans, n, Passed(lanes), ds > ss ? ds : ss);
        ForEachRun(lanes, ops, n, [&](uint64_t r, uint32_t lane, uint32_t len) {
            core.check->Elements(core, ops[0].At(r, lane), ds, n > 1 ? ops[1].At(r, lane) : nullptr,
                                 n > 2 ? ops[2].At(r, lane) : nullptr, ss, ReadsDst(c.op), len);
        });
    }
    if (c.op == Op::Copy && CopiesRows(core, lanes, ops[0], ops[1])) {
        return;
    }
    const uint64_t imm = c.imm;
    const Operand d = ops[0];
    const Operand a = n > 1 ? ops[1] : d;
    const Operand b = n > 2 ? ops[2] : d;
    Execute(core, kPipeV, [lanes, d, a, b, n, imm, fn] {
        const Operand all[] = {d, a, b};
        ForEachRun(lanes, all, n, [&](uint64_t r, uint32_t lane, uint32_t len) {
            fn(d.At(r, lane), n > 1 ? a.At(r, lane) : nullptr, n > 2 ? b.At(r, lane) : nullptr, imm, len);
        });
    });
}

struct Whole {
    uint8_t* d;
    const uint8_t* a;
    const uint8_t* b;
    uint64_t imm, n;
    uint32_t d_size, s_size;
};

// A call on contiguous elements, interleaved with prefetches of the next load.
void RunInParts(Core& core, const Function& fn, const Whole& w) {
    constexpr uint64_t part = 256;
    const uint64_t lines = core.ahead.total * part / w.n / 2 + 1;
    for (uint64_t i = 0; i < w.n; i += part) {
        const uint64_t m = w.n - i < part ? w.n - i : part;
        core.ahead.Fetch(lines);
        fn(w.d + i * w.d_size, w.a == nullptr ? nullptr : w.a + i * w.s_size, w.b == nullptr ? nullptr : w.b + i * w.s_size,
           w.imm, m);
    }
}

void RunCount(Core& core, const VecCall& c, const Function& fn) {
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
    if (n == 0) {
        CheckNothing(core, api);
        return;
    }
    uint8_t* d = c.dst->addr;
    const uint8_t* a = c.src0 == nullptr ? nullptr : c.src0->addr;
    const uint8_t* b = c.src1 == nullptr ? nullptr : c.src1->addr;
    if (core.check != nullptr) {
        Span spans[] = {{c.dst, "dst", true, d_bytes}, {c.src0, b != nullptr ? "src0" : "src", false, s_bytes},
                        {c.src1, "src1", false, s_bytes}};
        Issue(core, api, spans, a == nullptr ? 1 : (b == nullptr ? 2 : 3), n,
              std::max(SizeOf(c.dst_dt), SizeOf(c.src_dt)));
        core.check->Elements(core, d, SizeOf(c.dst_dt), a, b, SizeOf(c.src_dt), ReadsDst(c.op), n);
    }
    const uint64_t imm = c.imm;
    if (core.ahead.total != 0) {
        RunInParts(core, fn, {d, a, b, imm, n, SizeOf(c.dst_dt), SizeOf(c.src_dt)});
        return;
    }
    Execute(core, kPipeV, [d, a, b, imm, fn, n] { fn(d, a, b, imm, n); });
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
    CheckCall(core, OpName(c.op));
    if (c.op == Op::Cast) {
        CheckCastMode(core, c.dst_dt, c.src_dt, c.imm);
    }
    CheckShift(c);
    const Function fn = FunctionOf(core, c);
    if (c.rep != nullptr) {
        RunRepeats(core, c, fn);
    } else {
        RunCount(core, c, fn);
    }
}

void Compare(const VecCall& c, int mode) {
    Core& core = Current();
    const char* api = OpName(c.op);
    CheckCall(core, api);
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
        if (n == 0) {
            CheckNothing(core, api);
            return;
        }
        uint8_t* d = c.dst->addr;
        const uint8_t* x = c.src0->addr;
        const uint8_t* y = c.src1 == nullptr ? nullptr : c.src1->addr;
        if (core.check != nullptr) {
            const Span spans[] = {{c.dst, "dst", true, n / 8}, {c.src0, src_name, false, n * elem},
                                  {c.src1, "src1", false, n * elem}};
            Issue(core, api, spans, y == nullptr ? 2 : 3, n, elem);
            core.check->CompareBits(core, d, x, y, elem, n);
        }
        const uint64_t imm = c.imm;
        Execute(core, kPipeV, [d, x, y, imm, mode, fn, n] { fn(d, x, y, imm, mode, n); });
        return;
    }
    const Lanes lanes = DecodeMask(core, api, *c.rep, elem);
    if (lanes.repeats == 0) {
        CheckNothing(core, api);
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
    const bool two = c.src1 != nullptr;
    uint8_t* dst = c.dst == nullptr ? nullptr : c.dst->addr;
    if (core.check != nullptr) {
        Span spans[3];
        int n = 0;
        if (dst != nullptr) spans[n++] = {c.dst, "dst", true, lanes.repeats * out};
        spans[n++] = SpanOf(a, lanes, false);
        if (two) spans[n++] = SpanOf(b, lanes, false);
        Issue(core, api, spans, n, Passed(lanes), elem);
        for (uint64_t r = 0; r < lanes.repeats; ++r) {
            core.check->CompareBits(core, dst == nullptr ? nullptr : dst + r * out, a.At(r, 0), two ? b.At(r, 0) : nullptr,
                                    elem, a.blk == 1 && (!two || b.blk == 1) ? lanes.per_repeat : 0);
        }
    }
    uint8_t* cmp_mask = core.cmp_mask;
    const uint64_t imm = c.imm;
    Execute(core, kPipeV, [lanes, a, b, two, dst, cmp_mask, imm, mode, fn, out] {
        for (uint64_t r = 0; r < lanes.repeats; ++r) {
            const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
            alignas(32) uint8_t x[kRepeatBytes];
            alignas(32) uint8_t y[kRepeatBytes];
            uint8_t result[16];
            Gather(a, r, bits, lanes.per_repeat, x);
            if (two) {
                Gather(b, r, bits, lanes.per_repeat, y);
            }
            fn(result, x, two ? y : nullptr, imm, mode, lanes.per_repeat);
            for (uint32_t i = 0; i < out; ++i) {
                result[i] = static_cast<uint8_t>(result[i] & (bits[i / 8] >> (i % 8 * 8)));
            }
            std::memcpy(dst != nullptr ? dst + r * out : cmp_mask, result, out);
        }
    });
}

void Select(const VecCall& c, const UbView* mask, int mode) {
    Core& core = Current();
    const char* api = "Select";
    CheckCall(core, api);
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
        CheckNotNothing(core, api, n == 0);
        const uint64_t mask_size = repeat_bits ? mask_bytes : n / 8;
        CheckUb(core, api, "selMask", *mask, mask_size, kBlock);
        CheckOverlap(core, api, *c.dst, n * elem, *mask, "selMask", mask_size, false);
        CheckUb(core, api, "src0", *c.src0, n * elem, kBlock);
        CheckOverlap(core, api, *c.dst, n * elem, *c.src0, "src0", n * elem, true);
        if (!scalar) {
            CheckUb(core, api, "src1", *c.src1, n * elem, kBlock);
            CheckOverlap(core, api, *c.dst, n * elem, *c.src1, "src1", n * elem, true);
        }
        const uint64_t step = repeat_bits ? per_repeat : n;
        if (n == 0) {
            return;
        }
        if (core.check != nullptr) {
            Checked& check = *core.check;
            const Span spans[] = {{c.dst, "dst", true, n * elem}, {mask, "selMask", false, mask_size},
                                  {c.src0, "src0", false, n * elem}, {c.src1, "src1", false, n * elem}};
            Issue(core, api, spans, scalar ? 3 : 4, n, elem);
            for (uint64_t i = 0; i < n; i += step) {
                check.SelectElements(check.Bits(core, c.dst->addr + i * elem),
                                     check.Bits(core, mask->addr + (repeat_bits ? 0 : i / 8)),
                                     check.Bits(core, c.src0->addr + i * elem),
                                     scalar ? nullptr : check.Bits(core, c.src1->addr + i * elem), elem, step);
            }
        }
        uint8_t* dst = c.dst->addr;
        const uint8_t* take = mask->addr;
        const uint8_t* x = c.src0->addr;
        const uint8_t* y = scalar ? nullptr : c.src1->addr;
        const uint64_t imm = c.imm;
        Execute(core, kPipeV, [dst, take, x, y, imm, n, step, elem, repeat_bits, fn] {
            for (uint64_t i = 0; i < n; i += step) {
                fn(dst + i * elem, take + (repeat_bits ? 0 : i / 8), x + i * elem, y == nullptr ? nullptr : y + i * elem,
                   imm, step);
            }
        });
        return;
    }
    const Lanes lanes = DecodeMask(core, api, *c.rep, elem);
    if (lanes.repeats == 0) {
        CheckNothing(core, api);
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
    const uint8_t* mask_at = mask == nullptr ? core.cmp_mask : mask->addr;
    const uint32_t mask_step = repeat_bits ? 0 : mask_bytes;
    if (core.check != nullptr) {
        Checked& check = *core.check;
        Span spans[4];
        int n = 0;
        spans[n++] = SpanOf(d, lanes, true);
        spans[n++] = SpanOf(a, lanes, false);
        if (!scalar) spans[n++] = SpanOf(b, lanes, false);
        if (mask != nullptr) spans[n++] = {mask, "selMask", false, uint64_t{mask_step} * (lanes.repeats - 1) + mask_bytes};
        Issue(core, api, spans, n, Passed(lanes), elem);
        const Operand ops[] = {d, a, scalar ? a : b};
        for (uint64_t r = 0; r < lanes.repeats; ++r) {
            const uint8_t* known = mask == nullptr ? check.cmp_mask : check.Bits(core, mask_at + r * mask_step);
            const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
            for (uint32_t lane = 0; lane < per_repeat; ++lane) {
                if (Lanes::Has(bits, lane)) {
                    const uint8_t one = (known[lane / 8] >> (lane % 8) & 1u) != 0 ? 0xff : 0;
                    check.SelectElements(check.Bits(core, d.At(r, lane)), &one, check.Bits(core, ops[1].At(r, lane)),
                                         scalar ? nullptr : check.Bits(core, ops[2].At(r, lane)), elem, 1);
                }
            }
        }
    }
    const uint64_t imm = c.imm;
    const Operand second = scalar ? a : b;
    Execute(core, kPipeV, [lanes, d, a, second, scalar, mask_at, mask_step, imm, fn, per_repeat, elem] {
        for (uint64_t r = 0; r < lanes.repeats; ++r) {
            const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
            alignas(32) uint8_t x[kRepeatBytes];
            alignas(32) uint8_t y[kRepeatBytes];
            alignas(32) uint8_t z[kRepeatBytes];
            Gather(a, r, bits, per_repeat, x);
            if (!scalar) {
                Gather(second, r, bits, per_repeat, y);
            }
            fn(z, mask_at + r * mask_step, x, scalar ? nullptr : y, imm, per_repeat);
            for (uint32_t lane = 0; lane < per_repeat; ++lane) {
                if (Lanes::Has(bits, lane)) {
                    std::memcpy(d.At(r, lane), z + lane * elem, elem);
                }
            }
        }
    });
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

uint8_t autofuse_twin_default_modes(int source, int destination) {
    using autofuse_twin::Dt;
    return static_cast<uint8_t>(autofuse_twin::DefaultModes(static_cast<Dt>(destination), static_cast<Dt>(source)));
}
