// layer_norm: loops over fused operators, by autofuse.
// Compile it for the machine that runs it:
//   g++ -std=c++17 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared layer_norm.cpp

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

// A run of elements is added up in the lanes of a vector; without optimisation there are none to share the roundings.
#if defined(__OPTIMIZE__)
using part = float;
#else
using part = double;
#endif

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

static void layer_norm_0(
    const half* __restrict x,
    const half* __restrict gamma,
    const half* __restrict beta,
    half* __restrict out,
    float* __restrict mean,
    float* __restrict rstd,
    int64_t tokens)
{
    #pragma omp parallel for schedule(static) if ((768 * tokens) >= 32768)
    for (int64_t i0 = 0; i0 < tokens; ++i0) {
        alignas(64) float widen_row[768];
        double average_reducesum = 0.0;
        for (int64_t first = 0; first < 768; first += 128) {
            simd::part average_reducesum_part = 0.0f;
            const int64_t count = std::min<int64_t>(128, 768 - first);
            simd::widen(&x[i0 * 768 + first], &widen_row[first], count);
            #pragma omp simd reduction(+ : average_reducesum_part)
            for (int64_t k = 0; k < count; ++k) {
                const int64_t i1 = first + k;
                average_reducesum_part += widen_row[i1];
            }
            average_reducesum += average_reducesum_part;
        }
        const float average = average_reducesum / 768.0f;
        double spread_reducesum = 0.0;
        for (int64_t first = 0; first < 768; first += 128) {
            simd::part spread_reducesum_part = 0.0f;
            const int64_t count = std::min<int64_t>(128, 768 - first);
            #pragma omp simd reduction(+ : spread_reducesum_part)
            for (int64_t k = 0; k < count; ++k) {
                const int64_t i1 = first + k;
                const float centre = widen_row[i1] - average;
                const float square = centre * centre;
                spread_reducesum_part += square;
            }
            spread_reducesum += spread_reducesum_part;
        }
        const float spread = spread_reducesum / 768.0f;
        const float guard = spread + 1e-05f;
        const float inverse = 1.0f / std::sqrt(guard);
        for (int64_t first = 0; first < 768; first += 128) {
            const int64_t count = std::min<int64_t>(128, 768 - first);
            alignas(64) float gamma_wide[128];
            simd::widen(&gamma[first], gamma_wide, count);
            alignas(64) float beta_wide[128];
            simd::widen(&beta[first], beta_wide, count);
            alignas(64) float out_wide[128];
            #pragma omp simd
            for (int64_t k = 0; k < count; ++k) {
                const int64_t i1 = first + k;
                const float centre = widen_row[i1] - average;
                const float scale = centre * inverse;
                const float weigh = scale * gamma_wide[k];
                const float shift = weigh + beta_wide[k];
                out_wide[k] = shift;
            }
            simd::narrow(out_wide, &out[i0 * 768 + first], count);
        }
        mean[i0] = average;
        rstd[i0] = inverse;
    }
}

extern "C" void layer_norm_kernel(void** data, const int64_t* const* shapes)
{
    const half* const x = static_cast<const half*>(data[0]);
    const half* const gamma = static_cast<const half*>(data[1]);
    const half* const beta = static_cast<const half*>(data[2]);
    half* const out = static_cast<half*>(data[3]);
    float* const mean = static_cast<float*>(data[4]);
    float* const rstd = static_cast<float*>(data[5]);
    const int64_t tokens = shapes[0][1];
    layer_norm_0(x, gamma, beta, out, mean, rstd, tokens);
}
