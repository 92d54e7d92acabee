// Calls that flush subnormal numbers to zero: on memory and on registers. Internal to the library.
#ifndef AUTOFUSE_TWIN_SRC_FLUSH_H
#define AUTOFUSE_TWIN_SRC_FLUSH_H

#include <cstring>

#include "kernels/kernels.h"

namespace autofuse_twin {

// v[0, n), of F32 or of 16-bit floats with the layout of F16: subnormal numbers become zeros of their sign.
inline void Flush(uint8_t* v, size_t n, Dt dt) {
    for (size_t i = 0; i < n; ++i) {
        if (dt == Dt::F32) {
            uint32_t bits;
            std::memcpy(&bits, v + 4 * i, 4);
            bits = (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
            std::memcpy(v + 4 * i, &bits, 4);
        } else {
            uint16_t bits;
            std::memcpy(&bits, v + 2 * i, 2);
            bits = static_cast<uint16_t>((bits & 0x7c00u) == 0 ? bits & 0x8000u : bits);
            std::memcpy(v + 2 * i, &bits, 2);
        }
    }
}

}  // namespace autofuse_twin

#endif
