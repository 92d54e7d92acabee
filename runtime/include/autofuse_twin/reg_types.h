// Registers of Ascend 950: vector, mask, address and unaligned registers, and the markers of vector functions.
//
// A register is 256 bytes. The twin computes on the bytes inside the object; in checked mode it records every operation
// of a vector function instead, so that the accesses to UB can execute in another legal order.
// Source: Ascend C public documentation of Ascend 950.
#ifndef AUTOFUSE_TWIN_REG_TYPES_H
#define AUTOFUSE_TWIN_REG_TYPES_H

#include "reduce.h"

// Markers of the language. Checked mode distinguishes vector functions by the frames and callers of their operations,
// so there a vector function is never inlined and its helpers always are.
//
// With AUTOFUSE_TWIN_CALLS the compiler checks the calls of vector functions, and generates no code that runs: g++
// -fgnu-tm rejects calls from a transaction_safe function to an unsafe one, directly or indirectly. The register API
// counts as safe (transaction_pure), whatever the twin does in it; an __aicore__ function never does.
#ifdef AUTOFUSE_TWIN_CALLS
#define __simd_vf__ __attribute__((transaction_safe))
#define __simd_callee__ __attribute__((transaction_pure))
#elif defined(AUTOFUSE_TWIN_CHECKED)
#define __simd_vf__ __attribute__((noinline))
#define __simd_callee__ __attribute__((always_inline))
#else
#define __simd_vf__
#define __simd_callee__
#endif
#ifndef __no_simd_vf_fusion__
#define __no_simd_vf_fusion__
#endif

namespace autofuse_twin {

// Register operand of the library. `bytes` of data; an element takes `elem`.
struct RegSlot {
    void* cell = nullptr;  // checked mode: the value, while the vector function `owner` runs
    uint64_t owner = 0;
};
struct RegRef {
    RegSlot* slot;
    uint8_t* data;
    uint32_t elem, lanes;
    Dt dt;
};
struct MaskRef {
    RegSlot* slot;
    uint64_t* bits;  // four words: one bit per byte of a register
};
// The partial block that a stream of unaligned stores holds back.
struct UnalignRef {
    RegSlot* slot;
    uint8_t* held;  // 32 bytes
    uint8_t** at;   // its address in UB
    uint32_t* bytes;
};

void RegSiteSet(int line, const char* file, const void* frame, const void* caller);
#ifdef AUTOFUSE_TWIN_CHECKED
struct RegSite {
    explicit RegSite(int line = __builtin_LINE(), const char* file = __builtin_FILE(),
                     const void* frame = __builtin_frame_address(0), const void* caller = __builtin_return_address(0)) {
        RegSiteSet(line, file, frame, caller);
    }
};
#define AUTOFUSE_TWIN_REG_HERE , ::autofuse_twin::RegSite = ::autofuse_twin::RegSite()
#define AUTOFUSE_TWIN_REG_HERE_ONLY ::autofuse_twin::RegSite = ::autofuse_twin::RegSite()
#else
#define AUTOFUSE_TWIN_REG_HERE
#define AUTOFUSE_TWIN_REG_HERE_ONLY
#endif

// Begins and ends the vector function of asc_vf_call.
void RegCall(bool begin);
// Live unaligned registers, for loads and for stores.
void RegStream(bool load, int change);

// pattern: a MaskPattern. Lanes [0, count) for RegMaskFirst, which returns the number left over.
void RegMaskPattern(const MaskRef& dst, int pattern, uint32_t lanes);
uint32_t RegMaskFirst(const MaskRef& dst, uint32_t count, uint32_t lanes);
enum class MaskOp : uint8_t { kAnd, kOr, kXor, kNot, kMove, kSelect };
void RegMaskLogic(MaskOp op, const MaskRef& dst, const MaskRef& a, const MaskRef* b, const MaskRef* mask);
void RegMaskWeave(bool split, const MaskRef& dst0, const MaskRef& dst1, const MaskRef& a, const MaskRef& b, uint32_t elem);
void RegMaskPack(bool pack, bool high, const MaskRef& dst, const MaskRef& src);
void RegMaskLoad(const MaskRef& dst, const void* at, int dist);
void RegMaskStore(void* at, const MaskRef& src, int dist);

void RegLoad(const RegRef& dst, const RegRef* second, const void* at, int dist);
void RegLoadBlocks(const RegRef& dst, const void* at, uint32_t stride, const MaskRef& mask);
void RegLoadAny(const char* api, const RegRef& dst, const void* at, bool hidden);
void RegStore(void* at, const RegRef& src, const RegRef* second, int dist, const MaskRef& mask);
void RegStoreBlocks(void* at, const RegRef& src, uint32_t stride, const MaskRef& mask);
void RegStoreAny(void* at, const RegRef& src, uint32_t count);
void RegStoreStream(const UnalignRef& stream, void* at, const RegRef& src, uint32_t count);
void RegStoreRest(const UnalignRef& stream, void* at);
// from: bytes of an element in UB.
void RegGather(const RegRef& dst, const void* base, uint32_t from, const RegRef& index, const MaskRef& mask);
void RegGatherBlocks(const RegRef& dst, const void* base, const RegRef& index, const MaskRef& mask);
void RegScatter(void* base, const RegRef& src, const RegRef& index, const MaskRef& mask);

void RegElementwise(Op op, const char* api, const RegRef& dst, const RegRef& a, const RegRef* b, const uint64_t* scalar,
                    const MaskRef& mask, bool merge, bool flush);
void RegCompare(const MaskRef& dst, const RegRef& a, const RegRef* b, uint64_t scalar, int mode, const MaskRef& mask);
void RegSelect(const RegRef& dst, const RegRef& a, const RegRef& b, const MaskRef& mask);
void RegMove(const RegRef& dst, const RegRef& src, const MaskRef* mask, bool merge);
void RegFill(const RegRef& dst, uint64_t value, const MaskRef* mask, bool merge);
void RegFillLane(const RegRef& dst, const RegRef& src, bool last, const MaskRef& mask, bool merge);
void RegArange(const RegRef& dst, uint64_t first, bool down);
void RegCarry(const MaskRef& carry, const RegRef& dst, const RegRef& a, const RegRef& b,
              const MaskRef* carry_in, const MaskRef& mask);
void RegMull(const RegRef& low, const RegRef& high, const RegRef& a, const RegRef& b, const MaskRef& mask);
void RegExpSub(const RegRef& dst, const RegRef& a, const RegRef& b, int layout, const MaskRef& mask);
void RegMulsCast(const RegRef& dst, const RegRef& src, float scalar, int layout, const MaskRef& mask);
// can: the conversion can saturate; own: the instruction asks for it.
void RegCast(const RegRef& dst, const RegRef& src, int layout, bool can, bool own, int mode, const MaskRef& mask);
void RegTruncate(const RegRef& dst, const RegRef& src, int mode, const MaskRef& mask);
void RegWeave(bool split, const RegRef& dst0, const RegRef& dst1, const RegRef& a, const RegRef& b);
void RegPack(const RegRef& dst, const RegRef& src, bool high);
void RegUnPack(const RegRef& dst, const RegRef& src, bool high);
void RegPick(const RegRef& dst, const RegRef& src, const RegRef& index);
void RegSqueeze(const RegRef& dst, const RegRef& src, const MaskRef& mask);
void RegUnsqueeze(const RegRef& dst, const MaskRef& mask);
// group 0: all lanes; otherwise the number of lanes per result.
void RegReduce(const char* api, Fold fold, const RegRef& dst, const RegRef& src, uint32_t group, const MaskRef& mask);
// A barrier between kinds of accesses, as numbers of MemType.
void RegBarrier(int src, int dst);

}  // namespace autofuse_twin

namespace AscendC {

namespace Reg {

struct RegTrait {
    int REG_NUM = 1;
};
constexpr RegTrait RegTraitNumOne = {1};
constexpr RegTrait RegTraitNumTwo = {2};

enum class RegLayout { UNKNOWN = -1, ZERO, ONE, TWO, THREE };
enum class SatMode { UNKNOWN = -1, NO_SAT, SAT };
enum class IndexOrder { INCREASE_ORDER, DECREASE_ORDER };
enum class MaskMergeMode { UNKNOWN, MERGING, ZEROING };
enum class HighLowPart { LOWEST, HIGHEST };
enum class PostLiteral { POST_MODE_NORMAL, POST_MODE_UPDATE };
enum class MaskPattern { ALL, VL1, VL2, VL3, VL4, VL8, VL16, VL32, VL64, VL128, M3, M4, H, Q, ALLF = 15 };
enum class LoadDist {
    DIST_NORM = 0, DIST_BRC_B8, DIST_BRC_B16, DIST_BRC_B32, DIST_US_B8 = 6, DIST_US_B16, DIST_DS_B8, DIST_DS_B16,
    DIST_DINTLV_B8 = 11, DIST_DINTLV_B16, DIST_UNPACK_B8, DIST_UNPACK_B16, DIST_BLK, DIST_E2B_B16, DIST_E2B_B32,
    DIST_UNPACK_B32, DIST_DINTLV_B32, DIST_UNPACK4_B8
};
enum class StoreDist {
    DIST_NORM_B8 = 0, DIST_NORM_B16, DIST_NORM_B32, DIST_FIRST_ELEMENT_B8, DIST_FIRST_ELEMENT_B16,
    DIST_FIRST_ELEMENT_B32, DIST_PACK_B16, DIST_PACK_B32, DIST_INTLV_B8, DIST_INTLV_B16, DIST_PACK_B64, DIST_INTLV_B32,
    DIST_PACK4_B32, DIST_NORM = 16
};
enum class MaskDist { DIST_NORM, DIST_US = 1, DIST_DS = 2, DIST_PACK = 1 };
enum class MemType { VEC_STORE, VEC_LOAD, SCALAR_STORE, SCALAR_LOAD, VEC_ALL, SCALAR_ALL };
enum class DataCopyMode { DATA_BLOCK_COPY };
enum class GatherMaskMode { NO_STORE_REG };
enum class PairReduce { SUM = 0 };
using ReduceType = AscendC::ReduceType;
using AscendC::CMPMODE;
using AscendC::RoundMode;

struct DefaultType {};

struct CastTrait {
    RegLayout layoutMode = RegLayout::UNKNOWN;
    SatMode satMode = SatMode::UNKNOWN;
    MaskMergeMode mrgMode = MaskMergeMode::UNKNOWN;
    RoundMode roundMode = RoundMode::UNKNOWN;
};
constexpr CastTrait castTrait = {};

enum class ExpAlgo { INTRINSIC = 0, PRECISION_1ULP_FTZ_TRUE, PRECISION_1ULP_FTZ_FALSE };
using LnAlgo = ExpAlgo;
using LogAlgo = ExpAlgo;
using Log2Algo = ExpAlgo;
using Log10Algo = ExpAlgo;
enum class DivAlgo { INTRINSIC = 0, DIFF_COMPENSATION, PRECISION_1ULP_FTZ_TRUE, PRECISION_0ULP_FTZ_TRUE, PRECISION_0ULP_FTZ_FALSE };
enum class SqrtAlgo { INTRINSIC = 0, FAST_INVERSE, PRECISION_1ULP_FTZ_TRUE, PRECISION_0ULP_FTZ_FALSE, PRECISION_1ULP_FTZ_FALSE };
struct ExpSpecificMode {
    MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
    ExpAlgo algo = ExpAlgo::INTRINSIC;
};
using LnSpecificMode = ExpSpecificMode;
using LogSpecificMode = ExpSpecificMode;
using Log2SpecificMode = ExpSpecificMode;
using Log10SpecificMode = ExpSpecificMode;
struct DivSpecificMode {
    MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
    bool precisionMode = false;
    DivAlgo algo = DivAlgo::INTRINSIC;
};
struct SqrtSpecificMode {
    MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
    bool precisionMode = false;
    SqrtAlgo algo = SqrtAlgo::INTRINSIC;
};

// 256 bytes; with RegTraitNumTwo a pair of registers of 64-bit elements, 64 of them.
template <typename T, const RegTrait& regTrait = RegTraitNumOne>
struct RegTensor {
    static_assert(regTrait.REG_NUM == 1 || (regTrait.REG_NUM == 2 && sizeof(T) == 8),
                  "RegTensor: pairs of registers hold 64-bit elements");
    using ActualT = T;
    static constexpr RegTrait trait = regTrait;
    static constexpr int REG_NUM = regTrait.REG_NUM;
    static constexpr uint32_t kLanes = static_cast<uint32_t>(256 * regTrait.REG_NUM) / sizeof(T);

    RegTensor() {}
    ::autofuse_twin::RegRef Ref() {
        return {&slot_, data_, sizeof(T), kLanes, ::autofuse_twin::DtOf<T>::value};
    }

private:
    ::autofuse_twin::RegSlot slot_;
    alignas(16) uint8_t data_[256 * regTrait.REG_NUM];
};

struct MaskReg {
    MaskReg() {}
    ::autofuse_twin::MaskRef Ref() { return {&slot_, bits_}; }

private:
    ::autofuse_twin::RegSlot slot_;
    uint64_t bits_[4];
};

// A byte offset. Up to four loop levels.
struct AddrReg {
    uint32_t offset = 0;
};

class UnalignRegForLoad {
public:
#ifdef AUTOFUSE_TWIN_CHECKED
    UnalignRegForLoad() { ::autofuse_twin::RegStream(true, 1); }
    ~UnalignRegForLoad() { ::autofuse_twin::RegStream(true, -1); }
#else
    UnalignRegForLoad() {}
#endif
    UnalignRegForLoad(const UnalignRegForLoad&) = delete;
    UnalignRegForLoad& operator=(const UnalignRegForLoad&) = delete;

    bool ready = false;  // LoadUnAlignPre was called
};

class UnalignRegForStore {
public:
#ifdef AUTOFUSE_TWIN_CHECKED
    UnalignRegForStore() { ::autofuse_twin::RegStream(false, 1); }
    ~UnalignRegForStore() { ::autofuse_twin::RegStream(false, -1); }
#else
    UnalignRegForStore() {}
#endif
    UnalignRegForStore(const UnalignRegForStore&) = delete;
    UnalignRegForStore& operator=(const UnalignRegForStore&) = delete;
    ::autofuse_twin::UnalignRef Ref() { return {&slot_, held_, &at_, &bytes_}; }

private:
    ::autofuse_twin::RegSlot slot_;
    uint8_t held_[32] = {};
    uint8_t* at_ = nullptr;
    uint32_t bytes_ = 0;
};

}  // namespace Reg

namespace MicroAPI = Reg;

}  // namespace AscendC

namespace autofuse_twin {

// An element type of a call: DefaultType means that of the register.
template <typename T, typename R> struct RegArg {
    static constexpr bool ok = Same<T, AscendC::Reg::DefaultType>::value || Same<T, typename R::ActualT>::value;
};
template <typename R> struct IsReg {
    static constexpr bool value = false;
};
template <typename T, const AscendC::Reg::RegTrait& trait> struct IsReg<AscendC::Reg::RegTensor<T, trait>> {
    static constexpr bool value = true;
};
template <typename T> struct IsLocal {
    static constexpr bool value = false;
};
template <typename T> struct IsLocal<AscendC::LocalTensor<T>> {
    static constexpr bool value = true;
};
template <typename T> struct IsScalar {
    static constexpr bool value = kOneOf<T, bool, uint8_t, int8_t, uint16_t, int16_t, half, bfloat16_t, uint32_t, int32_t,
                                         float, uint64_t, int64_t>;
};
template <typename T> struct IsScalar<T*> {
    static constexpr bool value = IsScalar<T>::value;
};
template <typename T> struct IsScalar<const T> {
    static constexpr bool value = IsScalar<T>::value;
};
template <typename F> struct VfSignature {
    static constexpr bool ok = false;
};
template <typename... P> struct VfSignature<void (*)(P...)> {
    static constexpr bool ok = ((IsScalar<P>::value || IsLocal<P>::value) && ...);
};

}  // namespace autofuse_twin

// Calls a vector function.
template <auto function, typename... Args> inline void asc_vf_call(Args... args) {
    static_assert(::autofuse_twin::VfSignature<decltype(function)>::ok,
                  "asc_vf_call: parameters of a vector function are scalars and pointers to UB; it returns nothing");
    ::autofuse_twin::RegCall(true);
    function(args...);
    ::autofuse_twin::RegCall(false);
}

#endif
