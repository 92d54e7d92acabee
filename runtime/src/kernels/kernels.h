// Table of compute loops. The same source is compiled once per instruction set; results do not depend on the choice.
#ifndef AUTOFUSE_TWIN_SRC_KERNELS_H
#define AUTOFUSE_TWIN_SRC_KERNELS_H

#include <cstddef>
#include <cstdint>

#include "autofuse_twin/abi.h"

// Code for x86-64; other processors use the portable build.
#if defined(__x86_64__) && !defined(AUTOFUSE_TWIN_PORTABLE)
#define AUTOFUSE_TWIN_X86
#endif

namespace autofuse_twin {

// d[i] = f(a[i], b[i], imm); operations that accumulate also read d[i].
using ElementFn = void (*)(void* d, const void* a, const void* b, uint64_t imm, size_t n);
// Bit i of `bits` = compare(a[i], b[i]) (b null: the scalar imm). Writes (n + 7) / 8 bytes.
using CompareFn = void (*)(uint8_t* bits, const void* a, const void* b, uint64_t imm, int mode, size_t n);
// d[i] = bit i of bits ? a[i] : b[i] (b null: the scalar imm).
using SelectFn = void (*)(void* d, const uint8_t* bits, const void* a, const void* b, uint64_t imm, size_t n);

struct KernelTable {
    const char* isa;
    ElementFn (*element)(Op op, Dt dst, Dt src);
    CompareFn (*compare)(Dt dt);
    SelectFn (*select)(uint32_t elem);
    void (*half_to_float)(const uint16_t* src, float* dst, size_t n);
    void (*float_to_half)(const float* src, uint16_t* dst, size_t n);
    void (*copy)(uint8_t* d, const uint8_t* s, size_t n);
    void (*stream)(uint8_t* d, const uint8_t* s, size_t n);
    void (*tile)(uint8_t* d, const uint8_t* block, size_t n);
};

const KernelTable& BaseKernels();
#if defined(AUTOFUSE_TWIN_X86)
const KernelTable& Avx2Kernels();
const KernelTable& Avx512Kernels();
bool HasAvx2();
bool HasAvx512();
#endif
const KernelTable& Kernels();

__attribute__((always_inline)) inline uint32_t SizeOf(Dt dt) {
    constexpr uint8_t sizes[] = {1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};
    return sizes[static_cast<int>(dt)];
}

}  // namespace autofuse_twin

#endif
