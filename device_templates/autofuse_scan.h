// Device code shared by generated kernels: running sums in UB.
//
// S is the size of an element in bytes. Tensors do not overlap. Only ScanInner begins with a barrier, and no function
// ends with one; inside, PipeBarrier<PIPE_V> separates calls that depend on each other.
//
// kExclusive: leaves an element out of its own sum. kReverse: sums from the end. Every step adds elements twice as far
// away as the previous one, so the error of a sum of n elements grows with log n. A `carry` is the sum of everything
// before the first element (after the last one, if kReverse); it is updated for the next tile.
#ifndef AUTOFUSE_SCAN_H
#define AUTOFUSE_SCAN_H

#include "autofuse_reduce.h"

namespace autofuse {

// Values of kExclusive, kReverse and kTogether.
constexpr bool kInclusiveSums = false;
constexpr bool kExclusiveSums = true;
constexpr bool kForward = false;
constexpr bool kBackward = true;
constexpr bool kRowsInTurn = false;
constexpr bool kRowsTogether = true;

constexpr uint32_t kSegments = 16;  // parts of a row that are summed in parallel: the rows of one transposition

// Running sums over rows of `inner` elements, by steps of 1, 2, 4, ... rows, in each of `outer` matrices of n > 1 rows.
// The steps go from src to `first`, then to `second`, and back; `second` may be src. Returns the tensor with the sums.
template <bool kReverse, typename T>
__aicore__ inline AscendC::LocalTensor<T> ScanSteps(const AscendC::LocalTensor<T>& src,
                                                    const AscendC::LocalTensor<T>& first,
                                                    const AscendC::LocalTensor<T>& second, uint32_t outer, uint32_t n,
                                                    uint32_t inner) {
  const uint32_t matrix = n * inner;
  AscendC::LocalTensor<T> from = src;
  AscendC::LocalTensor<T> to = first;
  bool odd = true;
  for (uint32_t d = 1; d < n; d *= 2) {
    if (d > 1) {
      AscendC::PipeBarrier<PIPE_V>();
      from = to;
      odd = !odd;
      to = odd ? first : second;
    }
    const uint32_t near = d * inner;
    const uint32_t rest = matrix - near;
    // d rows have no partner and are copied.
    const uint32_t changed = kReverse ? 0 : near;
    CombineRows<SumOf>(to[changed], from[changed], from[near - changed], outer, rest, matrix, matrix, matrix);
    CopyRows(to[kReverse ? rest : 0], from[kReverse ? rest : 0], outer, near, matrix, matrix, false);
  }
  return to;
}

// True if ScanSteps of n rows ends in `first`.
__aicore__ inline bool EndsInFirst(uint32_t n) {
  bool first = false;
  for (uint32_t d = 1; d < n; d *= 2) {
    first = !first;
  }
  return first;
}

// dst[o, j, i] = sum of src[o, k, i] over k <= j. With n > 1, inner * S is a multiple of 32.
// `tmp`, in bytes: outer * n * inner * S (unused if n is 1).
template <bool kExclusive, bool kReverse, typename T>
__aicore__ inline void ScanOuter(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                 const AscendC::LocalTensor<uint8_t>& tmp, int64_t outer, int64_t n, int64_t inner) {
  if (outer <= 0 || n <= 0 || inner <= 0) {
    return;
  }
  const uint32_t matrices = static_cast<uint32_t>(outer);
  const uint32_t rows = static_cast<uint32_t>(n);
  const uint32_t unit = static_cast<uint32_t>(inner);
  const uint32_t matrix = rows * unit;
  if (rows == 1) {
    if (kExclusive) {
      AscendC::Duplicate(dst, static_cast<T>(0), static_cast<int32_t>(matrices * unit));
    } else {
      CopyRows(dst, src, 1, matrices * unit, 0, 0, false);
    }
    return;
  }
  const AscendC::LocalTensor<T> scratch = tmp.ReinterpretCast<T>();
  // Sums that are then shifted by a row must not end in dst.
  const bool begins = EndsInFirst(rows) != kExclusive;
  ScanSteps<kReverse>(src, begins ? dst : scratch, begins ? scratch : dst, matrices, rows, unit);
  if (kExclusive) {
    AscendC::PipeBarrier<PIPE_V>();
    CopyRows(dst[kReverse ? 0 : unit], scratch[kReverse ? unit : 0], matrices, matrix - unit, matrix, matrix, false);
    for (uint32_t o = 0; o < matrices; o++) {
      AscendC::Duplicate(dst[o * matrix + (kReverse ? matrix - unit : 0)], static_cast<T>(0),
                         static_cast<int32_t>(unit));
    }
  }
}

// For one matrix; `carry` is the row of sums before the first one, `inner` elements.
// `tmp`, in bytes: n * inner * S (unused if n is 1).
template <bool kExclusive, bool kReverse, typename T>
__aicore__ inline void ScanOuter(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                 const AscendC::LocalTensor<T>& carry, const AscendC::LocalTensor<uint8_t>& tmp,
                                 int64_t n, int64_t inner) {
  if (n <= 0 || inner <= 0) {
    return;
  }
  const uint32_t rows = static_cast<uint32_t>(n);
  const uint32_t unit = static_cast<uint32_t>(inner);
  const uint32_t last = kReverse ? 0 : (rows - 1) * unit;
  AscendC::LocalTensor<T> sums = src;
  if (rows > 1) {
    const AscendC::LocalTensor<T> scratch = tmp.ReinterpretCast<T>();
    const bool begins = !EndsInFirst(rows);
    sums = ScanSteps<kReverse>(src, begins ? dst : scratch, begins ? scratch : dst, 1, rows, unit);
    AscendC::PipeBarrier<PIPE_V>();
  }
  if (kExclusive) {
    if (rows > 1) {
      CombineRows<SumOf>(dst[kReverse ? 0 : unit], sums[kReverse ? unit : 0], carry, rows - 1, unit, unit, unit, 0);
    }
    CopyRows(dst[kReverse ? (rows - 1) * unit : 0], carry, 1, unit, 0, 0, false);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(carry, carry, sums[last], static_cast<int32_t>(unit));
  } else {
    CombineRows<SumOf>(dst, sums, carry, rows, unit, unit, unit, 0);
    AscendC::PipeBarrier<PIPE_V>();
    CopyRows(carry, dst[last], 1, unit, 0, 0, false);
  }
}

// Scans a row of n elements in segments, which a transposition places side by side. A running sum of their totals, in a
// table of 17 rows including the carry, gives the sum before every segment.
// `tmp`, in bytes: S * (32 * AlignUp(CeilDiv(n, 16), 32 / S) + 560) + 512.
template <bool kExclusive, bool kReverse, bool kCarry, typename T>
__aicore__ inline void ScanRow(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                               const AscendC::LocalTensor<T>& carry, const AscendC::LocalTensor<uint8_t>& tmp,
                               uint32_t n) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  constexpr uint32_t table = (kSegments + 1) * kSegments;
  const uint32_t cols = ((n + kSegments - 1) / kSegments + block - 1) / block * block;
  const uint32_t size = kSegments * cols;
  const AscendC::LocalTensor<T> scratch = tmp.ReinterpretCast<T>();
  const AscendC::LocalTensor<T> a = scratch[0];
  const AscendC::LocalTensor<T> b = scratch[size];
  const AscendC::LocalTensor<T> totals = scratch[2 * size];
  const AscendC::LocalTensor<T> others = scratch[2 * size + table];
  const AscendC::LocalTensor<T> before = scratch[2 * size + 2 * table];
  const AscendC::LocalTensor<uint8_t> dump = tmp[(2 * size + 2 * table + kSegments) * sizeof(T)];
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Duplicate(a, static_cast<T>(0), static_cast<int32_t>(size));
  AscendC::PipeBarrier<PIPE_V>();
  CopyRows(a, src, 1, n, 0, 0, false);
  AscendC::PipeBarrier<PIPE_V>();
  Transpose2D(b, a, dump, kSegments, cols, cols, kSegments);
  AscendC::PipeBarrier<PIPE_V>();
  const AscendC::LocalTensor<T> sums = ScanSteps<kReverse>(b, a, b, 1, cols, kSegments);
  const AscendC::LocalTensor<T> made = EndsInFirst(cols) ? b : a;
  AscendC::PipeBarrier<PIPE_V>();
  Transpose2D(totals[kReverse ? 0 : kSegments], sums[kReverse ? 0 : (cols - 1) * kSegments], dump, 1, kSegments,
              kSegments, kSegments);
  const AscendC::LocalTensor<T> begin = totals[kReverse ? kSegments * kSegments : 0];
  if (kCarry) {
    CopyRows(begin, carry, 1, 1, 0, 0, false);
  } else {
    AscendC::Duplicate(begin, static_cast<T>(0), static_cast<int32_t>(kSegments));
  }
  AscendC::PipeBarrier<PIPE_V>();
  const AscendC::LocalTensor<T> running =
      ScanSteps<kReverse>(totals, others, totals, 1, kSegments + 1, kSegments);
  AscendC::PipeBarrier<PIPE_V>();
  Transpose2D(before, running[kReverse ? kSegments : 0], dump, kSegments, 1, kSegments, kSegments);
  if (kCarry) {
    CopyRows(carry, running[kReverse ? 0 : kSegments * kSegments], 1, 1, 0, 0, false);
  }
  AscendC::PipeBarrier<PIPE_V>();
  if (kExclusive) {
    CombineRows<SumOf>(made[kReverse ? 0 : kSegments], sums[kReverse ? kSegments : 0], before, cols - 1, kSegments,
                       kSegments, kSegments, 0);
    CopyRows(made[kReverse ? size - kSegments : 0], before, 1, kSegments, 0, 0, false);
  } else {
    CombineRows<SumOf>(made, sums, before, cols, kSegments, kSegments, kSegments, 0);
  }
  AscendC::PipeBarrier<PIPE_V>();
  Transpose2D(sums, made, dump, cols, kSegments, kSegments, cols);
  AscendC::PipeBarrier<PIPE_V>();
  CopyRows(dst, sums, 1, n, 0, 0, false);
}

// dst[o, j] = sum of src[o, k] over k <= j, j < n, for rows that are `pitch` elements apart; pitch * S is a multiple of
// 32. Elements after n in a row of dst are unspecified. 16 rows or more are summed in parallel, fewer only with
// kTogether: that takes as long as 16 rows, which for most numbers of rows is less than in sequence.
// `tmp`, in bytes:
//   in parallel:  S * 2 * n * AlignUp(outer, 16) + 512
//   in sequence:  S * (32 * AlignUp(CeilDiv(n, 16), 32 / S) + 560) + 512
template <bool kExclusive, bool kReverse, bool kTogether = false, typename T>
__aicore__ inline void ScanInner(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                 const AscendC::LocalTensor<uint8_t>& tmp, int64_t outer, int64_t n, int64_t pitch) {
  if (outer <= 0 || n <= 0) {
    return;
  }
  const uint32_t rows = static_cast<uint32_t>(outer);
  const uint32_t cols = static_cast<uint32_t>(n);
  const uint32_t step = static_cast<uint32_t>(pitch);
  if (!kTogether && rows < kSegments) {
    for (uint32_t r = 0; r < rows; r++) {
      ScanRow<kExclusive, kReverse, false>(dst[r * step], src[r * step], src, tmp, cols);
    }
    return;
  }
  const uint32_t unit = (rows + kSegments - 1) / kSegments * kSegments;
  const uint32_t size = cols * unit;
  const AscendC::LocalTensor<T> scratch = tmp.ReinterpretCast<T>();
  const AscendC::LocalTensor<T> a = scratch[0];
  const AscendC::LocalTensor<T> b = scratch[size];
  const AscendC::LocalTensor<uint8_t> dump = tmp[2 * size * sizeof(T)];
  AscendC::PipeBarrier<PIPE_V>();
  Transpose2D(a, src, dump, rows, cols, step, unit);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::LocalTensor<T> sums = a;
  AscendC::LocalTensor<T> made = b;
  if (cols > 1) {
    sums = ScanSteps<kReverse>(a, b, a, 1, cols, unit);
    made = EndsInFirst(cols) ? a : b;
    AscendC::PipeBarrier<PIPE_V>();
  }
  if (kExclusive) {
    if (cols > 1) {
      CopyRows(made[kReverse ? 0 : unit], sums[kReverse ? unit : 0], 1, size - unit, 0, 0, false);
    }
    AscendC::Duplicate(made[kReverse ? size - unit : 0], static_cast<T>(0), static_cast<int32_t>(unit));
    AscendC::PipeBarrier<PIPE_V>();
    sums = made;
  }
  Transpose2D(dst, sums, dump, cols, rows, unit, step);
}

// For one row; the first element of `carry` is the sum before it.
template <bool kExclusive, bool kReverse, typename T>
__aicore__ inline void ScanInner(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                 const AscendC::LocalTensor<T>& carry, const AscendC::LocalTensor<uint8_t>& tmp,
                                 int64_t n) {
  if (n > 0) {
    ScanRow<kExclusive, kReverse, true>(dst, src, carry, tmp, static_cast<uint32_t>(n));
  }
}

}  // namespace autofuse

#endif  // AUTOFUSE_SCAN_H
