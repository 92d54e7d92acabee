// Macros of the op-package flow: tiling data in GM, one binary per tiling key. On a chip the build of the package
// provides them. Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_OP_PACKAGE_H
#define AUTOFUSE_TWIN_OP_PACKAGE_H

#include <cstring>

#include "abi.h"
#include "types.h"

// Declares the struct that GET_TILING_DATA reads, at the start of the kernel function.
#define REGISTER_TILING_DEFAULT(type) using autofuse_twin_tiling_type = type

// Declares `name` and fills it from the address `gm`.
#define GET_TILING_DATA_WITH_STRUCT(type, name, gm) \
    type name;                                      \
    std::memcpy(&name, gm, sizeof(name))
#define GET_TILING_DATA(name, gm) GET_TILING_DATA_WITH_STRUCT(autofuse_twin_tiling_type, name, gm)

// On a chip, a constant of the binary; in the twin, see autofuse_twin_set_tiling_key.
#define TILING_KEY_IS(key) (::autofuse_twin::TilingKey() == (key))

namespace autofuse_twin {

// Bytes of the workspace before the kernel's part; PlatformAscendC::GetLibApiWorkSpaceSize of the host side agrees.
constexpr uint32_t kSystemWorkspace = 16 * 1024 * 1024;

}  // namespace autofuse_twin

namespace AscendC {

// The kernel's part of the workspace.
inline __aicore__ __gm__ uint8_t* GetUserWorkspace(__gm__ uint8_t* workspace) {
  return workspace == nullptr ? nullptr : workspace + ::autofuse_twin::kSystemWorkspace;
}

}  // namespace AscendC

#endif
