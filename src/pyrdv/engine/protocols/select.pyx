# cython: language_level=3
"""Which protocol a message takes: one function of size, peer and credits.

Eager up to the smaller of the knob (or the fabric's own figure) and what one
packet holds, while the receiver's unexpected memory is sure to have room (P1);
rendezvous otherwise.  A rendezvous reads or writes the user's memory where it can be
registered, unless it was told otherwise; the superpipeline moves the rest.
"""
from libc.stdint cimport uint64_t

from pyrdv.engine.lanes cimport lane_reserve, lanes_keep
from pyrdv.engine.op cimport op_register
from pyrdv.engine.peer cimport eager_allowed
from pyrdv.engine.state cimport (
    CHOICE_GET, CHOICE_PIPELINE, OP_PIPED, OP_REGISTERED, engine_t, op_t, peer_t)
from pyrdv.engine.wire cimport WIRE_HEADER
from pyrdv.fabrics.contract cimport ACCESS_REMOTE_READ, FABRIC_AGAIN, FABRIC_FAILED, FABRIC_OK


cdef uint64_t eager_limit(engine_t *e, peer_t *p) noexcept nogil:
    cdef uint64_t limit = e.eager_max if e.eager_max else p.fabric.eager_max
    cdef uint64_t room = p.fabric.packet_max - WIRE_HEADER
    return limit if limit < room else room


cdef int choose(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    if length <= eager_limit(e, p) and eager_allowed(e, p, length):
        return PROTOCOL_EAGER
    return PROTOCOL_RENDEZVOUS


cdef int prepare(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    if op.length == 0 or op.flags & (OP_REGISTERED | OP_PIPED):
        return FABRIC_OK
    if not e.in_call:
        e.call_needed = 1
        return FABRIC_AGAIN
    # While there is memory that can be registered (R1).
    lanes_keep(e, p)
    if e.protocol != CHOICE_PIPELINE and op_register(e, op, p.rank, ACCESS_REMOTE_READ) == 0:
        return FABRIC_OK
    if e.protocol == CHOICE_GET or not lane_reserve(e, p, False):
        return FABRIC_FAILED
    op.flags |= OP_PIPED
    return FABRIC_OK
