// The register-level API of Ascend 950, namespace AscendC::Reg with the older name AscendC::MicroAPI.
#ifndef AUTOFUSE_TWIN_REG_H
#define AUTOFUSE_TWIN_REG_H

#include "reg_compute.h"
#include "reg_memory.h"
#include "reg_reduce.h"

namespace AscendC {

// Bits of the control register. The twin has none: SatMode decides each Cast, as it does where bit 60 is 0.
template <int8_t startBit, int8_t endBit> inline void SetCtrlSpr(int64_t) {
    static_assert(startBit >= 0 && startBit <= endBit && endBit < 64, "SetCtrlSpr: bits 0 to 63");
}

}  // namespace AscendC

#endif
