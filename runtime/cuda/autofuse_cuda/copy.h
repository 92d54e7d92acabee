// Copies between GM and UB by the warps of MTE2 and MTE3, and inside UB by V.
//
// Loads are asynchronous copies of 16, 8 or 4 bytes wherever the addresses allow it: they complete later, and a barrier
// or flag with asynchronous arrival waits for them.
#ifndef AUTOFUSE_CUDA_COPY_H
#define AUTOFUSE_CUDA_COPY_H

namespace autofuse_cuda {

template <uint32_t size> __device__ __forceinline__ void CopyAsync(uint32_t to, const uint8_t* from) {
    if constexpr (size == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(size) : "memory");
    }
}

// Rows of `bytes` bytes; the pitches are bytes.
struct Rows {
    uint32_t rows, bytes;
    uint64_t gm;
    uint32_t ub;
};

template <uint32_t size> __device__ void LoadUnits(uint32_t to, const uint8_t* from, const Rows& r) {
    const uint32_t base = SharedAddress(ub) + to;
    const uint32_t per = r.bytes / size;
    if (r.rows == 1 || per >= 32) {
        for (uint32_t row = 0; row < r.rows; ++row) {
            const uint8_t* gm = from + row * r.gm;
            const uint32_t at = base + row * r.ub;
#pragma unroll 4
            for (uint32_t i = Lane(); i < per; i += 32) {
                CopyAsync<size>(at + i * size, gm + i * size);
            }
        }
        return;
    }
    for (uint32_t i = Lane(); i < r.rows * per; i += 32) {
        const uint32_t row = i / per;
        const uint32_t c = (i - row * per) * size;
        CopyAsync<size>(base + row * r.ub + c, from + row * r.gm + c);
    }
}
template <typename W> __device__ void LoadWords(uint32_t to, const uint8_t* from, const Rows& r) {
    const uint32_t per = r.bytes / sizeof(W);
    for (uint32_t i = Lane(); i < r.rows * per; i += 32) {
        const uint32_t row = i / per;
        const uint32_t c = (i - row * per) * sizeof(W);
        *At<W>(to + row * r.ub + c) = *reinterpret_cast<const W*>(from + row * r.gm + c);
    }
}
// The largest power of two that divides all addresses and lengths: the lowest set bit.
__device__ __forceinline__ uint32_t Common(uint32_t ub_at, const uint8_t* gm, const Rows& r) {
    const uint64_t pitches = r.rows > 1 ? r.gm | r.ub : 0;
    return static_cast<uint32_t>((ub_at | reinterpret_cast<uint64_t>(gm) | pitches | r.bytes) & 15u);
}
__device__ __noinline__ void Load(uint32_t to, const uint8_t* from, Rows r) {
    if (r.rows == 1 && ((to | reinterpret_cast<uint64_t>(from)) & 15u) == 0) {
        // The tail of a row.
        const uint32_t tail = r.bytes & 15u;
        r.bytes -= tail;
        LoadUnits<16>(to, from, r);
        to += r.bytes;
        from += r.bytes;
        r.bytes = tail;
        if (tail == 0) {
            return;
        }
    }
    const uint32_t common = Common(to, from, r);
    if ((common & 15u) == 0) {
        LoadUnits<16>(to, from, r);
    } else if ((common & 7u) == 0) {
        LoadUnits<8>(to, from, r);
    } else if ((common & 3u) == 0) {
        LoadUnits<4>(to, from, r);
    } else if ((common & 1u) == 0) {
        LoadWords<uint16_t>(to, from, r);
    } else {
        LoadWords<uint8_t>(to, from, r);
    }
}

// Fills the 32-byte units of each row after (and before) the data: with the padding value or, without paddings, with
// the first element of the row, as in the twin.
template <typename T>
__device__ __noinline__ void LoadPads(uint32_t to, const uint8_t* from, Rows r, uint32_t left, uint32_t slot, bool is_pad, T value) {
    const uint32_t lead = left / sizeof(T);
    const uint32_t first = (left + r.bytes) / sizeof(T);
    const uint32_t per = lead + slot / sizeof(T) - first;
    for (uint32_t i = Lane(); i < r.rows * per; i += 32) {
        const uint32_t row = i / per;
        const uint32_t k = i - row * per;
        const uint32_t c = k < lead ? k : first + k - lead;
        T fill = value;
        if (!is_pad) {
            fill = *reinterpret_cast<const T*>(from + row * r.gm);
        }
        At<T>(to + row * r.ub)[c] = fill;
    }
}

template <typename W> __device__ void StoreWords(uint8_t* to, uint32_t from, const Rows& r) {
    const uint32_t per = r.bytes / sizeof(W);
    if (r.rows == 1 || per >= 32) {
        for (uint32_t row = 0; row < r.rows; ++row) {
            const W* s = At<W>(from + row * r.ub);
            W* d = reinterpret_cast<W*>(to + row * r.gm);
#pragma unroll 4
            for (uint32_t i = Lane(); i < per; i += 32) {
                d[i] = s[i];
            }
        }
        return;
    }
    for (uint32_t i = Lane(); i < r.rows * per; i += 32) {
        const uint32_t row = i / per;
        const uint32_t c = i - row * per;
        reinterpret_cast<W*>(to + row * r.gm)[c] = At<W>(from + row * r.ub)[c];
    }
}

// Adds one element (2: maximum, 3: minimum) to GM, by 32-bit words.
template <typename T> __device__ void Accumulate(uint32_t kind, T* at, T value) {
    constexpr uint32_t bits = 8 * sizeof(T);
    const uint64_t address = reinterpret_cast<uint64_t>(at);
    uint32_t* word = reinterpret_cast<uint32_t*>(address & ~uint64_t{3});
    const uint32_t shift = static_cast<uint32_t>(address & 3u) * 8;
    const uint32_t mask = (bits == 32 ? ~0u : (1u << (bits & 31u)) - 1) << shift;
    uint32_t seen = *static_cast<volatile uint32_t*>(word);
    uint32_t before;
    do {
        before = seen;
        T old;
        const uint32_t part = (before & mask) >> shift;
        __builtin_memcpy(&old, &part, sizeof(T));
        T now;
        if constexpr (kFloat<T>) {
            const float a = Wide(old);
            const float b = Wide(value);
            now = Narrow<T>(kind == 1 ? a + b : kind == 2 ? MaxNan(a, b) : MinNan(a, b));
        } else {
            now = static_cast<T>(kind == 1 ? old + value : kind == 2 ? (old > value ? old : value)
                                                                     : (old < value ? old : value));
        }
        uint32_t put = 0;
        __builtin_memcpy(&put, &now, sizeof(T));
        seen = atomicCAS(word, before, (before & ~mask) | (put << shift & mask));
    } while (seen != before);
}
template <typename T> __device__ __noinline__ void StoreAtomic(uint8_t* to, uint32_t from, Rows r, uint32_t kind) {
    const uint32_t per = r.bytes / sizeof(T);
    for (uint32_t i = Lane(); i < r.rows * per; i += 32) {
        const uint32_t row = i / per;
        const uint32_t c = i - row * per;
        Accumulate<T>(kind, reinterpret_cast<T*>(to + row * r.gm) + c, At<T>(from + row * r.ub)[c]);
    }
}
__device__ __noinline__ void StorePlain(uint8_t* to, uint32_t from, Rows r) {
    const uint32_t common = Common(from, to, r);
    if ((common & 15u) == 0) {
        StoreWords<uint4>(to, from, r);
    } else if ((common & 3u) == 0) {
        StoreWords<uint32_t>(to, from, r);
    } else if ((common & 1u) == 0) {
        StoreWords<uint16_t>(to, from, r);
    } else {
        StoreWords<uint8_t>(to, from, r);
    }
}
template <typename T> __device__ __forceinline__ void Store(uint8_t* to, uint32_t from, const Rows& r) {
    if constexpr (sizeof(T) <= 4) {
        const uint32_t kind = shared.atomic;
        if (kind != 0) {
            StoreAtomic<T>(to, from, r, kind);
            return;
        }
    }
    StorePlain(to, from, r);
}

// Inside UB, 32-byte blocks at a time.
__device__ __noinline__ void Move(uint32_t to, uint32_t from, uint32_t rows, uint32_t bytes, uint32_t to_pitch, uint32_t from_pitch) {
    const uint32_t per = bytes / 4;
    for (uint32_t i = Rank<5>(); i < rows * per; i += kV) {
        const uint32_t row = i / per;
        const uint32_t c = i - row * per;
        At<uint32_t>(to + row * to_pitch)[c] = At<uint32_t>(from + row * from_pitch)[c];
    }
}

__device__ __forceinline__ void AtomicSet(uint32_t kind) {
    if (IsMte3()) {
        __syncwarp();
        shared.atomic = kind;
        __syncwarp();
    }
}

}  // namespace autofuse_cuda

namespace AscendC {

template <typename T>
__device__ void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p,
                            const DataCopyPadExtParams<T>& pad) {
    if (!::autofuse_cuda::IsMte2() || p.blockCount == 0 || p.blockLen == 0) {
        return;
    }
    const uint32_t left = pad.leftPadding * static_cast<uint32_t>(sizeof(T));
    const uint32_t right = pad.rightPadding * static_cast<uint32_t>(sizeof(T));
    const uint32_t slot = (left + p.blockLen + right + 31) / 32 * 32;
    const uint8_t* gm = reinterpret_cast<const uint8_t*>(src.GetPhyAddr());
    const ::autofuse_cuda::Rows rows{p.blockCount, p.blockLen, uint64_t{p.blockLen} + p.srcStride, slot + p.dstStride * 32};
    ::autofuse_cuda::Load(dst.Off() + left, gm, rows);
    if (slot != p.blockLen && (pad.isPad || left + right == 0)) {
        ::autofuse_cuda::LoadPads<T>(dst.Off(), gm, rows, left, slot, pad.isPad, pad.paddingValue);
    }
}
template <typename T>
__device__ void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p) {
    if (!::autofuse_cuda::IsMte3() || p.blockCount == 0 || p.blockLen == 0) {
        return;
    }
    ::autofuse_cuda::Store<T>(reinterpret_cast<uint8_t*>(dst.GetPhyAddr()), src.Off(),
                              {p.blockCount, p.blockLen, uint64_t{p.blockLen} + p.dstStride,
                               (p.blockLen + 31) / 32 * 32 + p.srcStride * 32});
}

// DataCopy moves whole blocks of 32 bytes.
template <typename T> __device__ void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p) {
    if (::autofuse_cuda::IsMte2() && p.blockCount != 0 && p.blockLen != 0) {
        const uint32_t len = p.blockLen * 32u;
        ::autofuse_cuda::Load(dst.Off(), reinterpret_cast<const uint8_t*>(src.GetPhyAddr()),
                              {p.blockCount, len, uint64_t{len} + p.srcStride * 32u, len + p.dstStride * 32u});
    }
}
template <typename T> __device__ void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p) {
    if (::autofuse_cuda::IsMte3() && p.blockCount != 0 && p.blockLen != 0) {
        const uint32_t len = p.blockLen * 32u;
        ::autofuse_cuda::Store<T>(reinterpret_cast<uint8_t*>(dst.GetPhyAddr()), src.Off(),
                                  {p.blockCount, len, uint64_t{len} + p.dstStride * 32u, len + p.srcStride * 32u});
    }
}
template <typename T> __device__ void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p) {
    if (::autofuse_cuda::IsV() && p.blockCount != 0 && p.blockLen != 0) {
        const uint32_t len = p.blockLen * 32u;
        ::autofuse_cuda::Move(dst.Off(), src.Off(), p.blockCount, len, len + p.dstStride * 32u, len + p.srcStride * 32u);
    }
}
template <typename T> __device__ void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count) {
    const uint32_t bytes = count * static_cast<uint32_t>(sizeof(T)) / 32 * 32;
    if (::autofuse_cuda::IsMte2() && bytes != 0) {
        ::autofuse_cuda::Load(dst.Off(), reinterpret_cast<const uint8_t*>(src.GetPhyAddr()), {1, bytes, bytes, bytes});
    }
}
template <typename T> __device__ void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count) {
    const uint32_t bytes = count * static_cast<uint32_t>(sizeof(T)) / 32 * 32;
    if (::autofuse_cuda::IsMte3() && bytes != 0) {
        ::autofuse_cuda::Store<T>(reinterpret_cast<uint8_t*>(dst.GetPhyAddr()), src.Off(), {1, bytes, bytes, bytes});
    }
}
template <typename T> __device__ void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count) {
    const uint32_t bytes = count * static_cast<uint32_t>(sizeof(T)) / 32 * 32;
    if (::autofuse_cuda::IsV() && bytes != 0) {
        ::autofuse_cuda::Move(dst.Off(), src.Off(), 1, bytes, bytes, bytes);
    }
}

template <typename T> __device__ void SetAtomicAdd() { ::autofuse_cuda::AtomicSet(1); }
template <typename T> __device__ void SetAtomicMax() { ::autofuse_cuda::AtomicSet(2); }
template <typename T> __device__ void SetAtomicMin() { ::autofuse_cuda::AtomicSet(3); }
__device__ inline void SetAtomicNone() { ::autofuse_cuda::AtomicSet(0); }

}  // namespace AscendC

#endif
