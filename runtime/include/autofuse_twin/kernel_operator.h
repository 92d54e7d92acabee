// Umbrella header under the name that Ascend C kernels include.
// Clean-room implementation for a CPU, written from the Ascend C public documentation (Atlas A2 generation).
#ifndef AUTOFUSE_TWIN_KERNEL_OPERATOR_H
#define AUTOFUSE_TWIN_KERNEL_OPERATOR_H

#define AUTOFUSE_TWIN 1

#include "advanced.h"
#include "data_move.h"
#include "layout.h"
#include "op_package.h"
#include "reduce.h"
#if defined(__NPU_ARCH__) && __NPU_ARCH__ == 3510
#include "control.h"
#include "nd_dma.h"
#include "reg.h"
#endif
#include "select.h"
#include "sync.h"
#include "vector.h"

#endif
