# cython: language_level=3
"""The listening sockets of a rank, and connecting to those of a peer (see .pyx)."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.fabrics.shm.channel cimport shm_t


cdef enum:
    NAME_MAX_BYTES = 64

cdef struct address_t:
    # What the bootstrap publishes for a rank.
    uint64_t magic
    uint32_t version
    uint32_t pid
    uint64_t mark_address
    uint64_t mark
    uint64_t space      # its pid namespace; 0: not known
    uint64_t reach      # equal for ranks that reach each other's private door (D3); 0: it has none
    int32_t place       # descriptor of the private door's place (D1); -1: it has none
    uint32_t name_length
    uint8_t name[64]    # of the public door, without the leading 0

cdef struct credentials_t:
    int pid
    unsigned int uid
    unsigned int gid

# call.  Open both doors of `self` and write where they are into `own`; raises OSError if there is
# no public one.  Without a private one, `own` says so.
cdef open_doors(shm_t *self, address_t *own)
# call.  A socket connected to the peer's door; -1 and *status otherwise.
cdef int reach(shm_t *self, const address_t *address, credentials_t *who,
               int *status) noexcept nogil
# call.  Who connected, or listens, at the other end of `fd`.
cdef bint credentials(int fd, credentials_t *out) noexcept nogil
