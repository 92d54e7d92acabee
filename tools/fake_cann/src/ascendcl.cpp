// libascendcl.so of the fake CANN: the calls of AscendCL, with its names and codes, on the CPU twin.
//
// What goes wrong on purpose is in ascendcl.conf, beside the library.
#include "acl/acl.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "state.h"

using namespace autofuse_fake;

namespace {

constexpr size_t kAlign = 512;

}  // namespace

extern "C" {

aclError aclInit(const char*) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (s.ready) {
        return Fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before");
    }
    if (!Follow(s)) {
        return Fail(ACL_ERROR_INVALID_PARAM, "the fake CANN lacks its ascendcl.conf");
    }
    if (const char* path = std::getenv("AUTOFUSE_FAKE_PROFILE"); path != nullptr && s.profile == nullptr) {
        s.profile = std::fopen(path, "a");
    }
    s.ready = true;
    return ACL_SUCCESS;
}

aclError aclFinalize(void) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.ready) {
        return Fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize without aclInit");
    }
    s.ready = false;
    return ACL_SUCCESS;
}

aclError aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
    *major = 1;
    *minor = 15;
    *patch = 0;
    return ACL_SUCCESS;
}

const char* aclGetRecentErrMsg(void) { return t_said.empty() ? nullptr : t_said.c_str(); }

aclError aclrtGetDeviceCount(uint32_t* count) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (!s.ready || !Follow(s)) {
        return Fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    }
    *count = static_cast<uint32_t>(s.devices.size());
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t device) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (s.ready && Follow(s) && (device < 0 || static_cast<size_t>(device) >= s.devices.size())) {
        return Fail(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    }
    if (const aclError rc = Usable(s, device); rc != ACL_SUCCESS) {
        return rc;
    }
    t_device = device;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* device) {
    *device = t_device;
    return t_device < 0 ? Fail(ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice was not called in this thread") : ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t device) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (device < 0 || static_cast<size_t>(device) >= s.devices.size()) {
        return Fail(ACL_ERROR_RT_INVALID_DEVICEID, "there is no such device");
    }
    Device& d = s.devices[static_cast<size_t>(device)];
    for (auto& [begin, block] : d.blocks) {
        munmap(reinterpret_cast<void*>(begin), std::max(block.bytes, kAlign));
    }
    d = Device();
    t_device = -1;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    return Usable(s, t_device);
}

const char* aclrtGetSocName(void) {
    State& s = The();
    return s.ready && t_device >= 0 ? s.config.chips[static_cast<size_t>(t_device)].soc.c_str() : nullptr;
}

aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attr, int64_t* value) {
    State& s = The();
    if (!s.ready || device >= s.devices.size() || value == nullptr) {
        return Fail(ACL_ERROR_INVALID_PARAM, "no such device");
    }
    const Chip& c = s.config.chips[device];
    switch (attr) {
        case ACL_DEV_ATTR_AICPU_CORE_NUM: *value = 6; break;
        case ACL_DEV_ATTR_AICORE_CORE_NUM:
        case ACL_DEV_ATTR_CUBE_CORE_NUM: *value = c.cores / 2; break;
        case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = c.cores; break;
        case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = static_cast<int64_t>(c.memory); break;
        case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = c.l2; break;
        default: return Fail(ACL_ERROR_INVALID_PARAM, "no such attribute");
    }
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free_bytes, size_t* total_bytes) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    *total_bytes = s.config.chips[static_cast<size_t>(t_device)].memory;
    *free_bytes = *total_bytes - std::min(*total_bytes, s.devices[static_cast<size_t>(t_device)].used);
    return ACL_SUCCESS;
}

aclError aclrtMalloc(void** ptr, size_t size, aclrtMemMallocPolicy) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    if (ptr == nullptr || size == 0) {
        return Fail(ACL_ERROR_INVALID_PARAM, "a size of 0");
    }
    Device& d = s.devices[static_cast<size_t>(t_device)];
    if (const size_t all = s.config.chips[static_cast<size_t>(t_device)].memory; size > all || d.used > all - size) {
        return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the fake chip has no " + std::to_string(size) + " bytes left");
    }
    void* const p = mmap(nullptr, std::max(size, kAlign), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "this machine has no memory for the fake chip");
    }
    d.used += size;
    d.blocks[reinterpret_cast<uintptr_t>(p)].bytes = size;
    *ptr = p;
    return ACL_SUCCESS;
}

aclError aclrtFree(void* ptr) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    for (Device& d : s.devices) {
        const auto at = d.blocks.find(reinterpret_cast<uintptr_t>(ptr));
        if (at != d.blocks.end()) {
            d.used -= at->second.bytes;
            d.recent.erase(std::remove_if(d.recent.begin(), d.recent.end(), [&](const auto& x) { return x.first == at->first; }),
                           d.recent.end());
            munmap(ptr, std::max(at->second.bytes, kAlign));
            d.blocks.erase(at);
            // Other memory may come to lie at this address.
            s.kinds.clear();
            return ACL_SUCCESS;
        }
    }
    return Fail(ACL_ERROR_INVALID_PARAM, "no memory of the fake chip");
}

aclError aclrtMallocHost(void** ptr, size_t size) {
    *ptr = std::malloc(size);
    return *ptr == nullptr ? ACL_ERROR_RT_MEMORY_ALLOCATION : ACL_SUCCESS;
}

aclError aclrtFreeHost(void* ptr) {
    std::free(ptr);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* dst, size_t dst_max, const void* src, size_t count, aclrtMemcpyKind kind) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    Device& d = s.devices[static_cast<size_t>(t_device)];
    const auto inside = [&](const void* p) {
        uintptr_t begin = 0;
        Block* const b = BlockAt(d, reinterpret_cast<uintptr_t>(p), &begin);
        return b != nullptr && reinterpret_cast<uintptr_t>(p) + count <= begin + b->bytes ? b : nullptr;
    };
    const bool to = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    const bool from = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
    Block* const target = inside(dst);
    if (count > dst_max || (to && target == nullptr) || (from && inside(src) == nullptr)) {
        return Fail(ACL_ERROR_INVALID_PARAM, "a copy that leaves its memory");
    }
    if (to) {
        target->zero = false;
        ++target->version;
    }
    std::memcpy(dst, src, count);
    return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* dst, size_t dst_max, const void* src, size_t count, aclrtMemcpyKind kind, aclrtStream) {
    return aclrtMemcpy(dst, dst_max, src, count, kind);
}

aclError aclrtMemset(void* ptr, size_t max, int32_t value, size_t count) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    Device& d = s.devices[static_cast<size_t>(t_device)];
    uintptr_t begin = 0;
    Block* const b = BlockAt(d, reinterpret_cast<uintptr_t>(ptr), &begin);
    if (b == nullptr || count > max || reinterpret_cast<uintptr_t>(ptr) + count > begin + b->bytes) {
        return Fail(ACL_ERROR_INVALID_PARAM, "a fill that leaves its memory");
    }
    if (!b->zero || (value & 0xff) != 0) {
        std::memset(ptr, value, count);
        b->zero = false;
        ++b->version;
    }
    Touch(d, begin, count);
    return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* ptr, size_t max, int32_t value, size_t count, aclrtStream) {
    return aclrtMemset(ptr, max, value, count);
}

aclError aclrtCreateStream(aclrtStream* stream) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, t_device); rc != ACL_SUCCESS) {
        return rc;
    }
    auto* const made = new Stream;
    made->device = t_device;
    *stream = made;
    return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream stream) {
    delete static_cast<Stream*>(stream);
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout_ms) {
    State& s = The();
    auto* const stream = static_cast<Stream*>(handle);
    if (stream == nullptr) {
        return Fail(ACL_ERROR_RT_INVALID_HANDLE, "no stream");
    }
    if (stream->hung) {
        if (timeout_ms >= 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
            return Fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "a kernel hangs, as the fake chip was told");
        }
        std::this_thread::sleep_for(std::chrono::hours(1));
        return Fail(ACL_ERROR_RT_AICORE_TIMEOUT, "a kernel hangs, as the fake chip was told");
    }
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (const aclError rc = Usable(s, stream->device); rc != ACL_SUCCESS) {
        return rc;
    }
    return stream->error;
}

aclError aclrtSynchronizeStream(aclrtStream stream) { return aclrtSynchronizeStreamWithTimeout(stream, -1); }

aclError aclrtCreateEvent(aclrtEvent* event) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    ++s.events;
    *event = new Event;
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }

aclError aclrtDestroyEvent(aclrtEvent event) {
    State& s = The();
    const std::lock_guard<std::mutex> lock(s.mutex);
    --s.events;
    delete static_cast<Event*>(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    auto* const e = static_cast<Event*>(event);
    if (e == nullptr || stream == nullptr) {
        return Fail(ACL_ERROR_RT_INVALID_HANDLE, "no event, or no stream");
    }
    e->stream = static_cast<Stream*>(stream);
    e->us = e->stream->us;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    auto* const e = static_cast<Event*>(event);
    return e == nullptr || e->stream == nullptr ? Fail(ACL_ERROR_RT_INVALID_HANDLE, "no event, or it was not recorded")
                                                : aclrtSynchronizeStream(e->stream);
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end) {
    const auto* const a = static_cast<const Event*>(start);
    const auto* const b = static_cast<const Event*>(end);
    if (a == nullptr || b == nullptr || a->stream == nullptr || b->stream == nullptr || a->stream->hung) {
        return Fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "an event that the stream has not passed");
    }
    *ms = static_cast<float>((b->us - a->us) / 1e3);
    return ACL_SUCCESS;
}
}
