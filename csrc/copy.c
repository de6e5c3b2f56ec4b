#include "copy.h"

#include "crc32c.h"

#include <string.h>

/* Of a plain copy with a CRC: the piece that is copied and then read back from the cache. */
#define PIECE 2048

/* K1: the CRC is taken of the copy, which nobody else writes. */
static uint32_t crc_plain(char *to, const char *from, size_t length, uint32_t crc) {
    while (length) {
        size_t piece = length < PIECE ? length : PIECE;
        memcpy(to, from, piece);
        crc = crc32c(crc, to, piece);
        to += piece;
        from += piece;
        length -= piece;
    }
    return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Three CRCs run side by side, for one alone waits for its own last step; these are the lengths
 * of each third.  A block of 4096 bytes less its flag is one long and one short round. */
#define LONG 1024
#define SHORT 336

/* What LONG or SHORT further bytes of zero make of each byte of a CRC. */
static uint32_t over_long[4][256];
static uint32_t over_short[4][256];

__attribute__((target("sse4.2"))) static void fill_table(uint32_t table[4][256], size_t zeros) {
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t value = 0; value < 256; value++) {
            uint64_t crc = value << 8 * byte;
            for (size_t i = 0; i < zeros; i += 8)
                crc = _mm_crc32_u64(crc, 0);
            table[byte][value] = (uint32_t)crc;
        }
}

static inline uint32_t over(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^
           table[3][crc >> 24];
}

/* K1: the compiler must not load the word once for the CRC and again for the store. */
static inline uint64_t load(const char *from) {
    uint64_t word;
    memcpy(&word, from, 8);
    __asm__ volatile("" : "+r"(word));
    return word;
}

static inline void store(char *to, uint64_t word, int streaming) {
    if (streaming)
        _mm_stream_si64((long long *)to, (long long)word);
    else
        memcpy(to, &word, 8);
}

/* Three thirds of `third` bytes each, copied and joined; `crc` is not inverted here. */
__attribute__((target("sse4.2"))) static inline uint32_t crc_round(char *to, const char *from,
                                                                   size_t third,
                                                                   uint32_t table[4][256],
                                                                   uint32_t crc, int streaming) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < third; i += 8) {
        uint64_t first = load(from + i);
        uint64_t second = load(from + third + i);
        uint64_t last = load(from + 2 * third + i);
        a = _mm_crc32_u64(a, first);
        b = _mm_crc32_u64(b, second);
        c = _mm_crc32_u64(c, last);
        store(to + i, first, streaming);
        store(to + third + i, second, streaming);
        store(to + 2 * third + i, last, streaming);
    }
    b ^= over(table, (uint32_t)a);
    return (uint32_t)c ^ over(table, (uint32_t)b);
}

__attribute__((target("sse4.2"))) static uint32_t
crc_sse42(char *to, const char *from, size_t length, uint32_t crc, int streaming) {
    uint64_t wide;
    /* An 8-byte streaming store that is not aligned would cross cache lines. */
    streaming = streaming && ((uintptr_t)to & 7) == 0;
    crc = ~crc;
    for (; length >= 3 * LONG; length -= 3 * LONG, to += 3 * LONG, from += 3 * LONG)
        crc = crc_round(to, from, LONG, over_long, crc, streaming);
    for (; length >= 3 * SHORT; length -= 3 * SHORT, to += 3 * SHORT, from += 3 * SHORT)
        crc = crc_round(to, from, SHORT, over_short, crc, streaming);
    wide = crc;
    for (; length >= 8; length -= 8, to += 8, from += 8) {
        uint64_t word = load(from);
        wide = _mm_crc32_u64(wide, word);
        store(to, word, streaming);
    }
    for (; length; length--, to++, from++) {
        uint8_t byte = (uint8_t)*from;
        __asm__ volatile("" : "+r"(byte));
        wide = _mm_crc32_u8((uint32_t)wide, byte);
        *to = (char)byte;
    }
    if (streaming)
        _mm_sfence();
    return ~(uint32_t)wide;
}

static void stream_sse2(char *to, const char *from, size_t length) {
    for (size_t i = 0; i < length; i += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));
        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
}

__attribute__((target("avx2"))) static void stream_avx2(char *to, const char *from, size_t length) {
    for (size_t i = 0; i < length; i += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(from + i));
        __m256i b = _mm256_loadu_si256((const __m256i *)(from + i + 32));
        _mm256_stream_si256((__m256i *)(to + i), a);
        _mm256_stream_si256((__m256i *)(to + i + 32), b);
    }
}

__attribute__((target("avx512f"))) static void stream_avx512(char *to, const char *from,
                                                             size_t length) {
    for (size_t i = 0; i < length; i += 64)
        _mm512_stream_si512((__m512i *)(to + i), _mm512_loadu_si512(from + i));
}

void copy_prepare(void) {
    if (copy_usable(COPY_SSE42)) {
        fill_table(over_long, LONG);
        fill_table(over_short, SHORT);
    }
}

int copy_usable(int kernel) {
    switch (kernel) {
    case COPY_PLAIN:
        return 1;
    case COPY_SSE42:
        return __builtin_cpu_supports("sse4.2");
    case COPY_AVX2:
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx2");
    case COPY_AVX512:
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx512f");
    }
    return 0;
}

void copy_bytes(int kernel, void *to, const void *from, size_t length, int streaming) {
    char *into = (char *)to;
    const char *out = (const char *)from;
    size_t head = -(uintptr_t)into & 63;
    size_t body;
    if (!streaming || kernel == COPY_PLAIN || length < head + 64) {
        memcpy(into, out, length);
        return;
    }
    memcpy(into, out, head);
    body = (length - head) & ~(size_t)63;
    if (kernel == COPY_AVX512)
        stream_avx512(into + head, out + head, body);
    else if (kernel == COPY_AVX2)
        stream_avx2(into + head, out + head, body);
    else
        stream_sse2(into + head, out + head, body);
    memcpy(into + head + body, out + head + body, length - head - body);
    _mm_sfence();
}

uint32_t copy_crc(int kernel, void *to, const void *from, size_t length, uint32_t crc,
                  int streaming) {
    if (kernel == COPY_PLAIN)
        return crc_plain((char *)to, (const char *)from, length, crc);
    return crc_sse42((char *)to, (const char *)from, length, crc, streaming);
}

#else

void copy_prepare(void) {}

int copy_usable(int kernel) { return kernel == COPY_PLAIN; }

void copy_bytes(int kernel, void *to, const void *from, size_t length, int streaming) {
    (void)kernel;
    (void)streaming;
    memcpy(to, from, length);
}

uint32_t copy_crc(int kernel, void *to, const void *from, size_t length, uint32_t crc,
                  int streaming) {
    (void)kernel;
    (void)streaming;
    return crc_plain((char *)to, (const char *)from, length, crc);
}
#endif

int copy_best(void) {
    int kernel = COPY_KERNELS - 1;
    while (!copy_usable(kernel))
        kernel--;
    return kernel;
}
