// Umbrella header with the name that Ascend C kernels include, for nvcc: the same source runs on a card of NVIDIA.
//
// One core is one block of threads, UB is its shared memory, and every pipe has warps of its own, which run the whole
// kernel and skip what belongs to other pipes. README.md of this folder says how.
#ifndef AUTOFUSE_CUDA_KERNEL_OPERATOR_H
#define AUTOFUSE_CUDA_KERNEL_OPERATOR_H

#define AUTOFUSE_CUDA 1

// The words of the kernel language. A kernel is a device function here: entry.h has what is launched.
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
