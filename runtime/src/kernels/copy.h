// Byte moves. Included by impl.h inside its anonymous namespace.

// d and s do not overlap. A loop of whole registers, for rows of tiles: a string instruction, which a C library may use
// at these sizes, is slow if the two are aligned differently, as UB and a tensor are.
void CopyBytes(uint8_t* d, const uint8_t* s, size_t n) {
    size_t i = 0;
#if defined(__AVX512F__)
    for (; i + 64 <= n; i += 64) {
        _mm512_storeu_si512(d + i, _mm512_loadu_si512(s + i));
    }
#elif defined(__AVX__)
    for (; i + 32 <= n; i += 32) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i)));
    }
#endif
    if (i < n) {
        __builtin_memcpy(d + i, s + i, n - i);
    }
}

// Non-temporal variant: it writes lines without fetching them first, which halves the traffic. d and n are multiples of
// 64 bytes. Other threads only see such stores in order after StreamFence().
void StreamBytes(uint8_t* d, const uint8_t* s, size_t n) {
#if defined(__AVX512F__)
    for (size_t i = 0; i < n; i += 64) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(d + i), _mm512_loadu_si512(s + i));
    }
#elif defined(AUTOFUSE_TWIN_X86)
    for (size_t i = 0; i < n; i += 64) {
        for (size_t k = 0; k < 64; k += 16) {
            _mm_stream_si128(reinterpret_cast<__m128i*>(d + i + k),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i + k)));
        }
    }
#else
    __builtin_memcpy(d, s, n);
#endif
}

// Fills n bytes with repetitions of the 32 bytes at `block`; they do not overlap.
void TileBlock(uint8_t* d, const uint8_t* block, size_t n) {
    struct Block {
        uint64_t word[4];
    } value;
    __builtin_memcpy(&value, block, sizeof(value));
    size_t i = 0;
    for (; i + sizeof(value) <= n; i += sizeof(value)) {
        __builtin_memcpy(d + i, &value, sizeof(value));
    }
    if (i < n) {
        __builtin_memcpy(d + i, &value, n - i);
    }
}
