// embedding_gather: loops over fused operators, by autofuse.
// Compile it for the machine that runs it:
//   g++ -std=c++17 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared embedding_gather.cpp

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

using half = uint16_t; // its bits

namespace simd {

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

inline void widen(const half* x, float* y, int64_t count) {
    int64_t k = 0;
#if defined(__AVX512F__)
    for (; k + 16 <= count; k += 16) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + k));
        _mm512_storeu_ps(y + k, _mm512_cvtph_ps(bits));
    }
#elif defined(__F16C__)
    for (; k + 8 <= count; k += 8) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + k));
        _mm256_storeu_ps(y + k, _mm256_cvtph_ps(bits));
    }
#endif
    for (; k < count; ++k) {
        y[k] = from_half(x[k]);
    }
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

inline void narrow(const float* x, half* y, int64_t count) {
    int64_t k = 0;
#if defined(__AVX512F__)
    for (; k + 16 <= count; k += 16) {
        const __m256i bits = _mm512_cvtps_ph(_mm512_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + k), bits);
    }
#elif defined(__F16C__)
    for (; k + 8 <= count; k += 8) {
        const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + k), bits);
    }
#endif
    for (; k < count; ++k) {
        y[k] = to_half(x[k]);
    }
}

} // namespace simd

static void embedding_gather_0(
    const int32_t* __restrict ids,
    const half* __restrict table,
    const half* __restrict positions,
    half* __restrict out,
    int64_t batch,
    int64_t seq)
{
    #pragma omp parallel for collapse(2) schedule(static) if ((768 * batch * seq) >= 32768)
    for (int64_t i0 = 0; i0 < batch; ++i0) {
        for (int64_t i1 = 0; i1 < seq; ++i1) {
            const int32_t ids_value = ids[i0 * seq + i1];
            for (int64_t first = 0; first < 768; first += 256) {
                const int64_t count = std::min<int64_t>(256, 768 - first);
                alignas(64) float table_wide[256];
                const int64_t at = static_cast<int64_t>(ids_value);
                const int64_t place = std::clamp<int64_t>(at < 0 ? at + 32000 : at, 0, 32000 - 1);
                simd::widen(&table[first + place * 768], table_wide, count);
                alignas(64) float positions_wide[256];
                simd::widen(&positions[i1 * 768 + first], positions_wide, count);
                alignas(64) float out_wide[256];
                #pragma omp simd
                for (int64_t k = 0; k < count; ++k) {
                    const int64_t i2 = first + k;
                    const float scale = table_wide[k] * 27.712812f;
                    const float place_1 = scale + positions_wide[k];
                    out_wide[k] = place_1;
                }
                simd::narrow(out_wide, &out[i0 * (768 * seq) + i1 * 768 + first], count);
            }
        }
    }
}

extern "C" void embedding_gather_kernel(void** data, const int64_t* const* shapes)
{
    const half* const table = static_cast<const half*>(data[0]);
    const int32_t* const ids = static_cast<const int32_t*>(data[1]);
    const half* const positions = static_cast<const half*>(data[2]);
    half* const out = static_cast<half*>(data[3]);
    const int64_t batch = shapes[1][1];
    const int64_t seq = shapes[1][2];
    embedding_gather_0(ids, table, positions, out, batch, seq);
}
