// Shapes in the C interface of InferShape, and helpers that the generated code calls on them.
#ifndef AUTOFUSE_SHAPE_H
#define AUTOFUSE_SHAPE_H

#include <stdint.h>

#include <initializer_list>

struct AutofuseShape {
    uint32_t rank;
    int64_t dims[16];
};

namespace autofuse {

constexpr uint32_t kMaxRank = 16;

inline bool SameShape(const AutofuseShape& shape, std::initializer_list<int64_t> dims)
{
    if (shape.rank != dims.size()) {
        return false;
    }
    uint32_t i = 0;
    for (const int64_t d : dims) {
        if (shape.dims[i++] != d) {
            return false;
        }
    }
    return true;
}

inline void SetShape(AutofuseShape* shape, std::initializer_list<int64_t> dims)
{
    shape->rank = 0;
    for (const int64_t d : dims) {
        shape->dims[shape->rank++] = d;
    }
}

// Solves dims[dim] == factor * value + plus for an integer value >= 0; returns false if there is none.
inline bool SolveDim(const AutofuseShape& shape, uint32_t dim, int64_t factor, int64_t plus, int64_t* value)
{
    if (dim >= shape.rank || dim >= kMaxRank || factor == 0) {
        return false;
    }
    int64_t product = 0;
    if (__builtin_sub_overflow(shape.dims[dim], plus, &product) || product % factor != 0) {
        return false;
    }
    *value = product / factor;
    return *value >= 0;
}

}  // namespace autofuse

#endif
