# cython: language_level=3
"""Adaptation of the ``classic`` pairing: RTRs that are not used are not sent for long.

The sender keeps the usage factor of each envelope, RTRs used of RTRs received (Rashti and
Afsahi, "A Speculative and Adaptive MPI Rendezvous Protocol Over RDMA-enabled Interconnects",
section 3.6).  Each time `window` of them were judged and fewer than the threshold were used, the
next announcement of the envelope says STOP, and the receiver sends no more but for one trial in
`trial_every` receives.  When `resume_after` trials in a row were used, an announcement says
RESUME.  (These numbers are fields so that an explorer can make them small.)

Invariants:

A1  Nothing but the number of RTRs depends on this: a record may be lost at any time.  So the
    table is of fixed size, and an envelope takes the place of another one of its hash.
A2  A sender that said STOP and still gets a window of unused RTRs says it again, for the
    receiver may have lost its record.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from pyrdv.engine.digest cimport mix
from pyrdv.engine.speculation.offers cimport offer_lost
from pyrdv.engine.state cimport engine_t, op_t, peer_t
from pyrdv.engine.wire cimport PACKET_ADVICE, PACKET_RESUME, PACKET_STOP, header_t


cdef inline habits_t *own(const engine_t *e) noexcept nogil:
    return <habits_t *> e.pairing


cdef habit_t *habit_of(habits_t *habits, uint32_t context, uint32_t peer, int32_t tag,
                       bint make) noexcept nogil:
    """The record of an envelope; `make`: a new one, in place of whatever is there."""
    cdef uint32_t h = (context * <uint32_t> 0x9E3779B1u) ^ (peer * <uint32_t> 0x85EBCA77u) \
        ^ (<uint32_t> tag * <uint32_t> 0xC2B2AE3Du)
    cdef habit_t *habit = &habits.of[(h ^ h >> 15) % HABITS]
    if habit.known and habit.context == context and habit.peer == peer and habit.tag == tag:
        return habit
    if not make:
        return NULL
    habits.advices -= habit.advice != 0
    memset(habit, 0, sizeof(habit_t))
    habit.known = 1
    habit.context = context
    habit.peer = peer
    habit.tag = tag
    return habit


cdef void give(habits_t *habits, habit_t *habit, uint8_t advice) noexcept nogil:
    habits.advices += habit.advice == 0
    habit.advice = advice
    habit.stopping = advice == PACKET_STOP
    habit.judged = habit.used = 0


cdef void rtr_judged(engine_t *e, peer_t *p, uint32_t context, int32_t tag,
                     bint used) noexcept nogil:
    cdef habits_t *habits = own(e)
    cdef habit_t *habit
    if not used:
        offer_lost(e, p, context, tag)
    if habits.adapt == 0:
        return
    habit = habit_of(habits, context, p.rank, tag, True)
    habit.judged += 1
    habit.used = habit.used + 1 if used else (0 if habit.stopping else habit.used)
    if habit.stopping:
        if habit.used == habits.resume_after:
            give(habits, habit, PACKET_RESUME)
        elif habit.judged >= habits.window:
            give(habits, habit, PACKET_STOP)
    elif habit.judged >= habits.window:
        if habit.used * 100 < habit.judged * habits.adapt:
            give(habits, habit, PACKET_STOP)
        else:
            habit.judged = habit.used = 0


cdef void advise(engine_t *e, peer_t *p, header_t *h) noexcept nogil:
    cdef habit_t *habit
    if own(e).advices == 0:
        return
    habit = habit_of(own(e), h.context, p.rank, h.tag, False)
    if habit != NULL:
        h.flags |= habit.advice


cdef void advice_told(engine_t *e, peer_t *p, const header_t *h) noexcept nogil:
    cdef habit_t *habit
    if not h.flags & PACKET_ADVICE:
        return
    habit = habit_of(own(e), h.context, p.rank, h.tag, False)
    if habit == NULL or habit.advice == 0:
        return
    if habit.advice == PACKET_STOP:
        e.counters.stops_sent += 1
    else:
        e.counters.resumes_sent += 1
    habit.advice = 0
    own(e).advices -= 1


cdef void advice_heard(engine_t *e, peer_t *p, const header_t *h) noexcept nogil:
    cdef habit_t *habit = habit_of(own(e), h.context, p.rank, h.tag, True)
    habit.stopped = h.flags & PACKET_STOP != 0
    habit.skipped = 0


cdef bint withheld(engine_t *e, const op_t *op) noexcept nogil:
    cdef habit_t *habit = habit_of(own(e), op.context, op.peer, op.tag, False)
    if habit == NULL or not habit.stopped:
        return False
    habit.skipped += 1
    if habit.skipped == own(e).trial_every:
        habit.skipped = 0
        return False
    e.counters.rtrs_withheld += 1
    return True


cdef void habits_hash(const engine_t *e, uint64_t *h) noexcept nogil:
    cdef const habit_t *habit
    cdef int i
    for i in range(HABITS):
        habit = &own(e).of[i]
        if habit.known:
            mix(h, <uint64_t> habit.context << 32 | <uint32_t> habit.tag)
            mix(h, <uint64_t> habit.peer << 32 | habit.judged << 16 | habit.used)
            mix(h, <uint64_t> habit.stopping << 24 | <uint64_t> habit.advice << 16
                | <uint64_t> habit.stopped << 8 | habit.skipped)
