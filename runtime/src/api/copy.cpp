// Data movement between GM and UB, and inside UB.
#include "api/copy.h"

#if defined(AUTOFUSE_TWIN_X86)
#include <emmintrin.h>
#endif

#include <cstring>

namespace autofuse_twin {
namespace {

constexpr uint32_t kBlock = 32;
constexpr uint32_t kMaxBlockCount = 4095;
constexpr uint32_t kMaxBlockLen = 2097151;

uint64_t Align32(uint64_t n) { return (n + 31) / 32 * 32; }

std::mutex& AtomicMutex() {
    static std::mutex mutex;
    return mutex;
}

float Bf16Value(const uint16_t& v) { return Bf16BitsToFloat(v); }

void Accumulate(int kind, Dt dt, uint8_t* dst, const uint8_t* src, uint64_t bytes) {
    const uint64_t n = bytes / SizeOf(dt);
    if (dt == Dt::I8 || dt == Dt::BF16) {
        for (uint64_t i = 0; i < n; ++i) {
            if (dt == Dt::I8) {
                const int a = static_cast<int8_t>(dst[i]);
                const int b = static_cast<int8_t>(src[i]);
                dst[i] = static_cast<uint8_t>(kind == 1 ? a + b : (kind == 2) == (a > b) ? a : b);
            } else {
                uint16_t x;
                uint16_t y;
                std::memcpy(&x, dst + 2 * i, 2);
                std::memcpy(&y, src + 2 * i, 2);
                const float a = Bf16Value(x);
                const float b = Bf16Value(y);
                x = FloatToBf16Bits(kind == 1 ? a + b : (kind == 2) == (a > b) ? a : b);
                std::memcpy(dst + 2 * i, &x, 2);
            }
        }
        return;
    }
    const Op op = kind == 1 ? Op::Add : (kind == 2 ? Op::Max : Op::Min);
    Kernels().element(op, dt, dt)(dst, dst, src, 0, n);
}

// A copy moves whole blocks; a chip silently drops the rest of a count.
void CheckWhole(const Core& core, uint64_t count, uint32_t elem) {
    if (core.check != nullptr && count * elem % kBlock != 0) {
        Report("copy-count", "DataCopy", "count %llu of %u-byte elements is no multiple of 32 bytes: %llu bytes are not copied",
               static_cast<unsigned long long>(count), elem, static_cast<unsigned long long>(count * elem % kBlock));
    }
}

// The pages of DataCopy by blocks and of DataCopyPad call blockCount 0 and blockLen 0 a NOP (A2, A3, 950). The page of
// DataCopy by count does not mention 0.
void CheckNotNothing(const Core& core, uint64_t count) {
    if (core.check != nullptr && count == 0) {
        Report("count-range", "DataCopy", "count is 0; only blockCount 0 and blockLen 0 are documented to do nothing");
    }
}

// A larger result has left the caches before anybody reads it.
constexpr uint64_t kStreamTensor = uint64_t{4} << 20;
// A row long enough to be a tile of a large tensor.
constexpr uint64_t kLongRow = 2048;

// A copy to memory that is not read soon bypasses the caches. Prefetching the next data meanwhile costs less than
// reading them later.
void StreamRow(Core& core, uint8_t* d, const uint8_t* s, uint64_t n) {
    constexpr uint64_t line = 64;
    constexpr uint64_t part = 1024;
    const uint64_t lead = (line - reinterpret_cast<uintptr_t>(d) % line) % line;
    const uint64_t end = lead + (n - lead) / line * line;
    const uint64_t lines = core.ahead.total * part / n + 1;
    std::memcpy(d, s, lead);
    for (uint64_t i = lead; i < end; i += part) {
        core.ahead.Fetch(lines);
        Kernels().stream(d + i, s + i, end - i < part ? end - i : part);
    }
    std::memcpy(d + end, s + end, n - end);
}

void CopyRow(uint8_t* d, const uint8_t* s, uint64_t n) {
    if (n >= kLongRow) {
        Kernels().copy(d, s, n);
    } else {
        std::memcpy(d, s, n);
    }
}

void NoteAhead(Core& core, const uint8_t* s, uint64_t bytes, uint32_t rows) {
    if (core.order == nullptr && rows == 1 && bytes >= kLongRow) {
        core.ahead.Note(s + bytes, bytes);
    }
}

// `rows` runs of `bytes`; gm and ub are the pitches.
struct Rows {
    uint64_t bytes;
    uint32_t rows;
    uint64_t gm, ub;
};

void Load(Core& core, const char* api, const UbView& dst, const GmView& src, const Rows& r) {
    if (core.check != nullptr && r.bytes != 0) {
        const Span span{&dst, "dst", true, r.bytes, r.rows, static_cast<uint32_t>(r.ub)};
        core.check->Issue(core, api, kPipeMte2, &span, 1);
        core.check->Gm(core, api, kPipeMte2, src, r.bytes, r.gm, r.rows, false, false);
        for (uint32_t i = 0; i < r.rows; ++i) {
            core.check->Fill(core, dst.addr + i * r.ub, r.bytes, true);
        }
    }
    core.loaded += r.bytes * r.rows;
    uint8_t* d = dst.addr;
    const uint8_t* s = src.addr;
    NoteAhead(core, s, r.bytes, r.rows);
    Execute(core, kPipeMte2, [d, s, r] {
        for (uint32_t i = 0; i < r.rows; ++i) {
            CopyRow(d + i * r.ub, s + i * r.gm, r.bytes);
        }
    });
}

void Store(Core& core, const char* api, const GmView& dst, const UbView& src, const Rows& r) {
    if (core.check != nullptr && r.bytes != 0) {
        const Span span{&src, "src", false, r.bytes, r.rows, static_cast<uint32_t>(r.ub)};
        core.check->Issue(core, api, kPipeMte3, &span, 1);
        core.check->Gm(core, api, kPipeMte3, dst, r.bytes, r.gm, r.rows, true, core.atomic != 0);
        core.check->NeedDefined(core, "uninit-store", api, src, r.bytes, r.ub, r.rows, "are stored to GM");
    }
    core.stored += r.bytes * r.rows;
    uint8_t* d = dst.addr;
    const uint8_t* s = src.addr;
    const int atomic = core.atomic;
    const Dt dt = core.atomic_dt;
    const bool stream = r.bytes >= kLongRow && static_cast<uint64_t>(dst.hi - dst.lo) >= kStreamTensor;
    Core* const self = &core;
    Execute(core, kPipeMte3, [self, d, s, r, atomic, dt, stream] {
        for (uint32_t i = 0; i < r.rows; ++i) {
            if (atomic == 0) {
                if (stream) {
                    StreamRow(*self, d + i * r.gm, s + i * r.ub, r.bytes);
                } else {
                    CopyRow(d + i * r.gm, s + i * r.ub, r.bytes);
                }
                continue;
            }
            const std::lock_guard<std::mutex> lock(AtomicMutex());
            Accumulate(atomic, dt, d + i * r.gm, s + i * r.ub, r.bytes);
        }
    });
}

// UB to UB copies run on the vector unit.
void Move(Core& core, const char* api, const UbView& dst, const UbView& src, uint64_t bytes, uint32_t rows,
          uint64_t dst_pitch, uint64_t src_pitch) {
    if (core.check != nullptr && bytes != 0) {
        const Span spans[] = {{&dst, "dst", true, bytes, rows, static_cast<uint32_t>(dst_pitch)},
                              {&src, "src", false, bytes, rows, static_cast<uint32_t>(src_pitch)}};
        core.check->Issue(core, api, kPipeV, spans, 2, rows * ((bytes + kBlock - 1) / kBlock * kBlock) / 2, 2);
        for (uint32_t i = 0; i < rows; ++i) {
            core.check->Elements(core, dst.addr + i * dst_pitch, 1, src.addr + i * src_pitch, nullptr, 1, false, bytes);
        }
    }
    uint8_t* d = dst.addr;
    const uint8_t* s = src.addr;
    Execute(core, kPipeV, [d, s, bytes, rows, dst_pitch, src_pitch] {
        for (uint32_t i = 0; i < rows; ++i) {
            std::memmove(d + i * dst_pitch, s + i * src_pitch, bytes);
        }
    });
}

// The pages of DataCopy inside UB do not mention overlap, so the general constraints exclude it. Rows of either side
// ascend, so one walk over both finds two that overlap.
void CheckApart(const Core& core, const UbView& dst, const UbView& src, uint64_t bytes, uint32_t rows,
                uint64_t dst_pitch, uint64_t src_pitch) {
    for (uint32_t i = 0, k = 0; bytes != 0 && i < rows && k < rows;) {
        const uint8_t* d = dst.addr + i * dst_pitch;
        const uint8_t* s = src.addr + k * src_pitch;
        if (d < s + bytes && s < d + bytes) {
            Fail("ub-overlap", "DataCopy", "dst [%lld, %lld) and src [%lld, %lld) overlap",
                 static_cast<long long>(d - core.ub), static_cast<long long>(d + bytes - core.ub),
                 static_cast<long long>(s - core.ub), static_cast<long long>(s + bytes - core.ub));
        }
        (d < s ? i : k) += 1;
    }
}

void CheckAtomic(const Core& core, const char* api, Dt dt) {
    if (core.atomic != 0 && core.atomic_dt != dt) {
        Fail("atomic-type", api, "atomic accumulation was set for %s, the tensor is %s", DtName(core.atomic_dt), DtName(dt));
    }
}

void CheckBlocks(const char* api, uint32_t count, uint64_t len, uint64_t max_len) {
    if (count > kMaxBlockCount) {
        Fail("dma-params", api, "blockCount %u is outside of [0, %u]", count, kMaxBlockCount);
    }
    if (len > max_len) {
        Fail("dma-params", api, "blockLen %llu is outside of [0, %llu]", static_cast<unsigned long long>(len),
             static_cast<unsigned long long>(max_len));
    }
}

// Bytes from the start of the first block to the end of the last.
uint64_t Extent(uint64_t count, uint64_t len, uint64_t pitch) { return count == 0 ? 0 : (count - 1) * pitch + len; }

// A padded load as an instruction.
struct PadRows {
    uint8_t* dst;
    const uint8_t* src;
    uint32_t rows;
    uint64_t len;
    uint32_t elem;
    uint64_t left, right, slot, dst_pitch, src_pitch;
    bool is_pad;
    uint64_t value;

    void operator()() const {
        for (uint32_t i = 0; i < rows; ++i) {
            uint8_t* d = dst + i * dst_pitch;
            const uint8_t* s = src + i * src_pitch;
            CopyRow(d + left, s, len);
            // The filler of the slot: the padding value, the first element of the block, or undefined.
            uint64_t filler = ~uint64_t{0};
            if (is_pad) {
                filler = value;
            } else if (left == 0 && right == 0) {
                std::memcpy(&filler, s, elem);
            }
            for (uint64_t at = 0; at < left; at += elem) {
                std::memcpy(d + at, &filler, elem);
            }
            for (uint64_t at = left + len; at < slot; at += elem) {
                std::memcpy(d + at, &filler, elem);
            }
        }
    }
};

}  // namespace

// Copies between GM and UB only reach queue positions of UB. DataCopy is documented for GM -> VECIN and VECOUT -> GM;
// with a queue bound from VECIN to VECOUT one tensor is both loaded and stored, so either position is valid for both.
void CheckPosition(const Core& core, const char* api, const char* operand, const UbView& view) {
    const uint8_t in = static_cast<uint8_t>(AscendC::TPosition::VECIN);
    const uint8_t out = static_cast<uint8_t>(AscendC::TPosition::VECOUT);
    if (core.check != nullptr && view.pos != in && view.pos != out) {
        Report("dma-position", api, "%s lies at %s; it must be VECIN or VECOUT", operand, PosName(view.pos));
    }
}

void CopyGmToUb(const UbView& dst, const GmView& src, uint32_t elem, uint64_t count) {
    Core& core = Current();
    const uint64_t bytes = count * elem / kBlock * kBlock;
    CheckWhole(core, count, elem);
    CheckNotNothing(core, count);
    CheckPosition(core, "DataCopy", "dst", dst);
    CheckUb(core, "DataCopy", "dst", dst, bytes, kBlock);
    CheckGm(core, "DataCopy", src, bytes, false);
    Load(core, "DataCopy", dst, src, {bytes, 1, bytes, bytes});
}

void CopyUbToGm(const GmView& dst, const UbView& src, Dt dt, uint64_t count) {
    Core& core = Current();
    const uint64_t bytes = count * SizeOf(dt) / kBlock * kBlock;
    CheckWhole(core, count, SizeOf(dt));
    CheckNotNothing(core, count);
    CheckPosition(core, "DataCopy", "src", src);
    CheckUb(core, "DataCopy", "src", src, bytes, kBlock);
    CheckGm(core, "DataCopy", dst, bytes, true);
    CheckAtomic(core, "DataCopy", dt);
    Store(core, "DataCopy", dst, src, {bytes, 1, bytes, bytes});
}

void CopyUbToUb(const UbView& dst, const UbView& src, uint32_t elem, uint64_t count) {
    Core& core = Current();
    const uint64_t bytes = count * elem / kBlock * kBlock;
    CheckWhole(core, count, elem);
    CheckNotNothing(core, count);
    CheckUb(core, "DataCopy", "dst", dst, bytes, kBlock);
    CheckUb(core, "DataCopy", "src", src, bytes, kBlock);
    CheckApart(core, dst, src, bytes, 1, bytes, bytes);
    Move(core, "DataCopy", dst, src, bytes, 1, bytes, bytes);
}

void CopyGmToUbBlocks(const UbView& dst, const GmView& src, uint32_t elem, const AscendC::DataCopyParams& p) {
    Core& core = Current();
    (void)elem;
    CheckBlocks("DataCopy", p.blockCount, p.blockLen, 65535);
    const uint64_t len = uint64_t{p.blockLen} * kBlock;
    const uint64_t src_pitch = len + uint64_t{p.srcStride} * kBlock;
    const uint64_t dst_pitch = len + uint64_t{p.dstStride} * kBlock;
    if (p.blockCount == 0 || len == 0) {
        return;
    }
    CheckPosition(core, "DataCopy", "dst", dst);
    CheckUb(core, "DataCopy", "dst", dst, Extent(p.blockCount, len, dst_pitch), kBlock);
    CheckGm(core, "DataCopy", src, Extent(p.blockCount, len, src_pitch), false);
    Load(core, "DataCopy", dst, src, {len, p.blockCount, src_pitch, dst_pitch});
}

void CopyUbToGmBlocks(const GmView& dst, const UbView& src, Dt dt, const AscendC::DataCopyParams& p) {
    Core& core = Current();
    CheckBlocks("DataCopy", p.blockCount, p.blockLen, 65535);
    const uint64_t len = uint64_t{p.blockLen} * kBlock;
    const uint64_t src_pitch = len + uint64_t{p.srcStride} * kBlock;
    const uint64_t dst_pitch = len + uint64_t{p.dstStride} * kBlock;
    if (p.blockCount == 0 || len == 0) {
        return;
    }
    CheckPosition(core, "DataCopy", "src", src);
    CheckUb(core, "DataCopy", "src", src, Extent(p.blockCount, len, src_pitch), kBlock);
    CheckGm(core, "DataCopy", dst, Extent(p.blockCount, len, dst_pitch), true);
    CheckAtomic(core, "DataCopy", dt);
    Store(core, "DataCopy", dst, src, {len, p.blockCount, dst_pitch, src_pitch});
}

void CopyUbToUbBlocks(const UbView& dst, const UbView& src, const AscendC::DataCopyParams& p) {
    Core& core = Current();
    CheckBlocks("DataCopy", p.blockCount, p.blockLen, 65535);
    const uint64_t len = uint64_t{p.blockLen} * kBlock;
    const uint64_t src_pitch = len + uint64_t{p.srcStride} * kBlock;
    const uint64_t dst_pitch = len + uint64_t{p.dstStride} * kBlock;
    if (p.blockCount == 0 || len == 0) {
        return;
    }
    CheckUb(core, "DataCopy", "dst", dst, Extent(p.blockCount, len, dst_pitch), kBlock);
    CheckUb(core, "DataCopy", "src", src, Extent(p.blockCount, len, src_pitch), kBlock);
    CheckApart(core, dst, src, len, p.blockCount, dst_pitch, src_pitch);
    Move(core, "DataCopy", dst, src, len, p.blockCount, dst_pitch, src_pitch);
}

void PadGmToUb(const UbView& dst, const GmView& src, uint32_t elem, const AscendC::DataCopyExtParams& p, const PadSpec& pad) {
    Core& core = Current();
    const char* api = "DataCopyPad";
    CheckCall(core, api);
    CheckBlocks(api, p.blockCount, p.blockLen, kMaxBlockLen);
    if (p.blockLen % elem != 0) {
        Fail("dma-params", api, "blockLen %u bytes is not a multiple of the element size %u", p.blockLen, elem);
    }
    if (pad.left * elem > kBlock || pad.right * elem > kBlock) {
        Fail("dma-params", api, "leftPadding %u / rightPadding %u elements of %u bytes exceed 32 bytes", pad.left, pad.right,
             elem);
    }
    if (elem == 8 && pad.value != 0 && pad.is_pad) {
        Fail("dma-params", api, "paddingValue must be 0 for 64-bit elements");
    }
    if (p.blockCount == 0 || p.blockLen == 0) {
        return;
    }
    const uint64_t left = uint64_t{pad.left} * elem;
    const uint64_t right = uint64_t{pad.right} * elem;
    CheckPosition(core, api, "dst", dst);
    const uint64_t slot = Align32(left + p.blockLen + right);
    const uint64_t dst_pitch = slot + uint64_t{p.dstStride} * kBlock;
    const uint64_t src_pitch = uint64_t{p.blockLen} + p.srcStride;
    CheckUb(core, api, "dst", dst, Extent(p.blockCount, slot, dst_pitch), kBlock);
    CheckGm(core, api, src, Extent(p.blockCount, p.blockLen, src_pitch), false);
    const PadRows rows{dst.addr, src.addr, p.blockCount, p.blockLen, elem, left, right, slot, dst_pitch, src_pitch,
                       pad.is_pad, pad.value};
    if (core.check != nullptr) {
        const Span span{&dst, "dst", true, slot, p.blockCount, static_cast<uint32_t>(dst_pitch)};
        core.check->Issue(core, api, kPipeMte2, &span, 1);
        core.check->Gm(core, api, kPipeMte2, src, p.blockLen, src_pitch, p.blockCount, false, false);
        for (uint32_t i = 0; i < p.blockCount; ++i) {
            uint8_t* d = dst.addr + i * dst_pitch;
            // Without padding values the rest of a slot is not part of the tensor: nothing may depend on it.
            core.check->Fill(core, d, slot, pad.is_pad);
            core.check->Fill(core, d + left, p.blockLen, true);
        }
    }
    core.loaded += uint64_t{p.blockLen} * p.blockCount;
    NoteAhead(core, src.addr, p.blockLen, p.blockCount);
    Execute(core, kPipeMte2, rows);
}

void PadUbToGm(const GmView& dst, const UbView& src, Dt dt, const AscendC::DataCopyExtParams& p) {
    Core& core = Current();
    const char* api = "DataCopyPad";
    CheckCall(core, api);
    CheckBlocks(api, p.blockCount, p.blockLen, kMaxBlockLen);
    if (p.blockLen % SizeOf(dt) != 0) {
        Fail("dma-params", api, "blockLen %u bytes is not a multiple of the element size %u", p.blockLen, SizeOf(dt));
    }
    if (p.blockCount == 0 || p.blockLen == 0) {
        return;
    }
    CheckPosition(core, api, "src", src);
    const uint64_t src_pitch = Align32(p.blockLen) + uint64_t{p.srcStride} * kBlock;
    const uint64_t dst_pitch = uint64_t{p.blockLen} + p.dstStride;
    CheckUb(core, api, "src", src, Extent(p.blockCount, p.blockLen, src_pitch), kBlock);
    CheckGm(core, api, dst, Extent(p.blockCount, p.blockLen, dst_pitch), true);
    CheckAtomic(core, api, dt);
    Store(core, api, dst, src, {p.blockLen, p.blockCount, dst_pitch, src_pitch});
}

void StreamFence() {
#if defined(AUTOFUSE_TWIN_X86)
    _mm_sfence();
#endif
}

void AtomicSet(int kind, Dt dt) {
    Core& core = Current();
    core.atomic = kind;
    core.atomic_dt = dt;
}

}  // namespace autofuse_twin
