// Loads and stores between UB and vector registers, with the distributions of their elements.
#include <algorithm>

#include "autofuse_twin/reg_types.h"
#include "reg/vf.h"

namespace autofuse_twin {
namespace {

constexpr uint32_t kUbBlock = 32;
using L = AscendC::Reg::LoadDist;
using S = AscendC::Reg::StoreDist;

// The source of a register's elements: element i from element From(i) of UB, `unit` bytes widened to `wide` bytes.
struct Distribution {
    enum Kind : uint8_t { kPlain, kBroadcast, kUp, kDown, kUnpack, kBlock, kElementToBlock, kSplit } kind;
    uint32_t unit, wide;  // bytes of an element in UB and in the register
    uint64_t reads;       // bytes
    uint32_t align;
};

Distribution Describe(int dist, uint32_t elem, uint32_t bytes) {
    using D = Distribution;
    switch (static_cast<L>(dist)) {
        case L::DIST_BRC_B8:
        case L::DIST_BRC_B16:
        case L::DIST_BRC_B32: return {D::kBroadcast, elem, elem, elem, elem};
        case L::DIST_US_B8:
        case L::DIST_US_B16: return {D::kUp, elem, elem, kVl / 2, kUbBlock};
        case L::DIST_DS_B8:
        case L::DIST_DS_B16: return {D::kDown, elem, elem, 2 * kVl, kUbBlock};
        case L::DIST_UNPACK_B8:
        case L::DIST_UNPACK_B16:
        case L::DIST_UNPACK_B32: return {D::kUnpack, elem, 2 * elem, kVl / 2, kUbBlock};
        case L::DIST_UNPACK4_B8: return {D::kUnpack, 1, 4, kVl / 4, kUbBlock};
        case L::DIST_BLK: return {D::kBlock, elem, elem, kUbBlock, kUbBlock};
        case L::DIST_E2B_B16: return {D::kElementToBlock, 2, 2, 16, 16};
        case L::DIST_E2B_B32: return {D::kElementToBlock, 4, 4, 32, 32};
        case L::DIST_DINTLV_B8:
        case L::DIST_DINTLV_B16:
        case L::DIST_DINTLV_B32: return {D::kSplit, elem, elem, 2 * kVl, kUbBlock};
        default: return {D::kPlain, elem, elem, bytes, kUbBlock};
    }
}

// Distributes the bytes at `in`; `fill` extends wider elements.
void Distribute(const Distribution& d, uint32_t bytes, uint8_t fill, const uint8_t* in, uint8_t* out, uint8_t* second) {
    if (d.kind == Distribution::kPlain) {
        std::memcpy(out, in, bytes);
        return;
    }
    const uint32_t n = bytes / d.wide;
    const uint32_t per = kUbBlock / d.wide;
    for (uint32_t i = 0; i < n; ++i) {
        uint32_t from = 0;
        switch (d.kind) {
            case Distribution::kUp: from = i / 2; break;
            case Distribution::kDown:
            case Distribution::kSplit: from = 2 * i; break;
            case Distribution::kUnpack: from = i; break;
            case Distribution::kBlock: from = i % per; break;
            case Distribution::kElementToBlock: from = i / per; break;
            default: break;
        }
        std::memcpy(out + i * d.wide, in + from * d.unit, d.unit);
        if (d.wide > d.unit) {
            std::memset(out + i * d.wide + d.unit, fill, d.wide - d.unit);
        }
        if (second != nullptr) {
            std::memcpy(second + i * d.wide, in + (from + 1) * d.unit, d.unit);
        }
    }
}

// The definedness of a range of UB, of which the first `own` bytes are in the buffer.
void KnownOf(RegOp& op, const void* at, uint64_t own, uint64_t bytes, uint8_t* out) {
    std::memcpy(out, op.core().check->Bits(op.core(), at), own);
    std::memset(out + own, 0, bytes - own);
}
bool All(const uint8_t* known, uint64_t n) {
    return std::all_of(known, known + n, [](uint8_t b) { return b == 0xff; });
}

// Number of lanes up to the last enabled one; `step` mask bits per lane.
uint32_t Enabled(const uint64_t* bits, uint32_t lanes, uint32_t step) {
    for (uint32_t i = lanes; i > 0; --i) {
        if (MaskHas(bits, (i - 1) * step)) {
            return i;
        }
    }
    return 0;
}

// The bytes that a masked store writes: `keep` bytes of every element.
struct MaskedStore {
    uint8_t* to;
    const uint8_t* from;
    const uint64_t* mask;
    uint32_t lanes, elem, keep, step;

    template <typename F> void Each(const uint64_t* bits, F f) const {
        for (uint32_t i = 0; i < lanes; ++i) {
            if (MaskHas(bits, i * step)) {
                f(i);
            }
        }
    }
    void operator()() const {
        if (keep == elem && Enabled(mask, lanes, step) == lanes) {
            uint64_t every[4] = {};
            for (uint32_t i = 0; i < lanes; ++i) {
                MaskSetBit(every, i * step);
            }
            bool full = true;
            for (int i = 0; i < 4; ++i) {
                full = full && (mask[i] & every[i]) == every[i];
            }
            if (full) {
                std::memcpy(to, from, lanes * elem);
                return;
            }
        }
        Each(mask, [this](uint32_t i) { std::memcpy(to + i * keep, from + i * elem, keep); });
    }
};

// The lanes that a mask can enable: known at the call in fast mode and for data-independent masks.
const uint64_t* Possible(RegOp& op, const MaskRef& mask) { return op.Checked() ? op.Cell(mask)->may : mask.bits; }

// Marks the bytes that a store writes to UB: element by element, `keep` bytes of each.
void MarkStored(RegOp& op, uint8_t* to, RegCell* source, MaskCell* mask, const MaskedStore& store) {
    uint8_t* bits = op.core().check->Bits(op.core(), to);
    store.Each(mask->may, [&](uint32_t i) {
        const bool sure = MaskHas(mask->known, i * store.step);
        for (uint32_t k = 0; k < store.keep; ++k) {
            const uint8_t known = source->known == nullptr ? 0xff : source->known[i * store.elem + k];
            uint8_t& at = bits[i * store.keep + k];
            // If data decide whether the store happens, the old bytes must be defined, too.
            at = static_cast<uint8_t>(!sure ? 0 : mask->fixed ? known : known & at);
        }
    });
}

}  // namespace

void RegLoad(const RegRef& dst, const RegRef* second, const void* at, int dist) {
    RegOp op("LoadAlign");
    const uint32_t bytes = dst.elem * dst.lanes;
    const Distribution how = Describe(dist, dst.elem, bytes);
    const uint64_t own = op.Load(at, how.reads, how.align, dst.slot);
    const uint8_t* s = static_cast<const uint8_t*>(at);
    uint8_t* d = op.Write(dst);
    uint8_t* e = second == nullptr ? nullptr : op.Write(*second);
    if (op.Checked()) {
        uint8_t known[kPair];
        KnownOf(op, at, own, how.reads, known);
        if (!All(known, how.reads)) {
            uint8_t* one = op.Known(op.Cell(dst), bytes);
            Distribute(how, bytes, 0xff, known, one, second == nullptr ? nullptr : op.Known(op.Cell(*second), bytes));
        }
    }
    op.Do([how, bytes, s, d, e] { Distribute(how, bytes, 0, s, d, e); });
}

// Eight blocks, `stride` blocks apart; a block is moved if any of its lanes is on.
void RegLoadBlocks(const RegRef& dst, const void* at, uint32_t stride, const MaskRef& mask) {
    RegOp op("LoadAlign");
    const uint64_t* m = op.Read(mask);
    const uint64_t* possible = Possible(op, mask);
    const uint8_t* s = static_cast<const uint8_t*>(at);
    uint8_t known[kVl];
    std::memset(known, 0xff, sizeof(known));
    for (uint32_t b = 0; b < 8; ++b) {
        const uint32_t on = static_cast<uint32_t>(possible[b / 2] >> (b % 2 * 32));
        if (on != 0) {
            const uint8_t* from = s + uint64_t{b} * stride * kUbBlock;
            const uint64_t own = op.Load(from, kUbBlock, kUbBlock, dst.slot);
            if (op.Checked()) {
                KnownOf(op, from, own, kUbBlock, known + b * kUbBlock);
            }
        }
    }
    uint8_t* d = op.Write(dst);
    if (op.Checked() && !All(known, kVl)) {
        std::memcpy(op.Known(op.Cell(dst), kVl), known, kVl);
    }
    op.Do([m, s, d, stride] {
        for (uint32_t b = 0; b < 8; ++b) {
            if (static_cast<uint32_t>(m[b / 2] >> (b % 2 * 32)) != 0) {
                std::memcpy(d + b * kUbBlock, s + uint64_t{b} * stride * kUbBlock, kUbBlock);
            } else {
                std::memset(d + b * kUbBlock, 0, kUbBlock);
            }
        }
    });
}

void RegLoadAny(const char* api, const RegRef& dst, const void* at, bool hidden) {
    if (api == nullptr) {
        Fail("unalign-order", "LoadUnAlign", "LoadUnAlignPre is missing");
    }
    RegOp op(api);
    if (hidden && op.Checked() && op.core().reg->streams[0] >= 4) {
        Report("reg-streams", api, "the call takes a register for unaligned loads, and the function has 4 already");
    }
    const uint32_t bytes = dst.elem * dst.lanes;
    const uint64_t own = op.Load(at, bytes, dst.elem, dst.slot);
    const uint8_t* s = static_cast<const uint8_t*>(at);
    uint8_t* d = op.Write(dst);
    if (op.Checked()) {
        uint8_t known[kPair];
        KnownOf(op, at, own, bytes, known);
        if (!All(known, bytes)) {
            std::memcpy(op.Known(op.Cell(dst), bytes), known, bytes);
        }
    }
    op.Do([s, d, bytes] { std::memcpy(d, s, bytes); });
}

void RegStore(void* at, const RegRef& src, const RegRef* second, int dist, const MaskRef& mask) {
    RegOp op("StoreAlign");
    const uint8_t* s = op.Read(src);
    uint8_t* d = static_cast<uint8_t*>(at);
    const S how = static_cast<S>(dist);
    const uint32_t elem = src.elem;
    if (how == S::DIST_INTLV_B8 || how == S::DIST_INTLV_B16 || how == S::DIST_INTLV_B32) {
        const uint8_t* t = op.Read(*second);
        op.Store(at, 2 * kVl, kUbBlock, src.slot);
        const uint32_t lanes = src.lanes;
        const auto weave = [elem, lanes](uint8_t* out, const uint8_t* a, const uint8_t* b) {
            for (uint32_t i = 0; i < lanes; ++i) {
                std::memcpy(out + 2 * i * elem, a + i * elem, elem);
                std::memcpy(out + (2 * i + 1) * elem, b + i * elem, elem);
            }
        };
        if (op.Checked()) {
            weave(op.core().check->Bits(op.core(), at), op.Known(op.Cell(src), kVl), op.Known(op.Cell(*second), kVl));
        }
        op.Do([weave, d, s, t] { weave(d, s, t); });
        return;
    }
    if (how == S::DIST_FIRST_ELEMENT_B8 || how == S::DIST_FIRST_ELEMENT_B16 || how == S::DIST_FIRST_ELEMENT_B32) {
        op.Store(at, elem, elem, src.slot);
        if (op.Checked()) {
            std::memcpy(op.core().check->Bits(op.core(), at), op.Known(op.Cell(src), kVl), elem);
        }
        op.Do([d, s, elem] { std::memcpy(d, s, elem); });
        return;
    }
    MaskedStore store{d, s, op.Read(mask), src.lanes, elem, elem, MaskStep(src)};
    const auto narrow = [&](uint32_t wide, uint32_t keep) {
        store.lanes = kVl / wide;
        store.elem = wide;
        store.keep = keep;
        store.step = wide;
    };
    switch (how) {
        case S::DIST_PACK_B16: narrow(2, 1); break;
        case S::DIST_PACK_B32: narrow(4, 2); break;
        case S::DIST_PACK_B64: narrow(8, 4); break;
        case S::DIST_PACK4_B32: narrow(4, 1); break;
        default: break;
    }
    const uint64_t* possible = Possible(op, mask);
    const uint32_t lanes = Enabled(possible, store.lanes, store.step);
    if (lanes == 0) {
        op.Do([] {});
        return;
    }
    op.Store(at, uint64_t{lanes} * store.keep, kUbBlock, src.slot);
    if (op.Checked()) {
        MarkStored(op, d, op.Cell(src), op.Cell(mask), store);
    }
    op.Do(store);
}

void RegStoreBlocks(void* at, const RegRef& src, uint32_t stride, const MaskRef& mask) {
    RegOp op("StoreAlign");
    const uint8_t* s = op.Read(src);
    const uint64_t* m = op.Read(mask);
    const uint64_t* possible = Possible(op, mask);
    uint8_t* d = static_cast<uint8_t*>(at);
    for (uint32_t b = 0; b < 8; ++b) {
        if (static_cast<uint32_t>(possible[b / 2] >> (b % 2 * 32)) != 0) {
            uint8_t* to = d + uint64_t{b} * stride * kUbBlock;
            op.Store(to, kUbBlock, kUbBlock, src.slot);
            if (op.Checked()) {
                std::memcpy(op.core().check->Bits(op.core(), to), op.Known(op.Cell(src), kVl) + b * kUbBlock, kUbBlock);
            }
        }
    }
    op.Do([m, s, d, stride] {
        for (uint32_t b = 0; b < 8; ++b) {
            if (static_cast<uint32_t>(m[b / 2] >> (b % 2 * 32)) != 0) {
                std::memcpy(d + uint64_t{b} * stride * kUbBlock, s + b * kUbBlock, kUbBlock);
            }
        }
    });
}

void RegStoreAny(void* at, const RegRef& src, uint32_t count) {
    RegOp op("Store");
    if (count > src.lanes) {
        Fail("count-range", "Store", "count %u: a register has %u elements", count, src.lanes);
    }
    if (op.Checked() && op.core().reg->streams[1] >= 4) {
        Report("reg-streams", "Store", "the call takes a register for unaligned stores, and the function has 4 already");
    }
    const uint8_t* s = op.Read(src);
    const uint32_t bytes = count * src.elem;
    op.Store(at, bytes, src.elem, src.slot);
    if (op.Checked()) {
        std::memcpy(op.core().check->Bits(op.core(), at), op.Known(op.Cell(src), src.elem * src.lanes), bytes);
    }
    uint8_t* d = static_cast<uint8_t*>(at);
    op.Do([d, s, bytes] { std::memcpy(d, s, bytes); });
}

namespace {

RegRef HeldRef(const UnalignRef& u) { return {u.slot, u.held, 1, kUbBlock, Dt::U8}; }

}  // namespace

// Whole blocks go to UB; the rest of the last one waits in the register.
void RegStoreStream(const UnalignRef& u, void* at, const RegRef& src, uint32_t count) {
    RegOp op("StoreUnAlign");
    if (count > src.lanes) {
        Fail("count-range", "StoreUnAlign", "%u elements: a register has %u", count, src.lanes);
    }
    uint8_t* to = static_cast<uint8_t*>(at);
    const uint32_t bytes = count * src.elem;
    const bool waits = *u.bytes != 0;
    if (waits && *u.at + *u.bytes != to) {
        Fail("unalign-order", "StoreUnAlign", "the stream goes on at UB byte %lld, but %u bytes wait for byte %lld; "
             "StoreUnAlignPost is missing", static_cast<long long>(to - op.core().ub), *u.bytes,
             static_cast<long long>(*u.at + *u.bytes - op.core().ub));
    }
    const uint8_t* s = op.Read(src);
    const RegRef held = HeldRef(u);
    const uint8_t* old = waits ? op.Read(held) : nullptr;
    uint8_t* first = waits ? *u.at : to;
    const uint32_t before = waits ? *u.bytes : 0;
    // Moves bytes and their definedness: [first, first + before) from `old`, then [to, to + bytes) from the source.
    const uint32_t total = before + bytes;
    const uint32_t over = static_cast<uint32_t>(static_cast<uint64_t>(first - op.core().ub + total) % kUbBlock);
    const uint32_t rest = std::min(over, total);
    const uint32_t now = total - rest;
    const auto split = [before, bytes, rest, now](uint8_t* ub, uint8_t* keep, const uint8_t* waiting, const uint8_t* from) {
        uint8_t all[kPair + kUbBlock];
        if (before != 0) {
            std::memcpy(all, waiting, before);
        }
        std::memcpy(all + before, from, bytes);
        if (now != 0) {
            std::memcpy(ub, all, now);
        }
        std::memcpy(keep, all + now, rest);
    };
    uint8_t known[kUbBlock];
    std::memset(known, 0xff, sizeof(known));
    if (now != 0) {
        op.Store(first, now, 1, src.slot);
    } else {
        op.Rest(first, 1);
    }
    if (op.Checked()) {
        const uint8_t* waiting = waits ? op.Known(op.Cell(held), kUbBlock) : nullptr;
        split(op.core().check->Bits(op.core(), first), known, waiting, op.Known(op.Cell(src), src.elem * src.lanes));
    }
    uint8_t* keep = op.Write(held);
    if (op.Checked()) {
        std::memcpy(op.Known(op.Cell(held), kUbBlock), known, kUbBlock);
    }
    *u.at = first + now;
    *u.bytes = rest;
    op.Do([split, first, keep, old, s] { split(first, keep, old, s); });
}

void RegStoreRest(const UnalignRef& u, void* at) {
    RegOp op("StoreUnAlignPost");
    if (*u.bytes == 0) {
        op.Do([] {});
        return;
    }
    if (*u.at + *u.bytes != at) {
        Fail("unalign-order", "StoreUnAlignPost", "%u bytes wait for the end at UB byte %lld, and the address is byte %lld",
             *u.bytes, static_cast<long long>(*u.at + *u.bytes - op.core().ub),
             static_cast<long long>(static_cast<uint8_t*>(at) - op.core().ub));
    }
    const RegRef held = HeldRef(u);
    const uint8_t* s = op.Read(held);
    uint8_t* d = *u.at;
    const uint32_t bytes = *u.bytes;
    op.Store(d, bytes, 1, u.slot);
    if (op.Checked()) {
        std::memcpy(op.core().check->Bits(op.core(), d), op.Known(op.Cell(held), kUbBlock), bytes);
    }
    *u.bytes = 0;
    op.Do([d, s, bytes] { std::memcpy(d, s, bytes); });
}

// ---- by index ----

namespace {

uint64_t IndexAt(const uint8_t* index, uint32_t elem, uint32_t lane) {
    uint64_t out = 0;
    std::memcpy(&out, index + lane * elem, elem);
    return out;
}

[[noreturn]] void IndexBeyond(const char* api, uint32_t lane, uint64_t index, uint64_t limit) {
    Fail("ub-oob", api, "the index of lane %u is %llu; up to the end of the buffer there are %llu elements", lane,
         static_cast<unsigned long long>(index), static_cast<unsigned long long>(limit));
}

}  // namespace

void RegGather(const RegRef& dst, const void* base, uint32_t from, const RegRef& index, const MaskRef& mask) {
    RegOp op("Gather");
    const uint64_t* m = op.Read(mask);
    const uint8_t* x = op.Read(index);
    RegCell* cells[] = {op.Checked() ? op.Cell(index) : nullptr};
    MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    const uint64_t rest = op.Rest(base, kUbBlock);
    op.Load(base, rest, kUbBlock, dst.slot);  // the elements used depend on data
    const uint8_t* s = static_cast<const uint8_t*>(base);
    uint8_t* d = op.Write(dst);
    KnowLanes(op, dst, cells, 1, on, nullptr);
    if (op.Checked() && !op.Late()) {
        const uint8_t* known = op.core().check->Bits(op.core(), base);
        for (uint32_t i = 0; i < dst.lanes; ++i) {
            const uint64_t at = IndexAt(x, index.elem, i) * from;
            if (MaskHas(m, i * MaskStep(dst)) && at + from <= rest && !All(known + at, from)) {
                std::memset(op.Known(op.Cell(dst), dst.elem * dst.lanes) + i * dst.elem, 0, dst.elem);
            }
        }
    }
    const uint32_t elem = dst.elem;
    const uint32_t lanes = dst.lanes;
    const uint32_t step = MaskStep(dst);
    const uint32_t wide = index.elem;
    op.Do([m, x, s, d, elem, lanes, step, wide, from, rest] {
        uint8_t out[kPair] = {};
        for (uint32_t i = 0; i < lanes; ++i) {
            if (MaskHas(m, i * step)) {
                const uint64_t at = IndexAt(x, wide, i);
                if (at >= rest / from) {
                    IndexBeyond("Gather", i, at, rest / from);
                }
                std::memcpy(out + i * elem, s + at * from, from);
            }
        }
        std::memcpy(d, out, lanes * elem);
    });
}

void RegGatherBlocks(const RegRef& dst, const void* base, const RegRef& index, const MaskRef& mask) {
    RegOp op("GatherB");
    const uint64_t* m = op.Read(mask);
    const uint8_t* x = op.Read(index);
    const uint64_t rest = op.Rest(base, kUbBlock);
    op.Load(base, rest, kUbBlock, dst.slot);
    const uint8_t* s = static_cast<const uint8_t*>(base);
    uint8_t* d = op.Write(dst);
    if (op.Checked() && !op.Late()) {
        const uint8_t* known = op.core().check->Bits(op.core(), base);
        for (uint32_t b = 0; b < 8; ++b) {
            const uint64_t at = IndexAt(x, 4, b);
            if (MaskHas(m, 4 * b) && at + kUbBlock <= rest && !All(known + at, kUbBlock)) {
                std::memcpy(op.Known(op.Cell(dst), kVl) + b * kUbBlock, known + at, kUbBlock);
            }
        }
    }
    op.Do([m, x, s, d, rest] {
        uint8_t out[kVl] = {};
        for (uint32_t b = 0; b < 8; ++b) {
            if (MaskHas(m, 4 * b)) {
                const uint64_t at = IndexAt(x, 4, b);
                if (at % kUbBlock != 0) {
                    Fail("ub-align", "GatherB", "the offset of block %u is %llu, which is not a multiple of 32", b,
                         static_cast<unsigned long long>(at));
                }
                if (at + kUbBlock > rest) {
                    IndexBeyond("GatherB", b, at / kUbBlock, rest / kUbBlock);
                }
                std::memcpy(out + b * kUbBlock, s + at, kUbBlock);
            }
        }
        std::memcpy(d, out, kVl);
    });
}

void RegScatter(void* base, const RegRef& src, const RegRef& index, const MaskRef& mask) {
    RegOp op("Scatter");
    const uint64_t* m = op.Read(mask);
    const uint8_t* x = op.Read(index);
    const uint8_t* s = op.Read(src);
    const uint64_t rest = op.Rest(base, kUbBlock);
    op.Store(base, rest, kUbBlock, src.slot);
    uint8_t* d = static_cast<uint8_t*>(base);
    // For bytes, the even lanes take part, with 16-bit indices.
    const uint32_t elem = src.elem;
    const uint32_t wide = index.elem;
    const uint32_t pitch = std::max(elem, wide);
    const uint32_t lanes = src.elem * src.lanes / pitch;
    const uint32_t step = kVl / lanes;
    if (op.Checked()) {
        uint8_t* bits = op.core().check->Bits(op.core(), base);
        if (op.Late()) {
            std::memset(bits, 0xff, rest);  // the stored bytes are not known yet
        } else {
            const RegCell* cell = op.Cell(src);
            for (uint32_t i = 0; i < lanes; ++i) {
                const uint64_t at = IndexAt(x, wide, i) * elem;
                if (MaskHas(m, i * step) && at + elem <= rest) {
                    const uint8_t* known = cell->known == nullptr ? nullptr : cell->known + i * pitch;
                    for (uint32_t k = 0; k < elem; ++k) {
                        bits[at + k] = known == nullptr ? 0xff : known[k];
                    }
                }
            }
        }
    }
    op.Do([m, x, s, d, elem, wide, pitch, lanes, step, rest] {
        for (uint32_t i = 0; i < lanes; ++i) {
            if (MaskHas(m, i * step)) {
                const uint64_t at = IndexAt(x, wide, i);
                if (at >= rest / elem) {
                    IndexBeyond("Scatter", i, at, rest / elem);
                }
                std::memcpy(d + at * elem, s + i * pitch, elem);
            }
        }
    });
}

}  // namespace autofuse_twin
