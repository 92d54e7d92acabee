// Integers of the search for a tiling: sums and products that stay within their limits, quotients rounded up, bits and roots.
// No float.
#ifndef AUTOFUSE_TILE_ARITHMETIC_H
#define AUTOFUSE_TILE_ARITHMETIC_H

#include <stdint.h>

#include "autofuse_math.h"

namespace autofuse {

constexpr int64_t kUnlimited = INT64_MAX;

inline int64_t SaturatingMul(int64_t a, int64_t b)
{
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? kUnlimited : product;
}

inline int64_t SaturatingAdd(int64_t a, int64_t b)
{
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? kUnlimited : sum;
}

// a / b rounded up, for a >= 0 and b > 0.
inline int64_t Pieces(int64_t a, int64_t b)
{
    return static_cast<int64_t>((static_cast<uint64_t>(a) + static_cast<uint64_t>(b) - 1) / static_cast<uint64_t>(b));
}

// a * b >> bits, exact where the result fits.
inline int64_t Scale(int64_t a, int64_t b, int bits)
{
    const int64_t low = a & ((INT64_C(1) << bits) - 1);
    return SaturatingAdd(SaturatingMul(a >> bits, b), (low * b) >> bits);
}

// The largest power of two that divides x, which is not 0.
inline int64_t LowBit(uint64_t x)
{
    return static_cast<int64_t>(x & (~x + 1));
}

// Bits of x >= 0.
inline int64_t BitLength(int64_t x)
{
    return x == 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(x));
}

// Eight times the roots of 0 to 63, rounded down.
constexpr uint8_t kRoots[64] = {
    0,  8,  11, 13, 16, 17, 19, 21, 22, 24, 25, 26, 27, 28, 29, 30, 32, 32, 33, 34, 35, 36, 37, 38, 39, 40, 40, 41, 42, 43, 43, 44,
    45, 45, 46, 47, 48, 48, 49, 49, 50, 51, 51, 52, 53, 53, 54, 54, 55, 56, 56, 57, 57, 58, 58, 59, 59, 60, 60, 61, 61, 62, 62, 63};

// The largest integer of at most `most`, below 2^16, whose square is at most x >= 0; 1 for less.  Without branches on x,
// which is never the same twice: for few cores from the first six bits, which are two short at most, else bit by bit.
inline int64_t Root(int64_t x, int64_t most)
{
    const uint64_t limited = static_cast<uint64_t>(Min(x, most * most));
    uint64_t root = 0;
    if (most < 64) {
        const int half = static_cast<int>(Max(BitLength(static_cast<int64_t>(limited)) - 5, 0)) / 2;
        root = static_cast<uint64_t>(kRoots[limited >> (2 * half)]) << half >> 3;
        root += (root + 1) * (root + 1) <= limited ? 1 : 0;
        root += (root + 1) * (root + 1) <= limited ? 1 : 0;
    } else {
        for (uint64_t bit = 32768; bit != 0; bit >>= 1) {
            const uint64_t next = root | bit;
            root = next * next <= limited ? next : root;
        }
    }
    return Max(static_cast<int64_t>(root), 1);
}

}  // namespace autofuse

#endif
