// Of torch_npu's streams, what its documents show and the extensions call; the stream is a number that tests know.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

using aclrtStream = void*;

namespace c10_npu {

class NPUStream {
public:
    // `need_empty` waits until the task queue is empty.
    aclrtStream stream(const bool need_empty) const
    {
        return need_empty ? nullptr : reinterpret_cast<aclrtStream>(static_cast<uintptr_t>(64));
    }
};

inline NPUStream getCurrentNPUStream(c10::DeviceIndex device_index = -1)
{
    static_cast<void>(device_index);
    return NPUStream();
}

}  // namespace c10_npu
