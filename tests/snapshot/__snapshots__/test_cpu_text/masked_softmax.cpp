// masked_softmax: loops over fused operators, by autofuse.
// Compile it for the machine that runs it:
//   g++ -std=c++17 -O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -fPIC -shared masked_softmax.cpp

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
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

// The larger; NaN wins.
inline float max(float a, float b) {
    return a > b || a != a ? a : b;
}

// A run of elements is added up in the lanes of a vector; without optimisation there are none to share the roundings.
#if defined(__OPTIMIZE__)
using part = float;
#else
using part = double;
#endif

// 2^n for n from -126 to 127.
inline float power_of_2(int32_t n) {
    return bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// e^x: 2^n e^r with |r| <= ln(2) / 2; 2^n in two steps, as it need not be a normal float.
inline float exp(float x) {
    const float a = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    const float shifted = a * 1.44269504f + 12582912.0f;
    const float turns = shifted - 12582912.0f;
    const float r = (a - turns * 0.693359375f) + turns * 2.12194440e-4f;
    float tail = 0.00019892991986125708f;
    tail = tail * r + 0.0013935451861470938f;
    tail = tail * r + 0.00833330862224102f;
    tail = tail * r + 0.04166644811630249f;
    tail = tail * r + 0.1666666716337204f;
    tail = tail * r + 0.5f;
    const int32_t n = bit_cast<int32_t>(shifted) - 0x4b400000;
    const int32_t half = n >> 1;
    return (1.0f + (r + r * r * tail)) * power_of_2(half) * power_of_2(n - half);
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

#pragma omp declare reduction(largest : float : omp_out = simd::max(omp_out, omp_in)) initializer(omp_priv = -INFINITY)

static void masked_softmax_0(
    const uint8_t* __restrict keep,
    const half* __restrict scores,
    half* __restrict out,
    int64_t batch,
    int64_t queries,
    int64_t keys)
{
    #pragma omp parallel if ((16 * batch * keys * queries) >= 32768)
    {
        const std::unique_ptr<float[]> mask_row_memory(new float[keys]);
        float* const mask_row = mask_row_memory.get();
        const std::unique_ptr<float[]> softmax_exp_row_memory(new float[keys]);
        float* const softmax_exp_row = softmax_exp_row_memory.get();
        #pragma omp for collapse(3) schedule(static)
        for (int64_t i0 = 0; i0 < batch; ++i0) {
            for (int64_t i1 = 0; i1 < 16; ++i1) {
                for (int64_t i2 = 0; i2 < queries; ++i2) {
                    float softmax_reducemax = (-INFINITY);
                    for (int64_t first = 0; first < keys; first += 128) {
                        const int64_t count = std::min<int64_t>(128, keys - first);
                        alignas(64) float scores_wide[128];
                        simd::widen(&scores[i0 * (16 * keys * queries) + i1 * (keys * queries) + i2 * keys + first], scores_wide, count);
                        #pragma omp simd reduction(largest : softmax_reducemax)
                        for (int64_t k = 0; k < count; ++k) {
                            const int64_t i3 = first + k;
                            const bool keep_value = keep[i0 * (keys * queries) + i2 * keys + i3] != 0;
                            const float scale = scores_wide[k] * 0.125f;
                            const float mask = keep_value ? scale : (-10000.0f);
                            mask_row[i3] = mask;
                            softmax_reducemax = simd::max(softmax_reducemax, mask);
                        }
                    }
                    double softmax_reducesum = 0.0;
                    for (int64_t first = 0; first < keys; first += 128) {
                        simd::part softmax_reducesum_part = 0.0f;
                        const int64_t count = std::min<int64_t>(128, keys - first);
                        #pragma omp simd reduction(+ : softmax_reducesum_part)
                        for (int64_t k = 0; k < count; ++k) {
                            const int64_t i3 = first + k;
                            const float softmax_sub = mask_row[i3] - softmax_reducemax;
                            const float softmax_exp = simd::exp(softmax_sub);
                            softmax_exp_row[i3] = softmax_exp;
                            softmax_reducesum_part += softmax_exp;
                        }
                        softmax_reducesum += softmax_reducesum_part;
                    }
                    for (int64_t first = 0; first < keys; first += 128) {
                        const int64_t count = std::min<int64_t>(128, keys - first);
                        alignas(64) float out_wide[128];
                        #pragma omp simd
                        for (int64_t k = 0; k < count; ++k) {
                            const int64_t i3 = first + k;
                            const float softmax = softmax_exp_row[i3] / static_cast<float>(softmax_reducesum);
                            out_wide[k] = softmax;
                        }
                        simd::narrow(out_wide, &out[i0 * (16 * keys * queries) + i1 * (keys * queries) + i2 * keys + first], count);
                    }
                }
            }
        }
    }
}

extern "C" void masked_softmax_kernel(void** data, const int64_t* const* shapes)
{
    const half* const scores = static_cast<const half*>(data[0]);
    const uint8_t* const keep = static_cast<const uint8_t*>(data[1]);
    half* const out = static_cast<half*>(data[2]);
    const int64_t batch = shapes[0][1];
    const int64_t queries = shapes[0][3];
    const int64_t keys = shapes[0][4];
    masked_softmax_0(keep, scores, out, batch, queries, keys);
}
