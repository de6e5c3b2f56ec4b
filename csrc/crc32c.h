/* CRC32C (Castagnoli, reflected polynomial 0x82F63B78), by the processor where it can.
 *
 * For blocks of a few hundred bytes: the check of ring slots on devices that
 * promise no order of bytes.  Check value: crc32c(0, "123456789", 9) is 0xE3069283.
 */
#ifndef PYRDV_CRC32C_H
#define PYRDV_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Four bits at a time: 64 bytes of table serve where there is no instruction. */
static inline uint32_t crc32c_portable(uint32_t crc, const uint8_t *data, size_t length) {
    static const uint32_t nibble[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    crc = ~crc;
    while (length--) {
        crc ^= *data++;
        crc = (crc >> 4) ^ nibble[crc & 15];
        crc = (crc >> 4) ^ nibble[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static inline uint32_t
crc32c_sse42(uint32_t crc, const uint8_t *data, size_t length) {
    uint64_t wide = (uint32_t)~crc;
    uint64_t word;
    for (; length >= 8; length -= 8, data += 8) {
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    for (; length; length--)
        wide = _mm_crc32_u8((uint32_t)wide, *data++);
    return ~(uint32_t)wide;
}

static inline uint32_t crc32c(uint32_t crc, const void *data, size_t length) {
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, (const uint8_t *)data, length);
    return crc32c_portable(crc, (const uint8_t *)data, length);
}
#else
static inline uint32_t crc32c(uint32_t crc, const void *data, size_t length) {
    return crc32c_portable(crc, (const uint8_t *)data, length);
}
#endif

#endif
