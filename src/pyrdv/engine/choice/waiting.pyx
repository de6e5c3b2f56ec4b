# cython: language_level=3
"""Who waits for a message, as far as it is known or can be guessed.

A superpipeline moves only in calls of both sides, so it is chosen where both wait for it.  A
blocking call says so at once.  After `Isend` or `Irecv` nobody knows; but a program does what it
did: if those who started the last large transfers with a peer came to wait for them within a small
part of the time that they take, who starts the next one probably will, too.  One that came late
ends that.  `born` is the time of the start until that is judged.
"""
from libc.stdint cimport uint8_t, uint64_t

from pyrdv.engine.choice.costs cimport fabric_index, figures_net
from pyrdv.engine.state cimport (
    ANY_PEER, OP_RECV, PATIENT, PEER_SELF, WAITS_HERE, engine_t, op_t, peer_t)
from pyrdv.engine.trace cimport trace_microsecond, trace_now


cdef enum:
    SMALL = 4 << 10             # bytes of a receive whose wait is not measured
    SOON_US = 20                # who waits so soon has not computed
    PART = 8                    # nor who waits within one part in so many of the transfer
    UNKNOWN = 1 << 20           # bytes that a message may have whose receive is taken as it is


cdef peer_t *other_of(engine_t *e, const op_t *op) noexcept nogil:
    return NULL if op.source == ANY_PEER else &e.peers[op.source]


cdef void waiting_unknown(engine_t *e, op_t *op) noexcept nogil:
    op.born = trace_now(e)


cdef bint is_soon(engine_t *e, peer_t *p, const op_t *op) noexcept nogil:
    cdef uint64_t age = (trace_now(e) - op.born) // trace_microsecond(e)
    cdef uint64_t soon = SOON_US
    cdef uint64_t length = op.length
    if op.kind == OP_RECV:
        # How long a message is that has not come yet is not known; rooms are often too large.
        length = op.total if op.total else min(length, <uint64_t> UNKNOWN)
    if e.figures[fabric_index(e, p)].known:
        soon = max(soon, <uint64_t> (1e6 * figures_net(&e.figures[fabric_index(e, p)], length))
                   // PART)
    return age <= soon


cdef void waiting_begins(engine_t *e, op_t *op) noexcept nogil:
    cdef peer_t *p = other_of(e, op)
    cdef uint8_t *prompt
    op.waits |= WAITS_HERE
    if op.kind == OP_RECV and op.length > SMALL:
        op.since = trace_now(e)
        op.turns = e.idle_turns + e.busy_turns
    if op.born and p != NULL and p.state != PEER_SELF:
        prompt = &p.prompt[op.kind == OP_RECV]
        prompt[0] = <uint8_t> min(prompt[0] + 1, PATIENT) if is_soon(e, p, op) else 0
    op.born = 0


cdef void waiting_never(engine_t *e, op_t *op) noexcept nogil:
    cdef peer_t *p = other_of(e, op)
    # One that was complete at once says nothing of its caller.
    if p != NULL and p.state != PEER_SELF and not is_soon(e, p, op):
        p.prompt[op.kind == OP_RECV] = 0
    op.born = 0


cdef bint waiting_here(engine_t *e, const op_t *op) noexcept nogil:
    cdef const peer_t *p = other_of(e, op)
    return op.waits & WAITS_HERE or p != NULL and p.prompt[op.kind == OP_RECV] >= PATIENT
