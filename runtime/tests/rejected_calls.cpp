// Calls in functions on registers. CASE 0 compiles; every other case has one call that Ascend 950 does not have there.
#define __NPU_ARCH__ 3510
#include "kernel_operator.h"

using namespace AscendC;
namespace R = AscendC::Reg;

constexpr float Twice(float x) { return 2.0f * x; }
__aicore__ inline float Bits(uint32_t bits) {
    float out;
    __builtin_memcpy(&out, &bits, sizeof(out));
    return out;
}
template <typename T> __aicore__ inline T Same(T x) { return x; }
struct Maker {
    __aicore__ Maker() {}
    float value = 1.0f;
};
inline void Plain(LocalTensor<float>& x) { Adds(x, x, 1.0f, 64); }
__simd_callee__ inline void Add1(R::RegTensor<float>& x, R::MaskReg& all) { R::Adds(x, x, 1.0f, all); }
__simd_callee__ inline void Indirect(R::RegTensor<float>& x, R::MaskReg& all) { R::Adds(x, x, Bits(0), all); }
void Elsewhere();

__simd_vf__ inline void Function(__ubuf__ float* x, float scalar, uint32_t count) {
    R::RegTensor<float> a, b;
    R::RegTensor<half> h;
    R::MaskReg mask;
    R::Duplicate(b, -__builtin_inff());
    R::Duplicate(a, __builtin_nanf(""));
    R::Duplicate(h, static_cast<half>(__builtin_inff()));
    R::Duplicate(a, Twice(scalar));
    const uint16_t steps = static_cast<uint16_t>((count + 63) / 64);
    for (uint16_t i = 0; i < steps; ++i) {
        mask = R::UpdateMask<float>(count);
        R::LoadAlign(a, x + i * 64);
        R::Max(a, a, b, mask);
        Add1(a, mask);
        R::LocalMemBar<R::MemType::VEC_STORE, R::MemType::VEC_LOAD>();
        R::StoreAlign(x + i * 64, a, mask);
    }
#if CASE == 1
    R::Duplicate(a, Bits(0xff800000u));
#elif CASE == 2
    R::Duplicate(a, Same(1.0f));
#elif CASE == 3
    const Maker made;
    R::Duplicate(a, made.value);
#elif CASE == 4
    Indirect(a, mask);
#elif CASE == 5
    R::Duplicate(a, static_cast<float>(GetBlockIdx()));
#elif CASE == 6
    LocalTensor<float> t;
    Plain(t);
#elif CASE == 7
    SetCtrlSpr<48, 48>(1);
#elif CASE == 8
    Elsewhere();
#endif
}

extern "C" __global__ __aicore__ void Kernel(GM_ADDR x) {
    Function(reinterpret_cast<float*>(x), Bits(0), 64);
    Same(1.0f);
}
