# cython: language_level=3
"""Who waits for a message, as far as it is known or can be guessed.

A superpipeline moves only in calls of both sides, so it is chosen where both wait for it.  A
blocking call says so at once.  After `Isend` or `Irecv` nobody knows; but a program does what it
did: if those who started the last large transfers with a peer came to wait for them within a small
part of the time that they take, who starts the next one probably will, too.  One that came late
ends that.  `born` is the time of the start until that is judged.
"""
from libc.stdint cimport uint64_t

from pyrdv.engine.figures cimport fabric_index, figures_net
from pyrdv.engine.state cimport (
    ANY_PEER, OP_RECV, PATIENT, PEER_SELF, WAITS_HERE, engine_t, op_t, peer_t)


cdef extern from "ticks.h" nogil:
    uint64_t ticks_now()


cdef enum:
    SOON_US = 20                # who waits so soon has not computed
    PART = 8                    # nor who waits within one part in so many of the transfer


cdef peer_t *other_of(engine_t *e, const op_t *op) noexcept nogil:
    return NULL if op.source == ANY_PEER else &e.peers[op.source]


cdef void waiting_unknown(engine_t *e, op_t *op) noexcept nogil:
    op.born = ticks_now()


cdef void waiting_begins(engine_t *e, op_t *op) noexcept nogil:
    cdef peer_t *p = other_of(e, op)
    cdef uint64_t age, soon
    op.waits |= WAITS_HERE
    if op.born == 0:
        return
    age = (ticks_now() - op.born) // e.ticks.per_us
    op.born = 0
    if p == NULL or p.state == PEER_SELF:
        return
    soon = SOON_US
    if e.figures[fabric_index(e, p)].known:
        soon = max(soon, <uint64_t> (1e6 * figures_net(&e.figures[fabric_index(e, p)], op.length))
                   // PART)
    if age <= soon:
        p.prompt[op.kind == OP_RECV] = min(p.prompt[op.kind == OP_RECV] + 1, PATIENT)
    else:
        p.prompt[op.kind == OP_RECV] = 0


cdef void waiting_never(engine_t *e, op_t *op) noexcept nogil:
    cdef peer_t *p = other_of(e, op)
    op.born = 0
    if p != NULL:
        p.prompt[op.kind == OP_RECV] = 0


cdef bint waiting_here(engine_t *e, const op_t *op) noexcept nogil:
    cdef const peer_t *p = other_of(e, op)
    return op.waits & WAITS_HERE or p != NULL and p.prompt[op.kind == OP_RECV] >= PATIENT
