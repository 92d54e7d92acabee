// Compute loops for the baseline instruction set of the target, and the choice between the compiled sets.
#include "kernels/kernels.h"

#if defined(AUTOFUSE_TWIN_X86)
#include <cpuid.h>
#include <emmintrin.h>
#endif

#include <math.h>

#include <limits>
#include <type_traits>

namespace autofuse_twin {
namespace {
#include "kernels/impl.h"
}  // namespace

const KernelTable& BaseKernels() {
    static constexpr KernelTable table{"base",    PickElement, PickCompare, PickSelect, HalfToFloat,
                                       FloatToHalf, CopyBytes,   StreamBytes, TileBlock};
    return table;
}

#if defined(AUTOFUSE_TWIN_X86)
// Not every compiler knows it by name; avx2 implies that the operating system saves its registers.
bool HasF16c() {
    unsigned int a = 0;
    unsigned int b = 0;
    unsigned int c = 0;
    unsigned int d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
// True if the processor and the operating system support the instruction set.
bool HasAvx2() { return __builtin_cpu_supports("avx2") && HasF16c(); }
bool HasAvx512() {
    return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const KernelTable& Kernels() {
#if defined(AUTOFUSE_TWIN_X86)
    static const KernelTable& chosen = HasAvx512() ? Avx512Kernels() : HasAvx2() ? Avx2Kernels() : BaseKernels();
    return chosen;
#else
    return BaseKernels();
#endif
}

}  // namespace autofuse_twin
