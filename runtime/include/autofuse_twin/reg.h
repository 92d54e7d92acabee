// The register-level API of Ascend 950, namespace AscendC::Reg with the older name AscendC::MicroAPI.
#ifndef AUTOFUSE_TWIN_REG_H
#define AUTOFUSE_TWIN_REG_H

#include "reg_compute.h"
#include "reg_memory.h"
#include "reg_reduce.h"

// Functions below belong to the kernel, and the compiler has to see into them.
#ifdef AUTOFUSE_TWIN_CALLS
#undef __simd_callee__
#define __simd_callee__ __attribute__((transaction_safe))
#endif

#endif
