// Data movement between GM and UB, and inside UB.
#include <cstring>

#include "core.h"

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

void StoreGm(Core& core, uint8_t* dst, const uint8_t* src, uint64_t bytes) {
    if (core.atomic == 0) {
        std::memcpy(dst, src, bytes);
        return;
    }
    const std::lock_guard<std::mutex> lock(AtomicMutex());
    Accumulate(core.atomic, core.atomic_dt, dst, src, bytes);
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

}  // namespace

void CopyGmToUb(const UbView& dst, const GmView& src, uint32_t elem, uint64_t count) {
    Core& core = Current();
    const uint64_t bytes = count * elem / kBlock * kBlock;
    CheckUb(core, "DataCopy", "dst", dst, bytes, kBlock);
    CheckGm(core, "DataCopy", src, bytes, false);
    std::memcpy(dst.addr, src.addr, bytes);
}

void CopyUbToGm(const GmView& dst, const UbView& src, Dt dt, uint64_t count) {
    Core& core = Current();
    const uint64_t bytes = count * SizeOf(dt) / kBlock * kBlock;
    CheckUb(core, "DataCopy", "src", src, bytes, kBlock);
    CheckGm(core, "DataCopy", dst, bytes, true);
    CheckAtomic(core, "DataCopy", dt);
    StoreGm(core, dst.addr, src.addr, bytes);
}

void CopyUbToUb(const UbView& dst, const UbView& src, uint32_t elem, uint64_t count) {
    Core& core = Current();
    const uint64_t bytes = count * elem / kBlock * kBlock;
    CheckUb(core, "DataCopy", "dst", dst, bytes, kBlock);
    CheckUb(core, "DataCopy", "src", src, bytes, kBlock);
    std::memmove(dst.addr, src.addr, bytes);
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
    CheckUb(core, "DataCopy", "dst", dst, Extent(p.blockCount, len, dst_pitch), kBlock);
    CheckGm(core, "DataCopy", src, Extent(p.blockCount, len, src_pitch), false);
    for (uint32_t i = 0; i < p.blockCount; ++i) {
        std::memcpy(dst.addr + i * dst_pitch, src.addr + i * src_pitch, len);
    }
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
    CheckUb(core, "DataCopy", "src", src, Extent(p.blockCount, len, src_pitch), kBlock);
    CheckGm(core, "DataCopy", dst, Extent(p.blockCount, len, dst_pitch), true);
    CheckAtomic(core, "DataCopy", dt);
    for (uint32_t i = 0; i < p.blockCount; ++i) {
        StoreGm(core, dst.addr + i * dst_pitch, src.addr + i * src_pitch, len);
    }
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
    for (uint32_t i = 0; i < p.blockCount; ++i) {
        std::memmove(dst.addr + i * dst_pitch, src.addr + i * src_pitch, len);
    }
}

void PadGmToUb(const UbView& dst, const GmView& src, uint32_t elem, const AscendC::DataCopyExtParams& p, const PadSpec& pad) {
    Core& core = Current();
    const char* api = "DataCopyPad";
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
    const uint64_t slot = Align32(left + p.blockLen + right);
    const uint64_t dst_pitch = slot + uint64_t{p.dstStride} * kBlock;
    const uint64_t src_pitch = uint64_t{p.blockLen} + p.srcStride;
    CheckUb(core, api, "dst", dst, Extent(p.blockCount, slot, dst_pitch), kBlock);
    CheckGm(core, api, src, Extent(p.blockCount, p.blockLen, src_pitch), false);
    for (uint32_t i = 0; i < p.blockCount; ++i) {
        uint8_t* d = dst.addr + i * dst_pitch;
        const uint8_t* s = src.addr + i * src_pitch;
        std::memcpy(d + left, s, p.blockLen);
        // What fills the slot: the padding value, or the first element of the block, or nothing defined.
        uint64_t filler = ~uint64_t{0};
        if (pad.is_pad) {
            filler = pad.value;
        } else if (left == 0 && right == 0) {
            std::memcpy(&filler, s, elem);
        }
        for (uint64_t at = 0; at < left; at += elem) {
            std::memcpy(d + at, &filler, elem);
        }
        for (uint64_t at = left + p.blockLen; at < slot; at += elem) {
            std::memcpy(d + at, &filler, elem);
        }
    }
}

void PadUbToGm(const GmView& dst, const UbView& src, Dt dt, const AscendC::DataCopyExtParams& p) {
    Core& core = Current();
    const char* api = "DataCopyPad";
    CheckBlocks(api, p.blockCount, p.blockLen, kMaxBlockLen);
    if (p.blockLen % SizeOf(dt) != 0) {
        Fail("dma-params", api, "blockLen %u bytes is not a multiple of the element size %u", p.blockLen, SizeOf(dt));
    }
    if (p.blockCount == 0 || p.blockLen == 0) {
        return;
    }
    const uint64_t src_pitch = Align32(p.blockLen) + uint64_t{p.srcStride} * kBlock;
    const uint64_t dst_pitch = uint64_t{p.blockLen} + p.dstStride;
    CheckUb(core, api, "src", src, Extent(p.blockCount, p.blockLen, src_pitch), kBlock);
    CheckGm(core, api, dst, Extent(p.blockCount, p.blockLen, dst_pitch), true);
    CheckAtomic(core, api, dt);
    for (uint32_t i = 0; i < p.blockCount; ++i) {
        StoreGm(core, dst.addr + i * dst_pitch, src.addr + i * src_pitch, p.blockLen);
    }
}

void AtomicSet(int kind, Dt dt) {
    Core& core = Current();
    core.atomic = kind;
    core.atomic_dt = dt;
}

}  // namespace autofuse_twin
