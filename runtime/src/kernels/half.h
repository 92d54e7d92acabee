// Conversions between float and the 16-bit floats, in chunks. Included by impl.h inside its anonymous namespace.

#include "autofuse_twin/formulas/bits.h"

constexpr size_t kChunk = 256;

#if defined(__AVX512F__)
// With a mask of all lanes: without one, GCC 12 warns about a value in its own header.
inline __m512 WidenHalves(__m256i h) { return _mm512_maskz_cvtph_ps(0xffff, h); }
inline __m256i NarrowFloats(__m512 v) { return _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT); }
#endif

void HalfToFloat(const uint16_t* src, float* dst, size_t n) {
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(dst + i, WidenHalves(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i))));
    }
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i))));
    }
#endif
    for (; i < n; ++i) {
        dst[i] = HalfToFloat1(src[i]);
    }
}

void FloatToHalf(const float* src, uint16_t* dst, size_t n) {
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i), NarrowFloats(_mm512_loadu_ps(src + i)));
    }
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), 0));
    }
#endif
    for (; i < n; ++i) {
        dst[i] = FloatToHalf1(src[i]);
    }
}

void Bf16ToFloat(const uint16_t* src, float* dst, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        dst[i] = BitCast<float>(static_cast<uint32_t>(src[i]) << 16);
    }
}
