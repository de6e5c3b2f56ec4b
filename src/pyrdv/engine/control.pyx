# cython: language_level=3
"""Packets: their headers, and the one way to post a packet that stands alone.

A packet in a chain behind a READ may leave later than packets that are posted after it (F1).  So
such a packet does not count as telling what it gives back (``peer``, P2).
"""
from libc.stdint cimport uint32_t

from pyrdv.engine.state cimport peer_t
from pyrdv.engine.wire cimport header_t
from pyrdv.fabrics.contract cimport FABRIC_OK, work_request


cdef int control_post(peer_t *p, const void *packet, uint32_t length) noexcept nogil:
    cdef work_request wr
    cdef int status
    control_request(&wr, packet, length)
    status = p.fabric.ops.post(p.fabric, p.rank, &wr, 1)
    if status == FABRIC_OK:
        credits_told(p, <const header_t *> packet)
    return status
