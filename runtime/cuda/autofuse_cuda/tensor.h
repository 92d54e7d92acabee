// LocalTensor (UB) and GlobalTensor (GM). Offsets and sizes count elements.
#ifndef AUTOFUSE_CUDA_TENSOR_H
#define AUTOFUSE_CUDA_TENSOR_H

namespace AscendC {

template <typename T> class LocalTensor {
public:
    using PrimType = T;

    LocalTensor() = default;
    __device__ LocalTensor(uint32_t off, uint32_t size, int32_t slot) : off_(off), size_(size), slot_(slot) {}

    __device__ LocalTensor operator[](uint32_t offset) const {
        return LocalTensor(off_ + offset * static_cast<uint32_t>(sizeof(T)), offset < size_ ? size_ - offset : 0, slot_);
    }
    // Scalar read of UB: one thread reads for all of them, when it gets here.
    __device__ T GetValue(uint32_t index) const {
        using Word = typename ::autofuse_cuda::WordOf<sizeof(T)>::Type;
        Word word = 0;
        if (::autofuse_cuda::IsScalar()) {
            word = *::autofuse_cuda::At<volatile Word>(off_ + index * static_cast<uint32_t>(sizeof(T)));
        }
        __syncthreads();
        if (::autofuse_cuda::IsScalar()) {
            ::autofuse_cuda::shared.box = word;
        }
        __syncthreads();
        word = static_cast<Word>(::autofuse_cuda::shared.box);
        return ::autofuse_cuda::BitCast<T>(word);
    }
    template <typename V> __device__ void SetValue(uint32_t index, V value) const {
        if (::autofuse_cuda::IsScalar()) {
            *::autofuse_cuda::At<T>(off_ + index * sizeof(T)) = static_cast<T>(value);
        }
    }
    template <typename U> __device__ LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(off_, size_ * sizeof(T) / sizeof(U), slot_);
    }
    __device__ uint32_t GetSize() const { return size_; }
    __device__ void SetSize(uint32_t size) { size_ = size; }
    __device__ T* GetPhyAddr() const { return ::autofuse_cuda::At<T>(off_); }
    __device__ T* GetPhyAddr(uint32_t offset) const { return GetPhyAddr() + offset; }

    __device__ uint32_t Off() const { return off_; }
    __device__ int32_t Slot() const { return slot_; }

private:
    uint32_t off_ = 0;    // bytes from the start of UB
    uint32_t size_ = 0;
    int32_t slot_ = -1;   // block of a queue; -1 for none
};

template <typename T> class GlobalTensor {
public:
    using PrimType = T;

    __device__ void SetGlobalBuffer(T* buffer, uint64_t size = 0) {
        at_ = buffer;
        size_ = size;
    }
    __device__ GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor out(*this);
        out.at_ += offset;
        return out;
    }
    __device__ T GetValue(uint64_t offset) const { return at_[offset]; }
    __device__ void SetValue(uint64_t offset, T value) const {
        if (::autofuse_cuda::IsScalar()) {
            at_[offset] = value;
        }
    }
    template <typename U> __device__ GlobalTensor<U> ReinterpretCast() const {
        GlobalTensor<U> out;
        out.SetGlobalBuffer(reinterpret_cast<U*>(at_), size_ * sizeof(T) / sizeof(U));
        return out;
    }
    __device__ T* GetPhyAddr() const { return at_; }
    __device__ T* GetPhyAddr(uint64_t offset) const { return at_ + offset; }
    __device__ uint64_t GetSize() const { return size_; }
    template <CacheRwMode mode = CacheRwMode::RW> __device__ void SetL2CacheHint(CacheMode) {}

private:
    T* at_ = nullptr;
    uint64_t size_ = 0;
};

}  // namespace AscendC

#endif
