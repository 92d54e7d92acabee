// What kernels include: the twin's headers, behind which the text for a chip is chosen, not that for the twin.
#ifndef AUTOFUSE_FAKE_KERNEL_OPERATOR_H
#define AUTOFUSE_FAKE_KERNEL_OPERATOR_H

#include "autofuse_twin/kernel_operator.h"
#undef AUTOFUSE_TWIN

#include "autofuse_fake_launch.h"

#endif
