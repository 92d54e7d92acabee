// Compute loops for the baseline instruction set of the target, and the choice between the compiled sets.
#include <limits>
#include <type_traits>

#include "kernels.h"

namespace autofuse_twin {
namespace {
#include "kernels_impl.h"
}  // namespace

const KernelTable& BaseKernels() {
    static constexpr KernelTable table{"base", PickElement, PickCompare, PickSelect, HalfToFloat, FloatToHalf};
    return table;
}

const KernelTable& Kernels() {
#if defined(__x86_64__)
    static const KernelTable& chosen =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? Avx2Kernels() : BaseKernels();
    return chosen;
#else
    return BaseKernels();
#endif
}

}  // namespace autofuse_twin
