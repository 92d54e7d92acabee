// Element-wise vector functions: the first `count` elements, or the lanes of a mask in each of several repeats.
#ifndef AUTOFUSE_CUDA_VECTOR_H
#define AUTOFUSE_CUDA_VECTOR_H

namespace autofuse_cuda {

// O is a formula of operations.h: on floats, or on integers.
template <typename O, bool floats> struct Reads {
    static constexpr bool kDst = false;
};
template <typename O> struct Reads<O, true> {
    static constexpr bool kDst = O::kReadsDst;
};

// d, a and b are bytes of UB; D is the stored type, S the loaded one.
template <typename O, typename D, typename S>
__device__ __forceinline__ void One(uint32_t d, uint32_t a, uint32_t b, S scalar) {
    if constexpr (kFloat<D>) {
        const float x = Wide(*At<S>(a));
        const float y = O::kSources == 2 ? Wide(*At<S>(b)) : 0.0f;
        const float old = O::kReadsDst ? Wide(*At<D>(d)) : 0.0f;
        *At<D>(d) = Narrow<D>(O::f(x, y, old, Wide(scalar)));
    } else {
        const S y = O::kSources == 2 ? *At<S>(b) : S(0);
        *At<D>(d) = O::template f<D>(*At<S>(a), y, scalar);
    }
}

template <uint32_t kCall, typename O, typename D, typename S>
__device__ __noinline__ void Count(uint32_t d, uint32_t a, uint32_t b, S scalar, uint32_t count) {
#pragma unroll 1
    for (uint32_t i = Rank<kCall>(); i < count; i += kV) {
        One<O, D, S>(d + i * sizeof(D), a + i * sizeof(S), b + i * sizeof(S), scalar);
    }
}

// Calls work(repeat, lane) for this thread's lanes of all repeats. `chain`: repeats depend on each other, so one thread
// handles a lane in all of them.
template <uint32_t kCall, uint32_t size, typename W>
__device__ __forceinline__ void EachLane(const Rep& rep, bool chain, W work) {
    constexpr uint32_t per = 256 / size;
    if (chain) {
#pragma unroll 1
        for (uint32_t lane = Rank<kCall>(); lane < per; lane += kV) {
            for (uint32_t r = 0; Has(rep, lane) && r < rep.repeat; ++r) {
                work(r, lane);
            }
        }
        return;
    }
#pragma unroll 1
    for (uint32_t i = Rank<kCall>(); i < rep.repeat * per; i += kV) {
        if (Has(rep, i % per)) {
            work(i / per, i % per);
        }
    }
}

template <uint32_t kCall, typename O, typename D, typename S>
__device__ __noinline__ void Repeats(uint32_t d, uint32_t a, uint32_t b, S scalar, Rep rep) {
    constexpr uint32_t size = sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S);
    const uint32_t end = d + rep.repeat * rep.dst_rep * 32 + 256;
    const bool chain = rep.repeat > 1 && (rep.dst_rep == 0 || (O::kSources == 2 && rep.b_rep == 0 && b >= d && b < end));
    EachLane<kCall, size>(rep, chain, [=](uint32_t r, uint32_t lane) {
        One<O, D, S>(d + Place<sizeof(D)>(r, lane, rep.dst_blk, rep.dst_rep),
                     a + Place<sizeof(S)>(r, lane, rep.a_blk, rep.a_rep),
                     b + Place<sizeof(S)>(r, lane, rep.b_blk, rep.b_rep), scalar);
    });
}

// Conversions, by the routes of the twin: through float, except directly between integers.
template <typename D, typename S> __device__ D Converted(S v, int mode) {
    constexpr bool rint_only = kFloat<S> || sizeof(S) <= 2;
    if constexpr (std::is_integral<D>::value && std::is_integral<S>::value) {
        if constexpr (sizeof(D) < sizeof(S)) {
            constexpr S lo = std::numeric_limits<D>::min();
            constexpr S hi = std::numeric_limits<D>::max();
            return static_cast<D>(v < lo ? lo : v > hi ? hi : v);
        } else {
            return static_cast<D>(v);
        }
    } else {
        float x;
        if constexpr (rint_only) {
            x = Wide(v);
        } else {
            x = mode <= kRint && sizeof(S) == 4 ? static_cast<float>(v) : IntToFloatMode(v, mode);
        }
        if constexpr (kSame<D, half>) {
            return half::FromBits(mode <= kRint ? FloatToHalf1(x) : FloatToHalfMode(x, mode));
        } else if constexpr (kSame<D, bfloat16_t>) {
            return bfloat16_t::FromBits(mode <= kRint ? FloatToBf16Even(x) : FloatToBf16Mode(x, mode));
        } else if constexpr (kSame<D, float> && !kSame<S, float>) {
            return x;
        } else {
            float whole;
            switch (mode) {
                case kFloor: whole = Integral<kFloor>(x); break;
                case kCeil: whole = Integral<kCeil>(x); break;
                case kRound: whole = Integral<kRound>(x); break;
                case kTrunc: whole = Integral<kTrunc>(x); break;
                default: whole = Integral<kRint>(x);
            }
            if constexpr (kSame<D, float>) {
                return whole;
            } else {
                return Saturate<D>(whole);
            }
        }
    }
}
template <typename D, typename S> __device__ __noinline__ void CastCount(uint32_t d, uint32_t a, int mode, uint32_t count) {
#pragma unroll 1
    for (uint32_t i = Rank<7>(); i < count; i += kV) {
        At<D>(d)[i] = Converted<D, S>(At<S>(a)[i], mode);
    }
}
template <typename D, typename S> __device__ __noinline__ void CastRepeats(uint32_t d, uint32_t a, int mode, Rep rep) {
    constexpr uint32_t size = sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S);
    EachLane<7, size>(rep, false, [=](uint32_t r, uint32_t lane) {
        *At<D>(d + Place<sizeof(D)>(r, lane, rep.dst_blk, rep.dst_rep)) =
            Converted<D, S>(*At<S>(a + Place<sizeof(S)>(r, lane, rep.a_blk, rep.a_rep)), mode);
    });
}

template <typename W> __device__ __noinline__ void FillCount(uint32_t d, W value, uint32_t count) {
#pragma unroll 1
    for (uint32_t i = Rank<3>(); i < count; i += kV) {
        At<W>(d)[i] = value;
    }
}
template <typename W> __device__ __noinline__ void FillRepeats(uint32_t d, W value, Rep rep) {
    EachLane<3, sizeof(W)>(rep, false, [=](uint32_t r, uint32_t lane) {
        *At<W>(d + Place<sizeof(W)>(r, lane, rep.dst_blk, rep.dst_rep)) = value;
    });
}
template <typename W> __device__ __noinline__ void CopyCount(uint32_t d, uint32_t a, uint32_t count) {
#pragma unroll 1
    for (uint32_t i = Rank<9>(); i < count; i += kV) {
        At<W>(d)[i] = At<W>(a)[i];
    }
}
template <typename W> __device__ __noinline__ void CopyRepeats(uint32_t d, uint32_t a, Rep rep) {
    EachLane<9, sizeof(W)>(rep, false, [=](uint32_t r, uint32_t lane) {
        *At<W>(d + Place<sizeof(W)>(r, lane, rep.dst_blk, rep.dst_rep)) =
            *At<W>(a + Place<sizeof(W)>(r, lane, rep.a_blk, rep.a_rep));
    });
}
template <typename W>
__device__ __noinline__ void Spread(uint32_t d, uint32_t a, uint32_t repeat, uint32_t blk, uint32_t step) {
    constexpr uint32_t per = 32 / sizeof(W);
#pragma unroll 1
    for (uint32_t i = Rank<11>(); i < repeat * 8 * per; i += kV) {
        const uint32_t k = i / per;
        At<W>(d + (k / 8 * step + k % 8 * blk) * 32)[i % per] = At<W>(a)[k];
    }
}

// A formula by its name, for floats and for integers.
#define AUTOFUSE_CUDA_FLOATS(Name) \
    struct Op##Name {              \
        template <typename T> using Of = Name##F; \
    };
#define AUTOFUSE_CUDA_INTS(Name)   \
    struct Op##Name {              \
        template <typename T> using Of = Name##I; \
    };
#define AUTOFUSE_CUDA_BOTH(Name)   \
    struct Op##Name {              \
        template <typename T> using Of = typename std::conditional<kFloat<T>, Name##F, Name##I>::type; \
    };
AUTOFUSE_CUDA_FLOATS(Exp) AUTOFUSE_CUDA_FLOATS(Ln) AUTOFUSE_CUDA_FLOATS(Sqrt) AUTOFUSE_CUDA_FLOATS(Rsqrt)
AUTOFUSE_CUDA_FLOATS(Reciprocal) AUTOFUSE_CUDA_FLOATS(LeakyRelu) AUTOFUSE_CUDA_FLOATS(Axpy)
AUTOFUSE_CUDA_FLOATS(MulAddDst) AUTOFUSE_CUDA_FLOATS(FusedMulAdd) AUTOFUSE_CUDA_FLOATS(FusedMulAddRelu)
AUTOFUSE_CUDA_FLOATS(Div) AUTOFUSE_CUDA_FLOATS(Sigmoid) AUTOFUSE_CUDA_FLOATS(Tanh) AUTOFUSE_CUDA_FLOATS(Erf)
AUTOFUSE_CUDA_FLOATS(Sin) AUTOFUSE_CUDA_FLOATS(Cos) AUTOFUSE_CUDA_FLOATS(Silu) AUTOFUSE_CUDA_FLOATS(Gelu)
AUTOFUSE_CUDA_INTS(Not) AUTOFUSE_CUDA_INTS(And) AUTOFUSE_CUDA_INTS(Or) AUTOFUSE_CUDA_INTS(ShiftLeft)
AUTOFUSE_CUDA_INTS(ShiftRight) AUTOFUSE_CUDA_INTS(ShiftRightRound)
AUTOFUSE_CUDA_BOTH(Abs) AUTOFUSE_CUDA_BOTH(Relu) AUTOFUSE_CUDA_BOTH(Add) AUTOFUSE_CUDA_BOTH(Sub)
AUTOFUSE_CUDA_BOTH(Mul) AUTOFUSE_CUDA_BOTH(Max) AUTOFUSE_CUDA_BOTH(Min) AUTOFUSE_CUDA_BOTH(AddRelu)
AUTOFUSE_CUDA_BOTH(SubRelu) AUTOFUSE_CUDA_BOTH(Adds) AUTOFUSE_CUDA_BOTH(Muls) AUTOFUSE_CUDA_BOTH(Maxs)
AUTOFUSE_CUDA_BOTH(Mins) AUTOFUSE_CUDA_BOTH(Power) AUTOFUSE_CUDA_BOTH(PowerTensorScalar)
AUTOFUSE_CUDA_BOTH(PowerScalarTensor)
#undef AUTOFUSE_CUDA_FLOATS
#undef AUTOFUSE_CUDA_INTS
#undef AUTOFUSE_CUDA_BOTH

}  // namespace autofuse_cuda

namespace AscendC {

#define AUTOFUSE_CUDA_BY_COUNT(Name, a, b, s) \
    if (::autofuse_cuda::IsV()) {             \
        ::autofuse_cuda::Count<__LINE__, typename ::autofuse_cuda::Op##Name::template Of<T>, T, U>( \
            dst.Off(), a, b, s, static_cast<uint32_t>(count));                                      \
    }
#define AUTOFUSE_CUDA_BY_REPEATS(Name, a, b, s) \
    if (::autofuse_cuda::IsV()) {               \
        ::autofuse_cuda::Repeats<__LINE__, typename ::autofuse_cuda::Op##Name::template Of<T>, T, U>( \
            dst.Off(), a, b, s, ::autofuse_cuda::RepOf(::autofuse_cuda::MaskOf(mask), repeat, params)); \
    }

#define AUTOFUSE_CUDA_UNARY_REP(Name, MaskType)                                                                   \
    template <typename T, bool isSetMask = true>                                                                  \
    __device__ void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, MaskType mask, const uint8_t repeat, \
                         const UnaryRepeatParams& params) {                                                       \
        using U = T;                                                                                              \
        AUTOFUSE_CUDA_BY_REPEATS(Name, src.Off(), 0, U(0))                                                        \
    }
#define AUTOFUSE_CUDA_UNARY(Name)                                                                              \
    template <typename T> __device__ void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count) { \
        using U = T;                                                                                           \
        AUTOFUSE_CUDA_BY_COUNT(Name, src.Off(), 0, U(0))                                                       \
    }                                                                                                          \
    AUTOFUSE_CUDA_UNARY_REP(Name, const uint64_t*)                                                             \
    AUTOFUSE_CUDA_UNARY_REP(Name, uint64_t)
AUTOFUSE_CUDA_UNARY(Abs)
AUTOFUSE_CUDA_UNARY(Exp)
AUTOFUSE_CUDA_UNARY(Ln)
AUTOFUSE_CUDA_UNARY(Sqrt)
AUTOFUSE_CUDA_UNARY(Rsqrt)
AUTOFUSE_CUDA_UNARY(Reciprocal)
AUTOFUSE_CUDA_UNARY(Relu)
AUTOFUSE_CUDA_UNARY(Not)

#define AUTOFUSE_CUDA_BINARY_REP(Name, MaskType)                                                                    \
    template <typename T, bool isSetMask = true>                                                                    \
    __device__ void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,         \
                         MaskType mask, const uint8_t repeat, const BinaryRepeatParams& params) {                   \
        using U = T;                                                                                                \
        AUTOFUSE_CUDA_BY_REPEATS(Name, src0.Off(), src1.Off(), U(0))                                                \
    }
#define AUTOFUSE_CUDA_BINARY(Name)                                                                                  \
    template <typename T>                                                                                           \
    __device__ void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count) { \
        using U = T;                                                                                                \
        AUTOFUSE_CUDA_BY_COUNT(Name, src0.Off(), src1.Off(), U(0))                                                  \
    }                                                                                                               \
    AUTOFUSE_CUDA_BINARY_REP(Name, const uint64_t*)                                                                 \
    AUTOFUSE_CUDA_BINARY_REP(Name, uint64_t)
AUTOFUSE_CUDA_BINARY(Add)
AUTOFUSE_CUDA_BINARY(Sub)
AUTOFUSE_CUDA_BINARY(Mul)
AUTOFUSE_CUDA_BINARY(Div)
AUTOFUSE_CUDA_BINARY(Max)
AUTOFUSE_CUDA_BINARY(Min)
AUTOFUSE_CUDA_BINARY(And)
AUTOFUSE_CUDA_BINARY(Or)
AUTOFUSE_CUDA_BINARY(AddRelu)
AUTOFUSE_CUDA_BINARY(SubRelu)
AUTOFUSE_CUDA_BINARY(FusedMulAdd)
AUTOFUSE_CUDA_BINARY(FusedMulAddRelu)

#define AUTOFUSE_CUDA_SCALAR_REP(Name, MaskType)                                                                    \
    template <typename T, bool isSetMask = true>                                                                    \
    __device__ void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T scalar, MaskType mask,       \
                         const uint8_t repeat, const UnaryRepeatParams& params) {                                   \
        using U = T;                                                                                                \
        AUTOFUSE_CUDA_BY_REPEATS(Name, src.Off(), 0, scalar)                                                        \
    }
#define AUTOFUSE_CUDA_SCALAR(Name)                                                                                  \
    template <typename T, bool isSetMask = true>                                                                    \
    __device__ void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const T scalar, int32_t count) {     \
        using U = T;                                                                                                \
        AUTOFUSE_CUDA_BY_COUNT(Name, src.Off(), 0, scalar)                                                          \
    }                                                                                                               \
    AUTOFUSE_CUDA_SCALAR_REP(Name, const uint64_t*)                                                                 \
    AUTOFUSE_CUDA_SCALAR_REP(Name, uint64_t)
AUTOFUSE_CUDA_SCALAR(Adds)
AUTOFUSE_CUDA_SCALAR(Muls)
AUTOFUSE_CUDA_SCALAR(Maxs)
AUTOFUSE_CUDA_SCALAR(Mins)
AUTOFUSE_CUDA_SCALAR(LeakyRelu)
AUTOFUSE_CUDA_SCALAR(ShiftLeft)
AUTOFUSE_CUDA_SCALAR(ShiftRight)

// dst = dst + src * scalar, and dst = dst + src0 * src1; a float may accumulate halves.
template <typename T, typename U>
__device__ void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const U scalar, int32_t count) {
    AUTOFUSE_CUDA_BY_COUNT(Axpy, src.Off(), 0, scalar)
}
template <typename T, typename U>
__device__ void MulAddDst(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, int32_t count) {
    AUTOFUSE_CUDA_BY_COUNT(MulAddDst, src0.Off(), src1.Off(), U(0))
}

template <typename T, typename U>
__device__ void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode mode, uint32_t count) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::CastCount<T, U>(dst.Off(), src.Off(), static_cast<int>(mode), count);
    }
}

#define AUTOFUSE_CUDA_MOVES(MaskType)                                                                                \
    template <typename T, typename U, bool isSetMask = true>                                                         \
    __device__ void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode mode, MaskType mask,  \
                         const uint8_t repeat, const UnaryRepeatParams& params) {                                    \
        if (::autofuse_cuda::IsV()) {                                                                                \
            ::autofuse_cuda::CastRepeats<T, U>(dst.Off(), src.Off(), static_cast<int>(mode),                         \
                                               ::autofuse_cuda::RepOf(::autofuse_cuda::MaskOf(mask), repeat, params)); \
        }                                                                                                            \
    }                                                                                                                \
    template <typename T, bool isSetMask = true>                                                                     \
    __device__ void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, MaskType mask, const uint8_t repeat,  \
                         const CopyRepeatParams& p) {                                                                \
        if (::autofuse_cuda::IsV()) {                                                                                \
            const auto m = ::autofuse_cuda::MaskOf(mask);                                                            \
            ::autofuse_cuda::CopyRepeats<typename ::autofuse_cuda::WordOf<sizeof(T)>::Type>(                         \
                dst.Off(), src.Off(),                                                                                \
                {m.lo, m.hi, repeat, p.dstStride, p.srcStride, 1, p.dstRepeatSize, p.srcRepeatSize, 8});             \
        }                                                                                                            \
    }                                                                                                                \
    template <typename T, bool isSetMask = true>                                                                     \
    __device__ void Duplicate(const LocalTensor<T>& dst, const T scalar, MaskType mask, const uint8_t repeat,        \
                              const uint16_t blk, const uint8_t rep) {                                               \
        if (::autofuse_cuda::IsV()) {                                                                                \
            using Word = typename ::autofuse_cuda::WordOf<sizeof(T)>::Type;                                          \
            const auto m = ::autofuse_cuda::MaskOf(mask);                                                            \
            ::autofuse_cuda::FillRepeats<Word>(dst.Off(), ::autofuse_cuda::BitCast<Word>(scalar),                    \
                                               {m.lo, m.hi, repeat, blk, 1, 1, rep, 8, 8});                          \
        }                                                                                                            \
    }
AUTOFUSE_CUDA_MOVES(const uint64_t*)
AUTOFUSE_CUDA_MOVES(uint64_t)

template <typename T> __device__ void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::CopyCount<typename ::autofuse_cuda::WordOf<sizeof(T)>::Type>(dst.Off(), src.Off(), count);
    }
}
template <typename T> __device__ void Duplicate(const LocalTensor<T>& dst, const T scalar, int32_t count) {
    if (::autofuse_cuda::IsV()) {
        using Word = typename ::autofuse_cuda::WordOf<sizeof(T)>::Type;
        ::autofuse_cuda::FillCount<Word>(dst.Off(), ::autofuse_cuda::BitCast<Word>(scalar), static_cast<uint32_t>(count));
    }
}
// Every repeat broadcasts 8 source elements into 8 blocks of 32 bytes.
template <typename T>
__device__ void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint8_t repeat, const BrcbRepeatParams& p) {
    if (::autofuse_cuda::IsV()) {
        ::autofuse_cuda::Spread<typename ::autofuse_cuda::WordOf<sizeof(T)>::Type>(dst.Off(), src.Off(), repeat,
                                                                                  p.dstBlkStride, p.dstRepStride);
    }
}

// Advanced functions with a temporary buffer, which is unused here.
#define AUTOFUSE_CUDA_MATH(Name)                                                                                      \
    template <typename T, bool isReuseSource = false>                                                                 \
    __device__ void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>&, uint32_t count) { \
        using U = T;                                                                                                  \
        AUTOFUSE_CUDA_BY_COUNT(Name, src.Off(), 0, U(0))                                                              \
    }
AUTOFUSE_CUDA_MATH(Sigmoid)
AUTOFUSE_CUDA_MATH(Tanh)
AUTOFUSE_CUDA_MATH(Erf)
AUTOFUSE_CUDA_MATH(Sin)
AUTOFUSE_CUDA_MATH(Cos)
AUTOFUSE_CUDA_MATH(Gelu)
template <typename T, bool isReuseSource = false>
__device__ void Silu(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count) {
    using U = T;
    AUTOFUSE_CUDA_BY_COUNT(Silu, src.Off(), 0, U(0))
}
template <typename T, bool isReuseSource = false>
__device__ void Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                      const LocalTensor<uint8_t>&, uint32_t count) {
    using U = T;
    AUTOFUSE_CUDA_BY_COUNT(Power, src0.Off(), src1.Off(), U(0))
}
template <typename T, bool isReuseSource = false>
__device__ void Power(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const T src1, const LocalTensor<uint8_t>&,
                      uint32_t count) {
    using U = T;
    AUTOFUSE_CUDA_BY_COUNT(PowerTensorScalar, src0.Off(), 0, src1)
}
template <typename T, bool isReuseSource = false>
__device__ void Power(const LocalTensor<T>& dst, const T src0, const LocalTensor<T>& src1, const LocalTensor<uint8_t>&,
                      uint32_t count) {
    using U = T;
    AUTOFUSE_CUDA_BY_COUNT(PowerScalarTensor, src1.Off(), 0, src0)
}

#undef AUTOFUSE_CUDA_BY_COUNT
#undef AUTOFUSE_CUDA_BY_REPEATS
#undef AUTOFUSE_CUDA_UNARY
#undef AUTOFUSE_CUDA_UNARY_REP
#undef AUTOFUSE_CUDA_BINARY
#undef AUTOFUSE_CUDA_BINARY_REP
#undef AUTOFUSE_CUDA_SCALAR
#undef AUTOFUSE_CUDA_SCALAR_REP
#undef AUTOFUSE_CUDA_MOVES
#undef AUTOFUSE_CUDA_MATH

}  // namespace AscendC

#endif
