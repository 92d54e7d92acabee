// Device code that generated kernels share: tensors of short rows, which lie in GM as one dense run of rows of k
// elements and in UB as k columns, `pitch` elements apart. pitch is a multiple of 32 bytes, k at most 64.
//
// Elements have 16 or 32 bits. Tensors do not overlap. No function starts or ends with a barrier; inside,
// PipeBarrier<PIPE_V> stands between calls that depend on each other. Nothing is done for sizes of 0 and less.
#ifndef AUTOFUSE_LACE_H
#define AUTOFUSE_LACE_H

#include "autofuse_pick.h"
#include "kernel_operator.h"

namespace autofuse {

// offsets[i] = (i mod k) * pitch * size + i / k * size bytes, for elements of `size` bytes: where Lace finds them. The
// table has kPickOffsets entries; `tmp` is as large. The columns fit in UB, so every product is below 2^31.
__aicore__ inline void LaceOffsets(const AscendC::LocalTensor<int32_t>& offsets,
                                   const AscendC::LocalTensor<uint8_t>& tmp, int64_t k, int64_t pitch, int64_t size) {
  constexpr int32_t count = static_cast<int32_t>(kPickOffsets);
  const AscendC::LocalTensor<float> middle = tmp.ReinterpretCast<float>();
  const AscendC::LocalTensor<int32_t> row = tmp.ReinterpretCast<int32_t>();
  // Arange may store with the scalar unit, which no barrier of the vector unit holds back: into the table alone, since
  // `tmp` may have been that of another call.
  AscendC::Arange(offsets, static_cast<int32_t>(0), static_cast<int32_t>(1), count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Cast(middle, offsets, AscendC::RoundMode::CAST_NONE, kPickOffsets);  // all of them are exact
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Adds(middle, middle, 0.5f, count);
  AscendC::Muls(offsets, offsets, static_cast<int32_t>(pitch * size), count);
  AscendC::PipeBarrier<PIPE_V>();
  // (i + 0.5) / k is at least 0.5 / k away from whole numbers; rounding moves it by less than 0.001 / k.
  AscendC::Muls(middle, middle, 1.0f / static_cast<float>(k), count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Cast(row, middle, AscendC::RoundMode::CAST_FLOOR, kPickOffsets);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Muls(row, row, static_cast<int32_t>(size - k * pitch * size), count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Add(offsets, offsets, row, count);
}

// dst[o, r, c] = src[o, c, r], o < outer, r < rows, c < k: columns to rows. With outer > 1, rows * k elements are a
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
  const uint32_t most = kPickOffsets / (width * block) * block;  // rows of one call: the next starts at 32 bytes of dst
  for (int64_t o = 0; o < outer; o++) {
    const AscendC::LocalTensor<T> to = dst[static_cast<uint32_t>(o * rows * k)];
    const AscendC::LocalTensor<T> from = src[static_cast<uint32_t>(o * k * pitch)];
    for (uint32_t done = 0; done < all; done += most) {
      const uint32_t n = all - done < most ? all - done : most;
      // The place inside the columns goes into the base address, which need not be a multiple of 32 bytes.
      AscendC::Gather(to[done * width], from, offsets.ReinterpretCast<uint32_t>(),
                      done * static_cast<uint32_t>(sizeof(T)), n * width);
    }
  }
}

// dst[o, c, r] = src[o, r, first + c], o < outer, r < rows, c < k: rows to columns. The rows of src are `step` elements
// apart, where step is 2 or 4, the patterns that the chip knows, and first + k <= step. With outer > 1, rows * step
// elements are a multiple of 32 bytes. What lies between columns stays.
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

// The same of rows that are dense.
template <typename T>
__aicore__ inline void UnlaceByMask(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                    int64_t outer, int64_t rows, int64_t k, int64_t pitch) {
  UnlaceByMask(dst, src, outer, rows, k, pitch, k, 0);
}

// The same for any step. `offsets` is the table of PickOffsets for `step` elements.
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

// The same of rows that are dense.
template <typename T>
__aicore__ inline void Unlace(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                              const AscendC::LocalTensor<int32_t>& offsets, int64_t outer, int64_t rows, int64_t k,
                              int64_t pitch) {
  Unlace(dst, src, offsets, outer, rows, k, pitch, k, 0);
}

// dst[o, c, r] = src_c[o, r], o < outer, r < row, for tensor c of `src`. Rows of `src` are `unit` elements apart, a
// multiple of 32 bytes, and so are columns of `dst`: since it fits in UB, outer is less than the 4,095 rows that one
// command copies. What follows a row up to the next 32 bytes goes with it.
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
