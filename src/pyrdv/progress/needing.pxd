# cython: language_level=3
"""Which operations need a step of this side that no call makes, and lists of them."""
from libc.stdint cimport uint32_t

from pyrdv.engine.state cimport engine_t, op_t


# Whether `op` goes on by steps of this side alone, or not before one.
cdef bint needs(const engine_t *e, const op_t *op) noexcept nogil
# Pieces of transfers that polls have moved so far: work, but no event.
cdef uint32_t transfers_moved(const engine_t *e) noexcept nogil


cdef struct watched_t:
    op_t *op
    uint32_t generation

cdef struct needing_t:          # what was posted and needed a step, oldest first.  Under the lock
    watched_t *entries
    uint32_t first, count, room


# Whether any of it still does.  The list loses its oldest until one is found that does; each is
# lost once, so this costs a bounded time per operation.
cdef bint needing_left(const engine_t *e, needing_t *list) noexcept nogil
# call.  False: there is no memory.
cdef bint needing_add(needing_t *list, op_t *op) noexcept nogil
# call.
cdef void needing_free(needing_t *list) noexcept nogil
