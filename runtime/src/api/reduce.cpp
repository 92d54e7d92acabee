// Reductions: one result per repeat, per 32-byte block, per pair, or of a whole tensor.
//
// Sums are binary trees over adjacent lanes, as the documentation draws them, rounded to the element type after every
// addition. The chip's treatment of masked-off lanes is not documented: here they add nothing.
#include <algorithm>
#include <limits>

#include "api/control.h"
#include "api/fold.h"
#include "api/vector_call.h"

namespace autofuse_twin {
namespace {

constexpr int kValueIndex = 0, kIndexValue = 1, kOnlyValue = 2, kOnlyIndex = 3;  // ReduceOrder

float Identity(Fold fold) {
    // x + -0 is x for every x, including the zeros and NaN.
    const float inf = std::numeric_limits<float>::infinity();
    return fold == Fold::kSum ? -0.0f : (fold == Fold::kMax ? -inf : inf);
}

// The lanes of a repeat as floats; inactive ones hold the identity.
void LoadLanes(const Operand& s, uint64_t r, const uint64_t* bits, uint32_t lanes, Fold fold, Dt dt, float* out) {
    alignas(32) uint8_t raw[kRepeatBytes];
    const uint8_t* from = raw;
    uint32_t n = lanes;
    const uint32_t end = LanesEnd(bits, lanes);
    uint64_t dense[2];
    FirstN(end, dense);
    const bool packed = s.blk == 1 && bits[0] == dense[0] && (lanes <= 64 || bits[1] == dense[1]);
    if (packed) {
        from = s.At(r, 0);
        n = end;
    } else {
        Gather(s, r, bits, lanes, raw);
    }
    if (dt == Dt::F16) {
        alignas(4) uint16_t half_bits[kMaxLanes];
        std::memcpy(half_bits, from, uint64_t{n} * 2);
        Kernels().half_to_float(half_bits, out, n);
    } else {
        std::memcpy(out, from, uint64_t{n} * 4);
    }
    const float none = Identity(fold);
    std::fill(out + n, out + lanes, none);
    if (!packed) {
        for (uint32_t i = 0; i < lanes; ++i) {
            out[i] = Lanes::Has(bits, i) ? out[i] : none;
        }
    }
}

void StoreValue(Dt dt, uint8_t* at, float value, bool saturates) {
    if (dt == Dt::F16) {
        const uint16_t bits = FloatToHalfBits(value);
        std::memcpy(at, &bits, 2);
        if (saturates) {
            SaturateFloats(at, 1, dt);
        }
    } else {
        std::memcpy(at, &value, 4);
    }
}

void StoreIndex(uint8_t* at, uint32_t bytes, uint32_t index) {
    std::memcpy(at, &index, bytes);  // little endian: the low half for 16 bits
}

// Operands of a call with repeats.
struct Work {
    Lanes lanes;
    Operand src;
    uint8_t* dst;
    uint64_t dst_step;  // bytes between the results of two repeats
    uint32_t elem;
    Fold fold;
    Dt dt;
    bool saturates;

    const uint64_t* Bits(uint64_t r) const { return r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits; }
};

void CheckRange(const char* api, const char* what, int32_t value, int32_t top) {
    if (value < 0 || value > top) {
        Fail("repeat-params", api, "%s %d is outside of [0, %d]", what, value, top);
    }
}

// Checks arguments and operands. `unit`: bytes per repeat of results, and the unit of dst_rep. `align`: alignment of
// dst. False if the call does nothing.
bool Prepare(Core& core, const ReduceCall& c, uint32_t unit, uint32_t align, Work* w) {
    CheckCall(core, c.api);
    CheckRange(c.api, "repeatTime", c.repeat, 255);
    CheckRange(c.api, "dstRepStride", c.dst_rep, 65535);
    CheckRange(c.api, "srcBlkStride", c.src_blk, 65535);
    CheckRange(c.api, "srcRepStride", c.src_rep, 65535);
    const bool no_lane = c.mask.kind == Rep::kCount && c.mask.lo == 0;
    if (!core.counter_mode && (no_lane || c.repeat == 0)) {
        CheckNothing(core, c.api);
        return false;  // both are documented to do nothing
    }
    const Rep rep{c.mask.lo, c.mask.hi, c.mask.kind, static_cast<uint32_t>(c.repeat), 1, static_cast<uint32_t>(c.src_blk),
                  1, 0, static_cast<uint32_t>(c.src_rep), 8};
    w->elem = SizeOf(c.dt);
    w->lanes = DecodeMask(core, c.api, rep, w->elem);
    if (w->lanes.repeats == 0) {
        return false;
    }
    w->src = {c.src, "src", w->elem, rep.src0Blk, rep.src0Rep};
    w->dst = c.dst->addr;
    w->dst_step = uint64_t{static_cast<uint32_t>(c.dst_rep)} * unit;
    w->fold = c.fold;
    w->dt = c.dt;
    w->saturates = HalvesSaturate(core, c.dt);
    CheckOperand(core, c.api, w->src, w->lanes);
    const uint64_t dst_bytes = (w->lanes.repeats - 1) * w->dst_step + unit;
    CheckUb(core, c.api, "dst", *c.dst, dst_bytes, align);
    const uint64_t src_bytes =
        (w->lanes.repeats - 1) * w->src.rep * kBlock + RepeatEnd(w->src, w->lanes.bits, w->lanes.per_repeat);
    CheckOverlap(core, c.api, *c.dst, dst_bytes, *c.src, "src", src_bytes, false);
    return true;
}

void IssueRepeats(Core& core, const ReduceCall& c, const Work& w, uint64_t bytes) {
    Span d{c.dst, "dst", true, bytes};
    if (w.dst_step == bytes) {
        d.bytes = bytes * w.lanes.repeats;
    } else {
        d.outer = static_cast<uint32_t>(w.lanes.repeats);
        d.outer_pitch = static_cast<uint32_t>(w.dst_step);
    }
    const Span spans[] = {d, SpanOf(w.src, w.lanes, false)};
    Issue(core, c.api, spans, 2, Passed(w.lanes), w.elem);
}

// True if the enabled lanes among [first, first + n) of a repeat are all fully defined.
bool LanesDefined(const Core& core, const Work& w, uint64_t r, uint32_t first, uint32_t n) {
    const uint64_t* bits = w.Bits(r);
    for (uint32_t lane = first; lane < first + n; ++lane) {
        const uint8_t* known = core.check->Bits(core, w.src.At(r, lane));
        if (Lanes::Has(bits, lane) && !std::all_of(known, known + w.elem, [](uint8_t b) { return b == 0xff; })) {
            return false;
        }
    }
    return true;
}

bool AnyLane(const uint64_t* bits, uint32_t first, uint32_t n) {
    for (uint32_t lane = first; lane < first + n; ++lane) {
        if (Lanes::Has(bits, lane)) {
            return true;
        }
    }
    return false;
}

// Groups of `group` lanes to one result each; a group without an enabled lane keeps its result.
void Groups(const ReduceCall& c, uint32_t group, uint32_t align) {
    Core& core = Current();
    const uint32_t elem = SizeOf(c.dt);
    const uint32_t results = kRepeatBytes / elem / group;
    Work w;
    if (!Prepare(core, c, results * elem, align, &w)) {
        return;
    }
    if (core.check != nullptr) {
        IssueRepeats(core, c, w, uint64_t{results} * elem);
        for (uint64_t r = 0; r < w.lanes.repeats; ++r) {
            for (uint32_t k = 0; k < results; ++k) {
                if (AnyLane(w.Bits(r), k * group, group)) {
                    core.check->Fill(core, w.dst + r * w.dst_step + k * elem, elem,
                                     LanesDefined(core, w, r, k * group, group));
                }
            }
        }
    }
    Execute(core, kPipeV, [w, results, group] {
        float v[kMaxLanes];
        for (uint64_t r = 0; r < w.lanes.repeats; ++r) {
            LoadLanes(w.src, r, w.Bits(r), w.lanes.per_repeat, w.fold, w.dt, v);
            for (uint32_t k = 0; k < results; ++k) {
                if (AnyLane(w.Bits(r), k * group, group)) {
                    StoreValue(w.dt, w.dst + r * w.dst_step + k * w.elem, Tree(w.fold, w.dt, v + k * group, group), w.saturates);
                }
            }
        }
    });
}

// The whole of src by value and index, repeat after repeat as on the chip.
void Whole(Fold fold, Dt dt, const uint8_t* src, uint64_t n, float* value, uint64_t* index) {
    const uint32_t elem = SizeOf(dt);
    const uint32_t lanes = kRepeatBytes / elem;
    for (uint64_t first = 0; first < n; first += lanes) {
        Operand s{nullptr, "src", elem, 1, 8};
        s.base = const_cast<uint8_t*>(src);
        uint64_t bits[2];
        FirstN(std::min<uint64_t>(n - first, lanes), bits);
        float v[kMaxLanes];
        float copy[kMaxLanes];
        LoadLanes(s, first / lanes, bits, lanes, fold, dt, v);
        std::copy(v, v + lanes, copy);
        const float one = Tree(fold, dt, v, lanes);
        if (first == 0) {
            *value = one;
            *index = IndexOf(copy, lanes, one);
        } else if (fold == Fold::kSum) {
            const float sum = *value + one;
            *value = dt == Dt::F16 ? HalfBitsToFloat(FloatToHalfBits(sum)) : sum;
        } else {
            const float best = Extreme(fold, *value, one);
            const bool earlier = best == *value || *value != *value;
            *index = earlier ? *index : first + IndexOf(copy, lanes, one);
            *value = best;
        }
    }
}

// Bytes of the temporary buffer of ReduceMax and ReduceMin, as documented.
uint64_t ExtremeTmpBytes(uint64_t n, uint32_t elem, bool index) {
    const uint64_t per_block = kBlock / elem;
    const uint64_t per_repeat = kRepeatBytes / elem;
    const auto up = [](uint64_t a, uint64_t b) { return (a + b - 1) / b; };
    const uint64_t first = up(n, per_repeat) * 2;
    uint64_t total = up(first, per_block) * per_block;
    if (index) {
        const uint64_t second = up(first, per_repeat) * 2;
        total += up(second, per_block) * per_block;
        if (second > 2) {
            total += up(up(second, per_repeat) * 2, per_block) * per_block;
        }
    }
    return total * elem;
}

}  // namespace

void ReduceWhole(const ReduceCall& c, int order) {
    Core& core = Current();
    const uint32_t elem = SizeOf(c.dt);
    const bool pair = order == kValueIndex || order == kIndexValue;
    const uint32_t bytes = pair ? 2 * elem : (order == kOnlyIndex ? 4 : elem);
    Work w;
    if (!Prepare(core, c, bytes, bytes, &w)) {
        return;
    }
    if (core.check != nullptr) {
        IssueRepeats(core, c, w, bytes);
        for (uint64_t r = 0; r < w.lanes.repeats; ++r) {
            core.check->Fill(core, w.dst + r * w.dst_step, bytes, LanesDefined(core, w, r, 0, w.lanes.per_repeat));
        }
    }
    Execute(core, kPipeV, [w, order] {
        float v[kMaxLanes];
        float copy[kMaxLanes];
        const uint32_t n = w.lanes.per_repeat;
        for (uint64_t r = 0; r < w.lanes.repeats; ++r) {
            LoadLanes(w.src, r, w.Bits(r), n, w.fold, w.dt, v);
            uint8_t* d = w.dst + r * w.dst_step;
            if (order == kOnlyValue) {
                StoreValue(w.dt, d, Tree(w.fold, w.dt, v, n), w.saturates);
                continue;
            }
            std::copy(v, v + n, copy);
            const float value = Tree(w.fold, w.dt, v, n);
            const uint32_t index = IndexOf(copy, n, value);
            if (order == kOnlyIndex) {
                StoreIndex(d, 4, index);
                continue;
            }
            StoreValue(w.dt, order == kValueIndex ? d : d + w.elem, value, w.saturates);
            StoreIndex(order == kValueIndex ? d + w.elem : d, w.elem, index);
        }
    });
}

void ReduceBlocks(const ReduceCall& c) { Groups(c, kBlock / SizeOf(c.dt), 8 * SizeOf(c.dt)); }

void ReducePairs(const ReduceCall& c) { Groups(c, 2, kBlock); }

void ReduceCount(const ReduceCall& c, const UbView& tmp, int64_t count, bool index) {
    Core& core = Current();
    CheckCall(core, c.api);
    const uint32_t elem = SizeOf(c.dt);
    const uint64_t n = static_cast<uint64_t>(CheckCount(c.api, count));
    CountCallMask(core);
    if (n == 0) {
        return;
    }
    if (index && c.dt == Dt::F16 && n > 65536) {
        Fail("count-range", c.api, "count %llu: indices above 65535 do not fit a half",
             static_cast<unsigned long long>(n));
    }
    const uint32_t result = index ? 2 * elem : elem;
    const uint64_t scratch = c.fold == Fold::kSum ? 0 : ExtremeTmpBytes(n, elem, index);
    CheckUb(core, c.api, "dst", *c.dst, result, result);
    CheckUb(core, c.api, "src", *c.src, n * elem, kBlock);
    CheckOverlap(core, c.api, *c.dst, result, *c.src, "src", n * elem, false);
    // The buffer may be the source, which is then overwritten.
    const bool own = tmp.addr == c.src->addr;
    if (scratch != 0 && !own) {
        if (uint64_t{tmp.size} * elem < scratch) {
            Fail("tmp-size", c.api, "sharedTmpBuffer has %llu bytes, %llu elements need %llu",
                 static_cast<unsigned long long>(uint64_t{tmp.size} * elem), static_cast<unsigned long long>(n),
                 static_cast<unsigned long long>(scratch));
        }
        CheckOverlap(core, c.api, tmp, scratch, *c.src, "src", n * elem, false);
    }
    const uint64_t used = own && scratch != 0 ? n * elem : scratch;
    CheckUb(core, c.api, "sharedTmpBuffer", tmp, used, kBlock);
    uint8_t* d = c.dst->addr;
    uint8_t* s = c.src->addr;
    uint8_t* t = tmp.addr;
    if (core.check != nullptr) {
        const Span spans[] = {{c.dst, "dst", true, result}, {c.src, "src", false, n * elem},
                              {&tmp, "sharedTmpBuffer", true, used}};
        Issue(core, c.api, spans, used != 0 ? 3 : 2, n, elem);
        const bool known = core.check->FirstUndefined(core, s, n * elem) == n * elem;
        core.check->Fill(core, t, used, false);
        core.check->Fill(core, d, result, known);
    }
    const Fold fold = c.fold;
    const Dt dt = c.dt;
    const bool saturates = HalvesSaturate(core, dt);
    Execute(core, kPipeV, [d, s, t, used, fold, dt, n, elem, index, saturates] {
        float value = 0;
        uint64_t at = 0;
        Whole(fold, dt, s, n, &value, &at);
        std::memset(t, 0xff, used);  // contents undefined afterwards; dst may be in it
        StoreValue(dt, d, value, saturates);
        if (index) {
            StoreIndex(d + elem, elem, static_cast<uint32_t>(at));
        }
    });
}

}  // namespace autofuse_twin
