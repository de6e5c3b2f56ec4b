# cython: language_level=3
"""How explorers digest the state of an engine: each owner of some mixes it in."""
from libc.stdint cimport uint64_t


cdef inline void mix(uint64_t *h, uint64_t value) noexcept nogil:
    # FNV-1a over words, with a fold: its low bits alone would depend on low bits alone.
    h[0] = (h[0] ^ value) * <uint64_t> 0x100000001B3u
    h[0] ^= h[0] >> 29
