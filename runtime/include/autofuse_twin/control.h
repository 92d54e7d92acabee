// The control register of an Ascend 950 core, which decides whether out-of-range results saturate.
// Source: Ascend C public documentation of Ascend 950.
#ifndef AUTOFUSE_TWIN_CONTROL_H
#define AUTOFUSE_TWIN_CONTROL_H

#include "abi.h"

namespace autofuse_twin {

uint64_t ControlRead();
void ControlWrite(const char* api, uint64_t mask, uint64_t bits);
// Initial bits of a core.
void ControlReset(uint64_t mask);

constexpr uint64_t ControlMask(int first, int last) { return (~uint64_t{0} >> (63 - last + first)) << first; }
// Bits that a kernel may set and the twin supports: atomic copies have their own functions.
constexpr bool ControlSettable(int first, int last) {
    return first == last &&
           (first == 45 || first == 48 || first == 50 || first == 53 || first == 59 || first == 60);
}

}  // namespace autofuse_twin

namespace AscendC {

template <int8_t startBit, int8_t endBit> inline void SetCtrlSpr(int64_t value AUTOFUSE_TWIN_HERE) {
    static_assert(::autofuse_twin::ControlSettable(startBit, endBit), "SetCtrlSpr: one of the bits 45, 48, 50, 53, 59, 60");
    ::autofuse_twin::ControlWrite("SetCtrlSpr", ::autofuse_twin::ControlMask(startBit, endBit),
                                  static_cast<uint64_t>(value) << startBit);
}
template <int8_t startBit, int8_t endBit> inline int64_t GetCtrlSpr() {
    static_assert(startBit >= 0 && startBit <= endBit && endBit < 64, "GetCtrlSpr: bits 0 to 63");
    return static_cast<int64_t>((::autofuse_twin::ControlRead() & ::autofuse_twin::ControlMask(startBit, endBit)) >> startBit);
}
template <int8_t startBit, int8_t endBit> inline void ResetCtrlSpr(AUTOFUSE_TWIN_HERE_ONLY) {
    static_assert(::autofuse_twin::ControlSettable(startBit, endBit), "ResetCtrlSpr: one of the bits 45, 48, 50, 53, 59, 60");
    ::autofuse_twin::ControlReset(::autofuse_twin::ControlMask(startBit, endBit));
}

}  // namespace AscendC

#endif
