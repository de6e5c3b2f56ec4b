# cython: language_level=3
"""Making, handing over and taking the shared memory of a channel (see .pyx)."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from pyrdv.fabrics.shm.channel cimport inbound_t, outbound_t, shm_t


cdef enum:
    NAME_MAX_BYTES = 64

cdef struct address_t:
    # What the bootstrap publishes for a rank.
    uint64_t magic
    uint32_t version
    uint32_t pid
    uint64_t probe_address
    uint64_t probe
    uint32_t name_length
    uint8_t name[64]    # of the abstract socket, without the leading 0

# All are ``call``.
# A listening abstract socket; -1 with errno.
cdef int open_listener(const uint8_t *name, uint32_t length) noexcept nogil
# Connect to `rank`: outbound_t with everything handed over, or NULL and *status.
cdef outbound_t *open_outbound(shm_t *self, uint32_t rank, const address_t *address,
                               int *status) noexcept nogil
# Take the channel that a hello on `fd` offers and own `fd`.  NULL: *status is
# FABRIC_AGAIN (nothing there yet) or FABRIC_INVALID (refused; the caller closes fd).
cdef inbound_t *open_inbound(shm_t *self, int fd, uint32_t *rank, int *status) noexcept nogil
cdef void free_outbound(outbound_t *out) noexcept nogil
cdef void free_inbound(inbound_t *into) noexcept nogil
# Whether this process may read `probe_address` of `pid` and finds `probe` there.
cdef bint may_copy(int pid, uint64_t probe_address, uint64_t probe) noexcept nogil
