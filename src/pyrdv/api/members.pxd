# cython: language_level=3
"""The members of a communicator: ranks of the communicator <-> world ranks."""
from libc.stdint cimport int32_t, uint32_t


cdef class Members:
    cdef readonly int size
    cdef readonly int rank          # own rank, or -1
    cdef uint32_t *world_of         # NULL: identity
    cdef int32_t *rank_of           # by world rank; NULL: identity
    cdef uint32_t world_size
    cdef inline uint32_t to_world(self, int rank) noexcept nogil:
        return <uint32_t> rank if self.world_of == NULL else self.world_of[rank]
    cdef inline int from_world(self, uint32_t world) noexcept nogil:
        if self.rank_of == NULL:
            return <int> world
        return self.rank_of[world] if world < self.world_size else -1
