// kv_cache_transpose: loops over fused operators, by autofuse.
// Compile it for the machine that runs it:
//   g++ -std=c++17 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared kv_cache_transpose.cpp

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

using half = uint16_t; // its bits

namespace simd {

// The elements of both halves in turns.
template <typename T>
inline void interleave(const T* in, T* out) {
    for (int k = 0; k < 512; ++k) {
        out[2 * k] = in[k];
        out[2 * k + 1] = in[k + 512];
    }
}

// A square of 32 by 32 elements with rows and columns exchanged: in five steps the bits of the column become
// those of the row, which are vector instructions where single elements would be moved otherwise.
template <typename T>
inline void turn(const T* in, T* out) {
    T a[1024], b[1024];
    interleave(in, a);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    interleave(b, out);
}

// The bits of a value as another type of the same size.
template <typename To, typename From>
inline To bit_cast(From x) {
    static_assert(sizeof(To) == sizeof(From), "the bits of one type fill the other");
    To y;
    std::memcpy(&y, &x, sizeof(To));
    return y;
}

inline float from_half(half x) {
    // The sign is extended, so that one shift puts it and the exponent where those of a float begin.
    const uint32_t wide = static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(x)));
    const uint32_t bits = (wide << 13) & 0x8fffe000u;
    const uint32_t special = (bits & 0x0f800000u) == 0x0f800000u ? 0x7f800000u : 0u;
    return bit_cast<float>(bit_cast<uint32_t>(bit_cast<float>(bits) * 0x1p112f) | special);
}

// The nearest float16, the even one of two; infinity from 65520 on.
inline half to_half(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x), size = bits & 0x7fffffffu;
    const uint32_t usual = (size + 0xfffu + ((size >> 13) & 1u) - 0x38000000u) >> 13;
    // The last bit of 0.5 is that of a subnormal float16.
    const uint32_t tiny = bit_cast<uint32_t>(bit_cast<float>(size) + 0.5f) - 0x3f000000u;
    const uint32_t huge = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t near = size < 0x38800000u ? tiny : usual;
    return static_cast<half>((size < 0x47800000u ? near : huge) | (bits & 0x80000000u) >> 16);
}

} // namespace simd

static void kv_cache_transpose_0(
    const half* __restrict keys,
    half* __restrict out,
    int64_t batch,
    int64_t seq)
{
    #pragma omp parallel for collapse(3) schedule(static) if ((1024 * batch * seq) >= 32768)
    for (int64_t i0 = 0; i0 < batch; ++i0) {
        for (int64_t tile1 = 0; tile1 < 1024; tile1 += 32) {
            for (int64_t tile2 = 0; tile2 < seq; tile2 += 32) {
                const int64_t end1 = std::min<int64_t>(tile1 + 32, 1024);
                const int64_t end2 = std::min<int64_t>(tile2 + 32, seq);
                half keys_tile[1024], keys_turned[1024];
                for (int64_t i2 = tile2; i2 < end2; ++i2) {
                    #pragma omp simd
                    for (int64_t i1 = tile1; i1 < end1; ++i1) {
                        keys_tile[(i2 - tile2) * 32 + (i1 - tile1)] = keys[i0 * (1024 * seq) + i1 + i2 * 1024];
                    }
                }
                simd::turn(keys_tile, keys_turned);
                for (int64_t i1 = tile1; i1 < end1; ++i1) {
                    #pragma omp simd
                    for (int64_t i2 = tile2; i2 < end2; ++i2) {
                        const half gather_0 = keys_turned[(i1 - tile1) * 32 + (i2 - tile2)];
                        const float scale_0 = simd::from_half(gather_0);
                        const float scale = scale_0 * 0.08838835f;
                        const half store_0 = simd::to_half(scale);
                        out[i0 * (1024 * seq) + i1 * seq + i2] = store_0;
                    }
                }
            }
        }
    }
}

extern "C" void kv_cache_transpose_kernel(void** data, const int64_t* const* shapes)
{
    const half* const keys = static_cast<const half*>(data[0]);
    half* const out = static_cast<half*>(data[1]);
    const int64_t batch = shapes[0][1];
    const int64_t seq = shapes[0][2];
    kv_cache_transpose_0(keys, out, batch, seq);
}
