// Return codes of the generated host functions: a kind and, for some kinds, the index of the symbol, template or input
// concerned.  The generated AutofuseErrorText names that item; StatusText names the kind.
#ifndef AUTOFUSE_STATUS_H
#define AUTOFUSE_STATUS_H

#include <stdint.h>

#include "autofuse_math.h"

namespace autofuse {

enum Status : int64_t {
    kOk = 0,
    kNullArgument = 1,     // a pointer that must not be null is null
    kSymbolRange = 2,      // symbol i is outside its range
    kOverflow = 3,         // template i: the sizes do not fit 64 bits
    kUnknownKey = 4,       // no such tiling key
    kCondition = 5,        // template i: a condition does not hold for these sizes
    kNoTile = 6,           // template i: even the smallest tile is too large for the chip
    kNoTemplate = 7,       // no template is legal for these sizes and limits
    kInputCount = 8,       // wrong number of inputs
    kOutputCount = 9,      // wrong number of outputs
    kInputShape = 10,      // input i: rank or sizes do not match the graph
    kUnsolved = 11,        // symbol i does not follow from the shapes of the inputs
    kNoKernelBinary = 12,  // built without a device binary
    kNoElements = 13,      // size i is 0, and some op has no result for 0 elements
    kSharedBuffer = 14,    // an output has the buffer of an input, and the kernel was not generated for that
    kRelation = 15         // sizes contradict each other: the kernel would read out of bounds
};

// Version of the C interface: incremented when the parameters or meaning of a function change, not for new functions.
constexpr uint32_t kAbiVersion = 1;

constexpr int64_t kStatusStep = 100;

// The return code for `kind` and the item with index `index`.
constexpr int64_t Fail(Status kind, int64_t index)
{
    return kind + kStatusStep * (index + 1);
}

inline const char* StatusText(int64_t rc)
{
    constexpr const char* kTexts[] = {
        "ok",
        "a pointer that must not be null is null",
        "a size is outside the range of its symbol",
        "the sizes do not fit 64 bits",
        "no such tiling key",
        "a condition of the template does not hold for these sizes",
        "even the smallest tile is too large for the chip",
        "no template is legal for these sizes and limits",
        "wrong number of inputs",
        "wrong number of outputs",
        "the shape of an input does not fit the graph",
        "a symbol does not follow from the shapes of the inputs",
        "built without a device binary",
        "a size is 0 for which an op has no result",
        "an output is passed the buffer of an input, and the kernel was not made for that",
        "sizes do not fit each other: the kernel would read what is not there",
    };
    constexpr int64_t kCount = sizeof(kTexts) / sizeof(kTexts[0]);
    const int64_t kind = rc % kStatusStep;
    return kind >= 0 && kind < kCount ? kTexts[kind] : "unknown error";
}

// One line of the generated table: the meaning of `rc` in this graph.
struct ErrorRow {
    int64_t rc;
    const char* text;
};

// a * b, or INT64_MAX on overflow.
inline int64_t SaturatingMul(int64_t a, int64_t b)
{
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// True if the product of values >= 0 stays below 2^60; checked before sizes are multiplied.
template <typename... Values>
constexpr bool ProductFits(Values... values)
{
    int64_t product = 1;
    bool fits = true;
    ((fits = fits && !__builtin_mul_overflow(product, Max(1, values), &product)), ...);
    return fits && product < (INT64_C(1) << 60);
}

}  // namespace autofuse

#endif
