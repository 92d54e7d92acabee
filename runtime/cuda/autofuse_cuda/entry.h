// The launched kernel: AUTOFUSE_CUDA_ENTRY(kernel) after a kernel. Its arguments are the kernel's, in one structure:
// the addresses, then the tiling data.
#ifndef AUTOFUSE_CUDA_ENTRY_H
#define AUTOFUSE_CUDA_ENTRY_H

#include <utility>

namespace autofuse_cuda {

template <typename F> struct Signature;
template <typename Head, typename... Rest> struct Signature<void(Head, Rest...)> {
    static constexpr uint32_t kAddresses = sizeof...(Rest);
};

template <typename F> struct Arguments {
    uint8_t* addresses[Signature<F>::kAddresses];
    AutofuseTilingData tiling;
};

template <typename F, F* kernel, std::size_t... i>
__device__ __forceinline__ void Call(const Arguments<F>& a, std::index_sequence<i...>) {
    kernel(a.addresses[i]..., a.tiling);
}

}  // namespace autofuse_cuda

#undef __global__
#define AUTOFUSE_CUDA_ENTRY(kernel)                                                                                  \
    extern "C" __attribute__((global)) void __launch_bounds__(::autofuse_cuda::kThreads, 1)                          \
        autofuse_cuda_entry(const __grid_constant__ ::autofuse_cuda::Arguments<decltype(kernel)> arguments,          \
                            const uint32_t ub_bytes) {                                                               \
        ::autofuse_cuda::Begin(ub_bytes);                                                                            \
        ::autofuse_cuda::Call<decltype(kernel), kernel>(                                                             \
            arguments,                                                                                               \
            std::make_index_sequence<::autofuse_cuda::Signature<decltype(kernel)>::kAddresses>());                   \
    }

#endif
