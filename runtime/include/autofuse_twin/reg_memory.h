// Masks, and copies between UB and registers: aligned, block-strided, unaligned, by index.
// Source: Ascend C public documentation of Ascend 950.
#ifndef AUTOFUSE_TWIN_REG_MEMORY_H
#define AUTOFUSE_TWIN_REG_MEMORY_H

#include "reg_types.h"

namespace autofuse_twin {

using LoadDist = AscendC::Reg::LoadDist;
using StoreDist = AscendC::Reg::StoreDist;

// Element bytes in the name of a distribution; 0: any.
constexpr uint32_t WidthOf(LoadDist d) {
    switch (d) {
        case LoadDist::DIST_BRC_B8:
        case LoadDist::DIST_US_B8:
        case LoadDist::DIST_DS_B8:
        case LoadDist::DIST_DINTLV_B8:
        case LoadDist::DIST_UNPACK_B8:
        case LoadDist::DIST_UNPACK4_B8: return 1;
        case LoadDist::DIST_BRC_B16:
        case LoadDist::DIST_US_B16:
        case LoadDist::DIST_DS_B16:
        case LoadDist::DIST_DINTLV_B16:
        case LoadDist::DIST_UNPACK_B16:
        case LoadDist::DIST_E2B_B16: return 2;
        case LoadDist::DIST_BRC_B32:
        case LoadDist::DIST_DINTLV_B32:
        case LoadDist::DIST_UNPACK_B32:
        case LoadDist::DIST_E2B_B32: return 4;
        default: return 0;
    }
}
constexpr uint32_t WidthOf(StoreDist d) {
    switch (d) {
        case StoreDist::DIST_NORM_B8:
        case StoreDist::DIST_FIRST_ELEMENT_B8:
        case StoreDist::DIST_INTLV_B8: return 1;
        case StoreDist::DIST_NORM_B16:
        case StoreDist::DIST_FIRST_ELEMENT_B16:
        case StoreDist::DIST_INTLV_B16:
        case StoreDist::DIST_PACK_B16: return 2;
        case StoreDist::DIST_NORM_B32:
        case StoreDist::DIST_FIRST_ELEMENT_B32:
        case StoreDist::DIST_INTLV_B32:
        case StoreDist::DIST_PACK_B32:
        case StoreDist::DIST_PACK4_B32: return 4;
        case StoreDist::DIST_PACK_B64: return 8;
        default: return 0;
    }
}
constexpr bool IsSplit(LoadDist d) {
    return d == LoadDist::DIST_DINTLV_B8 || d == LoadDist::DIST_DINTLV_B16 || d == LoadDist::DIST_DINTLV_B32;
}
constexpr bool IsWoven(StoreDist d) {
    return d == StoreDist::DIST_INTLV_B8 || d == StoreDist::DIST_INTLV_B16 || d == StoreDist::DIST_INTLV_B32;
}
// A packing store takes registers of the wide element or of the part that it keeps.
constexpr bool Fits(StoreDist d, uint32_t bytes) {
    const uint32_t w = WidthOf(d);
    switch (d) {
        case StoreDist::DIST_PACK_B16:
        case StoreDist::DIST_PACK_B32:
        case StoreDist::DIST_PACK_B64: return bytes == w || bytes == w / 2;
        case StoreDist::DIST_PACK4_B32: return bytes == 4 || bytes == 1;
        default: return bytes == w || (w == 0 && d == StoreDist::DIST_NORM);
    }
}
template <typename T, typename R, LoadDist dist, bool two> constexpr bool CheckLoad() {
    static_assert(IsReg<R>::value, "LoadAlign: the destination is a RegTensor");
    static_assert(RegArg<T, R>::ok, "LoadAlign: the address and the register have one element type");
    constexpr uint32_t bytes = sizeof(typename R::ActualT);
    static_assert(IsSplit(dist) == two, "LoadAlign: DIST_DINTLV_* loads two registers, the others load one");
    static_assert(WidthOf(dist) == 0 || WidthOf(dist) == bytes, "LoadAlign: the distribution is for another element width");
    static_assert(bytes != 8 || dist == LoadDist::DIST_NORM, "LoadAlign: 64-bit elements have DIST_NORM only");
    return true;
}
template <typename T, typename R, StoreDist dist, bool two> constexpr bool CheckStore() {
    static_assert(IsReg<R>::value, "StoreAlign: the source is a RegTensor");
    static_assert(RegArg<T, R>::ok, "StoreAlign: the address and the register have one element type");
    static_assert(IsWoven(dist) == two, "StoreAlign: DIST_INTLV_* stores two registers, the others store one");
    static_assert(Fits(dist, sizeof(typename R::ActualT)), "StoreAlign: the distribution is for another element width");
    static_assert(R::REG_NUM == 1 || dist == StoreDist::DIST_NORM, "StoreAlign: pairs of registers have DIST_NORM only");
    return true;
}
template <typename T> inline T* Moved(T* at, const AscendC::Reg::AddrReg& offset) {
    return reinterpret_cast<T*>(reinterpret_cast<uint64_t>(at) + offset.offset);
}

}  // namespace autofuse_twin

namespace AscendC {
namespace Reg {

// ---- masks ----

template <typename T, MaskPattern mode = MaskPattern::ALL, const RegTrait& regTrait = RegTraitNumOne>
__simd_callee__ inline MaskReg CreateMask(AUTOFUSE_TWIN_REG_HERE_ONLY) {
    MaskReg out;
    ::autofuse_twin::RegMaskPattern(out.Ref(), static_cast<int>(mode), RegTensor<T, regTrait>::kLanes);
    return out;
}
// Enables the first scalarValue lanes, and subtracts the lanes of a register from scalarValue.
template <typename T, const RegTrait& regTrait = RegTraitNumOne>
__simd_callee__ inline MaskReg UpdateMask(uint32_t& scalarValue AUTOFUSE_TWIN_REG_HERE) {
    MaskReg out;
    scalarValue = ::autofuse_twin::RegMaskFirst(out.Ref(), scalarValue, RegTensor<T, regTrait>::kLanes);
    return out;
}

#define AUTOFUSE_TWIN_MASK_LOGIC(Name)                                                                                 \
    __simd_callee__ inline void Name(MaskReg& dst, MaskReg& src0, MaskReg& src1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) { \
        const auto b = src1.Ref();                                                                                     \
        const auto m = mask.Ref();                                                                                     \
        ::autofuse_twin::RegMaskLogic(::autofuse_twin::MaskOp::k##Name, dst.Ref(), src0.Ref(), &b, &m);                \
    }
AUTOFUSE_TWIN_MASK_LOGIC(And)
AUTOFUSE_TWIN_MASK_LOGIC(Or)
AUTOFUSE_TWIN_MASK_LOGIC(Xor)
// Selects src0 where the mask is on, else src1.
AUTOFUSE_TWIN_MASK_LOGIC(Select)
#undef AUTOFUSE_TWIN_MASK_LOGIC
__simd_callee__ inline void Not(MaskReg& dst, MaskReg& src, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    const auto m = mask.Ref();
    ::autofuse_twin::RegMaskLogic(::autofuse_twin::MaskOp::kNot, dst.Ref(), src.Ref(), nullptr, &m);
}
__simd_callee__ inline void Move(MaskReg& dst, MaskReg& src, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    const auto m = mask.Ref();
    ::autofuse_twin::RegMaskLogic(::autofuse_twin::MaskOp::kMove, dst.Ref(), src.Ref(), nullptr, &m);
}
__simd_callee__ inline void Move(MaskReg& dst, MaskReg& src AUTOFUSE_TWIN_REG_HERE) {
    ::autofuse_twin::RegMaskLogic(::autofuse_twin::MaskOp::kMove, dst.Ref(), src.Ref(), nullptr, nullptr);
}
template <typename T>
__simd_callee__ inline void Interleave(MaskReg& dst0, MaskReg& dst1, MaskReg& src0, MaskReg& src1 AUTOFUSE_TWIN_REG_HERE) {
    ::autofuse_twin::RegMaskWeave(false, dst0.Ref(), dst1.Ref(), src0.Ref(), src1.Ref(), sizeof(T));
}
template <typename T>
__simd_callee__ inline void DeInterleave(MaskReg& dst0, MaskReg& dst1, MaskReg& src0,
                                         MaskReg& src1 AUTOFUSE_TWIN_REG_HERE) {
    ::autofuse_twin::RegMaskWeave(true, dst0.Ref(), dst1.Ref(), src0.Ref(), src1.Ref(), sizeof(T));
}
template <HighLowPart part = HighLowPart::LOWEST>
__simd_callee__ inline void Pack(MaskReg& dst, MaskReg& src AUTOFUSE_TWIN_REG_HERE) {
    ::autofuse_twin::RegMaskPack(true, part == HighLowPart::HIGHEST, dst.Ref(), src.Ref());
}
template <HighLowPart part = HighLowPart::LOWEST>
__simd_callee__ inline void UnPack(MaskReg& dst, MaskReg& src AUTOFUSE_TWIN_REG_HERE) {
    ::autofuse_twin::RegMaskPack(false, part == HighLowPart::HIGHEST, dst.Ref(), src.Ref());
}

template <typename T, MaskDist dist = MaskDist::DIST_NORM>
__simd_callee__ inline void LoadAlign(MaskReg& mask, __ubuf__ T* srcAddr AUTOFUSE_TWIN_REG_HERE) {
    ::autofuse_twin::RegMaskLoad(mask.Ref(), srcAddr, static_cast<int>(dist));
}
template <typename T, MaskDist dist = MaskDist::DIST_NORM>
__simd_callee__ inline void LoadAlign(MaskReg& mask, __ubuf__ T* srcAddr, AddrReg offset AUTOFUSE_TWIN_REG_HERE) {
    ::autofuse_twin::RegMaskLoad(mask.Ref(), ::autofuse_twin::Moved(srcAddr, offset), static_cast<int>(dist));
}
template <typename T, PostLiteral postMode, MaskDist dist = MaskDist::DIST_NORM>
__simd_callee__ inline void LoadAlign(MaskReg& mask, __ubuf__ T*& srcAddr, int32_t offset AUTOFUSE_TWIN_REG_HERE) {
    const bool update = postMode == PostLiteral::POST_MODE_UPDATE;
    ::autofuse_twin::RegMaskLoad(mask.Ref(), update ? srcAddr : srcAddr + offset, static_cast<int>(dist));
    srcAddr += update ? offset : 0;
}
template <typename T, MaskDist dist = MaskDist::DIST_NORM>
__simd_callee__ inline void StoreAlign(__ubuf__ T* dstAddr, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(dist != MaskDist::DIST_DS, "StoreAlign: masks have DIST_NORM and DIST_PACK");
    ::autofuse_twin::RegMaskStore(dstAddr, mask.Ref(), static_cast<int>(dist));
}
template <typename T, MaskDist dist = MaskDist::DIST_NORM>
__simd_callee__ inline void StoreAlign(__ubuf__ T* dstAddr, MaskReg& mask, AddrReg offset AUTOFUSE_TWIN_REG_HERE) {
    static_assert(dist != MaskDist::DIST_DS, "StoreAlign: masks have DIST_NORM and DIST_PACK");
    ::autofuse_twin::RegMaskStore(::autofuse_twin::Moved(dstAddr, offset), mask.Ref(), static_cast<int>(dist));
}
template <typename T, PostLiteral postMode, MaskDist dist = MaskDist::DIST_NORM>
__simd_callee__ inline void StoreAlign(__ubuf__ T*& dstAddr, MaskReg& mask, int32_t offset AUTOFUSE_TWIN_REG_HERE) {
    static_assert(dist != MaskDist::DIST_DS, "StoreAlign: masks have DIST_NORM and DIST_PACK");
    const bool update = postMode == PostLiteral::POST_MODE_UPDATE;
    ::autofuse_twin::RegMaskStore(update ? dstAddr : dstAddr + offset, mask.Ref(), static_cast<int>(dist));
    dstAddr += update ? offset : 0;
}

// ---- address registers ----

template <typename T> __simd_callee__ inline AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0) {
    return {static_cast<uint32_t>(index0 * stride0 * sizeof(T))};
}
template <typename T>
__simd_callee__ inline AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1) {
    return {static_cast<uint32_t>((index0 * stride0 + index1 * stride1) * sizeof(T))};
}
template <typename T>
__simd_callee__ inline AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1,
                                             uint16_t index2, uint32_t stride2) {
    return {static_cast<uint32_t>((index0 * stride0 + index1 * stride1 + index2 * stride2) * sizeof(T))};
}
template <typename T>
__simd_callee__ inline AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1, uint32_t stride1,
                                             uint16_t index2, uint32_t stride2, uint16_t index3, uint32_t stride3) {
    return {static_cast<uint32_t>((index0 * stride0 + index1 * stride1 + index2 * stride2 + index3 * stride3) * sizeof(T))};
}

// ---- aligned loads ----

template <typename T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, typename U>
__simd_callee__ inline void LoadAlign(U& dstReg, __ubuf__ T* srcAddr AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckLoad<T, U, dist, false>());
    ::autofuse_twin::RegLoad(dstReg.Ref(), nullptr, srcAddr, static_cast<int>(dist));
}
// Loads from srcAddr, then advances it, or with POST_MODE_NORMAL loads from srcAddr plus the stride.
template <typename T = DefaultType, PostLiteral postMode, LoadDist dist = LoadDist::DIST_NORM, typename U>
__simd_callee__ inline void LoadAlign(U& dstReg, __ubuf__ T*& srcAddr, int32_t postUpdateStride AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckLoad<T, U, dist, false>());
    const bool update = postMode == PostLiteral::POST_MODE_UPDATE;
    ::autofuse_twin::RegLoad(dstReg.Ref(), nullptr, update ? srcAddr : srcAddr + postUpdateStride, static_cast<int>(dist));
    srcAddr += update ? postUpdateStride : 0;
}
template <typename T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, typename U>
__simd_callee__ inline void LoadAlign(U& dstReg, __ubuf__ T* srcAddr, AddrReg offset AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckLoad<T, U, dist, false>());
    static_assert(U::REG_NUM == 1, "LoadAlign: pairs of registers have no form with AddrReg");
    ::autofuse_twin::RegLoad(dstReg.Ref(), nullptr, ::autofuse_twin::Moved(srcAddr, offset), static_cast<int>(dist));
}
template <typename T = DefaultType, LoadDist dist, typename U>
__simd_callee__ inline void LoadAlign(U& dstReg0, U& dstReg1, __ubuf__ T* srcAddr AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckLoad<T, U, dist, true>());
    const auto second = dstReg1.Ref();
    ::autofuse_twin::RegLoad(dstReg0.Ref(), &second, srcAddr, static_cast<int>(dist));
}
template <typename T = DefaultType, PostLiteral postMode, LoadDist dist, typename U>
__simd_callee__ inline void LoadAlign(U& dstReg0, U& dstReg1, __ubuf__ T*& srcAddr,
                                      int32_t postUpdateStride AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckLoad<T, U, dist, true>());
    const bool update = postMode == PostLiteral::POST_MODE_UPDATE;
    const auto second = dstReg1.Ref();
    ::autofuse_twin::RegLoad(dstReg0.Ref(), &second, update ? srcAddr : srcAddr + postUpdateStride, static_cast<int>(dist));
    srcAddr += update ? postUpdateStride : 0;
}
template <typename T = DefaultType, LoadDist dist, typename U>
__simd_callee__ inline void LoadAlign(U& dstReg0, U& dstReg1, __ubuf__ T* srcAddr, AddrReg offset AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckLoad<T, U, dist, true>());
    const auto second = dstReg1.Ref();
    ::autofuse_twin::RegLoad(dstReg0.Ref(), &second, ::autofuse_twin::Moved(srcAddr, offset), static_cast<int>(dist));
}

// ---- aligned stores ----

template <typename T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, typename U>
__simd_callee__ inline void StoreAlign(__ubuf__ T* dstAddr, U& srcReg, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckStore<T, U, dist, false>());
    ::autofuse_twin::RegStore(dstAddr, srcReg.Ref(), nullptr, static_cast<int>(dist), mask.Ref());
}
template <typename T = DefaultType, PostLiteral postMode, StoreDist dist = StoreDist::DIST_NORM, typename U>
__simd_callee__ inline void StoreAlign(__ubuf__ T*& dstAddr, U& srcReg, int32_t postUpdateStride,
                                       MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckStore<T, U, dist, false>());
    const bool update = postMode == PostLiteral::POST_MODE_UPDATE;
    ::autofuse_twin::RegStore(update ? dstAddr : dstAddr + postUpdateStride, srcReg.Ref(), nullptr, static_cast<int>(dist),
                              mask.Ref());
    dstAddr += update ? postUpdateStride : 0;
}
template <typename T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, typename U>
__simd_callee__ inline void StoreAlign(__ubuf__ T* dstAddr, U& srcReg, AddrReg offset,
                                       MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckStore<T, U, dist, false>());
    static_assert(U::REG_NUM == 1, "StoreAlign: pairs of registers have no form with AddrReg");
    ::autofuse_twin::RegStore(::autofuse_twin::Moved(dstAddr, offset), srcReg.Ref(), nullptr, static_cast<int>(dist),
                              mask.Ref());
}
template <typename T = DefaultType, StoreDist dist, typename U>
__simd_callee__ inline void StoreAlign(__ubuf__ T* dstAddr, U& srcReg0, U& srcReg1, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckStore<T, U, dist, true>());
    const auto second = srcReg1.Ref();
    ::autofuse_twin::RegStore(dstAddr, srcReg0.Ref(), &second, static_cast<int>(dist), mask.Ref());
}
template <typename T = DefaultType, StoreDist dist, typename U>
__simd_callee__ inline void StoreAlign(__ubuf__ T* dstAddr, U& srcReg0, U& srcReg1, AddrReg offset,
                                       MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::CheckStore<T, U, dist, true>());
    const auto second = srcReg1.Ref();
    ::autofuse_twin::RegStore(::autofuse_twin::Moved(dstAddr, offset), srcReg0.Ref(), &second, static_cast<int>(dist),
                              mask.Ref());
}

// ---- blocks of 32 bytes, with a stride in blocks ----

#define AUTOFUSE_TWIN_REG_BLOCKS(Name)                                                                 \
    static_assert(::autofuse_twin::RegArg<T, U>::ok, Name ": one element type");                       \
    static_assert(sizeof(typename U::ActualT) <= 4, Name ": DATA_BLOCK_COPY has elements of 8, 16 and 32 bits")
template <typename T = DefaultType, DataCopyMode dataMode, typename U>
__simd_callee__ inline void LoadAlign(U& dstReg, __ubuf__ T* srcAddr, uint32_t dataBlockStride,
                                      MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    AUTOFUSE_TWIN_REG_BLOCKS("LoadAlign");
    ::autofuse_twin::RegLoadBlocks(dstReg.Ref(), srcAddr, dataBlockStride, mask.Ref());
}
template <typename T = DefaultType, DataCopyMode dataMode, PostLiteral postMode, typename U>
__simd_callee__ inline void LoadAlign(U& dstReg, __ubuf__ T*& srcAddr, uint32_t dataBlockStride, uint32_t repeatStride,
                                      MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    AUTOFUSE_TWIN_REG_BLOCKS("LoadAlign");
    static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "LoadAlign: the form with repeatStride moves the address on");
    ::autofuse_twin::RegLoadBlocks(dstReg.Ref(), srcAddr, dataBlockStride, mask.Ref());
    srcAddr += repeatStride * (32 / sizeof(T));
}
template <typename T = DefaultType, DataCopyMode dataMode, typename U>
__simd_callee__ inline void StoreAlign(__ubuf__ T* dstAddr, U& srcReg, uint32_t dataBlockStride,
                                       MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    AUTOFUSE_TWIN_REG_BLOCKS("StoreAlign");
    ::autofuse_twin::RegStoreBlocks(dstAddr, srcReg.Ref(), dataBlockStride, mask.Ref());
}
template <typename T = DefaultType, DataCopyMode dataMode, PostLiteral postMode, typename U>
__simd_callee__ inline void StoreAlign(__ubuf__ T*& dstAddr, U& srcReg, uint32_t dataBlockStride, uint32_t repeatStride,
                                       MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    AUTOFUSE_TWIN_REG_BLOCKS("StoreAlign");
    static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "StoreAlign: the form with repeatStride moves the address on");
    ::autofuse_twin::RegStoreBlocks(dstAddr, srcReg.Ref(), dataBlockStride, mask.Ref());
    dstAddr += repeatStride * (32 / sizeof(T));
}
#undef AUTOFUSE_TWIN_REG_BLOCKS

// ---- any alignment ----

template <typename T> __simd_callee__ inline void LoadUnAlignPre(UnalignRegForLoad& ureg, __ubuf__ T*) { ureg.ready = true; }
template <typename T> __simd_callee__ inline void LoadUnAlignPre(UnalignRegForLoad& ureg, __ubuf__ T*, AddrReg&) {
    ureg.ready = true;
}
template <typename T = DefaultType, typename U>
__simd_callee__ inline void LoadUnAlign(U& dstReg, UnalignRegForLoad& ureg, __ubuf__ T* srcAddr AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok && U::REG_NUM == 1, "LoadUnAlign: one element type, one register");
    ::autofuse_twin::RegLoadAny(ureg.ready ? "LoadUnAlign" : nullptr, dstReg.Ref(), srcAddr, false);
}
template <typename T = DefaultType, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE, typename U>
__simd_callee__ inline void LoadUnAlign(U& dstReg, UnalignRegForLoad& ureg, __ubuf__ T*& srcAddr,
                                        uint32_t postUpdateStride AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok, "LoadUnAlign: one element type");
    static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "LoadUnAlign: POST_MODE_NORMAL is not there");
    ::autofuse_twin::RegLoadAny(ureg.ready ? "LoadUnAlign" : nullptr, dstReg.Ref(), srcAddr, false);
    srcAddr += postUpdateStride;
}
template <typename T = DefaultType, typename U>
__simd_callee__ inline void Load(U& dstReg, __ubuf__ T* srcAddr AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok && U::REG_NUM == 1, "Load: one element type, one register");
    ::autofuse_twin::RegLoadAny("Load", dstReg.Ref(), srcAddr, true);
}
template <typename T = DefaultType, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE, typename U>
__simd_callee__ inline void StoreUnAlign(__ubuf__ T*& dstAddr, U& srcReg, UnalignRegForStore& ureg,
                                         uint32_t postUpdateStride AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok, "StoreUnAlign: one element type");
    static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "StoreUnAlign: POST_MODE_NORMAL is not there");
    ::autofuse_twin::RegStoreStream(ureg.Ref(), dstAddr, srcReg.Ref(), postUpdateStride);
    dstAddr += postUpdateStride;
}
template <typename T, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE>
__simd_callee__ inline void StoreUnAlignPost(__ubuf__ T*& dstAddr, UnalignRegForStore& ureg,
                                             int32_t postUpdateStride AUTOFUSE_TWIN_REG_HERE) {
    static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "StoreUnAlignPost: POST_MODE_NORMAL is not there");
    ::autofuse_twin::RegStoreRest(ureg.Ref(), dstAddr);
    dstAddr += postUpdateStride;
}
template <typename T = DefaultType, typename U>
__simd_callee__ inline void Store(__ubuf__ T* dstAddr, U& srcReg AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok, "Store: one element type");
    ::autofuse_twin::RegStoreAny(dstAddr, srcReg.Ref(), U::kLanes);
}
template <typename T = DefaultType, typename U>
__simd_callee__ inline void Store(__ubuf__ T* dstAddr, U& srcReg, uint32_t count AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok, "Store: one element type");
    ::autofuse_twin::RegStoreAny(dstAddr, srcReg.Ref(), count);
}

// ---- by index ----

// Elements base[index]; bytes are widened to 16 bits.
template <typename T0 = DefaultType, typename T1, typename T2 = DefaultType, typename T3, typename T4>
__simd_callee__ inline void Gather(T3& dstReg, __ubuf__ T1* baseAddr, T4& index, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T0, T3>::ok && ::autofuse_twin::RegArg<T2, T4>::ok,
                  "Gather: the types of the registers");
    using D = typename T3::ActualT;
    using I = typename T4::ActualT;
    static_assert((sizeof(D) == 2 && ::autofuse_twin::Same<I, uint16_t>::value &&
                   (::autofuse_twin::Same<D, T1>::value ||
                    (::autofuse_twin::Same<D, int16_t>::value && ::autofuse_twin::Same<T1, int8_t>::value) ||
                    (::autofuse_twin::Same<D, uint16_t>::value && ::autofuse_twin::Same<T1, uint8_t>::value))) ||
                      (sizeof(D) == 4 && ::autofuse_twin::Same<I, uint32_t>::value && ::autofuse_twin::Same<D, T1>::value) ||
                      (sizeof(D) == 8 && ::autofuse_twin::Same<I, uint64_t>::value && ::autofuse_twin::Same<D, T1>::value),
                  "Gather: 16 bits by uint16_t (bytes become 16 bits), 32 bits by uint32_t, 64 bits by uint64_t");
    ::autofuse_twin::RegGather(dstReg.Ref(), baseAddr, sizeof(T1), index.Ref(), mask.Ref());
}
// Eight blocks of 32 bytes at byte offsets.
template <typename T = DefaultType, typename U, typename S>
__simd_callee__ inline void GatherB(U& dstReg, __ubuf__ T* baseAddr, S& index, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, U>::ok && U::REG_NUM == 1, "GatherB: one element type, one register");
    static_assert(::autofuse_twin::Same<typename S::ActualT, uint32_t>::value, "GatherB: offsets are uint32_t");
    ::autofuse_twin::RegGatherBlocks(dstReg.Ref(), baseAddr, index.Ref(), mask.Ref());
}
template <typename T = DefaultType, typename U = DefaultType, typename S, typename V>
__simd_callee__ inline void Scatter(__ubuf__ T* baseAddr, S& srcReg, V& index, MaskReg& mask AUTOFUSE_TWIN_REG_HERE) {
    static_assert(::autofuse_twin::RegArg<T, S>::ok && ::autofuse_twin::RegArg<U, V>::ok,
                  "Scatter: the types of the registers");
    constexpr uint32_t bytes = sizeof(typename S::ActualT);
    using I = typename V::ActualT;
    static_assert((bytes <= 2 && ::autofuse_twin::Same<I, uint16_t>::value) ||
                      (bytes == 4 && ::autofuse_twin::Same<I, uint32_t>::value) ||
                      (bytes == 8 && ::autofuse_twin::Same<I, uint64_t>::value),
                  "Scatter: 8 and 16 bits by uint16_t, 32 bits by uint32_t, 64 bits by uint64_t");
    ::autofuse_twin::RegScatter(baseAddr, srcReg.Ref(), index.Ref(), mask.Ref());
}

// ---- order inside a vector function ----

template <MemType src, MemType dst> __simd_callee__ inline void LocalMemBar(AUTOFUSE_TWIN_REG_HERE_ONLY) {
    constexpr MemType vst = MemType::VEC_STORE, vld = MemType::VEC_LOAD, sst = MemType::SCALAR_STORE,
                      sld = MemType::SCALAR_LOAD, valls = MemType::VEC_ALL, sall = MemType::SCALAR_ALL;
    constexpr bool legal = (src == vst && (dst == vld || dst == vst || dst == sld || dst == sst)) ||
                           (src == vld && (dst == vst || dst == sst)) || (src == sst && (dst == vld || dst == vst)) ||
                           (src == sld && dst == vst) || (src == valls && (dst == valls || dst == sall)) ||
                           (src == sall && dst == valls);
    static_assert(legal, "LocalMemBar: no barrier between these two kinds of accesses");
    ::autofuse_twin::RegBarrier(static_cast<int>(src), static_cast<int>(dst));
}

}  // namespace Reg
}  // namespace AscendC

#endif
