// Device code shared by generated kernels: packs every `step`-th element of a run in UB.
//
// Tensors do not overlap. No function starts or ends with a barrier; inside, PipeBarrier<PIPE_V> separates calls that
// depend on each other. Gather takes 16-bit and 32-bit elements: 64-bit elements are pairs of words.
#ifndef AUTOFUSE_PICK_H
#define AUTOFUSE_PICK_H

#include "kernel_operator.h"

namespace autofuse {

constexpr uint32_t kPickOffsets = 1024;  // entries of a table of offsets, one per word that is gathered

template <typename T>
struct PickWords {
  static constexpr uint32_t kCount = sizeof(T) == 8 ? 2 : 1;  // words per element
  static constexpr uint32_t kMost = kPickOffsets / kCount;    // elements per table
};

// offsets[i] = i * step bytes, for elements of 16 or 32 bits. The table has kPickOffsets entries.
__aicore__ inline void PickOffsets(const AscendC::LocalTensor<int32_t>& offsets, int64_t step) {
  AscendC::Arange(offsets, static_cast<int32_t>(0), static_cast<int32_t>(step), static_cast<int32_t>(kPickOffsets));
}

// offsets[i] = i / 2 * step + 4 * (i mod 2) bytes: both words of 64-bit elements that are a multiple of 8 bytes apart.
// `tmp` is as large as the table.
__aicore__ inline void PairOffsets(const AscendC::LocalTensor<int32_t>& offsets,
                                   const AscendC::LocalTensor<uint8_t>& tmp, int64_t step) {
  constexpr int32_t count = static_cast<int32_t>(kPickOffsets);
  const AscendC::LocalTensor<int32_t> odd = tmp.ReinterpretCast<int32_t>();
  // Arange may store with the scalar unit, which no vector barrier orders: it writes the table only, since an earlier
  // call may still use `tmp`.
  AscendC::Arange(offsets, static_cast<int32_t>(0), static_cast<int32_t>(4), count);
  AscendC::PipeBarrier<PIPE_V>();
  // Architecture 2002 has no shift: mask bit 2 of 4 i, which is 4 (i mod 2), and compute
  // (4 i - 4 (i mod 2)) step / 8 + 4 (i mod 2).
  AscendC::Duplicate(odd, static_cast<int32_t>(4), count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::And(odd.ReinterpretCast<int16_t>(), offsets.ReinterpretCast<int16_t>(), odd.ReinterpretCast<int16_t>(),
               2 * count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Muls(offsets, offsets, static_cast<int32_t>(step / 8), count);
  AscendC::Muls(odd, odd, static_cast<int32_t>(1 - step / 8), count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Add(offsets, offsets, odd, count);
}

// dst[i] = src[first + i * step], i < count, first < step, for elements of 16 or 32 bits. step is 2 or 4, the patterns
// of the chip.
template <typename T>
__aicore__ inline void PickByMask(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src, int64_t count,
                                  int64_t step, int64_t first = 0) {
  if (count <= 0) {
    return;
  }
  uint64_t kept = 0;
  const uint8_t pattern = static_cast<uint8_t>((step == 2 ? 1 : 3) + first);
  AscendC::GatherMask(dst, src, pattern, true, static_cast<uint32_t>((count - 1) * step + 1 + first),
                      AscendC::GatherMaskParams{1, 1, 8, 0}, kept);
}

// Views elements as words, for Gather.
template <typename T>
__aicore__ inline auto GatheredWords(const AscendC::LocalTensor<T>& x) {
  if constexpr (sizeof(T) == 8) {
    return x.template ReinterpretCast<uint32_t>();
  } else {
    return x;
  }
}

// dst[i] = src[first + i * step], i < count. `offsets` is the table for `step` elements.
template <typename T>
__aicore__ inline void PickAhead(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                 const AscendC::LocalTensor<int32_t>& offsets, int64_t count, int64_t step,
                                 int64_t first = 0) {
  constexpr uint32_t words = PickWords<T>::kCount;
  constexpr uint32_t most = PickWords<T>::kMost;
  const auto to = GatheredWords(dst);
  const auto from = GatheredWords(src);
  const uint32_t all = static_cast<uint32_t>(count);
  const uint32_t apart = static_cast<uint32_t>(step) * words;
  const uint32_t base = static_cast<uint32_t>(first * static_cast<int64_t>(sizeof(T)));
  for (uint32_t done = 0; done < all; done += most) {
    const uint32_t n = all - done < most ? all - done : most;
    AscendC::Gather(to[done * words], from[done * apart], offsets.ReinterpretCast<uint32_t>(), base, n * words);
  }
}

// Reversed rows: dst[r * pitch + i] = src[(r * pitch + n - 1 - i) * step], i < n, for every row r < rows. With several
// rows, pitch is a multiple of 32 bytes. `offsets` is the table for -step elements; `tmp` is as large.
template <typename T>
__aicore__ inline void PickBack(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                const AscendC::LocalTensor<int32_t>& offsets, const AscendC::LocalTensor<uint8_t>& tmp,
                                int64_t rows, int64_t n, int64_t pitch, int64_t step) {
  constexpr uint32_t words = PickWords<T>::kCount;
  constexpr uint32_t most = PickWords<T>::kMost;
  const auto to = GatheredWords(dst);
  const auto from = GatheredWords(src);
  const AscendC::LocalTensor<int32_t> places = tmp.ReinterpretCast<int32_t>();
  const uint32_t all = static_cast<uint32_t>(n);
  const uint32_t row = static_cast<uint32_t>(pitch) * words;
  const int64_t apart = step * static_cast<int64_t>(sizeof(T));
  for (uint32_t first = 0; first < all; first += most) {
    const uint32_t part = all - first < most ? all - first : most;
    if (first > 0) {
      AscendC::PipeBarrier<PIPE_V>();  // earlier calls still read the offsets
    }
    AscendC::Adds(places, offsets, static_cast<int32_t>((all - 1 - first) * apart), static_cast<int32_t>(part * words));
    AscendC::PipeBarrier<PIPE_V>();
    for (uint32_t r = 0; r < static_cast<uint32_t>(rows); r++) {
      AscendC::Gather(to[r * row + first * words], from[r * row * static_cast<uint32_t>(step)],
                      places.ReinterpretCast<uint32_t>(), 0u, part * words);
    }
  }
}

// For one row.
template <typename T>
__aicore__ inline void PickBack(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                const AscendC::LocalTensor<int32_t>& offsets, const AscendC::LocalTensor<uint8_t>& tmp,
                                int64_t n, int64_t step) {
  PickBack(dst, src, offsets, tmp, 1, n, n, step);
}

}  // namespace autofuse

#endif  // AUTOFUSE_PICK_H
