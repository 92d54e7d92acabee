// Vector calls that are not element-wise, advanced functions, and transfers of the compare mask.
#include <algorithm>

#include "api/function.h"

namespace autofuse_twin {

void CmpMaskTransfer(const UbView& view, bool to_register) {
    Core& core = Current();
    CheckUb(core, to_register ? "SetCmpMask" : "GetCmpMask", to_register ? "src" : "dst", view, sizeof(core.cmp_mask), 16);
    if (core.check != nullptr) {
        const Span span{&view, to_register ? "src" : "dst", !to_register, sizeof(core.cmp_mask)};
        Issue(core, to_register ? "SetCmpMask" : "GetCmpMask", &span, 1, sizeof(core.cmp_mask), 1);
        uint8_t* bits = core.check->Bits(core, view.addr);
        std::memcpy(to_register ? core.check->cmp_mask : bits, to_register ? bits : core.check->cmp_mask, 16);
    }
    uint8_t* dst = to_register ? core.cmp_mask : view.addr;
    const uint8_t* src = to_register ? view.addr : core.cmp_mask;
    Execute(core, kPipeV, [dst, src] { std::memcpy(dst, src, sizeof(Core::cmp_mask)); });
}

namespace {

// Minimum legal temporary buffer in bytes.
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
    CheckCall(core, api);
    const uint64_t n = static_cast<uint64_t>(CheckCount(api, c.count));
    const uint64_t bytes = n * SizeOf(c.dst_dt);
    CheckNotNothing(core, api, n == 0);
    const bool in_place = c.op == Op::Gelu;
    CheckUb(core, api, "dst", *c.dst, bytes, kBlock);
    CheckUb(core, api, "src", *c.src0, bytes, kBlock);
    CheckOverlap(core, api, *c.dst, bytes, *c.src0, "src", bytes, in_place);
    if (c.src1 != nullptr) {
        CheckUb(core, api, "src1", *c.src1, bytes, kBlock);
        CheckOverlap(core, api, *c.dst, bytes, *c.src1, "src1", bytes, false);
    }
    if (tmp != nullptr) {
        // Sin and Cos need one part less if the source may be overwritten (imm = isReuseSource).
        const bool less = (c.op == Op::Sin || c.op == Op::Cos) && c.imm != 0 && c.dst_dt == Dt::F32;
        const uint32_t need = MinTmpBytes(c.op, c.dst_dt) - (less ? 256u : 0u);
        if (tmp->size < need) {
            Fail("tmp-size", api, "sharedTmpBuffer has %llu bytes, the minimum for %s is %u",
                 static_cast<unsigned long long>(tmp->size), DtName(c.dst_dt), need);
        }
        CheckUb(core, api, "sharedTmpBuffer", *tmp, tmp->size, kBlock);
        CheckOverlap(core, api, *c.dst, bytes, *tmp, "sharedTmpBuffer", tmp->size, false);
        CheckOverlap(core, api, *tmp, tmp->size, *c.src0, "src", bytes, false);
        if (c.src1 != nullptr) {
            CheckOverlap(core, api, *tmp, tmp->size, *c.src1, "src1", bytes, false);
        }
    }
    CountCallMask(core);
    uint8_t* d = c.dst->addr;
    const uint8_t* a = c.src0->addr;
    const uint8_t* b = c.src1 == nullptr ? nullptr : c.src1->addr;
    uint8_t* scratch = tmp == nullptr ? nullptr : tmp->addr;
    const uint64_t scratch_bytes = tmp == nullptr ? 0 : tmp->size;
    if (core.check != nullptr) {
        Span spans[4];
        int k = 0;
        spans[k++] = {c.dst, "dst", true, bytes};
        spans[k++] = {c.src0, b != nullptr ? "src0" : "src", false, bytes};
        if (b != nullptr) spans[k++] = {c.src1, "src1", false, bytes};
        if (tmp != nullptr) spans[k++] = {tmp, "sharedTmpBuffer", true, scratch_bytes};
        Issue(core, api, spans, k, n, std::max(SizeOf(c.dst_dt), SizeOf(c.src_dt)));
        if (n != 0) {
            core.check->Elements(core, d, SizeOf(c.dst_dt), a, b, SizeOf(c.src_dt), false, n);
        }
        if (tmp != nullptr) {
            core.check->Fill(core, scratch, scratch_bytes, false);
        }
    }
    const Function fn = FunctionOf(core, c);
    const uint64_t imm = c.imm;
    Execute(core, kPipeV, [d, a, b, imm, fn, n, scratch, scratch_bytes] {
        if (n != 0) {
            fn(d, a, b, imm, n);
        }
        if (scratch != nullptr) {
            std::memset(scratch, 0xff, scratch_bytes);  // contents undefined afterwards
        }
    });
}

namespace {

void WriteIndex(Dt dt, uint8_t* d, uint64_t first, uint64_t i, bool saturates) {
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
            if (saturates) {
                SaturateFloats(d, 1, dt);
            }
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
    CheckCall(core, api);
    const bool saturates = HalvesSaturate(core, dt);
    const uint32_t elem = SizeOf(dt);
    if (rep == nullptr) {
        const uint64_t n = static_cast<uint64_t>(CheckCount(api, count));
        CountCallMask(core);
        CheckUb(core, api, "dst", dst, n * elem, kBlock);
        uint8_t* at = dst.addr;
        if (core.check != nullptr) {
            const Span span{&dst, "dst", true, n * elem};
            Issue(core, api, &span, 1, n, elem);
            core.check->Fill(core, at, n * elem, true);
        }
        Execute(core, kPipeV, [dt, at, elem, first, n, saturates] {
            for (uint64_t i = 0; i < n; ++i) {
                WriteIndex(dt, at + i * elem, first, i, saturates);
            }
        });
        return;
    }
    const Lanes lanes = DecodeMask(core, api, *rep, elem);
    if (lanes.repeats == 0) {
        return;
    }
    CheckDstStride(api, *rep);
    const Operand d{&dst, "dst", elem, rep->dstBlk, rep->dstRep};
    CheckOperand(core, api, d, lanes);
    if (core.check != nullptr) {
        const Span span = SpanOf(d, lanes, true);
        Issue(core, api, &span, 1, Passed(lanes), elem);
        ForEachRun(lanes, &d, 1, [&](uint64_t r, uint32_t lane, uint32_t len) {
            core.check->Fill(core, d.At(r, lane), uint64_t{len} * elem, true);
        });
    }
    Execute(core, kPipeV, [lanes, d, dt, first, saturates] {
        ForEachRun(lanes, &d, 1, [&](uint64_t r, uint32_t lane, uint32_t len) {
            for (uint32_t i = 0; i < len; ++i) {
                WriteIndex(dt, d.At(r, lane + i), first, r * lanes.per_repeat + lane + i, saturates);
            }
        });
    });
}

namespace {

// One element, repeated.
template <typename T> void FillBlock(uint8_t* d, const uint8_t* s) {
    T value;
    std::memcpy(&value, s, sizeof(T));
    T block[kBlock / sizeof(T)];
    std::fill(std::begin(block), std::end(block), value);
    std::memcpy(d, block, kBlock);
}

}  // namespace

void BrcbBlocks(uint32_t elem, const UbView& dst, const UbView& src, uint32_t repeat, uint32_t dstBlk, uint32_t dstRep) {
    Core& core = Current();
    const char* api = "Brcb";
    CheckCall(core, api);
    if (repeat == 0) {
        CheckNothing(core, api);
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
    const auto spread = [repeat, dstRep, dstBlk, elem](uint8_t* to, const uint8_t* from) {
        for (uint32_t r = 0; r < repeat; ++r) {
            for (uint32_t k = 0; k < 8; ++k) {
                uint8_t* d = to + (uint64_t{r} * dstRep + uint64_t{k} * dstBlk) * kBlock;
                const uint8_t* s = from + (uint64_t{r} * 8 + k) * elem;
                if (elem == 2) {
                    FillBlock<uint16_t>(d, s);
                } else {
                    FillBlock<uint32_t>(d, s);
                }
            }
        }
    };
    uint8_t* to = dst.addr;
    const uint8_t* from = src.addr;
    if (core.check != nullptr) {
        const Span spans[] = {{&dst, "dst", true, kBlock, 8, dstBlk * kBlock, repeat, dstRep * kBlock},
                              {&src, "src0", false, src_bytes}};
        Issue(core, api, spans, 2, uint64_t{repeat} * kRepeatBytes / elem, elem);
        spread(core.check->Bits(core, to), core.check->Bits(core, from));
    }
    Execute(core, kPipeV, [spread, to, from] { spread(to, from); });
}

}  // namespace autofuse_twin
