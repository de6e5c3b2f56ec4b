# cython: language_level=3
"""What a failure says of its peer.

E1  Once an operation ended with OP_PEER_LOST, no send to that peer is accepted.  The peer is
    PEER_DEAF until its fabric tells its end.  Receives wait for that, since what the peer had
    handed over before comes first (F7).
E2  A peer that finished in good order stays PEER_UP: it waits for our FINISH.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.state cimport (
    ANY_PEER, OP_PEER_LOST, OP_SEND, PEER_DEAF, PEER_UP, engine_t, op_t, peer_t)


cdef extern from "order.h" nogil:
    void note8(uint8_t *where, uint8_t value)


cdef int32_t peer_fails(engine_t *e, peer_t *p) noexcept nogil:
    if p.state == PEER_UP and not p.finished:
        note8(&p.state, PEER_DEAF)
        e.stirred = 1
        peer_call(e, p)
    return OP_PEER_LOST


cdef void op_fails(engine_t *e, const op_t *op) noexcept nogil:
    cdef uint32_t peer = op.peer if op.kind == OP_SEND else op.source
    if peer == ANY_PEER:
        peer = op.peer          # a receive that was not matched
    if peer != ANY_PEER:
        peer_fails(e, &e.peers[peer])
