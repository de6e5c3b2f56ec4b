# cython: language_level=3
"""Which protocol a message takes: one function of size, peer and credits.

Eager up to the smaller of the knob (or the fabric's own figure) and what one
packet holds, while the receiver's unexpected memory is sure to have room (P1);
rendezvous otherwise.
"""
from libc.stdint cimport uint64_t

from pyrdv.engine.peer cimport eager_allowed
from pyrdv.engine.state cimport engine_t, peer_t
from pyrdv.engine.wire cimport WIRE_HEADER


cdef uint64_t eager_limit(engine_t *e, peer_t *p) noexcept nogil:
    cdef uint64_t limit = e.eager_max if e.eager_max else p.fabric.eager_max
    cdef uint64_t room = p.fabric.packet_max - WIRE_HEADER
    return limit if limit < room else room


cdef int choose(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    if length <= eager_limit(e, p) and eager_allowed(e, p, length):
        return PROTOCOL_EAGER
    return PROTOCOL_GET
