# cython: language_level=3
"""Making, handing over and taking the shared memory of a channel (see .pyx)."""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.fabrics.shm.channel cimport inbound_t, outbound_t, shm_t
from pyrdv.fabrics.shm.doors cimport address_t


# All are ``call``.
# A channel to `rank` with its memory, not connected yet; NULL and fabric_t.error.
cdef outbound_t *prepare_outbound(shm_t *self, uint32_t rank,
                                  const address_t *address) noexcept nogil
# Send the hello over the connected `fd`; FABRIC_OK: `out` owns fd.  AGAIN: the peer hung up
# before it took a hello, connect anew; FAILED.
cdef int hand_over(shm_t *self, uint32_t rank, outbound_t *out, int fd) noexcept nogil
# Take the channel that a hello on `fd` offers and own `fd`.  NULL: *status is
# FABRIC_AGAIN (nothing there yet) or FABRIC_INVALID (refused; the caller closes fd).
cdef inbound_t *open_inbound(shm_t *self, int fd, uint32_t *rank, int *status) noexcept nogil
cdef void free_outbound(outbound_t *out) noexcept nogil
cdef void free_inbound(inbound_t *into) noexcept nogil
# Whether this process may read `probe_address` of `pid` and finds `probe` there.
cdef bint may_copy(int pid, uint64_t probe_address, uint64_t probe) noexcept nogil
