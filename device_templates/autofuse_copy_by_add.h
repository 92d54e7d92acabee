// Device code that generated kernels share: elements of 16 and 32 bits are copied inside UB, on an architecture that has no
// Copy. A kernel for one gets this as autofuse_copy.h.
#ifndef AUTOFUSE_COPY_BY_ADD_H
#define AUTOFUSE_COPY_BY_ADD_H

#include "kernel_operator.h"

namespace autofuse {

// The integer of so many bytes.
template <uint32_t kBytes>
struct WordOf {
  using Type = int32_t;
};
template <>
struct WordOf<2> {
  using Type = int16_t;
};

// `mask` elements of each of `repeat` repeats, whose steps are counted in blocks; the steps are at most 255. src_block 0:
// all of a repeat from one block.
template <typename T>
__aicore__ inline void CopyRepeats(const AscendC::LocalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                   uint32_t mask, uint32_t repeat, uint32_t src_block, uint32_t dst_step,
                                   uint32_t src_step) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "vector instructions have integers of 16 and 32 bits");
  // An integer plus 0 keeps all bits; a float would lose the sign of -0.
  using Word = typename WordOf<sizeof(T)>::Type;
  const AscendC::UnaryRepeatParams params(1, static_cast<uint16_t>(src_block), static_cast<uint8_t>(dst_step),
                                          static_cast<uint8_t>(src_step));
  AscendC::Adds(dst.template ReinterpretCast<Word>(), src.template ReinterpretCast<Word>(), static_cast<Word>(0),
                static_cast<uint64_t>(mask), static_cast<uint8_t>(repeat), params);
}

}  // namespace autofuse

#endif  // AUTOFUSE_COPY_BY_ADD_H
