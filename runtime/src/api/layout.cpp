// Element moves inside UB: Gather, GatherMask, transposition of blocks; arithmetic progressions.
#include <algorithm>

#include "api/control.h"
#include "api/vector_call.h"

namespace autofuse_twin {
namespace {

constexpr uint32_t kList = 16;  // blocks of a transposition

bool Defined(const uint8_t* mask, uint32_t bytes) {
    return std::all_of(mask, mask + bytes, [](uint8_t b) { return b == 0xff; });
}

// The address of one gathered element, checked once the offset is known: when the instruction executes.
const uint8_t* GatherAddress(const UbView& src, uint32_t base, uint32_t offset, uint32_t elem) {
    UbView at = src;
    at.addr += uint64_t{base} + offset;
    if ((base + offset) % elem != 0) {
        Fail("ub-align", "Gather", "offset %u + %u is not a multiple of the element size %u", base, offset, elem);
    }
    CheckUb(Current(), "Gather", "the element of src at this offset", at, elem, 1);
    return at.addr;
}

}  // namespace

void GatherElements(uint32_t elem, const UbView& dst, const UbView& src, const UbView& offset, uint32_t base,
                    uint64_t count, const Rep* rep) {
    Core& core = Current();
    const char* api = "Gather";
    CheckCall(core, api);
    Lanes lanes{};
    uint32_t dst_rep = 8;
    if (rep != nullptr) {
        if (!core.counter_mode && rep->repeat == 0) {
            CheckNothing(core, api);
            return;
        }
        lanes = DecodeMask(core, api, *rep, elem);
        dst_rep = rep->dstRep;
    } else {
        CountCallMask(core);
        lanes.per_repeat = kRepeatBytes / elem;
        lanes.repeats = (count + lanes.per_repeat - 1) / lanes.per_repeat;
        FirstN(lanes.per_repeat, lanes.bits);
        FirstN(count == 0 ? 0 : (count - 1) % lanes.per_repeat + 1, lanes.last_bits);
    }
    if (lanes.repeats == 0) {
        CheckNothing(core, api);
        return;
    }
    const Operand d{&dst, "dst", elem, 1, dst_rep};
    CheckOperand(core, api, d, lanes);
    // The offsets of a repeat follow those of the previous repeat.
    const uint32_t last = LanesEnd(lanes.last_bits, lanes.per_repeat);
    const uint64_t offset_bytes = ((lanes.repeats - 1) * lanes.per_repeat + last) * 4;
    CheckUb(core, api, "srcOffset", offset, offset_bytes, kBlock);
    if (base % elem != 0) {
        Fail("ub-align", api, "srcBaseAddr %u is not a multiple of the element size %u", base, elem);
    }
    // The elements read depend on data, so all of the tensor counts as read.
    const uint64_t src_bytes = std::min(uint64_t{src.size} * elem, static_cast<uint64_t>(src.hi - src.addr));
    CheckUb(core, api, "src", src, src_bytes, kBlock);
    // The count form writes exactly the requested elements, not whole repeats.
    const uint64_t dst_bytes = rep == nullptr
        ? uint64_t{count} * elem
        : (lanes.repeats - 1) * dst_rep * kBlock + RepeatEnd(d, lanes.bits, lanes.per_repeat);
    CheckOverlap(core, api, dst, dst_bytes, src, "src", src_bytes, false);
    CheckOverlap(core, api, dst, dst_bytes, offset, "srcOffset", offset_bytes, false);
    if (core.check != nullptr) {
        const Span written = rep == nullptr ? Span{&dst, "dst", true, dst_bytes} : SpanOf(d, lanes, true);
        const Span spans[] = {written, {&src, "src", false, src_bytes}, {&offset, "srcOffset", false, offset_bytes}};
        Issue(core, api, spans, 3, rep == nullptr ? count : Passed(lanes), elem);
        // With delayed instructions the offsets may not be computed yet: treat the elements as defined.
        const bool now = core.order == nullptr;
        for (uint64_t r = 0; r < lanes.repeats; ++r) {
            const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
            for (uint32_t lane = 0; lane < lanes.per_repeat; ++lane) {
                if (!Lanes::Has(bits, lane)) {
                    continue;
                }
                const uint8_t* at = offset.addr + (r * lanes.per_repeat + lane) * 4;
                bool known = Defined(core.check->Bits(core, at), 4);
                if (known && now) {
                    uint32_t by;
                    std::memcpy(&by, at, 4);
                    known = Defined(core.check->Bits(core, GatherAddress(src, base, by, elem)), elem);
                }
                core.check->Fill(core, d.At(r, lane), elem, known);
            }
        }
    }
    const UbView from = src;
    const uint8_t* offsets = offset.addr;
    Execute(core, kPipeV, [lanes, d, from, offsets, base, elem] {
        for (uint64_t r = 0; r < lanes.repeats; ++r) {
            const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
            for (uint32_t lane = 0; lane < lanes.per_repeat; ++lane) {
                if (Lanes::Has(bits, lane)) {
                    uint32_t by;
                    std::memcpy(&by, offsets + (r * lanes.per_repeat + lane) * 4, 4);
                    std::memcpy(d.At(r, lane), GatherAddress(from, base, by, elem), elem);
                }
            }
        }
    });
}

uint64_t GatherByMask(uint32_t elem, const UbView& dst, const UbView& src, const UbView* pattern, uint32_t number,
                      bool counter, uint32_t mask, const GatherMaskSteps& steps) {
    Core& core = Current();
    const char* api = "GatherMask";
    CheckCall(core, api);
    const uint32_t lanes = kRepeatBytes / elem;
    if (pattern == nullptr && (number < 1 || number > 7)) {
        Fail("mask-range", api, "src1Pattern %u is outside of [1, 7]", number);
    }
    if (counter && mask == 0) {
        Fail("mask-range", api, "mask 0 is outside of [1, 4294967295]");
    }
    core.counter_mode = false;
    // Elements of a repeat: 256 bytes, or as many as the mask enables.
    const uint64_t per = counter ? mask : lanes;
    if (steps.repeat == 0) {
        CheckNothing(core, api);
        return 0;
    }
    const Operand s{&src, "src0", elem, steps.src_blk, steps.src_rep};
    const auto source = [s](uint64_t r, uint64_t i) {
        const uint64_t per_block = kBlock / s.elem;
        return s.base + (r * s.rep + i / per_block * s.blk) * kBlock + i % per_block * s.elem;
    };
    const uint64_t src_bytes = static_cast<uint64_t>(source(steps.repeat - 1, per - 1) - s.base) + elem;
    CheckUb(core, api, "src0", src, src_bytes, kBlock);
    const uint64_t pattern_step = uint64_t{steps.pattern_rep} * kBlock;
    const uint64_t pattern_bytes = (steps.repeat - 1) * pattern_step + (per + 7) / 8;
    const uint8_t* bits = nullptr;
    if (pattern != nullptr) {
        CheckUb(core, api, "src1Pattern", *pattern, pattern_bytes, kBlock);
        bits = pattern->addr;
    }
    if (core.order != nullptr) {
        core.order->Finish(kPipeV);  // the count goes to the scalar unit
    }
    const auto taken = [bits, number, pattern_step](uint64_t r, uint64_t i) {
        switch (bits != nullptr ? 0 : number) {
            case 0: return (bits[r * pattern_step + i / 8] >> (i % 8) & 1u) != 0;
            case 1: return i % 2 == 0;
            case 2: return i % 2 == 1;
            case 7: return true;
            default: return i % 4 == number - 3;
        }
    };
    uint64_t n = 0;
    for (uint64_t r = 0; r < steps.repeat; ++r) {
        for (uint64_t i = 0; i < per; ++i) {
            n += taken(r, i) ? 1 : 0;
        }
    }
    CheckUb(core, api, "dst", dst, n * elem, kBlock);
    CheckOverlap(core, api, dst, n * elem, src, "src0", src_bytes, false);
    if (core.check != nullptr) {
        const Span spans[] = {{&dst, "dst", true, n * elem}, {&src, "src0", false, src_bytes},
                              {pattern, "src1Pattern", false, pattern_bytes}};
        Issue(core, api, spans, pattern != nullptr ? 3 : 2, steps.repeat * per, elem);
        if (pattern != nullptr) {
            core.check->NeedDefined(core, "uninit-scalar", api, *pattern, pattern_bytes, pattern_bytes, 1,
                                    "decide which elements are taken");
        }
    }
    uint8_t* to = dst.addr;
    for (uint64_t r = 0; r < steps.repeat; ++r) {
        for (uint64_t i = 0; i < per; ++i) {
            if (taken(r, i)) {
                if (core.check != nullptr) {
                    core.check->Fill(core, to, elem, Defined(core.check->Bits(core, source(r, i)), elem));
                }
                std::memcpy(to, source(r, i), elem);
                to += elem;
            }
        }
    }
    return n;
}

UbView UbViewAt(const char* api, uint64_t address) {
    Core& core = Current();
    uint8_t* at = reinterpret_cast<uint8_t*>(address);
    for (const BufferInfo& b : core.buffers) {
        if (at >= b.lo && at < b.hi) {
            UbView view;
            view.addr = at;
            view.lo = b.lo;
            view.hi = b.hi;
            view.pos = b.pos;
            view.age = core.first_age;
            if (b.queue >= 0) {
                view.age = core.queues[static_cast<size_t>(b.queue)].slots[b.index].view.age;
            }
            return view;
        }
    }
    Fail("ub-oob", api, "the address 0x%llx in a list lies in no buffer of UB", static_cast<unsigned long long>(address));
}

namespace {

struct BlockLists {
    uint32_t elem, repeat, dst_rep, src_rep;
    uint32_t dst[kList], src[kList];  // bytes from the start of UB

    // base: UB, or its shadow. Reads all sources of a repeat before writing its results.
    void operator()(uint8_t* base) const {
        // A single repeat starts after the addresses, as documented.
        const uint32_t first = repeat == 1 ? 1 : 0;
        for (uint32_t r = first; r < first + repeat; ++r) {
            uint8_t in[kList][kBlock];
            uint8_t out[kList][kBlock];
            for (uint32_t i = 0; i < kList; ++i) {
                std::memcpy(in[i], base + src[i] + r * src_rep * kBlock, kBlock);
            }
            const uint32_t columns = kBlock / elem;
            for (uint32_t c = 0; c < columns; ++c) {
                for (uint32_t i = 0; i < kList; ++i) {
                    // 16 results of a column: one block of 16-bit elements, or two of 32-bit ones.
                    const uint32_t at = c * kList + i;
                    std::memcpy(&out[at / columns][at % columns * elem], &in[i][c * elem], elem);
                }
            }
            for (uint32_t i = 0; i < kList; ++i) {
                std::memcpy(base + dst[i] + r * dst_rep * kBlock, out[i], kBlock);
            }
        }
    }
};

}  // namespace

void TransposeBlocks(const char* api, uint32_t elem, const UbView* dst, const UbView* src, uint32_t repeat,
                     uint32_t dst_rep, uint32_t src_rep) {
    Core& core = Current();
    CheckCall(core, api);
    if (repeat == 0) {
        CheckNothing(core, api);
        return;
    }
    BlockLists lists{elem, repeat, dst_rep, src_rep, {}, {}};
    const uint64_t last = repeat == 1 ? 1 : repeat - 1;
    const uint64_t first = repeat == 1 ? 1 : 0;
    Span spans[2 * kList];
    UbView at[2 * kList];
    for (uint32_t i = 0; i < 2 * kList; ++i) {
        const bool to = i < kList;
        const UbView& view = to ? dst[i] : src[i - kList];
        const uint64_t step = uint64_t{to ? dst_rep : src_rep} * kBlock;
        CheckUb(core, api, to ? "a block of dstList" : "a block of srcList", view, last * step + kBlock, kBlock);
        at[i] = view;
        at[i].addr += first * step;
        spans[i] = {&at[i], to ? "dst" : "src", to, kBlock};
        spans[i].outer = repeat;
        spans[i].outer_pitch = static_cast<uint32_t>(step);
        uint32_t* list = to ? lists.dst : lists.src;
        list[i % kList] = static_cast<uint32_t>(view.addr - core.ub);
    }
    // No repeat may read data that an earlier one wrote; inside a repeat, all reads precede all writes.
    if (repeat > 1) {
        std::vector<bool> written(kUbPhysical / kBlock);
        for (uint32_t r = 0; r < repeat; ++r) {
            for (const uint32_t s : lists.src) {
                if (written[s / kBlock + r * src_rep]) {
                    Fail("ub-overlap", api, "repeat %u reads a block that an earlier repeat wrote", r);
                }
            }
            for (const uint32_t d : lists.dst) {
                written[d / kBlock + r * dst_rep] = true;
            }
        }
    }
    if (core.check != nullptr) {
        Issue(core, api, spans, 2 * kList, uint64_t{repeat} * kList * kBlock / elem, elem);
        lists(core.check->Bits(core, core.ub));
    }
    uint8_t* ub = core.ub;
    Execute(core, kPipeV, [lists, ub] { lists(ub); });
}

namespace {

void StoreTerm(Dt dt, uint8_t* d, uint64_t first, uint64_t step, uint64_t i) {
    switch (dt) {
        case Dt::I16: {
            const uint16_t v = static_cast<uint16_t>(first + step * i);
            std::memcpy(d, &v, 2);
            return;
        }
        case Dt::I32: {
            const uint32_t v = static_cast<uint32_t>(first + step * i);
            std::memcpy(d, &v, 4);
            return;
        }
        case Dt::F16: {
            const float a = HalfBitsToFloat(static_cast<uint16_t>(first));
            const uint16_t v = FloatToHalfBits(a + HalfBitsToFloat(static_cast<uint16_t>(step)) * static_cast<float>(i));
            std::memcpy(d, &v, 2);
            return;
        }
        default: {
            const float v = BitsFloat(static_cast<uint32_t>(first)) +
                            BitsFloat(static_cast<uint32_t>(step)) * static_cast<float>(i);
            std::memcpy(d, &v, 4);
        }
    }
}

}  // namespace

void Progression(const char* api, Dt dt, const UbView& dst, uint64_t first, uint64_t step, int64_t count) {
    Core& core = Current();
    CheckCall(core, api);
    const uint32_t elem = SizeOf(dt);
    const uint64_t n = static_cast<uint64_t>(CheckCount(api, count));
    CountCallMask(core);
    CheckUb(core, api, "dst", dst, n * elem, kBlock);
    if (n == 0) {
        return;
    }
    uint8_t* at = dst.addr;
    if (core.check != nullptr) {
        const Span span{&dst, "dst", true, n * elem};
        Issue(core, api, &span, 1, n, elem);
        core.check->Fill(core, at, n * elem, true);
    }
    const bool saturates = HalvesSaturate(core, dt);
    Execute(core, kPipeV, [dt, at, elem, first, step, n, saturates] {
        for (uint64_t i = 0; i < n; ++i) {
            StoreTerm(dt, at + i * elem, first, step, i);
        }
        if (saturates) {
            SaturateFloats(at, n, dt);
        }
    });
}

}  // namespace autofuse_twin
