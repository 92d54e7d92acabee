// Device code shared by generated kernels: tensors with short rows, which are dense rows of k elements in GM and k
// columns in UB, `pitch` elements apart. pitch is a multiple of 32 bytes, k at most 64.
//
// Elements have 16 or 32 bits. Tensors do not overlap. No function starts or ends with a barrier; inside,
// PipeBarrier<PIPE_V> separates calls that depend on each other. Sizes of 0 or less are no-ops.
#ifndef AUTOFUSE_LACE_H
#define AUTOFUSE_LACE_H

#include "autofuse_pick.h"
#include "kernel_operator.h"

namespace autofuse {

// offsets[i] = (i mod k) * pitch * size + i / k * size bytes, for elements of `size` bytes: the offsets that Lace
// gathers. The table has kPickOffsets entries; `tmp` is as large. The columns fit in UB, so every product is below
// 2^31.
__aicore__ inline void LaceOffsets(const AscendC::LocalTensor<int32_t>& offsets,
                                   const AscendC::LocalTensor<uint8_t>& tmp, int64_t k, int64_t pitch, int64_t size) {
  constexpr int32_t count = static_cast<int32_t>(kPickOffsets);
  const AscendC::LocalTensor<float> middle = tmp.ReinterpretCast<float>();
  const AscendC::LocalTensor<int32_t> row = tmp.ReinterpretCast<int32_t>();
  // Arange may store with the scalar unit, which no vector barrier orders: it writes the table only, since an earlier
  // call may still use `tmp`.
  AscendC::Arange(offsets, static_cast<int32_t>(0), static_cast<int32_t>(1), count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Cast(middle, offsets, AscendC::RoundMode::CAST_NONE, kPickOffsets);  // exact
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Adds(middle, middle, 0.5f, count);
  AscendC::Muls(offsets, offsets, static_cast<int32_t>(pitch * size), count);
  AscendC::PipeBarrier<PIPE_V>();
  // (i + 0.5) / k is at least 0.5 / k away from any integer; rounding moves it by less than 0.001 / k.
  AscendC::Muls(middle, middle, 1.0f / static_cast<float>(k), count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Cast(row, middle, AscendC::RoundMode::CAST_FLOOR, kPickOffsets);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Muls(row, row, static_cast<int32_t>(size - k * pitch * size), count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Add(offsets, offsets, row, count);
}

// Columns to rows: dst[o, r, c] = src[o, c, r], o < outer, r < rows, c < k. With outer > 1, rows * k elements are a
// multiple of 32 bytes. `offsets` is the table of LaceOffsets for k, pitch and T.
template <typename T>
__aicore__ inline void Lace(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                            const AscendC::LocalTensor<int32_t>& offsets, int64_t outer, int64_t rows, int64_t k,
                            int64_t pitch) {
  if (rows <= 0 || k <= 0) {
    return;
  }
  constexpr uint32_t block = 32 / sizeof(T);
  const uint32_t all = static_cast<uint32_t>(rows);
  const uint32_t width = static_cast<uint32_t>(k);
  const uint32_t most = kPickOffsets / (width * block) * block;  // rows per call: keeps dst 32-byte aligned
  for (int64_t o = 0; o < outer; o++) {
    const AscendC::LocalTensor<T> to = dst[static_cast<uint32_t>(o * rows * k)];
    const AscendC::LocalTensor<T> from = src[static_cast<uint32_t>(o * k * pitch)];
    for (uint32_t done = 0; done < all; done += most) {
      const uint32_t n = all - done < most ? all - done : most;
      // The base address, which need not be 32-byte aligned, selects the rows within the columns.
      AscendC::Gather(to[done * width], from, offsets.ReinterpretCast<uint32_t>(),
                      done * static_cast<uint32_t>(sizeof(T)), n * width);
    }
  }
}

// Rows to columns: dst[o, c, r] = src[o, r, first + c], o < outer, r < rows, c < k. The rows of src are `step` elements
// apart, where step is 2 or 4, the patterns of the chip, and first + k <= step. With outer > 1, rows * step elements
// are a multiple of 32 bytes. Padding between columns is unchanged.
template <typename T>
__aicore__ inline void UnlaceByMask(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                    int64_t outer, int64_t rows, int64_t k, int64_t pitch, int64_t step,
                                    int64_t first) {
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t c = 0; c < k; c++) {
      PickByMask(dst[static_cast<uint32_t>((o * k + c) * pitch)], src[static_cast<uint32_t>(o * rows * step)], rows,
                 step, first + c);
    }
  }
}

// For dense rows.
template <typename T>
__aicore__ inline void UnlaceByMask(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                    int64_t outer, int64_t rows, int64_t k, int64_t pitch) {
  UnlaceByMask(dst, src, outer, rows, k, pitch, k, 0);
}

// For any step. `offsets` is the table of PickOffsets for `step` elements.
template <typename T>
__aicore__ inline void Unlace(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                              const AscendC::LocalTensor<int32_t>& offsets, int64_t outer, int64_t rows, int64_t k,
                              int64_t pitch, int64_t step, int64_t first) {
  if (rows <= 0) {
    return;
  }
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t c = 0; c < k; c++) {
      PickAhead(dst[static_cast<uint32_t>((o * k + c) * pitch)], src[static_cast<uint32_t>(o * rows * step)], offsets,
                rows, step, first + c);
    }
  }
}

// For dense rows.
template <typename T>
__aicore__ inline void Unlace(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                              const AscendC::LocalTensor<int32_t>& offsets, int64_t outer, int64_t rows, int64_t k,
                              int64_t pitch) {
  Unlace(dst, src, offsets, outer, rows, k, pitch, k, 0);
}

// dst[o, c, r] = src_c[o, r], o < outer, r < row, for tensor c of `src`. Rows of `src` and columns of `dst` are `unit`
// elements apart, a multiple of 32 bytes; since they fit in UB, outer is below the 4,095 rows of one command. The copy
// includes the padding of a row up to the next 32 bytes.
template <typename T, typename... Src>
__aicore__ inline void StackRows(const AscendC::LocalTensor<T>& dst, int64_t outer, int64_t row, int64_t unit,
                                 const Src&... src) {
  if (outer <= 0 || row <= 0) {
    return;
  }
  constexpr int64_t block = 32 / static_cast<int64_t>(sizeof(T));
  constexpr int64_t k = sizeof...(src);
  const int64_t blocks = (row + block - 1) / block;
  const AscendC::DataCopyParams rows(static_cast<uint16_t>(outer), static_cast<uint16_t>(blocks),
                                     static_cast<uint16_t>(unit / block - blocks),
                                     static_cast<uint16_t>(k * unit / block - blocks));
  uint32_t to = 0;
  ((AscendC::DataCopy(dst[to], src, rows), to += static_cast<uint32_t>(unit)), ...);
}

}  // namespace autofuse

#endif  // AUTOFUSE_LACE_H
