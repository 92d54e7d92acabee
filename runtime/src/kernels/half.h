// Conversions between float and the 16-bit floats, in chunks. Included by impl.h inside its anonymous namespace.

constexpr size_t kChunk = 256;

template <typename To, typename From> inline To BitCast(From v) { return __builtin_bit_cast(To, v); }

inline float HalfToFloat1(uint16_t h) {
    const uint32_t sign = (h & 0x8000u) << 16;
    const uint32_t mag = h & 0x7fffu;
    const uint32_t special = 0x7f800000u | (mag & 0x3ffu) << 13 | (mag > 0x7c00u ? 0x400000u : 0u);
    const uint32_t normal = (mag << 13) + 0x38000000u;
    const uint32_t tiny = BitCast<uint32_t>(static_cast<float>(static_cast<int32_t>(mag)) * 5.9604644775390625e-8f);
    return BitCast<float>(sign | (mag >= 0x7c00u ? special : mag >= 0x400u ? normal : tiny));
}

inline uint16_t FloatToHalf1(float v) {
    const uint32_t bits = BitCast<uint32_t>(v);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t mag = bits & 0x7fffffffu;
    const uint32_t nan = 0x7e00u | ((mag >> 13) & 0x3ffu);
    const uint32_t shifted = mag - 0x38000000u;
    const uint32_t normal = (shifted + 0xfffu + ((shifted >> 13) & 1u)) >> 13;
    // Adding 0.5 aligns units of 2^-24 with the last mantissa bit, so the float adder does the rounding.
    const uint32_t tiny = BitCast<uint32_t>(BitCast<float>(mag) + 0.5f) - 0x3f000000u;
    const uint32_t finite = mag < 0x38800000u ? tiny : normal;
    return static_cast<uint16_t>(sign | (mag > 0x7f800000u ? nan : mag >= 0x47800000u ? 0x7c00u : finite));
}

#if defined(__AVX512F__)
// With a mask of all lanes: without one, GCC 12 warns of a value in its own header.
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

inline uint16_t FloatToBf16Even(float v) {
    const uint32_t bits = BitCast<uint32_t>(v);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}
