// AUTOFUSE_LAUNCH(kernel, block_dim, stream, arguments...): starts the kernel on `block_dim` cores; 0 = started.
// On the chip it is queued on the stream; the twin runs it to the end and reports failed checks.
#ifndef AUTOFUSE_LAUNCH_H
#define AUTOFUSE_LAUNCH_H

#include <stdint.h>

#ifdef AUTOFUSE_TWIN

#include "autofuse_twin/launch.h"

#define AUTOFUSE_LAUNCH(kernel, block_dim, stream, ...) \
    (static_cast<void>(stream), ::autofuse_twin::Launch((block_dim), [&] { kernel(__VA_ARGS__); }))

#else

#define AUTOFUSE_LAUNCH(kernel, block_dim, stream, ...)                    \
    [&]() -> int64_t {                                                     \
        kernel<<<(block_dim), nullptr, (stream)>>>(__VA_ARGS__);           \
        return 0;                                                          \
    }()

#endif

#endif
