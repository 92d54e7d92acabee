// Mask registers: creation, logic, rearrangement, and copies from and to UB.
#include <algorithm>

#include "autofuse_twin/reg_types.h"
#include "reg/vf.h"

namespace autofuse_twin {
namespace {

constexpr uint32_t kBits = 256;

struct Bits4 {
    uint64_t word[4];
};
Bits4 Load4(const uint64_t* from) {
    Bits4 out;
    std::memcpy(out.word, from, sizeof(out.word));
    return out;
}

// A data-independent mask: its bits are known when the operation is issued.
void SetFixed(RegOp& op, const MaskRef& dst, const Bits4& value) {
    uint64_t* d = op.Write(dst);
    if (op.Checked()) {
        std::memcpy(op.Cell(dst)->may, value.word, sizeof(value.word));
        op.Cell(dst)->fixed = true;
    }
    op.Do([d, value] { std::memcpy(d, value.word, sizeof(value.word)); });
}

// f(destination words, source words...) on the bits, on the possible bits, and on the defined bits.
template <typename F> void Rearrange(RegOp& op, const MaskRef* dst, int results, const MaskRef* src, int sources, F f) {
    const uint64_t* s[2] = {op.Read(src[0]), sources > 1 ? op.Read(src[1]) : nullptr};
    const MaskCell* from[2] = {nullptr, nullptr};
    if (op.Checked()) {
        from[0] = op.Cell(src[0]);
        from[1] = sources > 1 ? op.Cell(src[1]) : nullptr;
    }
    uint64_t* d[2] = {op.Write(dst[0]), results > 1 ? op.Write(dst[1]) : nullptr};
    if (op.Checked()) {
        uint64_t* may[2] = {};
        uint64_t* known[2] = {};
        for (int i = 0; i < results; ++i) {
            MaskCell* cell = op.Cell(dst[i]);
            may[i] = cell->may;
            known[i] = cell->known;
            cell->fixed = from[0]->fixed && (from[1] == nullptr || from[1]->fixed);
        }
        f(may, from[0]->may, from[1] == nullptr ? nullptr : from[1]->may, false);
        f(known, from[0]->known, from[1] == nullptr ? nullptr : from[1]->known, true);
    }
    const uint64_t* a = s[0];
    const uint64_t* b = s[1];
    uint64_t* d0 = d[0];
    uint64_t* d1 = d[1];
    op.Do([f, a, b, d0, d1] {
        uint64_t* out[2] = {d0, d1};
        f(out, a, b, false);
    });
}

void Put(uint64_t* bits, uint32_t at, bool value) {
    if (value) {
        MaskSetBit(bits, at);
    }
}

}  // namespace

void RegMaskPattern(const MaskRef& dst, int pattern, uint32_t lanes) {
    using P = AscendC::Reg::MaskPattern;
    static const uint32_t first[] = {0, 1, 2, 3, 4, 8, 16, 32, 64, 128};
    const P p = static_cast<P>(pattern);
    const uint32_t step = kBits / lanes;
    Bits4 value{};
    for (uint32_t i = 0; i < lanes; ++i) {
        bool on = false;
        switch (p) {
            case P::ALL: on = true; break;
            case P::M3: on = i % 3 == 0; break;
            case P::M4: on = i % 4 == 0; break;
            case P::H: on = i < lanes / 2; break;
            case P::Q: on = i < lanes / 4; break;
            case P::ALLF: break;
            default: on = i < first[pattern]; break;
        }
        Put(value.word, i * step, on);
    }
    RegOp op("CreateMask");
    SetFixed(op, dst, value);
}

uint32_t RegMaskFirst(const MaskRef& dst, uint32_t count, uint32_t lanes) {
    const uint32_t step = kBits / lanes;
    const uint32_t n = std::min(count, lanes);
    Bits4 value{};
    for (uint32_t i = 0; i < n; ++i) {
        MaskSetBit(value.word, i * step);
    }
    RegOp op("UpdateMask");
    SetFixed(op, dst, value);
    return count - n;
}

void RegMaskLogic(MaskOp what, const MaskRef& dst, const MaskRef& a, const MaskRef* b, const MaskRef* mask) {
    static const char* const names[] = {"And", "Or", "Xor", "Not", "Move", "Select"};
    RegOp op(names[static_cast<int>(what)]);
    const uint64_t* x = op.Read(a);
    const uint64_t* y = b == nullptr ? nullptr : op.Read(*b);
    const uint64_t* m = mask == nullptr ? nullptr : op.Read(*mask);
    const MaskCell* cells[3] = {};
    if (op.Checked()) {
        cells[0] = op.Cell(a);
        cells[1] = b == nullptr ? nullptr : op.Cell(*b);
        cells[2] = mask == nullptr ? nullptr : op.Cell(*mask);
    }
    uint64_t* d = op.Write(dst);
    const auto bits = [what](uint64_t p, uint64_t q, uint64_t on) {
        switch (what) {
            case MaskOp::kAnd: return p & q & on;
            case MaskOp::kOr: return (p | q) & on;
            case MaskOp::kXor: return (p ^ q) & on;
            case MaskOp::kNot: return ~p & on;
            case MaskOp::kMove: return p & on;
            default: return (p & on) | (q & ~on);
        }
    };
    if (op.Checked()) {
        MaskCell* cell = op.Cell(dst);
        cell->fixed = true;
        for (const MaskCell* c : cells) {
            cell->fixed = cell->fixed && (c == nullptr || c->fixed);
        }
        for (int i = 0; i < 4; ++i) {
            const uint64_t p = cells[0]->may[i];
            const uint64_t q = cells[1] == nullptr ? 0 : cells[1]->may[i];
            const uint64_t on = cells[2] == nullptr ? ~uint64_t{0} : cells[2]->may[i];
            const bool and_like = what == MaskOp::kAnd || what == MaskOp::kMove;
            if (cell->fixed) {
                cell->may[i] = bits(p, q, on);
            } else if (and_like) {
                cell->may[i] = what == MaskOp::kAnd ? p & q & on : p & on;
            } else {
                cell->may[i] = what == MaskOp::kSelect ? p | q : what == MaskOp::kNot ? on : (p | q) & on;
            }
            // A bit that cannot be set is known to be 0.
            uint64_t known = ~uint64_t{0};
            for (const MaskCell* c : cells) {
                known &= c == nullptr ? ~uint64_t{0} : c->known[i] | (what == MaskOp::kSelect ? 0 : ~c->may[i]);
            }
            cell->known[i] = known | ~cell->may[i];
        }
    }
    op.Do([d, x, y, m, bits] {
        for (int i = 0; i < 4; ++i) {
            d[i] = bits(x[i], y == nullptr ? 0 : y[i], m == nullptr ? ~uint64_t{0} : m[i]);
        }
    });
}

void RegMaskWeave(bool split, const MaskRef& dst0, const MaskRef& dst1, const MaskRef& a, const MaskRef& b,
                  uint32_t elem) {
    RegOp op(split ? "DeInterleave" : "Interleave");
    const MaskRef dst[] = {dst0, dst1};
    const MaskRef src[] = {a, b};
    Rearrange(op, dst, 2, src, 2, [split, elem](uint64_t* const* out, const uint64_t* x, const uint64_t* y, bool) {
        Bits4 low{};
        Bits4 high{};
        const uint32_t n = kBits / elem;  // groups of a mask
        for (uint32_t g = 0; g < 2 * n; ++g) {
            // Source of group g of the two results, one after the other.
            const uint32_t half = g % n;
            const bool second = g >= n;
            const uint32_t from = split ? 2 * half + (second ? 1 : 0) : g / 2;
            const uint64_t* source = split ? (from < n ? x : y) : (g % 2 == 0 ? x : y);
            const uint32_t at = split ? from % n : from;
            for (uint32_t k = 0; k < elem; ++k) {
                Put(second ? high.word : low.word, half * elem + k, MaskHas(source, at * elem + k));
            }
        }
        std::memcpy(out[0], low.word, sizeof(low.word));
        std::memcpy(out[1], high.word, sizeof(high.word));
    });
}

void RegMaskPack(bool pack, bool high, const MaskRef& dst, const MaskRef& src) {
    RegOp op(pack ? "Pack" : "UnPack");
    Rearrange(op, &dst, 1, &src, 1, [pack, high](uint64_t* const* out, const uint64_t* x, const uint64_t*, bool known) {
        Bits4 v{};
        const uint32_t at = high ? kBits / 2 : 0;
        for (uint32_t i = 0; i < kBits / 2; ++i) {
            if (pack) {
                Put(v.word, at + i, MaskHas(x, 2 * i));
                Put(v.word, kBits / 2 - at + i, known);
            } else {
                Put(v.word, 2 * i, MaskHas(x, at + i));
                Put(v.word, 2 * i + 1, known);
            }
        }
        std::memcpy(out[0], v.word, sizeof(v.word));
    });
}

void RegMaskLoad(const MaskRef& dst, const void* at, int dist) {
    static const uint32_t bytes[] = {32, 16, 64};
    static const uint32_t align[] = {32, 16, 32};
    RegOp op("LoadAlign");
    const uint64_t own = op.Load(at, bytes[dist], align[dist], dst.slot);
    const uint8_t* s = static_cast<const uint8_t*>(at);
    uint64_t* d = op.Write(dst);
    const auto spread = [dist](uint64_t* out, const uint8_t* in) {
        Bits4 v{};
        for (uint32_t i = 0; i < kBits; ++i) {
            const uint32_t from = dist == 1 ? i / 2 : dist == 2 ? 2 * i : i;
            Put(v.word, i, (in[from / 8] >> (from % 8) & 1u) != 0);
        }
        std::memcpy(out, v.word, sizeof(v.word));
    };
    if (op.Checked()) {
        uint8_t known[64] = {};
        std::memcpy(known, op.core().check->Bits(op.core(), at), own);
        spread(op.Cell(dst)->known, known);
        std::fill_n(op.Cell(dst)->may, 4, ~uint64_t{0});
    }
    op.Do([d, s, spread] { spread(d, s); });
}

void RegMaskStore(void* at, const MaskRef& src, int dist) {
    RegOp op("StoreAlign");
    const uint64_t* s = op.Read(src);
    const uint32_t bytes = dist == 0 ? 32 : 16;
    op.Store(at, bytes, bytes, src.slot);
    uint8_t* d = static_cast<uint8_t*>(at);
    const auto gather = [dist, bytes](uint8_t* out, const uint64_t* in) {
        Bits4 v{};
        for (uint32_t i = 0; i < bytes * 8; ++i) {
            Put(v.word, i, MaskHas(in, dist == 0 ? i : 2 * i));
        }
        std::memcpy(out, v.word, bytes);
    };
    if (op.Checked()) {
        const MaskCell* cell = op.Cell(src);
        const Bits4 known = Load4(cell->known);
        gather(op.core().check->Bits(op.core(), at), known.word);
    }
    op.Do([d, s, gather] { gather(d, s); });
}

}  // namespace autofuse_twin
