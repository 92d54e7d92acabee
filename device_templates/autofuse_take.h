// Device code shared by generated kernels: elements of rows in UB, at offsets that another tensor holds.
#ifndef AUTOFUSE_TAKE_H
#define AUTOFUSE_TAKE_H

#include "kernel_operator.h"

namespace autofuse {

constexpr uint32_t kMostTaken = 8192;  // elements per call, at most 255 repeats of 64 offsets

// dst[o * to + r * pitch + c] is the element of row o of `src`, which starts at element o * from, at byte
// offsets[o * at + r * pitch + c], for o < outer, r < rows, c < cols. Elements have 16 or 32 bits. With several rows,
// pitch, to and from are multiples of 32 bytes. Tensors do not overlap. The function neither starts nor ends with a
// barrier.
template <typename T>
__aicore__ inline void TakeRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                const AscendC::LocalTensor<int32_t>& offsets, int64_t outer, int64_t rows,
                                int64_t cols, int64_t pitch, int64_t to, int64_t from, int64_t at) {
  const uint32_t all = static_cast<uint32_t>(cols);
  for (int64_t o = 0; o < outer; o++) {
    const AscendC::LocalTensor<T> row = src[static_cast<uint32_t>(o * from)];
    for (int64_t r = 0; r < rows; r++) {
      const uint32_t place = static_cast<uint32_t>(o * to + r * pitch);
      const uint32_t index = static_cast<uint32_t>(o * at + r * pitch);
      for (uint32_t done = 0; done < all; done += kMostTaken) {
        const uint32_t n = all - done < kMostTaken ? all - done : kMostTaken;
        AscendC::Gather(dst[place + done], row, offsets[index + done].ReinterpretCast<uint32_t>(), 0u, n);
      }
    }
  }
}

}  // namespace autofuse

#endif  // AUTOFUSE_TAKE_H
