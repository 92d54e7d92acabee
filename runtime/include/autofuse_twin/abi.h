// Boundary between the inline templates of the kernel API and the precompiled twin library.
//
// The templates only check element types and pack their arguments; every loop, every run-time check and every
// message lives in libautofuse_twin. Nothing here is meant for kernel authors.
#ifndef AUTOFUSE_TWIN_ABI_H
#define AUTOFUSE_TWIN_ABI_H

#include "enums.h"
#include "site.h"

namespace autofuse_twin {

// A range of UB: `addr` moves with operator[], [lo, hi) stays the owning buffer. `size` counts elements.
//
// All members have 8 bytes, so that a copy reads them back with the width of the store: a read that spans two stores
// cannot be forwarded. A profile of copies of smaller members showed a stall here; the cause is inferred from it.
struct UbView {
    uint8_t* addr = nullptr;
    uint8_t* lo = nullptr;
    uint8_t* hi = nullptr;
    uint64_t size = 0;
    uint64_t age = 0;  // goes on when a queue block is freed, and with each new layout of UB
    uint64_t pos = 0;
};

// A place in GM with the bounds of the registered region; lo == nullptr means "no regions registered, unchecked".
struct GmView {
    uint8_t* addr = nullptr;
    uint8_t* lo = nullptr;
    uint8_t* hi = nullptr;
    uint64_t size = 0;
    uint32_t region = 0;
    bool writable = true;
    bool cached = true;  // false: the kernel asks L2 not to keep it
};

enum class Dt : uint8_t { U8, I8, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64, kCount };

template <typename T> struct DtOf;
template <> struct DtOf<uint8_t> { static constexpr Dt value = Dt::U8; };
template <> struct DtOf<int8_t> { static constexpr Dt value = Dt::I8; };
template <> struct DtOf<bool> { static constexpr Dt value = Dt::U8; };
template <> struct DtOf<uint16_t> { static constexpr Dt value = Dt::U16; };
template <> struct DtOf<int16_t> { static constexpr Dt value = Dt::I16; };
template <> struct DtOf<half> { static constexpr Dt value = Dt::F16; };
template <> struct DtOf<bfloat16_t> { static constexpr Dt value = Dt::BF16; };
template <> struct DtOf<uint32_t> { static constexpr Dt value = Dt::U32; };
template <> struct DtOf<int32_t> { static constexpr Dt value = Dt::I32; };
template <> struct DtOf<float> { static constexpr Dt value = Dt::F32; };
template <> struct DtOf<uint64_t> { static constexpr Dt value = Dt::U64; };
template <> struct DtOf<int64_t> { static constexpr Dt value = Dt::I64; };
template <> struct DtOf<double> { static constexpr Dt value = Dt::F64; };

template <typename A, typename B> struct Same { static constexpr bool value = false; };
template <typename A> struct Same<A, A> { static constexpr bool value = true; };
template <typename T, typename... List> constexpr bool kOneOf = (Same<T, List>::value || ...);

// clang-format off
#define AUTOFUSE_TWIN_OPS(X) \
    X(Abs) X(Exp) X(Ln) X(Sqrt) X(Rsqrt) X(Reciprocal) X(Relu) X(Not) \
    X(Add) X(Sub) X(Mul) X(Div) X(Max) X(Min) X(And) X(Or) X(AddRelu) X(SubRelu) \
    X(Adds) X(Muls) X(Maxs) X(Mins) X(LeakyRelu) X(ShiftLeft) X(ShiftRight) X(ShiftRightRound) \
    X(Axpy) X(MulAddDst) X(FusedMulAdd) X(FusedMulAddRelu) X(Cast) X(Copy) X(Duplicate) \
    X(Sigmoid) X(Tanh) X(Erf) X(Sin) X(Cos) X(Power) X(PowerTensorScalar) X(PowerScalarTensor) X(Silu) X(Gelu) \
    X(CreateVecIndex) X(Brcb) X(Compare) X(CompareScalar) X(Select) \
    X(Neg) X(Xor) X(AbsSub) X(ExpSub) X(Log2) X(Log10) X(Prelu) X(RegMax) X(RegMin) X(RegLeakyRelu) \
    X(RegMulAddDst) X(RegMulDstAdd) X(ShiftLeftBy) X(ShiftRightBy)
// clang-format on
#define AUTOFUSE_TWIN_OP_ENUM(Name) Name,
enum class Op : uint8_t { AUTOFUSE_TWIN_OPS(AUTOFUSE_TWIN_OP_ENUM) kCount };
#undef AUTOFUSE_TWIN_OP_ENUM

// Mask, repeat count and strides (32-byte blocks) of a high-dimensional vector call.
struct Rep {
    enum Kind : uint8_t { kCount, kBits, kRegister };
    uint64_t lo, hi;
    Kind kind;
    uint32_t repeat;
    uint32_t dstBlk, src0Blk, src1Blk;
    uint32_t dstRep, src0Rep, src1Rep;
};

template <typename T>
inline uint64_t Bits(const T& value) {
    uint64_t out = 0;
    __builtin_memcpy(&out, &value, sizeof(T));
    return out;
}

// One element-wise call. rep == nullptr: the first `count` elements; otherwise `count` is ignored.
// src0 / src1 may be null for operations that do not read them; imm holds the bits of the scalar (or RoundMode).
struct VecCall {
    Op op;
    Dt dst_dt, src_dt;
    const UbView* dst;
    const UbView* src0;
    const UbView* src1;
    uint64_t imm;
    int64_t count;
    const Rep* rep;
};
void Elementwise(const VecCall& call);
// Compare writes one bit per element; a null src1 compares with the scalar imm. A null dst writes the mask register.
void Compare(const VecCall& call, int mode);
// A null src1 selects against the scalar imm. A null mask takes the compare-mask register.
void Select(const VecCall& call, const UbView* mask, int mode);
// Advanced functions: dst/src/tmp must not overlap, tmp at least the documented minimum.
void Advanced(const VecCall& call, const UbView* tmp);
void VecIndex(Dt dt, const UbView& dst, uint64_t first, int64_t count, const Rep* rep);
void BrcbBlocks(uint32_t elem, const UbView& dst, const UbView& src, uint32_t repeat, uint32_t dstBlk, uint32_t dstRep);
void CmpMaskTransfer(const UbView& view, bool to_register);

// Reductions. Strides as the caller wrote them: dst_rep counts results of a repeat, src_blk and src_rep 32-byte blocks.
enum class Fold : uint8_t { kSum, kMax, kMin };
struct ReduceMask {
    uint64_t lo, hi;
    Rep::Kind kind;
};
struct ReduceCall {
    const char* api;
    Fold fold;
    Dt dt;
    const UbView* dst;
    const UbView* src;
    ReduceMask mask;
    int32_t repeat, dst_rep, src_blk, src_rep;
};
void ReduceWhole(const ReduceCall& call, int order);  // order: a ReduceOrder
void ReduceBlocks(const ReduceCall& call);
void ReducePairs(const ReduceCall& call);
void ReduceCount(const ReduceCall& call, const UbView& tmp, int64_t count, bool index);

// Element moves inside UB.
void GatherElements(uint32_t elem, const UbView& dst, const UbView& src, const UbView& offset, uint32_t base,
                    uint64_t count, const Rep* rep);
struct GatherMaskSteps {
    uint32_t src_blk, repeat, src_rep, pattern_rep;
};
// A null pattern means the built-in one of this number. Returns the number of selected elements.
uint64_t GatherByMask(uint32_t elem, const UbView& dst, const UbView& src, const UbView* pattern, uint32_t number,
                      bool counter, uint32_t mask, const GatherMaskSteps& steps);
void TransposeBlocks(const char* api, uint32_t elem, const UbView* dst, const UbView* src, uint32_t repeat,
                     uint32_t dst_rep, uint32_t src_rep);
// The address of a tensor was taken: this closes the open vector function.
void RegLeave();
// The buffer at an address that a kernel obtained with GetPhyAddr.
UbView UbViewAt(const char* api, uint64_t address);
void Progression(const char* api, Dt dt, const UbView& dst, uint64_t first, uint64_t step, int64_t count);

void MaskSet(uint64_t hi, uint64_t lo, uint32_t elem);
void MaskModeSet(bool counter);
void MaskReset();

// Data movement. Strides are gaps in bytes; the library computes the pitches of padded slots.
void CopyGmToUb(const UbView& dst, const GmView& src, uint32_t elem, uint64_t count);
void CopyUbToGm(const GmView& dst, const UbView& src, Dt dt, uint64_t count);
void CopyUbToUb(const UbView& dst, const UbView& src, uint32_t elem, uint64_t count);
void CopyGmToUbBlocks(const UbView& dst, const GmView& src, uint32_t elem, const AscendC::DataCopyParams& p);
void CopyUbToGmBlocks(const GmView& dst, const UbView& src, Dt dt, const AscendC::DataCopyParams& p);
void CopyUbToUbBlocks(const UbView& dst, const UbView& src, const AscendC::DataCopyParams& p);
struct PadSpec {
    bool is_pad;
    uint32_t left, right;  // elements
    uint64_t value;
};
void PadGmToUb(const UbView& dst, const GmView& src, uint32_t elem, const AscendC::DataCopyExtParams& p, const PadSpec& pad);
void PadUbToGm(const GmView& dst, const UbView& src, Dt dt, const AscendC::DataCopyExtParams& p);
// The loops of a multi-dimensional copy, the innermost first: strides in elements, and paddings, which must be 0.
struct DimLoops {
    uint32_t dims;
    const uint64_t* src_stride;
    const uint32_t* dst_stride;
    const uint32_t* size;
    const uint8_t* left;
    const uint8_t* right;
};
void DimsGmToUb(const UbView& dst, const GmView& src, uint32_t elem, const DimLoops& loops);
void DimsClean();
void AtomicSet(int kind, Dt dt);  // 0 none, 1 add, 2 max, 3 min

void GmBind(GmView& view, uint32_t elem);
// Scalar accesses of checked mode, before the access. The library does the store itself, and may delay it.
void UbScalar(const UbView& view, uint64_t byte_offset, uint32_t elem, bool write);
void UbScalarStore(const UbView& view, uint64_t byte_offset, uint32_t elem, uint64_t bits);
void GmScalar(const GmView& view, uint64_t byte_offset, uint32_t elem, bool write);
[[noreturn]] void GmScalarFail(const GmView& view, uint64_t byte_offset, uint32_t elem, bool write);
[[noreturn]] void UbScalarFail(const UbView& view, uint64_t byte_offset, uint32_t elem, bool write);
// An index in a tensor is out of bounds of its dimension.
[[noreturn]] void IndexFail(int64_t index, int64_t extent);

void PipeConstruct(void* pipe);
void PipeDestroy(void* pipe);
void PipeReset(void* pipe, bool all);
void* PipePointer();
int PipeAddQueue(uint8_t src, uint8_t dst, int32_t depth, uint32_t num, uint64_t len);
UbView PipeAddBuf(uint8_t pos, uint64_t len);
int EventAlloc(uint8_t event, bool reserve);
void EventRelease(uint8_t event, int id);

// `link`: the pipes of an EnQue/DeQue pair with explicit positions; otherwise those of the queue.
enum class Link : uint8_t { kQueue, kMte2V, kVMte3, kMte2Mte3 };
UbView QueueAlloc(int que, uint32_t elem);
void QueueEnQue(int que, const UbView& view, Link link);
UbView QueueDeQue(int que, uint32_t elem, Link link);
void QueueFree(int que, const UbView& view);
int QueueCount(int que);
bool QueueVacant(int que);
bool QueueIdle(int que);
UbView BufGet(const UbView& buf, uint64_t offset, uint64_t bytes, uint32_t elem);

void FlagSet(uint8_t event, int id);
void FlagWait(uint8_t event, int id);
void BarrierOf(int pipe);
void SyncAllCores();
void SyncAllSoft(const GmView& gm, const UbView& ub, int32_t used_cores);
int64_t BlockIdx();
int64_t BlockNum();
uint64_t TilingKey();
void TaskType(int type);

}  // namespace autofuse_twin

#endif
