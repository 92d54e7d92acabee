// How the control register treats out-of-range results. Internal to the library.
//
// A call uses the bits at its issue: the scalar unit sets them, and issues it.
#ifndef AUTOFUSE_TWIN_SRC_CONTROL_H
#define AUTOFUSE_TWIN_SRC_CONTROL_H

#include "core.h"

namespace autofuse_twin {

inline bool ControlBit(const Core& core, int bit) { return (core.control >> bit & 1u) != 0; }

// Calculations in half: overflow saturates to the largest number, and NaN becomes 0. float and bfloat16 never saturate.
inline bool HalvesSaturate(const Core& core, Dt dt) {
    return dt == Dt::F16 && ControlBit(core, kControlGlobal) && !ControlBit(core, kControlFloats);
}
// Sums, differences and products of integers; otherwise they wrap.
inline bool IntegersSaturate(const Core& core) { return ControlBit(core, kControlIntegers); }
// A conversion that can saturate; `own`: the instruction asks for it.
inline bool CastSaturates(const Core& core, Dt dst, bool own) {
    if (!ControlBit(core, kControlGlobal)) {
        return own;
    }
    return !ControlBit(core, dst == Dt::F16 || dst == Dt::BF16 ? kControlFloats : kControlCasts);
}
// half -> bfloat16_t keeps infinities and NaN for all bits.
inline bool CanSaturate(Dt dst, Dt src) { return dst != Dt::F32 && !(dst == Dt::BF16 && src == Dt::F16); }

// v[0, n), of F16 or BF16: infinities become the largest number of their sign, NaN becomes 0.
void SaturateFloats(void* v, size_t n, Dt dt);
// The integer operation with saturating results; null if there is none.
ElementFn SaturatingIntegers(Op op, Dt dt);
// A conversion to integers that keeps the low bits, from floats rounded according to `mode`; infinities give the
// extreme values, NaN gives 0.
void CutToIntegers(void* d, Dt dst, const void* s, Dt src, int mode, size_t n);
// Between integers: the nearest number of dst.
void ClampIntegers(void* d, Dt dst, const void* s, Dt src, size_t n);

}  // namespace autofuse_twin

#endif
