// Common parts of the copies between GM and UB. Internal to the library.
#ifndef AUTOFUSE_TWIN_SRC_COPY_H
#define AUTOFUSE_TWIN_SRC_COPY_H

#include "core.h"

namespace autofuse_twin {

void CheckPosition(const Core& core, const char* api, const char* operand, const UbView& view);

}  // namespace autofuse_twin

#endif
