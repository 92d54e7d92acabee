// LocalTensor (UB) and GlobalTensor (GM). Offsets and sizes count elements.
// Source: Ascend C public documentation.
#ifndef AUTOFUSE_TWIN_TENSOR_H
#define AUTOFUSE_TWIN_TENSOR_H

#include "abi.h"

namespace autofuse_twin {

// The number of elements that operator[] advances. The literal 0 does not convert to it but prefers decltype(nullptr),
// a conversion of the language; it is by far the most frequent offset, and most arguments of calls would be copies.
template <typename N> struct Offset {
    constexpr Offset(N n) : count(n) {}
    N count;
};

}  // namespace autofuse_twin

namespace AscendC {

template <typename T>
class LocalTensor {
public:
    using PrimType = T;

    LocalTensor() = default;
    explicit LocalTensor(const ::autofuse_twin::UbView& view) : view_(view) {}

    LocalTensor operator[](const ::autofuse_twin::Offset<uint32_t> offset) const {
        LocalTensor out(*this);
        out.view_.addr += static_cast<uint64_t>(offset.count) * sizeof(T);
        out.view_.size = offset.count < view_.size ? view_.size - offset.count : 0;
        return out;
    }
    // At 0: the tensor itself. A reference to an element of a temporary would not outlive it.
    [[gnu::always_inline]] const LocalTensor& operator[](decltype(nullptr)) const& { return *this; }
    LocalTensor operator[](decltype(nullptr)) const&& { return *this; }
    T& operator()(const uint32_t offset) const { return *At(offset, true); }
    T GetValue(const uint32_t index AUTOFUSE_TWIN_HERE) const { return *At(index, false); }
    template <typename V> void SetValue(const uint32_t index, const V value AUTOFUSE_TWIN_HERE) const {
#ifdef AUTOFUSE_TWIN_CHECKED
        Check(index, true);
        ::autofuse_twin::UbScalarStore(view_, static_cast<uint64_t>(index) * sizeof(T), sizeof(T),
                                       ::autofuse_twin::Bits(static_cast<T>(value)));
#else
        *At(index, true) = static_cast<T>(value);
#endif
    }
    template <typename U> LocalTensor<U> ReinterpretCast() const {
        ::autofuse_twin::UbView view = view_;
        view.size = static_cast<uint32_t>(static_cast<uint64_t>(view.size) * sizeof(T) / sizeof(U));
        return LocalTensor<U>(view);
    }
    uint32_t GetSize() const { return view_.size; }
    void SetSize(const uint32_t size) { view_.size = size; }
    __ubuf__ T* GetPhyAddr() const {
#ifdef AUTOFUSE_TWIN_CHECKED
        ::autofuse_twin::RegLeave();
#endif
        return reinterpret_cast<T*>(view_.addr);
    }
    __ubuf__ T* GetPhyAddr(const uint32_t offset) const { return GetPhyAddr() + offset; }
    int32_t GetPosition() const { return view_.pos; }

    const ::autofuse_twin::UbView& View() const { return view_; }

private:
    void Check(uint32_t index, bool write) const {
        const uint8_t* p = view_.addr + static_cast<uint64_t>(index) * sizeof(T);
        if (p < view_.lo || p + sizeof(T) > view_.hi) {
            ::autofuse_twin::UbScalarFail(view_, static_cast<uint64_t>(index) * sizeof(T), sizeof(T), write);
        }
    }
    T* At(uint32_t index, bool write) const {
        Check(index, write);
#ifdef AUTOFUSE_TWIN_CHECKED
        ::autofuse_twin::UbScalar(view_, static_cast<uint64_t>(index) * sizeof(T), sizeof(T), write);
#endif
        return reinterpret_cast<T*>(view_.addr + static_cast<uint64_t>(index) * sizeof(T));
    }

    ::autofuse_twin::UbView view_;
};

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;

    void SetGlobalBuffer(__gm__ T* buffer, uint64_t bufferSize AUTOFUSE_TWIN_HERE) {
        view_.addr = reinterpret_cast<uint8_t*>(buffer);
        view_.size = bufferSize;
        ::autofuse_twin::GmBind(view_, sizeof(T));
    }
    void SetGlobalBuffer(__gm__ T* buffer AUTOFUSE_TWIN_HERE) { SetGlobalBuffer(buffer, 0); }

    GlobalTensor operator[](const ::autofuse_twin::Offset<uint64_t> offset) const {
        GlobalTensor out(*this);
        out.view_.addr += offset.count * sizeof(T);
        return out;
    }
    [[gnu::always_inline]] const GlobalTensor& operator[](decltype(nullptr)) const& { return *this; }
    GlobalTensor operator[](decltype(nullptr)) const&& { return *this; }
    __gm__ T& operator()(const uint64_t offset) const { return *At(offset, true); }
    T GetValue(const uint64_t offset AUTOFUSE_TWIN_HERE) const { return *At(offset, false); }
    void SetValue(const uint64_t offset, T value AUTOFUSE_TWIN_HERE) const { *At(offset, true) = value; }
    template <typename U> GlobalTensor<U> ReinterpretCast() const {
        GlobalTensor<U> out;
        out.Assign(view_, view_.size * sizeof(T) / sizeof(U));
        return out;
    }
    const __gm__ T* GetPhyAddr() const { return reinterpret_cast<const T*>(view_.addr); }
    __gm__ T* GetPhyAddr(const uint64_t offset) const { return reinterpret_cast<T*>(view_.addr) + offset; }
    uint64_t GetSize() const { return view_.size; }
    template <CacheRwMode mode = CacheRwMode::RW> void SetL2CacheHint(CacheMode cache) {
        view_.cached = cache != CacheMode::CACHE_MODE_DISABLE;
    }

    const ::autofuse_twin::GmView& View() const { return view_; }
    void Assign(const ::autofuse_twin::GmView& view, uint64_t size) {
        view_ = view;
        view_.size = size;
    }

private:
    T* At(uint64_t index, bool write) const {
        uint8_t* p = view_.addr + index * sizeof(T);
        if (view_.lo != nullptr && (p < view_.lo || p + sizeof(T) > view_.hi || (write && !view_.writable))) {
            ::autofuse_twin::GmScalarFail(view_, index * sizeof(T), sizeof(T), write);
        }
#ifdef AUTOFUSE_TWIN_CHECKED
        ::autofuse_twin::GmScalar(view_, index * sizeof(T), sizeof(T), write);
#endif
        return reinterpret_cast<T*>(p);
    }

    ::autofuse_twin::GmView view_;
};

}  // namespace AscendC

#endif
