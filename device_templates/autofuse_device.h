// Device code shared by generated kernels: core numbering, index bounds, broadcasts in UB.
#ifndef AUTOFUSE_DEVICE_H
#define AUTOFUSE_DEVICE_H

#include "autofuse_copy.h"
#include "kernel_operator.h"

namespace autofuse {

constexpr uint32_t kBlockBytes = 32;    // unit of UB addresses
constexpr uint32_t kVectorBytes = 256;  // one repeat of a vector instruction
constexpr uint32_t kMaxRepeat = 255;
constexpr uint32_t kMaxBlockStride = 255;  // repeat strides are counted in 32-byte blocks

constexpr float kInfinity = __builtin_inff();
constexpr float kNan = __builtin_nanf("");
constexpr float kLargestFloat = 3.4028235e+38f;
constexpr float kLargestHalf = 65504.0f;
constexpr float kLargestBfloat16 = 3.3895314e+38f;

// Index of this core among `cores`, counting from core `first`.
__aicore__ inline int64_t CoreFrom(int64_t first, int64_t cores) {
  return (AscendC::GetBlockIdx() + cores - first % cores) % cores;
}

// Parameters of a load without padding: the rest of the last 32-byte unit of a block is not used.
template <typename T>
__aicore__ inline AscendC::DataCopyPadExtParams<T> NoPad() {
  return AscendC::DataCopyPadExtParams<T>{false, 0, 0, 0};
}

// The in-bounds position of an index along a dimension of `extent` >= 1 elements. Negative indices count from the end.
// Out-of-bounds indices are clamped, so that nothing outside the tensor is read; the twin reports them in checked mode.
__aicore__ inline int64_t IndexIn(int64_t index, int64_t extent) {
  const int64_t at = index < 0 ? index + extent : index;
#ifdef AUTOFUSE_TWIN_CHECKED
  if (at < 0 || at >= extent) {
    ::autofuse_twin::IndexFail(index, extent);
  }
#endif
  return at < 0 ? 0 : at < extent ? at : extent - 1;
}

// Copies `rows` rows of `row` elements in UB. Destination rows are `dst_pitch` elements apart, source rows `src_pitch`
// (0: a single row, repeated). `spread`: a source row is one 32-byte block, repeated along the row.
// Pitches are multiples of 32 bytes wherever there is more than one row.
template <typename T>
__aicore__ inline void CopyRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t rows,
                                uint32_t row, uint32_t dst_pitch, uint32_t src_pitch, bool spread) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  constexpr uint32_t lanes = kVectorBytes / sizeof(T);
  const uint32_t chunks = (row + lanes - 1) / lanes;
  const uint32_t src_block = spread ? 0 : 1;
  if (rows >= chunks && dst_pitch / block <= kMaxBlockStride && src_pitch / block <= kMaxBlockStride) {
    // One instruction per 256 bytes of a row and 255 rows.
    for (uint32_t at = 0; at < row; at += lanes) {
      const uint32_t mask = row - at < lanes ? row - at : lanes;
      for (uint32_t first = 0; first < rows; first += kMaxRepeat) {
        const uint32_t count = rows - first < kMaxRepeat ? rows - first : kMaxRepeat;
        CopyRepeats(dst[first * dst_pitch + at], src[first * src_pitch + (spread ? 0 : at)], mask, count, src_block,
                    dst_pitch / block, src_pitch / block);
      }
    }
    return;
  }
  // For every row, one instruction per 255 * 256 bytes and one for the remainder.
  const uint32_t src_step = spread ? 0 : 8;
  const uint32_t full = row / lanes;
  for (uint32_t r = 0; r < rows; r++) {
    const uint32_t to = r * dst_pitch;
    const uint32_t from = r * src_pitch;
    for (uint32_t first = 0; first < full; first += kMaxRepeat) {
      const uint32_t count = full - first < kMaxRepeat ? full - first : kMaxRepeat;
      CopyRepeats(dst[to + first * lanes], src[from + (spread ? 0 : first * lanes)], lanes, count, src_block, 8,
                  src_step);
    }
    if (row > full * lanes) {
      CopyRepeats(dst[to + full * lanes], src[from + (spread ? 0 : full * lanes)], row - full * lanes, 1, src_block, 8,
                  src_step);
    }
  }
}

// Fills the 32 bytes of block r with src[r], for `rows` rows rounded up to 8.
template <typename T>
__aicore__ inline void SpreadRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                  uint32_t rows) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  const uint32_t eights = (rows + 7) / 8;
  for (uint32_t first = 0; first < eights; first += kMaxRepeat) {
    const uint32_t count = eights - first < kMaxRepeat ? eights - first : kMaxRepeat;
    AscendC::Brcb(dst[first * 8 * block], src[first * 8], static_cast<uint8_t>(count), {1, 8});
  }
}

// dst[r, c] = src[r] for `rows` rows of `cols` elements. With more than one row, a row is a multiple of 32 bytes.
// `tmp` holds 32 bytes for every row, rounded up to 8 rows.
template <typename T>
__aicore__ inline void BroadcastInner(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                      const AscendC::LocalTensor<uint8_t>& tmp, int64_t rows, int64_t cols) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  const AscendC::LocalTensor<T> spread = tmp.ReinterpretCast<T>();
  SpreadRows(spread, src, static_cast<uint32_t>(rows));
  AscendC::PipeBarrier<PIPE_V>();
  CopyRows(dst, spread, static_cast<uint32_t>(rows), static_cast<uint32_t>(cols), static_cast<uint32_t>(cols), block,
           true);
}

// dst[o, m, i] = src[o, i]. With more than one row, `inner` is a multiple of 32 bytes.
template <typename T>
__aicore__ inline void BroadcastOuter(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                      int64_t outer, int64_t mid, int64_t inner) {
  const uint32_t row = static_cast<uint32_t>(inner);
  const uint32_t rows = static_cast<uint32_t>(mid);
  for (uint32_t o = 0; o < static_cast<uint32_t>(outer); o++) {
    CopyRows(dst[o * rows * row], src[o * row], rows, row, row, 0, false);
  }
}

}  // namespace autofuse

#endif  // AUTOFUSE_DEVICE_H
