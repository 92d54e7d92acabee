// Integer arithmetic of generated code: exact, with the semantics of Python's // and %, without floats.
// Dividing by 0 gives 0.
#ifndef AUTOFUSE_MATH_H
#define AUTOFUSE_MATH_H

#include <stdint.h>

// In a kernel source, which includes kernel_operator.h first, these are device functions.
#ifdef __aicore__
#define AUTOFUSE_MATH_FN __aicore__ inline constexpr
#else
#define AUTOFUSE_MATH_FN inline constexpr
#endif

namespace autofuse {

AUTOFUSE_MATH_FN int64_t Min(int64_t a, int64_t b)
{
    return b < a ? b : a;
}

AUTOFUSE_MATH_FN int64_t Max(int64_t a, int64_t b)
{
    return a < b ? b : a;
}

// Largest integer <= a / b.
AUTOFUSE_MATH_FN int64_t FloorDiv(int64_t a, int64_t b)
{
    return b == 0 ? 0 : a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

// Smallest integer >= a / b.
AUTOFUSE_MATH_FN int64_t CeilDiv(int64_t a, int64_t b)
{
    return b == 0 ? 0 : a / b + ((a % b != 0 && (a < 0) == (b < 0)) ? 1 : 0);
}

// a - FloorDiv(a, b) * b, with the sign of b.
AUTOFUSE_MATH_FN int64_t Mod(int64_t a, int64_t b)
{
    return b == 0 ? 0 : a % b + ((a % b != 0 && (a < 0) != (b < 0)) ? b : 0);
}

// Smallest multiple of b that is >= a.
AUTOFUSE_MATH_FN int64_t AlignUp(int64_t a, int64_t b)
{
    return CeilDiv(a, b) * b;
}

}  // namespace autofuse

#endif
