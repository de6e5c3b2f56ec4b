# cython: language_level=3
"""Pools of what steps take.  Under the engine's lock; step-safe unless marked *call*."""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.engine.state cimport call_t, engine_t, message_t

# A message descriptor with room for `length` bytes, or NULL: then the pool is
# noted as starved and the next call refills it.
cdef message_t *message_new(engine_t *e, uint64_t length) noexcept nogil
# call.  Have `count` message descriptors free.
cdef bint messages_reserve(call_t *call, uint32_t count) noexcept nogil
# The class of blocks that hold `length` bytes of unexpected data.
cdef inline int class_of(uint64_t length) noexcept nogil:
    cdef int c = 0
    while (<uint64_t> 64 << c) < length:
        c += 1
    return c
# call.  Have `count` blocks of class `c` free.
cdef bint data_reserve(call_t *call, int c, uint32_t count) noexcept nogil
cdef void message_release(engine_t *e, message_t *m) noexcept nogil
# call.  Memory that lives as long as the engine, or NULL.
cdef void *memory_new(call_t *call, size_t nbytes) noexcept nogil
# call.  Refill whatever ran dry, keep a reserve.  Returns 0 or OP_NO_MEMORY.
cdef int pools_reserve(call_t *call) noexcept nogil
# All of it is given back: the engine ends.
cdef void pools_free(engine_t *e) noexcept nogil
