// Definedness of UB: every defined bit of UB has its bit set in a mask of the same size.
//
// Computing with undefined data is legal, such as the rest of a padded row; results are undefined element by element.
// It is a finding if undefined data leave UB or decide something.
#include <algorithm>
#include <cstring>

#include "checks/checked.h"
#include "core.h"

namespace autofuse_twin {
namespace {

bool Whole(const uint8_t* mask, uint32_t bytes) {
    uint8_t all = 0xff;
    for (uint32_t i = 0; i < bytes; ++i) {
        all &= mask[i];
    }
    return all == 0xff;
}

void AndInto(uint8_t* dst, const uint8_t* src, uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) {
        dst[i] = static_cast<uint8_t>(dst[i] & src[i]);
    }
}

bool AllSet(const uint8_t* mask, uint64_t n) {
    return n == 0 || (mask[0] == 0xff && std::memcmp(mask, mask + 1, n - 1) == 0);
}

}  // namespace

uint8_t* Checked::Bits(const Core& core, const void* addr) {
    return bits_.data() + (static_cast<const uint8_t*>(addr) - core.ub);
}

void Checked::Fill(const Core& core, const void* addr, uint64_t bytes, bool defined) {
    std::memset(Bits(core, addr), defined ? 0xff : 0, bytes);
}

void Checked::Elements(const Core& core, const void* dst, uint32_t dst_elem, const void* a, const void* b,
                       uint32_t src_elem, bool reads_dst, uint64_t n) {
    uint8_t* d = Bits(core, dst);
    const uint8_t* x = a == nullptr ? nullptr : Bits(core, a);
    const uint8_t* y = b == nullptr ? nullptr : Bits(core, b);
    if (x == nullptr && y == nullptr) {
        std::memset(d, 0xff, n * dst_elem);
        return;
    }
    const uint64_t src_bytes = n * src_elem;
    const bool all = !reads_dst && (x == nullptr || AllSet(x, src_bytes)) && (y == nullptr || AllSet(y, src_bytes));
    if (all) {
        std::memset(d, 0xff, n * dst_elem);
        return;
    }
    if (dst_elem == src_elem && y == nullptr && !reads_dst) {
        std::memmove(d, x, src_bytes);
        return;
    }
    if (dst_elem == src_elem && (reads_dst || d == x || d == y)) {
        if (x != nullptr && d != x) {
            AndInto(d, x, src_bytes);
        }
        if (y != nullptr && d != y) {
            AndInto(d, y, src_bytes);
        }
        return;
    }
    if (dst_elem == src_elem) {
        for (uint64_t i = 0; i < src_bytes; ++i) {
            d[i] = static_cast<uint8_t>(x[i] & y[i]);
        }
        return;
    }
    // A conversion. Source and result are disjoint, or start at one address, where elements are read in time only if
    // the result is not wider; a widening conversion in place runs from the end.
    const bool backwards = dst_elem > src_elem;
    for (uint64_t k = 0; k < n; ++k) {
        const uint64_t i = backwards ? n - 1 - k : k;
        const bool ok = (x == nullptr || Whole(x + i * src_elem, src_elem)) &&
                        (y == nullptr || Whole(y + i * src_elem, src_elem)) &&
                        (!reads_dst || Whole(d + i * dst_elem, dst_elem));
        std::memset(d + i * dst_elem, ok ? 0xff : 0, dst_elem);
    }
}

void Checked::CompareBits(const Core& core, const void* dst, const void* a, const void* b, uint32_t elem, uint64_t n) {
    uint8_t* d = dst == nullptr ? cmp_mask : Bits(core, dst);
    const uint8_t* x = Bits(core, a);
    const uint8_t* y = b == nullptr ? nullptr : Bits(core, b);
    if (AllSet(x, n * elem) && (y == nullptr || AllSet(y, n * elem))) {
        std::memset(d, 0xff, (n + 7) / 8);
        return;
    }
    for (uint64_t i = 0; i < n; i += 8) {
        uint8_t byte = 0;
        for (uint64_t k = 0; k < 8 && i + k < n; ++k) {
            const uint64_t at = (i + k) * elem;
            const bool ok = Whole(x + at, elem) && (y == nullptr || Whole(y + at, elem));
            byte = static_cast<uint8_t>(byte | (ok ? 1u : 0u) << k);
        }
        d[i / 8] = byte;
    }
}

void Checked::SelectElements(uint8_t* dst, const uint8_t* mask, const uint8_t* a, const uint8_t* b, uint32_t elem,
                             uint64_t n) {
    // The mask may not be computed yet (instructions can be delayed), so both choices must be defined.
    if (AllSet(mask, n / 8) && AllSet(a, n * elem) && (b == nullptr || AllSet(b, n * elem))) {
        std::memset(dst, 0xff, n * elem);
        return;
    }
    for (uint64_t i = 0; i < n; ++i) {
        const bool ok = (mask[i / 8] >> (i % 8) & 1u) != 0 && Whole(a + i * elem, elem) &&
                        (b == nullptr || Whole(b + i * elem, elem));
        std::memset(dst + i * elem, ok ? 0xff : 0, elem);
    }
}

uint64_t Checked::FirstUndefined(const Core& core, const void* addr, uint64_t n) {
    const uint8_t* m = Bits(core, addr);
    if (AllSet(m, n)) {
        return n;
    }
    return static_cast<uint64_t>(std::find_if(m, m + n, [](uint8_t v) { return v != 0xff; }) - m);
}

bool Checked::NeedDefined(Core& core, const char* code, const char* api, const UbView& view, uint64_t bytes,
                          uint64_t pitch, uint32_t rows, const char* use) {
    for (uint32_t r = 0; r < rows; ++r) {
        const uint8_t* row = view.addr + r * pitch;
        const uint64_t at = FirstUndefined(core, row, bytes);
        if (at == bytes) {
            continue;
        }
        if (!First(code, site_.line, 0)) {
            return false;
        }
        const uint8_t* m = Bits(core, row);
        uint64_t end = at;
        while (end < bytes && m[end] != 0xff) {
            ++end;
        }
        Finding f = NewFinding(core, code, api);
        f.place = BufferName(core, view);
        f.begin = row - view.lo + static_cast<int64_t>(at);
        f.end = row - view.lo + static_cast<int64_t>(end);
        f.message = "bytes [" + std::to_string(f.begin) + ", " + std::to_string(f.end) + ") of " + f.place +
                    " were never given a defined value and " + use;
        if (rows > 1) {
            f.message += " (row " + std::to_string(r) + " of " + std::to_string(rows) + ", byte " + std::to_string(at) +
                         " of " + std::to_string(bytes) + ")";
        }
        AddFinding(*core.run, std::move(f));
        return false;
    }
    return true;
}

}  // namespace autofuse_twin
