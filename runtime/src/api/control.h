// What the control register makes of results that their type cannot hold. Internal to the library.
//
// A call takes the bits that are there when it is issued: the scalar unit sets them, and issues it.
#ifndef AUTOFUSE_TWIN_SRC_CONTROL_H
#define AUTOFUSE_TWIN_SRC_CONTROL_H

#include "core.h"

namespace autofuse_twin {

inline bool ControlBit(const Core& core, int bit) { return (core.control >> bit & 1u) != 0; }

// Calculations in half: what overflows becomes the largest number, and NaN 0. Those in float, and in bfloat16, never do.
inline bool HalvesSaturate(const Core& core, Dt dt) {
    return dt == Dt::F16 && ControlBit(core, kControlGlobal) && !ControlBit(core, kControlFloats);
}
// Sums, differences and products of integers; they wrap otherwise.
inline bool IntegersSaturate(const Core& core) { return ControlBit(core, kControlIntegers); }
// A conversion that can saturate, of an instruction that says `own`.
inline bool CastSaturates(const Core& core, Dt dst, bool own) {
    if (!ControlBit(core, kControlGlobal)) {
        return own;
    }
    return !ControlBit(core, dst == Dt::F16 || dst == Dt::BF16 ? kControlFloats : kControlCasts);
}
// half -> bfloat16_t keeps infinities and NaN, whatever the bits are.
inline bool CanSaturate(Dt dst, Dt src) { return dst != Dt::F32 && !(dst == Dt::BF16 && src == Dt::F16); }

// v[0, n), of F16 or BF16: infinities become the largest number of their sign, NaN 0.
void SaturateFloats(void* v, size_t n, Dt dt);
// The operation on integers whose results saturate; null: there is none.
ElementFn SaturatingIntegers(Op op, Dt dt);
// A conversion to integers that keeps the low bits, from floats that are rounded as `mode` says; infinities give the
// extreme values, NaN 0.
void CutToIntegers(void* d, Dt dst, const void* s, Dt src, int mode, size_t n);
// Between integers: the nearest number that dst has.
void ClampIntegers(void* d, Dt dst, const void* s, Dt src, size_t n);

}  // namespace autofuse_twin

#endif
