// Common parts of all vector calls: masks, repeats and strides, and the checks of operands. Internal to the library.
#ifndef AUTOFUSE_TWIN_SRC_VECTOR_CALL_H
#define AUTOFUSE_TWIN_SRC_VECTOR_CALL_H

#include <cstring>

#include "core.h"

namespace autofuse_twin {

constexpr uint32_t kBlock = 32;
constexpr uint32_t kRepeatBytes = 256;

struct Operand {
    Operand() = default;
    Operand(const UbView* view_in, const char* name_in, uint32_t elem_in, uint32_t blk_in, uint32_t rep_in)
        : view(view_in), base(view_in == nullptr ? nullptr : view_in->addr), name(name_in), elem(elem_in), blk(blk_in),
          rep(rep_in), shift(static_cast<uint32_t>(__builtin_ctz(kBlock / elem_in))) {}
    const UbView* view;  // valid during the call only
    uint8_t* base;
    const char* name;
    uint32_t elem;
    uint32_t blk;  // stride of blocks inside a repeat, in blocks
    uint32_t rep;  // stride of repeats, in blocks
    uint32_t shift;  // a block has 2^shift elements

    uint64_t Offset(uint64_t r, uint32_t lane) const {
        const uint32_t in_block = lane & ((1u << shift) - 1);
        return r * rep * kBlock + uint64_t{lane >> shift} * blk * kBlock + uint64_t{in_block} * elem;
    }
    uint8_t* At(uint64_t r, uint32_t lane) const { return base + Offset(r, lane); }
};

// The enabled lanes, decoded from the mask of a call.
struct Lanes {
    uint64_t bits[2];      // lanes of a full repeat
    uint64_t repeats;
    uint32_t per_repeat;
    uint64_t last_bits[2];  // lanes of the last repeat (differs in counter mode only)

    static bool Has(const uint64_t* b, uint32_t lane) { return (b[lane >> 6] >> (lane & 63u) & 1u) != 0; }
    static bool All(const uint64_t* b, uint32_t n) {
        const uint64_t low = n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
        return (b[0] & low) == low && (n <= 64 || ~b[1] == 0);
    }
};

inline void FirstN(uint64_t n, uint64_t* bits) {
    bits[0] = n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
    bits[1] = n >= 128 ? ~uint64_t{0} : (n > 64 ? (uint64_t{1} << (n - 64)) - 1 : 0);
}

inline Lanes DecodeMask(Core& core, const char* api, const Rep& rep, uint32_t elem) {
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

// The index of the last enabled lane, plus one; 0 if there is none.
inline uint32_t LanesEnd(const uint64_t* bits, uint32_t per_repeat) {
    const auto top = [](uint64_t b) { return b == 0 ? 0u : 64u - static_cast<uint32_t>(__builtin_clzll(b)); };
    if (per_repeat > 64 && bits[1] != 0) {
        return 64 + top(bits[1]);
    }
    return top(per_repeat >= 64 ? bits[0] : bits[0] & ((uint64_t{1} << per_repeat) - 1));
}

// One past the last byte that a repeat accesses, relative to its start.
inline uint64_t RepeatEnd(const Operand& o, const uint64_t* bits, uint32_t per_repeat) {
    if (o.blk != 0) {
        const uint32_t lanes = LanesEnd(bits, per_repeat);
        return lanes == 0 ? 0 : o.Offset(0, lanes - 1) + o.elem;
    }
    // True if all blocks are the same one.
    const uint32_t per = kBlock / o.elem;
    if (Lanes::All(bits, per)) {
        return kBlock;
    }
    uint64_t folded[2] = {0, 0};
    for (uint32_t lane = 0; lane < per_repeat; lane += per) {
        folded[0] |= bits[lane >> 6] >> (lane & 63u) & ((uint64_t{1} << per) - 1);
    }
    return uint64_t{LanesEnd(folded, per)} * o.elem;
}

inline void CheckOperand(Core& core, const char* api, const Operand& o, const Lanes& lanes) {
    const uint64_t step = uint64_t{o.rep} * kBlock;
    uint64_t end = (lanes.repeats - 1) * step + RepeatEnd(o, lanes.last_bits, lanes.per_repeat);
    if (lanes.repeats > 1) {
        const uint64_t earlier = (lanes.repeats - 2) * step + RepeatEnd(o, lanes.bits, lanes.per_repeat);
        end = earlier > end ? earlier : end;
    }
    CheckUb(core, api, o.name, *o.view, end, kBlock);
}

inline void CheckDstStride(const char* api, const Rep& rep) {
    if (rep.dstBlk == 0) {
        Fail("repeat-params", api, "dstBlkStride 0 is undefined");
    }
}

// A partial overlap of the result with a source gives no defined result; a complete overlap is an in-place call.
inline void CheckOverlap(Core& core, const char* api, const UbView& d, uint64_t d_bytes, const UbView& s, const char* name,
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

// Most pages call count 0 and repeatTime 0 a NOP (A2, A3); those of Select and of the advanced functions do not.
inline void CheckNotNothing(const Core& core, const char* api, bool nothing) {
    if (core.check != nullptr && nothing) {
        Report("count-range", api, "count is 0; this function is not documented to do nothing then");
    }
}

// Other cases are a NOP on A2 and A3. For architectures whose headers turn a call into a loop, the pages do not say so.
inline void CheckNothing(const Core& core, const char* api) {
    const autofuse_twin_architecture* own = core.run->architecture;
    if (core.check != nullptr && own != nullptr && own->zero_counts != 0) {
        Report("count-range", api, "no elements, or no repeats: architecture %s is not documented to do nothing then", own->name);
    }
}

inline int64_t CheckCount(const char* api, int64_t count) {
    if (count < 0) {
        Fail("count-range", api, "count %lld is negative", static_cast<long long>(count));
    }
    return count;
}

// A count call sets the mask itself and leaves normal mode with all lanes on.
inline void CountCallMask(Core& core) {
    core.counter_mode = false;
    core.mask_lo = core.mask_hi = ~uint64_t{0};
}

// Calls fn on runs of enabled lanes that are contiguous in every operand.
template <typename F>
inline void ForEachRun(const Lanes& lanes, const Operand* operands, int n, F fn) {
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
        if (Lanes::All(bits, lanes.per_repeat)) {
            for (; lane < lanes.per_repeat; lane += step) {
                fn(r, lane, step);
            }
        }
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

inline ElementFn Lookup(const VecCall& c) {
    const ElementFn fn = Kernels().element(c.op, c.dst_dt, c.src_dt);
    if (fn == nullptr) {
        Fail("dtype", OpName(c.op), "no implementation for %s -> %s", DtName(c.src_dt), DtName(c.dst_dt));
    }
    return fn;
}

// Copies the enabled lanes of repeat r into a dense array; the other lanes become zero.
inline void Gather(const Operand& o, uint64_t r, const uint64_t* bits, uint32_t per_repeat, uint8_t* out) {
    std::memset(out, 0, uint64_t{per_repeat} * o.elem);
    for (uint32_t lane = 0; lane < per_repeat; ++lane) {
        if (Lanes::Has(bits, lane)) {
            std::memcpy(out + lane * o.elem, o.At(r, lane), o.elem);
        }
    }
}

// Calls fn(block) for the blocks of 32 bytes, counted from the start of UB, that repeat r accesses.
template <typename F>
inline void ForEachBlock(const Core& core, const Operand& o, const Lanes& lanes, uint64_t r, F fn) {
    const uint64_t* bits = r + 1 == lanes.repeats ? lanes.last_bits : lanes.bits;
    const uint32_t per = kBlock / o.elem;
    for (uint32_t lane = 0; lane < lanes.per_repeat; lane += per) {
        const uint64_t some = bits[lane >> 6] >> (lane & 63u) & ((uint64_t{1} << per) - 1);
        if (some != 0) {
            fn(static_cast<uint32_t>((o.At(r, lane) - core.ub) / kBlock));
        }
    }
}

// True if the general constraints let a repeat read data of an earlier one: an accumulation into the second source.
inline bool Accumulates(const VecCall& c) {
    switch (c.op) {
        case Op::Add:
        case Op::Sub:
        case Op::Mul:
        case Op::Max:
        case Op::Min:
        case Op::AddRelu:
        case Op::SubRelu:
            return (c.dst_dt == Dt::F16 || c.dst_dt == Dt::I32 || c.dst_dt == Dt::F32) &&
                   (c.rep->dstRep == 0 || c.rep->src1Rep == 0);
        default:
            return false;
    }
}

// The general constraints of overlap: inside a repeat, result and source are disjoint or identical; no repeat reads
// data that an earlier one wrote.
inline void CheckRepeatOverlap(Core& core, const VecCall& c, const Operand& d, const Operand& s, const Lanes& lanes) {
    const char* api = OpName(c.op);
    const auto end = [&](const Operand& o) {
        return o.base + (lanes.repeats - 1) * o.rep * kBlock + RepeatEnd(o, lanes.bits, lanes.per_repeat);
    };
    if (end(d) <= s.base || end(s) <= d.base) {
        return;
    }
    const auto in_place = [&](uint64_t r) { return d.At(r, 0) == s.At(r, 0) && d.blk == s.blk && d.elem == s.elem; };
    if (in_place(0) && (lanes.repeats == 1 || (d.rep == s.rep && d.rep > 7 * d.blk))) {
        return;  // the repeats are disjoint
    }
    const bool chain = s.view == c.src1 && Accumulates(c);
    // The last repeat that wrote a block, from 1 on; 0: none.
    std::vector<uint32_t> written(kUbPhysical / kBlock);
    for (uint64_t r = 0; r < lanes.repeats; ++r) {
        ForEachBlock(core, s, lanes, r, [&](uint32_t block) {
            if (written[block] != 0 && !chain) {
                Fail("ub-overlap", api, "repeat %llu reads UB bytes [%u, %u) of %s, which repeat %u of the same call wrote",
                     static_cast<unsigned long long>(r), block * kBlock, (block + 1) * kBlock, s.name, written[block] - 1);
            }
        });
        ForEachBlock(core, d, lanes, r, [&](uint32_t block) { written[block] = static_cast<uint32_t>(r) + 1; });
        if (in_place(r)) {
            continue;
        }
        ForEachBlock(core, s, lanes, r, [&](uint32_t block) {
            if (written[block] == r + 1) {
                Fail("ub-overlap", api, "dst and %s overlap at UB bytes [%u, %u) in repeat %llu without being identical",
                     s.name, block * kBlock, (block + 1) * kBlock, static_cast<unsigned long long>(r));
            }
        });
    }
}

// The bytes that a repeated call accesses in one operand.
inline Span SpanOf(const Operand& o, const Lanes& lanes, bool write) {
    Span s{o.view, o.name, write, RepeatEnd(o, lanes.bits, lanes.per_repeat)};
    if (lanes.repeats == 1) {
        s.bytes = RepeatEnd(o, lanes.last_bits, lanes.per_repeat);
    }
    s.outer = static_cast<uint32_t>(lanes.repeats);
    s.outer_pitch = o.rep * kBlock;
    if (o.blk != 1 && s.bytes > kBlock) {
        // Blocks are disjoint, or all the same.
        s.inner = o.blk == 0 ? 1 : static_cast<uint32_t>((s.bytes - 1) / (uint64_t{o.blk} * kBlock) + 1);
        s.inner_pitch = o.blk * kBlock;
        s.bytes = kBlock;
    }
    return s;
}

// Elements that the vector unit processes: a repeat takes its 256 bytes for any mask.
inline uint64_t Passed(const Lanes& lanes) { return lanes.repeats * lanes.per_repeat; }

// Issues an instruction of the vector unit in checked mode: its accesses, and its number and size of elements.
inline void Issue(Core& core, const char* api, const Span* spans, int n, uint64_t count, uint32_t bytes) {
    if (core.check != nullptr) {
        core.check->Issue(core, api, kPipeV, spans, n, count, bytes);
    }
}

// True if the operation reads its destination.
inline bool ReadsDst(Op op) {
    return op == Op::Axpy || op == Op::MulAddDst || op == Op::FusedMulAdd || op == Op::FusedMulAddRelu;
}

}  // namespace autofuse_twin

#endif
