// Reduction of lanes to one value: for memory-level calls and for registers. Internal to the library.
#ifndef AUTOFUSE_TWIN_SRC_FOLD_H
#define AUTOFUSE_TWIN_SRC_FOLD_H

#include "kernels/kernels.h"

namespace autofuse_twin {

constexpr uint32_t kMaxLanes = 128;

// NaN wins, as in Max and Min.
inline float Extreme(Fold fold, float a, float b) {
    if (a != a || b != b) {
        return a != a ? a : b;
    }
    return (fold == Fold::kMax ? a > b : a < b) ? a : b;
}

// Reduces v[0, n), n a power of two, to one value: adjacent elements first, then their results.
inline float Tree(Fold fold, Dt dt, float* v, uint32_t n) {
    for (uint32_t w = n / 2; w != 0; w /= 2) {
        if (fold == Fold::kSum) {
            for (uint32_t i = 0; i < w; ++i) {
                v[i] = v[2 * i] + v[2 * i + 1];
            }
            if (dt == Dt::F16) {
                uint16_t rounded[kMaxLanes];
                Kernels().float_to_half(v, rounded, w);
                Kernels().half_to_float(rounded, v, w);
            }
        } else {
            for (uint32_t i = 0; i < w; ++i) {
                v[i] = Extreme(fold, v[2 * i], v[2 * i + 1]);
            }
        }
    }
    return v[0];
}

// The first lane that holds the value; of a NaN, the first NaN.
inline uint32_t IndexOf(const float* v, uint32_t n, float value) {
    for (uint32_t i = 0; i < n; ++i) {
        if (v[i] == value || (value != value && v[i] != v[i])) {
            return i;
        }
    }
    return 0;
}

}  // namespace autofuse_twin

#endif
