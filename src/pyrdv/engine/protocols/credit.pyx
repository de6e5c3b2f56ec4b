# cython: language_level=3
"""CREDIT: what is given back to a peer, told on its own.

Every packet tells it (``control``).  Where none is posted, CREDIT does: when half of the peer's
eager units are owed, or TELL of its standing buffers.
"""
from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.control cimport control_post, header_fill
from pyrdv.engine.peer cimport peer_activate
from pyrdv.engine.protocols.contract cimport VERDICT_TAKEN, protocol_t
from pyrdv.engine.state cimport PEER_NEW, PEER_UP, TELL, engine_t, peer_t
from pyrdv.engine.wire cimport PACKET_CREDIT, WIRE_HEADER, header_t
from pyrdv.fabrics.contract cimport FABRIC_OK


cdef void credit_owed(engine_t *e, peer_t *p) noexcept nogil:
    cdef header_t h
    if p.returned - p.returned_told < e.eager_units >> 1 and p.freed[1] - p.freed_told < TELL:
        return
    if p.state != PEER_UP:
        if p.state == PEER_NEW:
            peer_call(e, p)
            peer_activate(e, p)
        return
    header_fill(p, &h, PACKET_CREDIT, 0, 0, 0, 0)
    if control_post(p, &h, WIRE_HEADER) == FABRIC_OK:
        e.counters.credits_sent += 1
    else:
        peer_activate(e, p)


cdef int credit_arrived(engine_t *e, peer_t *p, const header_t *h,
                        const void *data) noexcept nogil:
    # What every header tells was taken before.
    return VERDICT_TAKEN


cdef protocol_t operations
operations.name = b"credit"
operations.owed = credit_owed
operations.kind_count = 1
operations.kinds[0].kind = PACKET_CREDIT
operations.kinds[0].length = WIRE_HEADER
operations.kinds[0].arrived = credit_arrived


cdef protocol_t *credit_protocol() noexcept nogil:
    return &operations
