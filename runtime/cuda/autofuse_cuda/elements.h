// The formulas of the twin as device functions, and elements of all types.
#ifndef AUTOFUSE_CUDA_ELEMENTS_H
#define AUTOFUSE_CUDA_ELEMENTS_H

#include <limits>
#include <type_traits>

namespace autofuse_cuda {

#define AUTOFUSE_FORMULA __device__ __forceinline__
#include "autofuse_twin/formulas/bits.h"

#include "autofuse_twin/formulas/math.h"

#include "autofuse_twin/formulas/cast.h"
#include "autofuse_twin/formulas/operations.h"
#undef AUTOFUSE_FORMULA

template <typename A, typename B> constexpr bool kSame = std::is_same<A, B>::value;
// The type in which a float formula computes: operands are widened, and results rounded once per operation.
template <typename T> constexpr bool kFloat = kSame<T, float> || kSame<T, half> || kSame<T, bfloat16_t>;

// An unsigned word of so many bytes.
template <uint32_t size> struct WordOf { using Type = uint8_t; };
template <> struct WordOf<2> { using Type = uint16_t; };
template <> struct WordOf<4> { using Type = uint32_t; };
template <> struct WordOf<8> { using Type = uint64_t; };

template <typename T> __device__ __forceinline__ T* At(uint32_t off) { return reinterpret_cast<T*>(ub + off); }

template <typename T> __device__ __forceinline__ float Wide(T v) {
    if constexpr (kSame<T, half>) {
        return HalfToFloat1(v.Bits());
    } else if constexpr (kSame<T, bfloat16_t>) {
        return BitCast<float>(static_cast<uint32_t>(v.Bits()) << 16);
    } else {
        return static_cast<float>(v);
    }
}
template <typename T> __device__ __forceinline__ T Narrow(float v) {
    if constexpr (kSame<T, half>) {
        return half::FromBits(FloatToHalf1(v));
    } else if constexpr (kSame<T, bfloat16_t>) {
        return bfloat16_t::FromBits(FloatToBf16Even(v));
    } else {
        return v;
    }
}

// Mask, repeats and strides (32-byte blocks) of a call.
struct Rep {
    uint64_t lo, hi;
    uint32_t repeat;
    uint32_t dst_blk, a_blk, b_blk;
    uint32_t dst_rep, a_rep, b_rep;
};
struct Mask {
    uint64_t lo, hi;
};
__device__ __forceinline__ Mask MaskOf(uint64_t lanes) {
    const uint64_t all = ~uint64_t{0};
    return {lanes >= 64 ? all : (uint64_t{1} << lanes) - 1,
            lanes >= 128 ? all : lanes > 64 ? (uint64_t{1} << (lanes - 64)) - 1 : 0};
}
__device__ __forceinline__ Mask MaskOf(const uint64_t* bits) { return {bits[0], bits[1]}; }
__device__ __forceinline__ Rep RepOf(const Mask& m, uint32_t repeat, const AscendC::UnaryRepeatParams& p) {
    return {m.lo, m.hi, repeat, p.dstBlkStride, p.srcBlkStride, 1, p.dstRepStride, p.srcRepStride, 8};
}
__device__ __forceinline__ Rep RepOf(const Mask& m, uint32_t repeat, const AscendC::BinaryRepeatParams& p) {
    return {m.lo, m.hi, repeat, p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, p.dstRepStride, p.src0RepStride,
            p.src1RepStride};
}
__device__ __forceinline__ bool Has(const Rep& r, uint32_t lane) {
    return ((lane < 64 ? r.lo : r.hi) >> (lane & 63u) & 1u) != 0;
}
// Byte offset of a lane of a repeat, for elements of `size` bytes.
template <uint32_t size> __device__ __forceinline__ uint32_t Place(uint32_t repeat, uint32_t lane, uint32_t blk, uint32_t rep) {
    constexpr uint32_t per = 32 / size;
    return (repeat * rep + lane / per * blk) * 32 + lane % per * size;
}

// Index of the elements of a thread of V. It varies from call to call, so that a missing barrier between two calls on
// the same elements shows.
template <uint32_t kCall> __device__ __forceinline__ uint32_t Rank() {
    const uint32_t moved = threadIdx.x + 32 * (kCall % kVWarps);
    return moved < kV ? moved : moved - kV;
}

}  // namespace autofuse_cuda

#endif
