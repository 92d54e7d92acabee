// Compute loops for x86-64 with AVX-512 (F, BW, DQ, VL) and F16C; compiled with the matching flags (see CMakeLists.txt).
#include "kernels/kernels.h"

#if defined(AUTOFUSE_TWIN_X86)
#include <immintrin.h>

#include <math.h>

#include <limits>
#include <type_traits>

namespace autofuse_twin {
namespace {
#include "kernels/impl.h"
}  // namespace

const KernelTable& Avx512Kernels() {
    static constexpr KernelTable table{"avx512",    PickElement, PickCompare, PickSelect, HalfToFloat,
                                       FloatToHalf, CopyBytes,   StreamBytes, TileBlock};
    return table;
}

}  // namespace autofuse_twin
#endif
