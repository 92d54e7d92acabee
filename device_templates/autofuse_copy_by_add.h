// Device code shared by generated kernels: copies of 16-bit and 32-bit elements within UB, for architectures without
// Copy. Kernels for these get this file as autofuse_copy.h.
#ifndef AUTOFUSE_COPY_BY_ADD_H
#define AUTOFUSE_COPY_BY_ADD_H

#include "kernel_operator.h"

namespace autofuse {

// The integer type of kBytes bytes.
template <uint32_t kBytes>
struct WordOf {
  using Type = int32_t;
};
template <>
struct WordOf<2> {
  using Type = int16_t;
};

// Copies `mask` elements in each of `repeat` repeats. Steps are in blocks, at most 255. With src_block 0, a repeat
// reads one block only.
template <typename T>
__aicore__ inline void CopyRepeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                   uint32_t mask, uint32_t repeat, uint32_t src_block, uint32_t dst_step,
                                   uint32_t src_step) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "vector instructions have integers of 16 and 32 bits");
  // Adding 0 to an integer keeps all bits; a float would lose the sign of -0.
  using Word = typename WordOf<sizeof(T)>::Type;
  const AscendC::UnaryRepeatParams params(1, static_cast<uint16_t>(src_block), static_cast<uint8_t>(dst_step),
                                          static_cast<uint8_t>(src_step));
  AscendC::Adds(dst.template ReinterpretCast<Word>(), src.template ReinterpretCast<Word>(), static_cast<Word>(0),
                static_cast<uint64_t>(mask), static_cast<uint8_t>(repeat), params);
}

}  // namespace autofuse

#endif  // AUTOFUSE_COPY_BY_ADD_H
