# cython: language_level=3, nonecheck=True
"""The members of a communicator: ranks of the communicator <-> world ranks."""
from cpython.mem cimport PyMem_Free, PyMem_Malloc


cdef class Members:
    """An ordered set of world ranks.

    Parameters
    ----------
    world_ranks : sequence of int
        World rank of each member, in the communicator's order.
    own : int
        World rank of this process.
    world_size : int
        Number of ranks in the job.
    """

    def __cinit__(self, world_ranks, int own, int world_size):
        cdef int i
        cdef int world
        ranks = list(world_ranks)
        self.size = len(ranks)
        self.rank = ranks.index(own) if own in ranks else -1
        self.world_size = world_size
        if ranks == list(range(world_size)):
            return
        self.world_of = <uint32_t *> PyMem_Malloc(max(self.size, 1) * sizeof(uint32_t))
        self.rank_of = <int32_t *> PyMem_Malloc(world_size * sizeof(int32_t))
        if self.world_of == NULL or self.rank_of == NULL:
            raise MemoryError
        for i in range(world_size):
            self.rank_of[i] = -1
        for i in range(self.size):
            world = ranks[i]
            self.world_of[i] = world
            self.rank_of[world] = i

    def __dealloc__(self):
        PyMem_Free(self.world_of)
        PyMem_Free(self.rank_of)

    def world_ranks(self):
        """World rank of each member, in order."""
        return [self.to_world(i) for i in range(self.size)]
