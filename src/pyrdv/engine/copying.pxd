# cython: language_level=3
"""Copies between bounce buffers and the user's memory (csrc/copy.h).  Step-safe."""
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

# Copy, by the best kernel.  `streaming`: past the caches.
cdef void copy_plain(void *to, const void *origin, size_t length, bint streaming) noexcept nogil
# The same; returns the CRC32C of the bytes that were copied, carried on from `crc`.
cdef uint32_t copy_checked(void *to, const void *origin, size_t length, uint32_t crc,
                           bint streaming) noexcept nogil
# Whether a message of `length` bytes is better copied past the caches.
cdef bint copy_past_caches(size_t length) noexcept nogil
