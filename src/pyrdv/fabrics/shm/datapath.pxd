# cython: language_level=3
"""The step operations of the shm fabric (contract; details in the .pyx)."""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.fabrics.contract cimport completion, fabric_t, work_request
from pyrdv.fabrics.shm.channel cimport shm_t

cdef int shm_post(fabric_t *base, uint32_t peer, const work_request *chain,
                  int count) noexcept nogil
cdef int shm_poll(fabric_t *base, completion *out, int limit) noexcept nogil
cdef bint shm_discard(fabric_t *base, uint32_t peer, uint64_t ident) noexcept nogil
cdef void shm_release(fabric_t *base, uint32_t peer, int count) noexcept nogil
# call.  Whether poll would return something new (packets that it returned
# already and that were not released are not new).
cdef bint datapath_ready(shm_t *self) noexcept nogil
