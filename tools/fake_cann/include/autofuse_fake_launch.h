// What the fake bisheng makes of kernel<<<cores, nullptr, stream>>>(arguments...).
#ifndef AUTOFUSE_FAKE_LAUNCH_H
#define AUTOFUSE_FAKE_LAUNCH_H

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

// Runs body(context) once per core; args: the bytes of the arguments, in which addresses of memory are looked for.
extern "C" void autofuse_fake_launch(const char* name, uint32_t cores, void* stream, void (*body)(void*), void* context,
                                     const void* args, uint64_t args_bytes);

namespace autofuse_fake {

class Launch {
public:
    Launch(const char* name, uint32_t cores, const void*, void* stream) : name_(name), cores_(cores), stream_(stream) {}

    template <typename Kernel, typename... Args> void Run(const Kernel& kernel, Args... args) const {
        // Every argument at a multiple of 8 bytes, and nothing undefined between them.
        constexpr uint64_t size = (8 + ... + ((sizeof(Args) + 7) / 8 * 8));
        alignas(8) unsigned char bytes[size] = {};
        uint64_t at = 0;
        (Put(bytes, at, args), ...);
        const auto call = [&] { kernel(args...); };
        using Call = decltype(call);
        autofuse_fake_launch(
            name_, cores_, stream_, [](void* c) { (*static_cast<Call*>(c))(); }, const_cast<void*>(static_cast<const void*>(&call)),
            bytes, size);
    }

private:
    template <typename T> static void Put(unsigned char* bytes, uint64_t& at, const T& value) {
        static_assert(std::is_trivially_copyable_v<T>, "an argument of a kernel is plain data");
        std::memcpy(bytes + at, &value, sizeof(T));
        at += (sizeof(T) + 7) / 8 * 8;
    }

    const char* name_;
    uint32_t cores_;
    void* stream_;
};

}  // namespace autofuse_fake

#endif
