# cython: language_level=3
"""Packets: their headers, and the one way to post a packet that stands alone.  Step-safe, under the
lock."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.state cimport peer_t
from pyrdv.engine.wire cimport header_t
from pyrdv.fabrics.contract cimport WR_SEND, work_request


cdef extern from "<string.h>" nogil:
    void *memset(void *where, int value, size_t length)


# Post `packet`, a header and what follows, of `length` bytes; a fabric_status.  FABRIC_OK: what
# the packet gives back is told.
cdef int control_post(peer_t *p, const void *packet, uint32_t length) noexcept nogil


# The same packet as a part of a chain.
cdef inline void control_request(work_request *wr, const void *packet,
                                 uint32_t length) noexcept nogil:
    memset(wr, 0, sizeof(work_request))
    wr.opcode = WR_SEND
    wr.header = packet
    wr.header_length = length


# Fill a header; every packet carries the credits and standing buffers that we give back.
cdef inline void header_fill(peer_t *p, header_t *h, int kind, uint32_t context, int32_t tag,
                             uint64_t length, uint64_t cookie) noexcept nogil:
    h.kind = <uint8_t> kind
    h.flags = 0
    h.content = 0
    h.context = context
    h.tag = tag
    h.sequence = p.send_sequence
    h.length = length
    h.cookie = cookie
    h.credit = p.returned
    h.freed = p.freed[1]


# A packet with that header was posted: what the packet gives back is told.
cdef inline void credits_told(peer_t *p, const header_t *h) noexcept nogil:
    p.returned_told = h.credit
    p.freed_told = h.freed
