# cython: language_level=3
"""FINISH: the orderly end of a rank.

A rank that ends first completes what it has matched, then sends FINISH to
every peer that a packet went to or came from: it will announce nothing more and
receive nothing more.  The peer fails its sends to it and its receives from it, unless
an announcement is here already: the data of such a message can still be read,
for the finishing rank stays until its announced sends are taken, or until
their receiver has sent FINISH as well.  Only then does it disconnect.
"""
from libc.stdint cimport uint8_t

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.control cimport control_post, header_fill
from pyrdv.engine.peer cimport peer_connect
from pyrdv.engine.protocols.contract cimport VERDICT_TAKEN, protocol_t
from pyrdv.engine.state cimport PEER_NEW, PEER_UP, call_t, engine_t, peer_t
from pyrdv.engine.wire cimport PACKET_FINISH, WIRE_HEADER, header_t
from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_OK


cdef extern from "order.h" nogil:
    void note8(uint8_t *where, uint8_t value)


cdef int post(peer_t *p) noexcept nogil:
    cdef header_t h
    cdef int status
    header_fill(p, &h, PACKET_FINISH, 0, 0, 0, 0)
    status = control_post(p, &h, WIRE_HEADER)
    if status == FABRIC_OK:
        p.finish_told = 1
    return status


cdef bint finish_tell(call_t *call, peer_t *p) noexcept nogil:
    """Send FINISH, unless `p` does not know this rank or cannot be told; whether that is done.

    Who has only received from `p` has not connected to it until now.
    """
    if p.state == PEER_NEW and (p.recv_sequence or p.spoke) and not p.gone:
        if peer_connect(call, p) != 0:
            return True         # lost, or this process lacks what that needs
        if p.state == PEER_NEW:
            return False
    return p.state != PEER_UP or p.finish_told or post(p) != FABRIC_AGAIN


cdef int finish_arrived(engine_t *e, peer_t *p, const header_t *h,
                        const void *data) noexcept nogil:
    if p.finished == 0:
        note8(&p.finished, 1)
        peer_call(e, p)
    return VERDICT_TAKEN


cdef protocol_t operations
operations.name = b"finish"
operations.kind_count = 1
operations.kinds[0].kind = PACKET_FINISH
operations.kinds[0].length = WIRE_HEADER
operations.kinds[0].arrived = finish_arrived


cdef protocol_t *finish_protocol() noexcept nogil:
    return &operations
