// Lanes of registers: masks and constants. Internal to the library.
#ifndef AUTOFUSE_TWIN_SRC_REG_LANES_H
#define AUTOFUSE_TWIN_SRC_REG_LANES_H

#include "api/flush.h"
#include "reg/vf.h"

namespace autofuse_twin {

inline bool AllOn(const uint64_t* mask, uint32_t lanes, uint32_t step) {
    for (uint32_t i = 0; i < lanes; ++i) {
        if (!MaskHas(mask, i * step)) {
            return false;
        }
    }
    return true;
}

// d: `on` where the mask is on, else `off` (null: 0). d may be either of them.
inline void Blend(uint8_t* d, const uint8_t* on, const uint8_t* off, const uint64_t* mask, uint32_t lanes, uint32_t elem) {
    const uint32_t step = kVl / lanes;
    if (AllOn(mask, lanes, step)) {
        std::memmove(d, on, lanes * elem);
        return;
    }
    for (uint32_t i = 0; i < lanes; ++i) {
        const uint32_t at = i * elem;
        if (MaskHas(mask, i * step)) {
            std::memmove(d + at, on + at, elem);
        } else if (off != nullptr) {
            std::memmove(d + at, off + at, elem);
        } else {
            std::memset(d + at, 0, elem);
        }
    }
}

inline void FillLanes(uint8_t* d, uint64_t value, uint32_t lanes, uint32_t elem) {
    for (uint32_t i = 0; i < lanes; ++i) {
        std::memcpy(d + i * elem, &value, elem);
    }
}

inline ElementFn Find(const char* api, Op op, Dt dst, Dt src) {
    const ElementFn fn = Kernels().element(op, dst, src);
    if (fn == nullptr) {
        Fail("dtype", api, "no implementation for %s -> %s", DtName(src), DtName(dst));
    }
    return fn;
}

}  // namespace autofuse_twin

#endif
