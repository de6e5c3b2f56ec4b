# cython: language_level=3
"""One peer: connection state, credits, sequence numbers, queues.  Under the lock; step-safe
unless marked *call*."""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.state cimport MESSAGE_UNITS, UNIT, call_t, engine_t, op_t, peer_t
from pyrdv.engine.wire cimport WIRE_HEADER, header_t
from pyrdv.fabrics.contract cimport fabric_t

# Have the peer served by the following turns.
cdef void peer_activate(engine_t *e, peer_t *p) noexcept nogil
# call.  Connect if that was not done yet.  0: packets can be posted (or will
# be soon); an op_error otherwise: after OP_LACKING the peer is as before.
cdef int peer_connect(call_t *call, peer_t *p) noexcept nogil
# The engine is to close: turns touch no fabric from now on, and all peers count as closed.
cdef void peers_abandon(engine_t *e) noexcept nogil

# An announcement with that header was posted.
cdef void announcement_posted(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
# Data of an eager message left the library: give its units back.
cdef void credit_return(engine_t *e, peer_t *p, uint64_t length) noexcept nogil
# Sends wait here, in order of their calls, until they are announced.
cdef void queue_append(engine_t *e, peer_t *p, op_t *op) noexcept nogil
cdef void queue_pop(peer_t *p) noexcept nogil
cdef bint queue_remove(peer_t *p, op_t *op) noexcept nogil
# Matched operations wait here until their READ, WRITE, DONE or FIN can be posted.
cdef void ready_append(engine_t *e, peer_t *p, op_t *op) noexcept nogil
cdef void ready_pop(peer_t *p) noexcept nogil
# Put `op`, which was popped, back to the head.
cdef void ready_again(peer_t *p, op_t *op) noexcept nogil
# freed_take of another count than the last one.
cdef bint freed_changes(peer_t *p, uint32_t freed) noexcept nogil


# The units that an eager message of `length` bytes costs.
cdef inline uint32_t eager_cost(uint64_t length) noexcept nogil:
    return MESSAGE_UNITS + <uint32_t> ((length + UNIT - 1) // UNIT)


# Largest payload that goes eager through `fabric` when credits allow.
cdef inline uint64_t eager_limit(engine_t *e, const fabric_t *fabric) noexcept nogil:
    cdef uint64_t limit = e.eager_max if e.eager_max else fabric.eager_max
    cdef uint64_t room = fabric.packet_max - WIRE_HEADER
    return limit if limit < room else room


# May `length` bytes go eager now?  Has the peer been served that much?
cdef inline bint eager_allowed(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    cdef uint32_t outstanding = p.eager_sent - p.eager_returned
    return outstanding + eager_cost(length) <= e.eager_units


# Had the sender of an arriving eager message credit for it (R8)?
cdef inline bint eager_affordable(engine_t *e, const peer_t *p, uint64_t length) noexcept nogil:
    cdef uint32_t outstanding = p.eager_taken - p.returned
    return outstanding + eager_cost(length) <= e.eager_units


# The credit field of an arriving header; False if the peer claims too much (R8).
cdef inline bint credit_take(peer_t *p, uint32_t credit) noexcept nogil:
    if credit == p.eager_returned or <int32_t> (credit - p.eager_returned) < 0:
        # Nothing new, or from a fenced DONE that later packets have overtaken (F1).
        return True
    if credit - p.eager_returned > p.eager_sent - p.eager_returned:
        return False
    p.eager_returned = credit
    return True


# The count of standing buffers that a header gives back, likewise.
cdef inline bint freed_take(peer_t *p, uint32_t freed) noexcept nogil:
    return freed == p.freed[0] or freed_changes(p, freed)
