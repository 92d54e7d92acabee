// The multi-dimensional copy of Ascend 950 from GM to UB: up to five loops, each with a stride on either side.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "api/copy.h"

namespace autofuse_twin {
namespace {

const char* const kApi = "DataCopy";
constexpr uint32_t kMaxDims = 5;
constexpr uint32_t kBlock = 32;
constexpr uint64_t kSrcStrides = uint64_t{1} << 40;
constexpr uint64_t kDstStrides = uint64_t{1} << 20;
constexpr uint64_t kSizes = uint64_t{1} << 20;

// Strides in elements.
struct Loop {
    uint64_t size, src, dst;
};

// Calls f(source, destination) for every index of `n` loops, the last one outermost.
template <typename F> void Each(const Loop* loops, uint32_t n, uint64_t src, uint64_t dst, const F& f) {
    if (n == 0) {
        f(src, dst);
        return;
    }
    const Loop& l = loops[n - 1];
    for (uint64_t i = 0; i < l.size; ++i) {
        Each(loops, n - 1, src + i * l.src, dst + i * l.dst, f);
    }
}

template <size_t elem> void CopyElements(uint8_t* d, const uint8_t* s, const Loop& l) {
    for (uint64_t i = 0; i < l.size; ++i) {
        std::memcpy(d + i * l.dst * elem, s + i * l.src * elem, elem);
    }
}

// The copy as an instruction.
struct Dims {
    uint8_t* dst;
    const uint8_t* src;
    uint32_t elem;
    uint32_t n;
    Loop loops[kMaxDims];

    void operator()() const {
        Each(loops + 1, n - 1, 0, 0, [this](uint64_t from, uint64_t to) {
            uint8_t* d = dst + to * elem;
            const uint8_t* s = src + from * elem;
            if (loops[0].src == 1 && loops[0].dst == 1) {
                std::memcpy(d, s, loops[0].size * elem);
                return;
            }
            switch (elem) {
                case 1: CopyElements<1>(d, s, loops[0]); break;
                case 2: CopyElements<2>(d, s, loops[0]); break;
                case 4: CopyElements<4>(d, s, loops[0]); break;
                default: CopyElements<8>(d, s, loops[0]); break;
            }
        });
    }
};

// The elements of one side: runs of `run` elements, at every index of loops with ascending strides. A loop of stride 0
// counts once.
struct Side {
    uint64_t run = 1;
    uint64_t span = 1;  // elements from the first to the last
    uint32_t n = 0;
    Loop rest[kMaxDims] = {};

    Side(const Loop* loops, uint32_t count, uint64_t Loop::*stride) {
        Loop sorted[kMaxDims] = {};
        uint32_t m = 0;
        for (uint32_t i = 0; i < count; ++i) {
            if (loops[i].size > 1 && loops[i].*stride != 0) {
                sorted[m++] = {loops[i].size, loops[i].*stride, loops[i].*stride};
            }
        }
        std::sort(sorted, sorted + m, [](const Loop& a, const Loop& b) { return a.src < b.src; });
        for (uint32_t i = 0; i < m; ++i) {
            const Loop& l = sorted[i];
            span += (l.size - 1) * l.src;
            if (n == 0 && l.src == run) {
                run *= l.size;
            } else if (n != 0 && l.src == rest[n - 1].src * rest[n - 1].size) {
                rest[n - 1].size *= l.size;
            } else {
                rest[n++] = l;
            }
        }
    }
    uint64_t Runs() const {
        return std::accumulate(rest, rest + n, uint64_t{1}, [](uint64_t a, const Loop& l) { return a * l.size; });
    }
};

void CheckLoops(const DimLoops& p) {
    for (uint32_t i = 0; i < p.dims; ++i) {
        if (p.size[i] == 0 || p.size[i] >= kSizes) {
            Fail("dma-params", kApi, "loopSize[%u] is %u, outside of [1, %llu]", i, p.size[i],
                 static_cast<unsigned long long>(kSizes - 1));
        }
        if (p.src_stride[i] >= kSrcStrides) {
            Fail("dma-params", kApi, "loopSrcStride[%u] is %llu, outside of [0, %llu]", i,
                 static_cast<unsigned long long>(p.src_stride[i]), static_cast<unsigned long long>(kSrcStrides - 1));
        }
        if (p.dst_stride[i] >= kDstStrides) {
            Fail("dma-params", kApi, "loopDstStride[%u] is %u, outside of [0, %llu]", i, p.dst_stride[i],
                 static_cast<unsigned long long>(kDstStrides - 1));
        }
        if (p.left[i] != 0 || p.right[i] != 0) {
            Fail("dma-params", kApi, "loopLpSize[%u] is %u and loopRpSize[%u] is %u: the twin has no multi-dimensional copy "
                 "with paddings", i, p.left[i], i, p.right[i]);
        }
    }
}

// Bytes from the first element to the last; a number beyond any memory if 64 bits cannot hold it.
uint64_t SpanBytes(const DimLoops& p, uint32_t elem, bool source) {
    constexpr uint64_t far = uint64_t{1} << 50;
    uint64_t last = 0;
    for (uint32_t i = 0; i < p.dims; ++i) {
        const uint64_t stride = source ? p.src_stride[i] : p.dst_stride[i];
        last += std::min(far, uint64_t{p.size[i] - 1} * stride);
    }
    return (last + 1) * elem;
}

// Checks that no two indices write the same element. Properly nested loops, each of which steps over the extent of the
// smaller ones, never do; for others, check every element.
void CheckDistinct(const Loop* loops, uint32_t n, uint64_t span) {
    const Loop* sorted[kMaxDims] = {};
    uint32_t m = 0;
    uint64_t elements = 1;
    for (uint32_t i = 0; i < n; ++i) {
        elements = std::min(elements * loops[i].size, span + 1);
        if (loops[i].size > 1) {
            sorted[m++] = &loops[i];
        }
    }
    std::sort(sorted, sorted + m, [](const Loop* a, const Loop* b) { return a->dst < b->dst; });
    uint64_t extent = 1;
    bool nested = true;
    for (uint32_t i = 0; i < m; ++i) {
        nested = nested && sorted[i]->dst >= extent;
        extent += (sorted[i]->size - 1) * sorted[i]->dst;
    }
    if (nested) {
        return;
    }
    bool again = elements > span;
    uint64_t which = 0;
    if (!again) {
        std::vector<bool> seen(span);
        Each(loops, n, 0, 0, [&](uint64_t, uint64_t to) {
            if (seen[to] && !again) {
                again = true;
                which = to;
            }
            seen[to] = true;
        });
    }
    if (again) {
        Fail("dma-overlap", kApi, "two indices of the loops write the same element of dst, such as element %llu",
             static_cast<unsigned long long>(which));
    }
}

// The accesses of the instruction: its writes in UB and reads of GM, element by element.
void Examine(Core& core, const UbView& dst, const GmView& src, uint32_t elem, const Loop* loops, uint32_t n,
             const Side& from, uint64_t elements) {
    const Side to(loops, n, &Loop::dst);
    const uint64_t bytes = to.run * elem;
    // A span has two loops; outer ones become separate spans.
    const Loop one{1, 0, 0};
    const Loop& inner = to.n > 0 ? to.rest[0] : one;
    const Loop& outer = to.n > 1 ? to.rest[1] : one;
    std::vector<UbView> views;
    Each(to.rest + 2, to.n > 2 ? to.n - 2 : 0, 0, 0, [&](uint64_t, uint64_t at) {
        views.push_back(dst);
        views.back().addr += at * elem;
    });
    std::vector<Span> spans;
    for (const UbView& view : views) {
        spans.push_back({&view, "dst", true, bytes, static_cast<uint32_t>(inner.size), static_cast<uint32_t>(inner.dst * elem),
                         static_cast<uint32_t>(outer.size), static_cast<uint32_t>(outer.dst * elem)});
    }
    core.check->Issue(core, kApi, kPipeMte2, spans.data(), static_cast<int>(spans.size()));
    Each(to.rest, to.n, 0, 0, [&](uint64_t, uint64_t at) { core.check->Fill(core, dst.addr + at * elem, bytes, true); });

    // An access to GM has one loop: the longest, to have few accesses.
    Side gm = from;
    std::sort(gm.rest, gm.rest + gm.n, [](const Loop& a, const Loop& b) { return a.size > b.size; });
    const Loop row = gm.n > 0 ? gm.rest[0] : Loop{1, gm.run, gm.run};
    Each(gm.rest + 1, gm.n > 1 ? gm.n - 1 : 0, 0, 0, [&](uint64_t at, uint64_t) {
        GmView view = src;
        view.addr += at * elem;
        core.check->Gm(core, kApi, kPipeMte2, view, gm.run * elem, row.src * elem, static_cast<uint32_t>(row.size), false, false);
    });
    if (core.check->record == nullptr) {
        return;
    }
    const uint64_t rows = from.Runs();
    uint64_t pitch = from.n == 0 ? from.run : from.rest[0].src;
    if (from.n > 1) {
        // Evenly spaced, at a pitch with the divisors of the strides.
        pitch = (from.span - from.run) / (rows - 1);
        uint64_t step = 0;
        for (uint32_t i = 0; i < from.n; ++i) {
            step = std::gcd(step, from.rest[i].src);
        }
        pitch -= pitch >= step ? pitch % step : 0;
    }
    const uint64_t lo = static_cast<uint64_t>(dst.addr - core.ub);
    core.check->record->Dims(core, src, from.run * elem, pitch * elem, static_cast<uint32_t>(rows), elements, elem,
                             static_cast<uint32_t>(lo), static_cast<uint32_t>(lo + to.span * elem));
}

}  // namespace

void DimsGmToUb(const UbView& dst, const GmView& src, uint32_t elem, const DimLoops& p) {
    Core& core = Current();
    CheckCall(core, kApi);
    CheckLoops(p);
    const uint64_t span = SpanBytes(p, elem, false);
    CheckPosition(core, kApi, "dst", dst);
    CheckUb(core, kApi, "dst", dst, span, kBlock);
    CheckGm(core, kApi, src, SpanBytes(p, elem, true), false);

    // Drop loops of one iteration; merge loops that continue each other.
    Dims dims{dst.addr, src.addr, elem, 0, {}};
    uint64_t elements = 1;
    for (uint32_t i = 0; i < p.dims; ++i) {
        const Loop l{p.size[i], p.src_stride[i], p.dst_stride[i]};
        if (l.size == 1) {
            continue;
        }
        Loop* before = dims.n == 0 ? nullptr : &dims.loops[dims.n - 1];
        const bool joins = before != nullptr && l.src == before->src * before->size && l.dst == before->dst * before->size;
        if (joins && l.dst != 0) {
            before->size *= l.size;
        } else {
            dims.loops[dims.n++] = l;
        }
    }
    if (dims.n == 0) {
        dims.loops[dims.n++] = {1, 1, 1};
    }
    CheckDistinct(dims.loops, dims.n, span / elem);
    for (uint32_t i = 0; i < dims.n; ++i) {
        elements *= dims.loops[i].size;
    }
    const Side from(dims.loops, dims.n, &Loop::src);
    if (core.check != nullptr) {
        if (!core.dims_clean) {
            Report("dma-cache", kApi, "multi-dimensional copies read through a cache of the core, which may hold old data: "
                   "there is no NdDmaDci() before it since the last such copy");
        }
        core.dims_clean = false;
        Examine(core, dst, src, elem, dims.loops, dims.n, from, elements);
    }
    core.loaded += from.run * from.Runs() * elem;
    Execute(core, kPipeMte2, dims);
}

void DimsClean() {
    Core& core = Current();
    CheckCall(core, "NdDmaDci");
    core.dims_clean = true;
    if (core.check != nullptr) {
        core.check->Issue(core, "NdDmaDci", kPipeMte2, nullptr, 0);
    }
}

}  // namespace autofuse_twin
