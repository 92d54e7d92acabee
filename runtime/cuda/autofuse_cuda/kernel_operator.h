// Umbrella header under the name that Ascend C kernels include, for nvcc: the same source runs on an NVIDIA card.
//
// One core is one thread block, UB is its shared memory, and every pipe has its own warps, which run the whole kernel
// and skip the work of other pipes. README.md of this folder describes the details.
#ifndef AUTOFUSE_CUDA_KERNEL_OPERATOR_H
#define AUTOFUSE_CUDA_KERNEL_OPERATOR_H

#define AUTOFUSE_CUDA 1

// Keywords of the kernel language. A kernel is a device function here: entry.h has the launched function.
#undef __global__
#define __global__
#define __aicore__ __device__

#include "autofuse_twin/enums.h"

#include "core.h"

#include "elements.h"

#include "tensor.h"

#include "pipe.h"

#include "copy.h"
#include "layout.h"
#include "reduce.h"
#include "select.h"
#include "vector.h"

#endif
