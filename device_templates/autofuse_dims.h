// Multi-dimensional loads, with separate strides in GM and UB. Atlas A2 does not have them.
#ifndef AUTOFUSE_DIMS_H
#define AUTOFUSE_DIMS_H

#include "kernel_operator.h"

namespace autofuse {

// dst[i0 * ub[0] + i1 * ub[1] + ...] = src[i0 * gm[0] + i1 * gm[1] + ...], ik < sizes[k]; outermost dimension first.
template <typename T, uint8_t dims>
__aicore__ inline void LoadDims(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src,
                                const uint64_t (&gm)[dims], const uint32_t (&ub)[dims], const uint32_t (&sizes)[dims]) {
  static constexpr AscendC::NdDmaConfig plain{};  // without padding
  AscendC::NdDmaLoopInfo<dims> loops;             // innermost dimension first
  for (uint8_t i = 0; i < dims; i++) {
    loops.loopSrcStride[i] = gm[dims - 1 - i];
    loops.loopDstStride[i] = ub[dims - 1 - i];
    loops.loopSize[i] = sizes[dims - 1 - i];
    loops.loopLpSize[i] = 0;
    loops.loopRpSize[i] = 0;
  }
  // These loads have a separate cache, which may hold stale data.
  AscendC::NdDmaDci();
  AscendC::DataCopy<T, dims, plain>(dst, src, AscendC::NdDmaParams<T, dims>{loops, T{}});
}

}  // namespace autofuse

#endif
