// Device code shared by generated kernels: operations on two tensors, one of which has one element per row.
//
// A call rereads the element of a row from one 32-byte block, so the operand is not broadcast to a full tensor first.
// Tensors do not overlap, but dst may be x. No function starts or ends with a barrier; inside, PipeBarrier<PIPE_V>
// separates calls that depend on each other.
#ifndef AUTOFUSE_ROWS_H
#define AUTOFUSE_ROWS_H

#include "autofuse_device.h"
#include "kernel_operator.h"

namespace autofuse {

// The operations, on `mask` lanes of `repeat` repeats. kFirst: the element of a row is the first operand.
struct AddRow {
  static constexpr bool kFirst = false;
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                        const AscendC::LocalTensor<T>& each, uint64_t mask, uint8_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Add(dst, x, each, mask, repeat, params);
  }
};

struct SubRow {
  static constexpr bool kFirst = false;
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                        const AscendC::LocalTensor<T>& each, uint64_t mask, uint8_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Sub(dst, x, each, mask, repeat, params);
  }
};

struct MulRow {
  static constexpr bool kFirst = false;
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                        const AscendC::LocalTensor<T>& each, uint64_t mask, uint8_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Mul(dst, x, each, mask, repeat, params);
  }
};

struct DivRow {
  static constexpr bool kFirst = false;
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                        const AscendC::LocalTensor<T>& each, uint64_t mask, uint8_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Div(dst, x, each, mask, repeat, params);
  }
};

struct MaxRow {
  static constexpr bool kFirst = false;
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                        const AscendC::LocalTensor<T>& each, uint64_t mask, uint8_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Max(dst, x, each, mask, repeat, params);
  }
};

struct MinRow {
  static constexpr bool kFirst = false;
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                        const AscendC::LocalTensor<T>& each, uint64_t mask, uint8_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Min(dst, x, each, mask, repeat, params);
  }
};

struct RowSub {
  static constexpr bool kFirst = true;
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                        const AscendC::LocalTensor<T>& each, uint64_t mask, uint8_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Sub(dst, each, x, mask, repeat, params);
  }
};

struct RowDiv {
  static constexpr bool kFirst = true;
  template <typename T>
  static __aicore__ inline void Repeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                        const AscendC::LocalTensor<T>& each, uint64_t mask, uint8_t repeat,
                                        const AscendC::BinaryRepeatParams& params) {
    AscendC::Div(dst, each, x, mask, repeat, params);
  }
};

// Applies Op to repeats that are `step` blocks apart; the elements of their rows are `each_step` blocks apart.
template <typename Op, typename T>
__aicore__ inline void RowRepeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                  const AscendC::LocalTensor<T>& each, uint32_t mask, uint32_t repeat, uint32_t step,
                                  uint32_t each_step) {
  const uint8_t own = static_cast<uint8_t>(step);
  const uint8_t other = static_cast<uint8_t>(each_step);
  const AscendC::BinaryRepeatParams params(1, Op::kFirst ? 0 : 1, Op::kFirst ? 1 : 0, own, Op::kFirst ? other : own,
                                           Op::kFirst ? own : other);
  Op::Repeats(dst, x, each, static_cast<uint64_t>(mask), static_cast<uint8_t>(repeat), params);
}

// dst[r, c] = x[r, c] op each[r] for `rows` >= 1 rows of `cols` >= 1 elements. With more than one row, a row is a
// multiple of 32 bytes. `tmp` holds 32 bytes for every row, rounded up to 8 rows; if each of several rows is several
// whole repeats, also 32 bytes per repeat.
template <typename Op, typename T>
__aicore__ inline void WithRows(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& x,
                                const AscendC::LocalTensor<T>& each, const AscendC::LocalTensor<uint8_t>& tmp,
                                int64_t rows, int64_t cols) {
  constexpr uint32_t block = kBlockBytes / sizeof(T);
  constexpr uint32_t lanes = kVectorBytes / sizeof(T);
  const uint32_t m = static_cast<uint32_t>(rows);
  const uint32_t n = static_cast<uint32_t>(cols);
  const uint32_t chunks = (n + lanes - 1) / lanes;
  const AscendC::LocalTensor<T> spread = tmp.ReinterpretCast<T>();
  SpreadRows(spread, each, m);
  AscendC::PipeBarrier<PIPE_V>();
  if (m > 1 && chunks > 1 && n % lanes == 0) {
    // The rows are contiguous: spread one block per repeat.
    const AscendC::LocalTensor<T> every = spread[(m + 7) / 8 * 8 * block];
    CopyRows(every, spread, m, chunks * block, chunks * block, block, true);
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t first = 0; first < m * chunks; first += kMaxRepeat) {
      const uint32_t repeat = m * chunks - first < kMaxRepeat ? m * chunks - first : kMaxRepeat;
      RowRepeats<Op>(dst[first * lanes], x[first * lanes], every[first * block], lanes, repeat, lanes / block, 1);
    }
    return;
  }
  if (m >= chunks && n / block <= kMaxBlockStride) {
    // One instruction per 256 bytes of a row and 255 rows.
    for (uint32_t at = 0; at < n; at += lanes) {
      const uint32_t mask = n - at < lanes ? n - at : lanes;
      for (uint32_t first = 0; first < m; first += kMaxRepeat) {
        const uint32_t repeat = m - first < kMaxRepeat ? m - first : kMaxRepeat;
        RowRepeats<Op>(dst[first * n + at], x[first * n + at], spread[first * block], mask, repeat, n / block, 1);
      }
    }
    return;
  }
  // For every row, one instruction per 255 * 256 bytes and one for the remainder.
  const uint32_t full = n / lanes;
  for (uint32_t r = 0; r < m; r++) {
    for (uint32_t first = 0; first < full; first += kMaxRepeat) {
      const uint32_t repeat = full - first < kMaxRepeat ? full - first : kMaxRepeat;
      const uint32_t at = r * n + first * lanes;
      RowRepeats<Op>(dst[at], x[at], spread[r * block], lanes, repeat, lanes / block, 0);
    }
    if (n > full * lanes) {
      const uint32_t at = r * n + full * lanes;
      RowRepeats<Op>(dst[at], x[at], spread[r * block], n - full * lanes, 1, lanes / block, 0);
    }
  }
}

}  // namespace autofuse

#endif  // AUTOFUSE_ROWS_H
