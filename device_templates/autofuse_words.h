// 64-bit integers as pairs of 32-bit words: Atlas A2 has no 64-bit arithmetic.
#ifndef AUTOFUSE_WORDS_H
#define AUTOFUSE_WORDS_H

#include "kernel_operator.h"

namespace autofuse {

// dst[i] = the low word of src[i], i < n.
template <typename T>
__aicore__ inline void LowWords(const AscendC::LocalTensor<int32_t>& dst, const AscendC::LocalTensor<T>& src,
                                uint32_t n) {
  uint64_t kept = 0;
  const uint8_t even = 1;
  AscendC::GatherMask(dst.ReinterpretCast<uint32_t>(), src.template ReinterpretCast<uint32_t>(), even, true, 2 * n,
                      AscendC::GatherMaskParams{1, 1, 8, 0}, kept);
}

// dst[i] = the high word of src[i], i < n.
template <typename T>
__aicore__ inline void HighWords(const AscendC::LocalTensor<int32_t>& dst, const AscendC::LocalTensor<T>& src,
                                 uint32_t n) {
  uint64_t kept = 0;
  const uint8_t odd = 2;
  AscendC::GatherMask(dst.ReinterpretCast<uint32_t>(), src.template ReinterpretCast<uint32_t>(), odd, true, 2 * n,
                      AscendC::GatherMaskParams{1, 1, 8, 0}, kept);
}

// dst[i] = the 64-bit integer with the words low[i] and high[i], i < n. Word k of dst is word k / 2 of `low` if k is
// even, else of `high`; `tmp`, 24 * n + 192 bytes, holds both, one after the other.
template <typename T>
__aicore__ inline void JoinWords(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<int32_t>& low,
                                 const AscendC::LocalTensor<int32_t>& high, const AscendC::LocalTensor<uint8_t>& tmp,
                                 uint32_t n) {
  const int32_t count = static_cast<int32_t>(2 * n);
  const uint32_t padded = (n + 7) / 8 * 8;
  const int32_t behind = static_cast<int32_t>(4 * padded);  // bytes from a low word to its high word
  AscendC::LocalTensor<int32_t> words = tmp.ReinterpretCast<int32_t>();
  AscendC::LocalTensor<int32_t> offset = words[0];
  AscendC::LocalTensor<int32_t> half = words[2 * padded];
  AscendC::LocalTensor<int32_t> both = words[4 * padded];
  AscendC::CreateVecIndex(offset, static_cast<int32_t>(0), 2 * n);
  AscendC::DataCopy(both, low, padded);
  AscendC::DataCopy(both[padded], high, padded);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::ShiftRight(half, offset, static_cast<int32_t>(1), count);
  AscendC::PipeBarrier<PIPE_V>();
  // 4 (k / 2) + behind (k mod 2)
  AscendC::Muls(offset, offset, behind, count);
  AscendC::Muls(half, half, 4 - 2 * behind, count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Add(offset, offset, half, count);
  AscendC::PipeBarrier<PIPE_V>();
  AscendC::Gather(dst.template ReinterpretCast<uint32_t>(), both.ReinterpretCast<uint32_t>(),
                  offset.ReinterpretCast<uint32_t>(), 0, 2 * n);
}

}  // namespace autofuse

#endif
