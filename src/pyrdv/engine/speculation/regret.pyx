# cython: language_level=3
"""Adaptation by regret: an envelope offers as long as that costs less than to miss an offer.

The receiver decides, for it knows both costs, by its own clock.  Of an offer it measures the call
that made it, registration included, and takes the sender's part in it to cost as much again.  Of an
offer that is missing it measures the wait: how long its caller waited while the message was read.
If the RTS had come while that caller was away, an offer would have saved this, or as much of it as
the caller had been away.

Invariants:

G1  (A1 of ``adaptation``) Nothing but the number of RTRs and of turns depends on this, so a record
    may be lost, or not made for want of memory: then the envelope offers.
G2  An offer that was used forgets all that speaks against offers.
G3  FEW unused ones in a row stop an envelope, if together they cost what its message takes to
    move; none do while each costs less than one part in SHARE of that.  What is no rendezvous
    does not take any time.  So a change of the program's ways costs as much as one missing offer.
G4  While it is stopped, an offer is made when the last message was missed; the second time, when
    the last two were, then three: it does not take more.  TRIALS unused ones stop it again.  Who
    never waits has no regrets, so after `trial_every` receives there are TRIALS offers, too.
G5  A sender makes a turn before a large send, to find its RTR, but not when the last SILENT sends
    of the envelope saw none.  Any RTR of it, early or late, ends that.  So STOP needs no packet;
    and after it, the first RTR may come late, which is why a single one is no trial (G4).
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.choice.costs cimport fabric_index, figures_net
from pyrdv.engine.digest cimport mix
from pyrdv.engine.speculation.history cimport usage_find, usage_make
from pyrdv.engine.state cimport (
    OP_OFFERED, WAITS_HERE, WAITS_WHOLE, call_t, engine_t, op_t, peer_t, usage_t)
from pyrdv.engine.trace cimport trace_microsecond, trace_now
from pyrdv.engine.wire cimport PACKET_RTS, PACKET_START, header_t


cdef enum:
    TRIALS = 2                  # the sender looks from the first one on (G5)
    PATIENCE = 2                # further messages that are missed before an offer is tried again
    SILENT = 3
    SHARE = 50                  # offers of two per cent of a message's time cost nothing
    PACE = 16                   # bits of the bytes that a pace speaks of
    SANE = 4                    # times the usual: as much a single measurement may say


cdef inline regret_t *own(const engine_t *e) noexcept nogil:
    return <regret_t *> e.pairing


cdef inline uint64_t smoothed(uint64_t usual, uint64_t now) noexcept nogil:
    return now if usual == 0 else (3 * usual + min(now, SANE * usual)) // 4


cdef uint64_t move_time(engine_t *e, peer_t *p, uint64_t length) noexcept nogil:
    """How long a message takes: as measured, or by the figures, or a byte takes a nanosecond."""
    cdef int i = fabric_index(e, p)
    if own(e).pace[i]:
        return own(e).pace[i] * (length >> 4) >> (PACE - 4)
    if e.figures[i].known:
        return <uint64_t> (1e6 * figures_net(&e.figures[i], length) * trace_microsecond(e))
    return length * trace_microsecond(e) // 1000


# The receiver's side -----------------------------------------------------------

cdef bint regret_withholds(engine_t *e, const op_t *op) noexcept nogil:
    cdef usage_t *r = usage_find(e, op.context, op.peer, op.tag)
    if r == NULL or not r.stopped:
        return False
    r.skipped += 1
    if r.skipped >= own(e).trial_every:
        if r.skipped == own(e).trial_every + TRIALS - 1:
            r.skipped = 0
        return False
    e.counters.rtrs_withheld += 1
    return True


cdef void regret_offered(call_t *call, const op_t *op, uint64_t spent) noexcept nogil:
    cdef usage_t *r = usage_make(call, op.context, op.peer, op.tag)
    if r != NULL:
        r.cost = smoothed(r.cost, spent)


cdef inline void restart(usage_t *r, bint stopped) noexcept nogil:
    r.stopped = stopped
    r.unused = r.missed = r.skipped = 0
    r.wasted = 0


cdef void unused(engine_t *e, usage_t *r, uint64_t worth) noexcept nogil:
    r.unused += r.unused < 255
    r.wasted += 2 * r.cost
    if r.stopped or own(e).never or 2 * r.cost * SHARE <= worth:
        return
    if r.unused >= TRIALS if r.resumed else r.unused >= own(e).few and r.wasted >= worth:
        restart(r, True)


cdef void regret_met(engine_t *e, peer_t *p, op_t *op, const header_t *h) noexcept nogil:
    cdef usage_t *r
    if op == NULL or not (op.flags & OP_OFFERED or h.kind == PACKET_RTS):
        return
    r = usage_find(e, h.context, p.rank, h.tag)
    if r == NULL:
        return
    if h.kind == PACKET_START:
        restart(r, False)
        r.resumed = 0
    elif op.flags & OP_OFFERED:
        unused(e, r, move_time(e, p, h.length) if h.kind == PACKET_RTS else 0)
    elif r.stopped and op.posted and not op.waits & WAITS_HERE:
        op.late = trace_now(e) - op.posted
    elif r.stopped and op.posted and op.since and op.turns == e.idle_turns + e.busy_turns:
        # Found by the first turn of the wait: it was there before.
        op.late = op.since - op.posted


cdef void regret_read(engine_t *e, peer_t *p, const op_t *op) noexcept nogil:
    cdef uint64_t *pace = &own(e).pace[fabric_index(e, p)]
    cdef uint64_t took
    cdef usage_t *r
    if op.since == 0 or op.total == 0:
        return
    took = trace_now(e) - op.since
    if op.waits & WAITS_WHOLE:
        pace[0] = smoothed(pace[0], max((took << PACE) // op.total, <uint64_t> 1))
    r = usage_find(e, op.context, op.source, op.source_tag) if op.late else NULL
    if r == NULL or not r.stopped:
        return
    r.missed = r.missed + 1 if min(took, op.late) > 2 * r.cost else 0
    if r.missed > r.resumed:
        restart(r, False)
        r.resumed += r.resumed < PATIENCE


# The sender's side -------------------------------------------------------------

cdef bint regret_hopes(call_t *call, const peer_t *p, uint32_t context, int32_t tag) noexcept nogil:
    cdef usage_t *r = usage_make(call, context, p.rank, tag)
    if r == NULL:
        return True
    if r.silent >= SILENT:
        return False
    r.silent += 1
    return True


cdef void regret_heard(engine_t *e, const peer_t *p, const header_t *h) noexcept nogil:
    cdef usage_t *r = usage_find(e, h.context, p.rank, h.tag)
    if r != NULL:
        r.silent = 0


cdef void regret_hash(const engine_t *e, uint64_t *h) noexcept nogil:
    cdef const usage_t *r
    cdef uint32_t i
    for i in range(e.usage_slots):
        r = &e.usage[i]
        if r.known:
            # Times are left out: they differ from run to run, and decide nothing that is so small.
            mix(h, <uint64_t> r.context << 32 | <uint32_t> r.tag)
            mix(h, <uint64_t> r.peer << 32 | <uint64_t> r.unused << 24 | <uint64_t> r.missed << 16
                | r.skipped)
            mix(h, <uint64_t> r.stopped << 16 | <uint64_t> r.resumed << 8 | r.silent)
