// layer_norm_backward: loops over fused operators, by autofuse.
// Compile it for the machine that runs it:
//   g++ -std=c++17 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared layer_norm_backward.cpp

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

static void layer_norm_backward_0(
    const half* __restrict dy,
    const half* __restrict gamma,
    const half* __restrict x,
    const float* __restrict mean,
    const float* __restrict rstd,
    half* __restrict dx,
    int64_t tokens)
{
    #pragma omp parallel for schedule(static) if ((768 * tokens) >= 32768)
    for (int64_t i0 = 0; i0 < tokens; ++i0) {
        alignas(64) float weigh_row[768];
        alignas(64) float scale_row[768];
        const float mean_value = mean[i0];
        const float rstd_value = rstd[i0];
        double mean_weighed_reducesum = 0.0;
        double mean_aligned_reducesum = 0.0;
        for (int64_t first = 0; first < 768; first += 128) {
            simd::part mean_weighed_reducesum_part = 0.0f;
            simd::part mean_aligned_reducesum_part = 0.0f;
            const int64_t count = std::min<int64_t>(128, 768 - first);
            alignas(64) float dy_wide[128];
            simd::widen(&dy[i0 * 768 + first], dy_wide, count);
            alignas(64) float gamma_wide[128];
            simd::widen(&gamma[first], gamma_wide, count);
            alignas(64) float x_wide[128];
            simd::widen(&x[i0 * 768 + first], x_wide, count);
            #pragma omp simd reduction(+ : mean_weighed_reducesum_part, mean_aligned_reducesum_part)
            for (int64_t k = 0; k < count; ++k) {
                const int64_t i1 = first + k;
                const float weigh = dy_wide[k] * gamma_wide[k];
                weigh_row[i1] = weigh;
                const float centre = x_wide[k] - mean_value;
                const float scale = centre * rstd_value;
                scale_row[i1] = scale;
                const float weighed_by_normed = weigh * scale;
                mean_weighed_reducesum_part += weigh;
                mean_aligned_reducesum_part += weighed_by_normed;
            }
            mean_weighed_reducesum += mean_weighed_reducesum_part;
            mean_aligned_reducesum += mean_aligned_reducesum_part;
        }
        const float mean_weighed = mean_weighed_reducesum / 768.0f;
        const float mean_aligned = mean_aligned_reducesum / 768.0f;
        for (int64_t first = 0; first < 768; first += 128) {
            const int64_t count = std::min<int64_t>(128, 768 - first);
            alignas(64) float dx_wide[128];
            #pragma omp simd
            for (int64_t k = 0; k < count; ++k) {
                const int64_t i1 = first + k;
                const float without_mean = weigh_row[i1] - mean_weighed;
                const float along = scale_row[i1] * mean_aligned;
                const float both = without_mean - along;
                const float by_rstd = both * rstd_value;
                dx_wide[k] = by_rstd;
            }
            simd::narrow(dx_wide, &dx[i0 * 768 + first], count);
        }
    }
}

static void layer_norm_backward_1(
    const half* __restrict x,
    const float* __restrict mean,
    const float* __restrict rstd,
    const half* __restrict dy,
    float* __restrict dgamma,
    float* __restrict dbeta,
    int64_t tokens)
{
    for (int64_t start = 0; start < 768; start += 1024) {
        const int64_t lanes = std::min<int64_t>(1024, 768 - start);
        double sum_gamma[1024];
        std::fill_n(sum_gamma, 1024, 0.0);
        double sum_beta[1024];
        std::fill_n(sum_beta, 1024, 0.0);
        #pragma omp parallel for reduction(+ : sum_gamma, sum_beta) schedule(static) if ((768 * tokens) >= 32768)
        for (int64_t run = 0; run < tokens; run += 16) {
            const int64_t end = std::min<int64_t>(run + 16, tokens);
            float sum_gamma_part[1024];
            std::fill_n(sum_gamma_part, lanes, 0.0f);
            float sum_beta_part[1024];
            std::fill_n(sum_beta_part, lanes, 0.0f);
            for (int64_t i0 = run; i0 < end; ++i0) {
                const float mean_value = mean[i0];
                const float rstd_value = rstd[i0];
                alignas(64) float x_wide[1024];
                simd::widen(&x[i0 * 768 + start], x_wide, lanes);
                alignas(64) float dy_wide[1024];
                simd::widen(&dy[i0 * 768 + start], dy_wide, lanes);
                #pragma omp simd
                for (int64_t j = 0; j < lanes; ++j) {
                    const int64_t i1 = start + j;
                    const float centre_1 = x_wide[j] - mean_value;
                    const float scale_1 = centre_1 * rstd_value;
                    const float dy_by_normed = dy_wide[j] * scale_1;
                    sum_gamma_part[j] += dy_by_normed;
                    sum_beta_part[j] += dy_wide[j];
                }
            }
            #pragma omp simd
            for (int64_t j = 0; j < lanes; ++j) {
                sum_gamma[j] += sum_gamma_part[j];
                sum_beta[j] += sum_beta_part[j];
            }
        }
        #pragma omp simd
        for (int64_t j = 0; j < lanes; ++j) {
            const int64_t i1 = start + j;
            dgamma[i1] = static_cast<float>(sum_gamma[j]);
            dbeta[i1] = static_cast<float>(sum_beta[j]);
        }
    }
}

extern "C" void layer_norm_backward_kernel(void** data, const int64_t* const* shapes)
{
    const half* const dy = static_cast<const half*>(data[0]);
    const half* const x = static_cast<const half*>(data[1]);
    const float* const mean = static_cast<const float*>(data[2]);
    const float* const rstd = static_cast<const float*>(data[3]);
    const half* const gamma = static_cast<const half*>(data[4]);
    half* const dx = static_cast<half*>(data[5]);
    float* const dgamma = static_cast<float*>(data[6]);
    float* const dbeta = static_cast<float*>(data[7]);
    const int64_t tokens = shapes[0][1];
    layer_norm_backward_0(dy, gamma, x, mean, rstd, dx, tokens);
    layer_norm_backward_1(x, mean, rstd, dy, dgamma, dbeta, tokens);
}
