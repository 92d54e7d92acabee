// Device code shared by generated kernels: copies of 16-bit and 32-bit elements within UB.
#ifndef AUTOFUSE_COPY_H
#define AUTOFUSE_COPY_H

#include "kernel_operator.h"

namespace autofuse {

// Copies `mask` elements in each of `repeat` repeats. Steps are in blocks, at most 255. With src_block 0, a repeat
// reads one block only.
template <typename T>
__aicore__ inline void CopyRepeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                   uint32_t mask, uint32_t repeat, uint32_t src_block, uint32_t dst_step,
                                   uint32_t src_step) {
  const AscendC::CopyRepeatParams params{1, static_cast<uint16_t>(src_block), static_cast<uint16_t>(dst_step),
                                         static_cast<uint16_t>(src_step)};
  AscendC::Copy(dst, src, static_cast<uint64_t>(mask), static_cast<uint8_t>(repeat), params);
}

}  // namespace autofuse

#endif  // AUTOFUSE_COPY_H
