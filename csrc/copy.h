/* Copies between bounce buffers and the user's memory, with or without a CRC32C on the way.
 *
 * K1  A copy with a CRC32C loads each byte once: the CRC is that of the bytes that were copied,
 *     even while a device is still writing the source.  So a wrong block is found, not hidden.
 * K2  Streaming stores go past the caches, for copies that would throw everything else out of
 *     them.  A call that used some ends with the fence that orders them before later stores.
 * K3  Kernels differ in speed alone.  One is chosen at run time, for the processor at hand.
 */
#ifndef PYRDV_COPY_H
#define PYRDV_COPY_H

#include <stddef.h>
#include <stdint.h>

enum copy_kernel {
    COPY_PLAIN = 0, /* memcpy, and what the C compiler can do */
    COPY_SSE42 = 1, /* 16 bytes to a streaming store; the CRC by instruction, three at a time */
    COPY_AVX2 = 2,  /* 32 bytes to a streaming store */
    COPY_AVX512 = 3,
    COPY_KERNELS = 4,
};

/* Fill the table that joins CRCs; once, before the first copy_crc. */
void copy_prepare(void);
/* Whether this processor has what `kernel` needs. */
int copy_usable(int kernel);
/* The best usable kernel. */
int copy_best(void);
/* The regions must not overlap.  `streaming`: K2. */
void copy_bytes(int kernel, void *to, const void *from, size_t length, int streaming);
/* The same; returns the CRC32C of the bytes, carried on from `crc`. */
uint32_t copy_crc(int kernel, void *to, const void *from, size_t length, uint32_t crc,
                  int streaming);

#endif
