// Rearrangements of the elements of registers, and reductions.
#include <algorithm>
#include <limits>

#include "api/control.h"
#include "api/fold.h"
#include "autofuse_twin/reg_types.h"
#include "reg/vf.h"

namespace autofuse_twin {
namespace {

// f(results, sources) moves bytes; their definedness moves with them.
template <typename F>
void Shuffle(RegOp& op, const RegRef* dst, int results, const RegRef* src, int sources, F f) {
    const uint8_t* s[2] = {op.Read(src[0]), sources > 1 ? op.Read(src[1]) : nullptr};
    uint8_t* known[2] = {};
    if (op.Checked()) {
        for (int i = 0; i < sources; ++i) {
            known[i] = op.Known(op.Cell(src[i]), src[i].elem * src[i].lanes);
        }
    }
    uint8_t* d[2] = {op.Write(dst[0]), results > 1 ? op.Write(dst[1]) : nullptr};
    if (op.Checked()) {
        uint8_t* out[2] = {};
        for (int i = 0; i < results; ++i) {
            out[i] = op.Known(op.Cell(dst[i]), dst[i].elem * dst[i].lanes);
        }
        f(out, known[0], known[1], true);
    }
    const uint8_t* a = s[0];
    const uint8_t* b = s[1];
    uint8_t* d0 = d[0];
    uint8_t* d1 = d[1];
    op.Do([=] {
        uint8_t* out[2] = {d0, d1};
        f(out, a, b, false);
    });
}

}  // namespace

void RegWeave(bool split, const RegRef& dst0, const RegRef& dst1, const RegRef& a, const RegRef& b) {
    RegOp op(split ? "DeInterleave" : "Interleave");
    const RegRef dst[] = {dst0, dst1};
    const RegRef src[] = {a, b};
    const uint32_t elem = a.elem;
    const uint32_t n = a.lanes;
    Shuffle(op, dst, 2, src, 2, [split, elem, n](uint8_t* const* out, const uint8_t* x, const uint8_t* y, bool) {
        uint8_t all[2 * kPair];
        if (split) {
            // The even elements of both, and the odd ones.
            std::memcpy(all, x, n * elem);
            std::memcpy(all + n * elem, y, n * elem);
            for (uint32_t i = 0; i < n; ++i) {
                std::memcpy(out[0] + i * elem, all + 2 * i * elem, elem);
                std::memcpy(out[1] + i * elem, all + (2 * i + 1) * elem, elem);
            }
            return;
        }
        for (uint32_t i = 0; i < n; ++i) {
            std::memcpy(all + 2 * i * elem, x + i * elem, elem);
            std::memcpy(all + (2 * i + 1) * elem, y + i * elem, elem);
        }
        std::memcpy(out[0], all, n * elem);
        std::memcpy(out[1], all + n * elem, n * elem);
    });
}

void RegPack(const RegRef& dst, const RegRef& src, bool high) {
    RegOp op("Pack");
    const uint32_t keep = dst.elem;
    const uint32_t elem = src.elem;
    const uint32_t n = src.lanes;
    const uint32_t bytes = dst.elem * dst.lanes;
    Shuffle(op, &dst, 1, &src, 1, [=](uint8_t* const* out, const uint8_t* x, const uint8_t*, bool known) {
        uint8_t t[kPair];
        std::memset(t, known ? 0xff : 0, sizeof(t));
        for (uint32_t i = 0; i < n; ++i) {
            std::memcpy(t + (high ? n * keep : 0) + i * keep, x + i * elem, keep);
        }
        std::memcpy(out[0], t, bytes);
    });
}

void RegUnPack(const RegRef& dst, const RegRef& src, bool high) {
    RegOp op("UnPack");
    const uint32_t narrow = src.elem;
    const uint32_t wide = dst.elem;
    const uint32_t n = dst.lanes;
    const bool extend = src.dt == Dt::I8 || src.dt == Dt::I16 || src.dt == Dt::I32;
    Shuffle(op, &dst, 1, &src, 1, [=](uint8_t* const* out, const uint8_t* x, const uint8_t*, bool known) {
        uint8_t t[kPair];
        for (uint32_t i = 0; i < n; ++i) {
            const uint8_t* from = x + ((high ? n : 0) + i) * narrow;
            const bool ones = known ? from[narrow - 1] == 0xff : extend && (from[narrow - 1] & 0x80u) != 0;
            std::memcpy(t + i * wide, from, narrow);
            std::memset(t + i * wide + narrow, ones || (known && !extend) ? 0xff : 0, wide - narrow);
        }
        std::memcpy(out[0], t, n * wide);
    });
}

void RegPick(const RegRef& dst, const RegRef& src, const RegRef& index) {
    RegOp op("Gather");
    const uint8_t* x = op.Read(src);
    const uint8_t* y = op.Read(index);
    RegCell* cells[] = {op.Checked() ? op.Cell(index) : nullptr};
    const RegCell* from = op.Checked() ? op.Cell(src) : nullptr;
    uint8_t* d = op.Write(dst);
    KnowLanes(op, dst, cells, 1, nullptr, nullptr);
    const uint32_t elem = src.elem;
    const uint32_t lanes = src.lanes;
    const auto at = [elem](const uint8_t* indices, uint32_t i) {
        uint32_t k = 0;
        std::memcpy(&k, indices + i * elem, elem);
        return k;
    };
    if (op.Checked() && !op.Late() && from->known != nullptr) {
        uint8_t* known = op.Known(op.Cell(dst), lanes * elem);
        for (uint32_t i = 0; i < lanes; ++i) {
            const uint32_t k = at(y, i);
            for (uint32_t j = 0; j < elem && k < lanes; ++j) {
                known[i * elem + j] &= from->known[k * elem + j];
            }
        }
    }
    op.Do([=] {
        uint8_t t[kPair];
        for (uint32_t i = 0; i < lanes; ++i) {
            const uint32_t k = at(y, i);
            if (k >= lanes) {
                Fail("index-range", "Gather", "the index of lane %u is %u; a register has %u elements", i, k, lanes);
            }
            std::memcpy(t + i * elem, x + k * elem, elem);
        }
        std::memcpy(d, t, lanes * elem);
    });
}

void RegSqueeze(const RegRef& dst, const RegRef& src, const MaskRef& mask) {
    RegOp op("Squeeze");
    const uint8_t* x = op.Read(src);
    const uint64_t* m = op.Read(mask);
    const RegCell* from = op.Checked() ? op.Cell(src) : nullptr;
    const MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    uint8_t* d = op.Write(dst);
    const uint32_t elem = src.elem;
    const uint32_t lanes = src.lanes;
    const uint32_t step = MaskStep(src);
    const auto squeeze = [=](uint8_t* out, const uint8_t* in, const uint64_t* bits, uint8_t rest) {
        uint8_t t[kPair];
        std::memset(t, rest, sizeof(t));
        uint32_t n = 0;
        for (uint32_t i = 0; i < lanes; ++i) {
            if (MaskHas(bits, i * step)) {
                std::memcpy(t + n++ * elem, in + i * elem, elem);
            }
        }
        std::memcpy(out, t, lanes * elem);
    };
    if (op.Checked()) {
        const bool sure = std::all_of(on->known, on->known + 4, [](uint64_t w) { return w == ~uint64_t{0}; });
        if (!sure) {
            std::memset(op.Known(op.Cell(dst), lanes * elem), 0, lanes * elem);
        } else if (from->known != nullptr) {
            // If data decide the mask, one undefined element may end up anywhere.
            bool all = true;
            for (uint32_t i = 0; i < lanes * elem; ++i) {
                all = all && (from->known[i] == 0xff || !MaskHas(on->may, i / elem * step));
            }
            uint8_t* known = op.Known(op.Cell(dst), lanes * elem);
            if (on->fixed) {
                squeeze(known, from->known, on->may, 0xff);
            } else if (!all) {
                std::memset(known, 0, lanes * elem);
            }
        }
    }
    op.Do([=] { squeeze(d, x, m, 0); });
}

void RegUnsqueeze(const RegRef& dst, const MaskRef& mask) {
    RegOp op("Unsqueeze");
    const uint64_t* m = op.Read(mask);
    const MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    uint8_t* d = op.Write(dst);
    const uint32_t elem = dst.elem;
    const uint32_t lanes = dst.lanes;
    const uint32_t step = MaskStep(dst);
    if (op.Checked()) {
        for (uint32_t i = 0; i < lanes; ++i) {
            if (!MaskHas(on->known, i * step)) {
                const uint32_t first = (i + 1) * elem;
                std::memset(op.Known(op.Cell(dst), lanes * elem) + first, 0, lanes * elem - first);
                break;
            }
        }
    }
    op.Do([=] {
        uint32_t n = 0;
        for (uint32_t i = 0; i < lanes; ++i) {
            std::memcpy(d + i * elem, &n, elem);
            n += MaskHas(m, i * step) ? 1 : 0;
        }
    });
}

// ---- reductions ----

namespace {

struct ReduceWork {
    const uint8_t* src;
    const uint64_t* mask;
    uint8_t* dst;
    Fold fold;
    Dt dst_dt, src_dt;
    uint32_t lanes, step, group, dst_bytes;
    bool saturates;

    bool On(uint32_t i) const { return MaskHas(mask, i * step); }

    void Floats() const {
        float v[kVl];
        float copy[kVl];
        if (src_dt == Dt::F16) {
            Kernels().half_to_float(reinterpret_cast<const uint16_t*>(src), v, lanes);
        } else {
            std::memcpy(v, src, uint64_t{lanes} * 4);
        }
        const float inf = std::numeric_limits<float>::infinity();
        const float none = fold == Fold::kSum ? 0.0f : fold == Fold::kMax ? -inf : inf;
        for (uint32_t i = 0; i < lanes; ++i) {
            v[i] = On(i) ? v[i] : none;
        }
        std::copy(v, v + lanes, copy);
        const uint32_t n = group == 0 ? lanes : group;
        for (uint32_t g = 0; g < lanes / n; ++g) {
            float value = Tree(fold, src_dt, v + g * n, n);
            if (fold != Fold::kSum && value == 0.0f) {
                // Of two zeros, +0 is the larger one.
                const bool seek = fold == Fold::kMin;
                const bool found = std::any_of(copy + g * n, copy + (g + 1) * n, [seek](float f) {
                    return f == 0.0f && (FloatBits(f) >> 31 != 0) == seek;
                });
                value = found == seek ? -0.0f : 0.0f;
            }
            Put(g, src_dt == Dt::F16 ? FloatToHalfBits(value) : FloatBits(value));
            if (saturates) {
                SaturateFloats(dst + g * SizeOf(dst_dt), 1, dst_dt);
            }
            if (group == 0 && fold != Fold::kSum) {
                Put(1, IndexOf(copy, n, value));
            }
        }
    }

    int64_t At(uint32_t i) const {
        const uint32_t bytes = SizeOf(src_dt);
        uint64_t v = 0;
        std::memcpy(&v, src + i * bytes, bytes);
        const uint32_t unused = 64 - 8 * bytes;
        const bool is_signed = src_dt == Dt::I16 || src_dt == Dt::I32 || src_dt == Dt::I64;
        return is_signed ? static_cast<int64_t>(v << unused) >> unused : static_cast<int64_t>(v);
    }

    void Integers() const {
        const uint32_t bits = 8 * SizeOf(src_dt);
        const bool is_signed = src_dt == Dt::I16 || src_dt == Dt::I32 || src_dt == Dt::I64;
        const int64_t top = bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
        const int64_t bottom = is_signed ? -top - 1 : 0;
        const uint32_t n = group == 0 ? lanes : group;
        for (uint32_t g = 0; g < lanes / n; ++g) {
            uint64_t sum = 0;
            int64_t best = fold == Fold::kMax ? bottom : top;
            uint32_t index = 0;
            bool any = false;
            for (uint32_t i = g * n; i < (g + 1) * n; ++i) {
                if (!On(i)) {
                    continue;
                }
                const int64_t v = At(i);
                sum += static_cast<uint64_t>(v);
                if (!any || (fold == Fold::kMax ? v > best : v < best)) {
                    best = v;
                    index = i - g * n;
                    any = true;
                }
            }
            // Lanes that are off hold the neutral extreme value.
            for (uint32_t i = g * n; i < g * n + index && best == (fold == Fold::kMax ? bottom : top); ++i) {
                index = i - g * n;
            }
            Put(g, fold == Fold::kSum ? sum : static_cast<uint64_t>(best));
            if (group == 0 && fold != Fold::kSum) {
                Put(1, index);
            }
        }
    }

    void Put(uint32_t lane, uint64_t bits) const { std::memcpy(dst + lane * SizeOf(dst_dt), &bits, SizeOf(dst_dt)); }

    void operator()() const {
        ReduceWork w = *this;
        uint8_t out[kPair] = {};
        w.dst = out;
        if (src_dt == Dt::F16 || src_dt == Dt::F32) {
            w.Floats();
        } else {
            w.Integers();
        }
        std::memcpy(dst, out, dst_bytes);
    }
};

}  // namespace

void RegReduce(const char* api, Fold fold, const RegRef& dst, const RegRef& src, uint32_t group, const MaskRef& mask) {
    RegOp op(api);
    const uint8_t* x = op.Read(src);
    const uint64_t* m = op.Read(mask);
    const RegCell* from = op.Checked() ? op.Cell(src) : nullptr;
    const MaskCell* on = op.Checked() ? op.Cell(mask) : nullptr;
    uint8_t* d = op.Write(dst);
    const ReduceWork work{x, m, d, fold, dst.dt, src.dt, src.lanes, MaskStep(src), group, dst.elem * dst.lanes,
                          HalvesSaturate(op.core(), dst.dt)};
    if (op.Checked()) {
        const uint32_t n = group == 0 ? src.lanes : group;
        for (uint32_t g = 0; g < src.lanes / n; ++g) {
            bool known = true;
            for (uint32_t i = g * n; i < (g + 1) * n; ++i) {
                if (MaskHas(on->may, i * work.step)) {
                    known = known && MaskHas(on->known, i * work.step);
                    for (uint32_t k = 0; k < src.elem; ++k) {
                        known = known && (from->known == nullptr || from->known[i * src.elem + k] == 0xff);
                    }
                }
            }
            if (!known) {
                const uint32_t results = group == 0 && fold != Fold::kSum ? 2 : 1;
                std::memset(op.Known(op.Cell(dst), dst.elem * dst.lanes) + g * dst.elem, 0, results * dst.elem);
            }
        }
    }
    op.Do(work);
}

}  // namespace autofuse_twin
