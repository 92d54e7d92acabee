// Device code shared by generated kernels: reductions and transpositions in UB.
//
// S is the size of an element in bytes, P a pitch in bytes. Tensors do not overlap. No function starts or ends with a
// barrier; inside, PipeBarrier<PIPE_V> separates calls that depend on each other.
//
// Order of a reduction: along rows of float, 8 neighbours to one, repeatedly; otherwise at most 8 parts in sequence,
// then by halves. The error of a sum of n elements therefore grows with log n. Max and Min treat NaN as AscendC::Max
// and Min do.
#ifndef AUTOFUSE_REDUCE_H
#define AUTOFUSE_REDUCE_H

#include "autofuse_device.h"
#include "kernel_operator.h"

namespace autofuse {

constexpr uint32_t kFoldParts = 8;     // parts that are folded in sequence: scratch is 1/8 of the source
constexpr uint32_t kWholeRows = 240;   // rows per WholeReduce call: whole 32-byte blocks of results, at most 255
constexpr uint32_t kBlockRows = 4;     // from this many rows, two BlockReduce calls are faster than one WholeReduce
constexpr uint32_t kTransposed = 16;   // rows, and list entries, of one transposition
constexpr uint32_t kDumpBytes = kTransposed * kBlockBytes;  // `tmp` of Transpose2D

// The operations. Count: on the first `count` elements. Repeats: on `mask` lanes of `repeat` repeats. Whole: reduces
// the first `mask` lanes of every repeat to one element; half and float only. Blocks: reduces every 32 bytes to one
// element, 8 adjacent ones per repeat; steps are per repeat, in blocks. kFewRows: below this many rows, float uses
// Whole only.
struct SumOf {
  static constexpr bool kWhole = true;
  static constexpr uint32_t kFewRows = kBlockRows;
  template <typename T>
  static __aicore__ inline void Count(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                      const AscendC::LocalTensor<T>& b, uint32_t count) {
    AscendC::Add(dst, a, b, static_cast<int32_t>(count));
  }
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                        const AscendC::LocalTensor<T>& b, uint64_t mask, uint32_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Add(dst, a, b, mask, static_cast<uint8_t>(repeat), params);
  }
  template <typename T>
  static __aicore__ inline void Whole(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                      int32_t mask, int32_t repeat, int32_t stride) {
    AscendC::WholeReduceSum(dst, src, mask, repeat, 1, 1, stride);
  }
  template <typename T, typename M>
  static __aicore__ inline void Blocks(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                       uint32_t repeat, M mask, uint32_t dst_step, uint32_t src_step) {
    AscendC::BlockReduceSum(dst, src, static_cast<int32_t>(repeat), mask, static_cast<int32_t>(dst_step), 1,
                         static_cast<int32_t>(src_step));
  }
};

// Makes the same calls for any number of rows, so that the sum of a row does not depend on it.
struct SumInOrder : SumOf {
  static constexpr uint32_t kFewRows = 1;
};

struct MaxOf {
  static constexpr bool kWhole = true;
  static constexpr uint32_t kFewRows = kBlockRows;
  template <typename T>
  static __aicore__ inline void Count(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                      const AscendC::LocalTensor<T>& b, uint32_t count) {
    AscendC::Max(dst, a, b, static_cast<int32_t>(count));
  }
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                        const AscendC::LocalTensor<T>& b, uint64_t mask, uint32_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Max(dst, a, b, mask, static_cast<uint8_t>(repeat), params);
  }
  template <typename T>
  static __aicore__ inline void Whole(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                      int32_t mask, int32_t repeat, int32_t stride) {
    AscendC::WholeReduceMax(dst, src, mask, repeat, 1, 1, stride, AscendC::ReduceOrder::ORDER_ONLY_VALUE);
  }
  template <typename T, typename M>
  static __aicore__ inline void Blocks(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                       uint32_t repeat, M mask, uint32_t dst_step, uint32_t src_step) {
    AscendC::BlockReduceMax(dst, src, static_cast<int32_t>(repeat), mask, static_cast<int32_t>(dst_step), 1,
                         static_cast<int32_t>(src_step));
  }
};

struct MinOf {
  static constexpr bool kWhole = true;
  static constexpr uint32_t kFewRows = kBlockRows;
  template <typename T>
  static __aicore__ inline void Count(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                      const AscendC::LocalTensor<T>& b, uint32_t count) {
    AscendC::Min(dst, a, b, static_cast<int32_t>(count));
  }
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                        const AscendC::LocalTensor<T>& b, uint64_t mask, uint32_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Min(dst, a, b, mask, static_cast<uint8_t>(repeat), params);
  }
  template <typename T>
  static __aicore__ inline void Whole(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                      int32_t mask, int32_t repeat, int32_t stride) {
    AscendC::WholeReduceMin(dst, src, mask, repeat, 1, 1, stride, AscendC::ReduceOrder::ORDER_ONLY_VALUE);
  }
  template <typename T, typename M>
  static __aicore__ inline void Blocks(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                       uint32_t repeat, M mask, uint32_t dst_step, uint32_t src_step) {
    AscendC::BlockReduceMin(dst, src, static_cast<int32_t>(repeat), mask, static_cast<int32_t>(dst_step), 1,
                         static_cast<int32_t>(src_step));
  }
};

struct ProdOf {
  static constexpr bool kWhole = false;
  template <typename T>
  static __aicore__ inline void Count(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                      const AscendC::LocalTensor<T>& b, uint32_t count) {
    AscendC::Mul(dst, a, b, static_cast<int32_t>(count));
  }
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                        const AscendC::LocalTensor<T>& b, uint64_t mask, uint32_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Mul(dst, a, b, mask, static_cast<uint8_t>(repeat), params);
  }
};

template <typename T>
struct IsFloating {
  static constexpr bool kYes = false;
};
template <>
struct IsFloating<half> {
  static constexpr bool kYes = true;
};
template <>
struct IsFloating<float> {
  static constexpr bool kYes = true;
};

// dst[r, c] = a[r, c] op b[r, c] for `rows` rows of `cols` elements; with more than one row, pitches are multiples of
// 32 bytes. dst may be a.
template <typename Op, typename T>
__aicore__ inline void CombineRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& a,
                                   const AscendC::LocalTensor<T>& b, uint32_t rows, uint32_t cols, uint32_t dst_pitch,
                                   uint32_t a_pitch, uint32_t b_pitch) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  constexpr uint32_t lanes = kVectorBytes / sizeof(T);
  if (rows == 1 || (cols == dst_pitch && cols == a_pitch && cols == b_pitch)) {
    Op::Count(dst, a, b, rows * cols);
    return;
  }
  const uint32_t d = dst_pitch / block;
  const uint32_t p = a_pitch / block;
  const uint32_t q = b_pitch / block;
  const uint32_t pq = p > q ? p : q;
  const uint32_t most = d > pq ? d : pq;
  if (cols == block && 8 * most <= kMaxBlockStride) {
    // A row is one block: 8 rows per repeat.
    const AscendC::BinaryRepeatParams params(static_cast<uint8_t>(d), static_cast<uint8_t>(p), static_cast<uint8_t>(q),
                                             static_cast<uint8_t>(8 * d), static_cast<uint8_t>(8 * p),
                                             static_cast<uint8_t>(8 * q));
    const uint32_t whole = rows / 8;
    for (uint32_t first = 0; first < whole; first += kMaxRepeat) {
      const uint32_t count = whole - first < kMaxRepeat ? whole - first : kMaxRepeat;
      Op::Repeats(dst[first * 8 * dst_pitch], a[first * 8 * a_pitch], b[first * 8 * b_pitch], lanes, count, params);
    }
    if (rows > whole * 8) {
      Op::Repeats(dst[whole * 8 * dst_pitch], a[whole * 8 * a_pitch], b[whole * 8 * b_pitch],
                  (rows - whole * 8) * block, 1, params);
    }
    return;
  }
  const uint32_t chunks = (cols + lanes - 1) / lanes;
  if (rows >= chunks && most <= kMaxBlockStride) {
    // One instruction per 256 bytes of a row and 255 rows.
    const AscendC::BinaryRepeatParams params(1, 1, 1, static_cast<uint8_t>(d), static_cast<uint8_t>(p),
                                             static_cast<uint8_t>(q));
    for (uint32_t at = 0; at < cols; at += lanes) {
      const uint32_t mask = cols - at < lanes ? cols - at : lanes;
      for (uint32_t first = 0; first < rows; first += kMaxRepeat) {
        const uint32_t count = rows - first < kMaxRepeat ? rows - first : kMaxRepeat;
        Op::Repeats(dst[first * dst_pitch + at], a[first * a_pitch + at], b[first * b_pitch + at], mask, count, params);
      }
    }
    return;
  }
  for (uint32_t r = 0; r < rows; r++) {
    Op::Count(dst[r * dst_pitch], a[r * a_pitch], b[r * b_pitch], cols);
  }
}

// Folds rows of n elements to rows of w < n elements: dst[r, c] = op over k of src[r, k * w + c]. dst has the pitch w,
// a multiple of 32 bytes unless there is one row and the part is the last one.
template <typename Op, typename T>
__aicore__ inline void FoldParts(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t rows,
                                 uint32_t n, uint32_t pitch, uint32_t w) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  const uint32_t second = n - w < w ? n - w : w;
  if (second < w) {
    // Two parts, the second one shorter: copy the rest of the first one unchanged, in whole blocks.
    const uint32_t from = second / block * block;
    CopyRows(dst[from], src[from], rows, w - from, w, pitch, false);
    AscendC::PipeBarrier<PIPE_V>();
  }
  CombineRows<Op>(dst, src, src[w], rows, second, w, pitch, pitch);
  for (uint32_t at = 2 * w; at < n; at += w) {
    AscendC::PipeBarrier<PIPE_V>();
    CombineRows<Op>(dst, dst, src[at], rows, n - at < w ? n - at : w, w, w, pitch);
  }
}

// Folds rows of `cols` elements in place, by halves in multiples of `unit`, until they have at most `most` elements.
// Returns their length. `cols` is a multiple of `unit`, `unit` of 32 bytes.
template <typename Op, typename T>
__aicore__ inline uint32_t FoldHalves(const AscendC::LocalTensor<T>& rows_in_ub, uint32_t rows, uint32_t cols,
                                      uint32_t most, uint32_t unit) {
  const uint32_t pitch = cols;
  while (cols > most) {
    const uint32_t half_cols = (cols / unit + 1) / 2 * unit;
    AscendC::PipeBarrier<PIPE_V>();
    CombineRows<Op>(rows_in_ub, rows_in_ub, rows_in_ub[half_cols], rows, cols - half_cols, pitch, pitch, pitch);
    cols = half_cols;
  }
  return cols;
}

// dst[r] = op over c < cols of src[r, c]; a row is at most 256 bytes.
template <typename Op, typename T>
__aicore__ inline void WholeRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, uint32_t rows,
                                 uint32_t cols, uint32_t pitch) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  for (uint32_t first = 0; first < rows; first += kWholeRows) {
    const uint32_t count = rows - first < kWholeRows ? rows - first : kWholeRows;
    Op::Whole(dst[first], src[first * pitch], static_cast<int32_t>(cols), static_cast<int32_t>(count),
              static_cast<int32_t>(pitch / block));
  }
}

// dst[i] = op over 8 elements from src[8 * i], for `count` >= 1 elements; the last result may cover fewer.
template <typename Op>
__aicore__ inline void BlockRun(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                uint32_t count) {
  constexpr uint32_t block = kBlockBytes / sizeof(float);
  constexpr uint32_t lanes = kVectorBytes / sizeof(float);
  const uint32_t whole = count / lanes;
  for (uint32_t first = 0; first < whole; first += kMaxRepeat) {
    const uint32_t repeat = whole - first < kMaxRepeat ? whole - first : kMaxRepeat;
    Op::Blocks(dst[first * block], src[first * lanes], repeat, static_cast<int32_t>(lanes), 1, block);
  }
  if (count > whole * lanes) {
    Op::Blocks(dst[whole * block], src[whole * lanes], 1, static_cast<int32_t>(count - whole * lanes), 1, block);
  }
}

// dst[r, i] = op over 8 elements from src[r, 8 * i], for `rows` rows of `cols` elements. The pitches are multiples of
// 8, dst_pitch >= CeilDiv(cols, 64) * 8; elements after the results in a row of dst are unspecified.
template <typename Op>
__aicore__ inline void BlockRows(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                 uint32_t rows, uint32_t cols, uint32_t dst_pitch, uint32_t src_pitch) {
  constexpr uint32_t block = kBlockBytes / sizeof(float);
  constexpr uint32_t lanes = kVectorBytes / sizeof(float);
  if (cols == src_pitch && cols == dst_pitch * block) {
    BlockRun<Op>(dst, src, rows * cols);
    return;
  }
  if (rows >= (cols + lanes - 1) / lanes) {
    // One instruction per 256 bytes of a row and 255 rows.
    for (uint32_t at = 0; at < cols; at += lanes) {
      const int32_t mask = static_cast<int32_t>(cols - at < lanes ? cols - at : lanes);
      for (uint32_t first = 0; first < rows; first += kMaxRepeat) {
        const uint32_t repeat = rows - first < kMaxRepeat ? rows - first : kMaxRepeat;
        Op::Blocks(dst[first * dst_pitch + at / block], src[first * src_pitch + at], repeat, mask, dst_pitch / block,
                   src_pitch / block);
      }
    }
    return;
  }
  for (uint32_t r = 0; r < rows; r++) {
    BlockRun<Op>(dst[r * dst_pitch], src[r * src_pitch], cols);
  }
}

// dst[r] = op over c < cols of src[r, c], for rows of float: reduces 8 neighbours to one until a row has 256 bytes or
// less, once more to one block per row, then every block to one element. Steps alternate between two parts of
// `scratch`.
template <typename Op>
__aicore__ inline void ReduceBlocks(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                    const AscendC::LocalTensor<float>& scratch, uint32_t rows, uint32_t cols,
                                    uint32_t pitch) {
  constexpr uint32_t block = kBlockBytes / sizeof(float);
  constexpr uint32_t lanes = kVectorBytes / sizeof(float);
  const uint32_t odd = rows * ((cols + lanes - 1) / lanes * block);  // start of the second part of scratch
  AscendC::LocalTensor<float> from = src;
  bool second = false;
  while (cols > lanes) {
    const AscendC::LocalTensor<float> to = scratch[second ? odd : 0];
    const uint32_t step = (cols + lanes - 1) / lanes * block;
    BlockRows<Op>(to, from, rows, cols, step, pitch);
    AscendC::PipeBarrier<PIPE_V>();
    from = to;
    cols = (cols + block - 1) / block;
    pitch = step;
    second = !second;
  }
  if (rows < Op::kFewRows) {
    WholeRows<Op>(dst, from, rows, cols, pitch);
    return;
  }
  const AscendC::LocalTensor<float> to = scratch[second ? odd : 0];
  BlockRows<Op>(to, from, rows, cols, block, pitch);
  AscendC::PipeBarrier<PIPE_V>();
  // A block has as many valid elements as a row had blocks.
  const uint64_t valid = (uint64_t{1} << ((cols + block - 1) / block)) - 1;
  const uint64_t each = valid * 0x0101010101010101ULL;
  const uint64_t all[2] = {each, 0};
  const uint32_t whole = rows / block;
  for (uint32_t first = 0; first < whole; first += kMaxRepeat) {
    const uint32_t repeat = whole - first < kMaxRepeat ? whole - first : kMaxRepeat;
    Op::Blocks(dst[first * block], to[first * lanes], repeat, &all[0], 1, block);
  }
  if (rows > whole * block) {
    const uint64_t rest[2] = {each & ((uint64_t{1} << ((rows - whole * block) * block)) - 1), 0};
    Op::Blocks(dst[whole * block], to[whole * lanes], 1, &rest[0], 1, block);
  }
}

// Transposes `repeat` blocks of 16 rows of 32 bytes, the first one at row `r` and column `c`, the next ones adjacent
// along the rows (`down`) or the columns. Results outside dst go to `tmp`; in that case `repeat` is 1.
template <typename T>
__aicore__ inline void TransposeTiles(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                      const AscendC::LocalTensor<uint8_t>& tmp, uint32_t rows, uint32_t cols,
                                      uint32_t src_pitch, uint32_t dst_pitch, uint32_t r, uint32_t c, uint32_t repeat,
                                      bool down) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "TransDataTo5HD has 16 x 16 elements of 16 bits, 16 x 8 of 32");
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  constexpr uint32_t split = kTransposed / block;  // blocks for 16 results of a column
  uint64_t to[kTransposed];
  uint64_t from[kTransposed];
  bool dumps = false;
  for (uint32_t i = 0; i < kTransposed; i++) {
    // Rows after the last one read the last one: their results land in the padding of dst.
    const uint32_t row = r + i < rows ? r + i : rows - 1;
    from[i] = reinterpret_cast<uint64_t>(src[row * src_pitch + c].GetPhyAddr());
    const uint32_t column = c + i / split;
    const uint32_t at = r + i % split * block;
    if (column < cols && at < dst_pitch) {
      to[i] = reinterpret_cast<uint64_t>(dst[column * dst_pitch + at].GetPhyAddr());
    } else {
      to[i] = reinterpret_cast<uint64_t>(tmp[i * kBlockBytes].GetPhyAddr());
      dumps = true;
    }
  }
  if (dumps) {
    AscendC::PipeBarrier<PIPE_V>();  // an earlier call may still be writing there
  }
  // A single repeat adds its strides to the addresses.
  const uint32_t to_step = down ? split : dst_pitch;
  const uint32_t from_step = down ? src_pitch / block * kTransposed : 1;
  const AscendC::TransDataTo5HDParams params(false, false, static_cast<uint8_t>(repeat),
                                             static_cast<uint16_t>(repeat == 1 ? 0 : to_step),
                                             static_cast<uint16_t>(repeat == 1 ? 0 : from_step));
  AscendC::TransDataTo5HD<T>(to, from, params);
}

// dst[c * dst_pitch + r] = src[r * src_pitch + c] for elements of 16 or 32 bits. The pitches are multiples of 32 bytes,
// src_pitch >= cols, dst_pitch >= rows: src has rows * src_pitch elements, dst cols * dst_pitch. Elements after `rows`
// in a row of dst are unspecified. `tmp` has kDumpBytes = 512 bytes.
template <typename T>
__aicore__ inline void Transpose2D(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                   const AscendC::LocalTensor<uint8_t>& tmp, int64_t rows, int64_t cols,
                                   int64_t src_pitch, int64_t dst_pitch) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  if (rows <= 0 || cols <= 0) {
    return;
  }
  const uint32_t m = static_cast<uint32_t>(rows);
  const uint32_t n = static_cast<uint32_t>(cols);
  const uint32_t p = static_cast<uint32_t>(src_pitch);
  const uint32_t q = static_cast<uint32_t>(dst_pitch);
  if ((m + kTransposed - 1) / kTransposed <= (n + block - 1) / block) {
    // One instruction per 16 rows and 255 blocks of them.
    const uint32_t whole = n / block;
    for (uint32_t r = 0; r < m; r += kTransposed) {
      const uint32_t most = q - r >= kTransposed ? kMaxRepeat : 1;
      for (uint32_t first = 0; first < whole; first += most) {
        TransposeTiles(dst, src, tmp, m, n, p, q, r, first * block, whole - first < most ? whole - first : most, false);
      }
      if (n > whole * block) {
        TransposeTiles(dst, src, tmp, m, n, p, q, r, whole * block, 1, false);
      }
    }
    return;
  }
  // One instruction per block of columns and 255 times 16 rows.
  const uint32_t whole = m / kTransposed;
  for (uint32_t c = 0; c < n; c += block) {
    const uint32_t most = n - c >= block ? kMaxRepeat : 1;
    for (uint32_t first = 0; first < whole; first += most) {
      TransposeTiles(dst, src, tmp, m, n, p, q, first * kTransposed, c, whole - first < most ? whole - first : most,
                     true);
    }
    if (m > whole * kTransposed) {
      TransposeTiles(dst, src, tmp, m, n, p, q, whole * kTransposed, c, 1, true);
    }
  }
}

// Transpose2D for each of `outer` matrices: dst[o, c, r] = src[o, r, c] with rows of `src_pitch` and `dst_pitch`
// elements, multiples of 32 bytes. src has outer * rows * src_pitch elements, dst outer * cols * dst_pitch. A single
// column (cols = 1) gathers elements that are `src_pitch` apart, a single row (rows = 1) scatters them.
template <typename T>
__aicore__ inline void TransposeRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                     const AscendC::LocalTensor<uint8_t>& tmp, int64_t outer, int64_t rows,
                                     int64_t cols, int64_t src_pitch, int64_t dst_pitch) {
  const uint32_t from = static_cast<uint32_t>(rows * src_pitch);
  const uint32_t to = static_cast<uint32_t>(cols * dst_pitch);
  for (uint32_t o = 0; o < static_cast<uint32_t>(outer); o++) {
    Transpose2D(dst[o * to], src[o * from], tmp, rows, cols, src_pitch, dst_pitch);
  }
}

// dst[o] = op over j < n of src[o * pitch + j]; P = pitch * S is a multiple of 32, n >= 1. Writes `outer` elements, and
// may write behind them up to the next 32 bytes. `tmp`, in bytes:
//   Sum, Max, Min of float:  outer * 32 * (CeilDiv(n, 64) + CeilDiv(n, 512))  (outer * 32 where n <= 64)
//   Sum, Max, Min of half:   outer * Min(P, CeilDiv(P, 2048) * 256)  (unused if n * S <= 256)
//   all others:              outer * Min(P, CeilDiv(P, 2048) * 256) + 32 * AlignUp(outer, 16)
template <typename Op, typename T>
__aicore__ inline void ReduceInner(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                   const AscendC::LocalTensor<uint8_t>& tmp, int64_t outer, int64_t n, int64_t pitch) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  constexpr uint32_t lanes = kVectorBytes / sizeof(T);
  constexpr bool whole = Op::kWhole && IsFloating<T>::kYes;
  constexpr uint32_t most = whole ? lanes : block;  // length of a folded row
  if (outer <= 0) {
    return;
  }
  const uint32_t rows = static_cast<uint32_t>(outer);
  uint32_t cols = static_cast<uint32_t>(n);
  uint32_t step = static_cast<uint32_t>(pitch);
  AscendC::LocalTensor<T> from = src;
  const AscendC::LocalTensor<T> scratch = tmp.ReinterpretCast<T>();
  if constexpr (whole && sizeof(T) == sizeof(float)) {
    ReduceBlocks<Op>(dst, src, scratch, rows, cols, step);
    return;
  }
  uint32_t used = 0;
  if (cols > most) {
    uint32_t parts = (cols + lanes - 1) / lanes;
    parts = parts > kFoldParts ? kFoldParts : parts;
    parts = parts < 2 ? 2 : parts;
    const uint32_t w = ((cols + parts - 1) / parts + block - 1) / block * block;
    FoldParts<Op>(scratch, src, rows, cols, step, w);
    cols = FoldHalves<Op>(scratch, rows, w, most, block);
    AscendC::PipeBarrier<PIPE_V>();
    from = scratch;
    step = w;
    used = rows * w;
  }
  if constexpr (whole) {
    WholeRows<Op>(dst, from, rows, cols, step);
  } else {
    // For every c, pack element c of all rows into a plane; then combine the planes.
    const uint32_t plane = (rows + kTransposed - 1) / kTransposed * kTransposed;
    const AscendC::LocalTensor<T> planes = scratch[used];
    Transpose2D(planes, from, tmp, rows, block, step, plane);
    while (cols > 2) {
      const uint32_t half_cols = (cols + 1) / 2;
      AscendC::PipeBarrier<PIPE_V>();
      Op::Count(planes, planes, planes[half_cols * plane], (cols - half_cols) * plane);
      cols = half_cols;
    }
    AscendC::PipeBarrier<PIPE_V>();
    if (cols == 2) {
      Op::Count(dst, planes, planes[plane], rows);
    } else {
      CopyRows(dst, planes, 1, rows, plane, plane, false);
    }
  }
}

// dst[o * inner + i] = op over j < n of src[(o * n + j) * inner + i]; inner * S is a multiple of 32, n >= 1.
// `tmp`, in bytes: outer * CeilDiv(n, 8) * inner * S (unused if n <= 8).
template <typename Op, typename T>
__aicore__ inline void ReduceOuter(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                   const AscendC::LocalTensor<uint8_t>& tmp, int64_t outer, int64_t n, int64_t inner) {
  if (outer <= 0 || inner <= 0) {
    return;
  }
  const uint32_t rows = static_cast<uint32_t>(outer);
  const uint32_t unit = static_cast<uint32_t>(inner);
  const uint32_t row = static_cast<uint32_t>(n) * unit;
  if (n == 1) {
    CopyRows(dst, src, 1, rows * unit, rows * unit, rows * unit, false);
    return;
  }
  if (n <= kFoldParts) {
    FoldParts<Op>(dst, src, rows, row, row, unit);
    return;
  }
  const AscendC::LocalTensor<T> scratch = tmp.ReinterpretCast<T>();
  const uint32_t w = (static_cast<uint32_t>(n) + kFoldParts - 1) / kFoldParts * unit;
  FoldParts<Op>(scratch, src, rows, row, row, w);
  FoldHalves<Op>(scratch, rows, w, 2 * unit, unit);
  AscendC::PipeBarrier<PIPE_V>();
  CombineRows<Op>(dst, scratch, scratch[unit], rows, unit, unit, w, w);
}

}  // namespace autofuse

#endif  // AUTOFUSE_REDUCE_H
