# cython: language_level=3
"""A pause of somebody who waits: spin, yield, sleep (R7).

A waiter first polls with the GIL (a reply often takes about a microsecond,
less than handing the GIL over), then without it for ``engine.spin_ns``, then
yields the processor between polls for ``engine.yield_ns``, then sleeps on the
engine's descriptors.  What happens meanwhile prolongs the yielding, for more may
follow.  Who sleeps is late, by the time that a wake-up takes, and holds up its
peer.  So if a sleep ends soon, later waiters yield up to 2**DOUBLINGS times as
long; long sleeps take that back.  More ranks than cores get no spinning, only
yields, so the rank that has the data runs next.  A device in software needs
processors, too, and gets them from the yields.  While it spins, a waiter makes
no system call: time is taken from the processor's counter.  Sleep is cut into
slices, because a signal that arrives just before the system call would not
interrupt it.
"""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.engine.calls cimport cpu_relax, engine_turn
from pyrdv.engine.sleeping cimport sleep_finish, sleep_prepare
from pyrdv.engine.state cimport engine_t
from pyrdv.engine.trace cimport ticks_now, trace_clock


cdef extern from "order.h" nogil:
    uint32_t glance32(const uint32_t *where)
    void note32(uint32_t *where, uint32_t value)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    short POLLIN
    int poll(pollfd *fds, unsigned long count, int timeout)


cdef enum:
    POLLS_PER_LOOK = 32         # how long it took is looked at every so many polls
    SLICE_MS = 100              # the longest sleep in one piece
    DOUBLINGS = 3               # of the time it yields


cdef void patience_reset(patience_t *p) noexcept nogil:
    p.since = 0
    p.rounds = 0
    p.yielding = False
    p.told = False
    p.prepared = False
    p.room = NULL
    p.left = 0


cdef void patience_looks(const engine_t *e, patience_t *p) noexcept nogil:
    p.epoch = glance32(&e.epoch)


cdef inline uint32_t learned(uint32_t longer, uint64_t yields, uint64_t waited,
                             bint came) noexcept nogil:
    """How long later waiters yield after one that slept: `yields` times 2**`longer` was not enough.

    `waited`: how long ago the last event was when something `came`, or a slice had passed."""
    if came and waited < yields << (longer + 1):
        return min(longer + 1, <uint32_t> DOUBLINGS)
    if longer and waited > yields << (DOUBLINGS + 1):
        return longer - 1
    return longer


cdef bint sleep(engine_t *e, patience_t *p, uint64_t spin) noexcept nogil:
    cdef pollfd wanted[2]
    cdef uint32_t call
    cdef uint64_t now
    cdef bint came
    cdef bint slept = sleep_prepare(e, p.epoch, &call)
    if slept:
        wanted[0].fd = e.wait_fd
        wanted[1].fd = e.local_fd
        wanted[0].events = wanted[1].events = POLLIN
        poll(wanted, 2, SLICE_MS)
        sleep_finish(e, call)
    came = not slept or engine_turn(e)
    now = ticks_now()
    trace_clock(e, now)
    if slept:
        note32(&e.longer, learned(glance32(&e.longer), e.yield_ns * e.ticks.per_us // 1000,
                                  now - p.since - spin, came))
    if came:
        # Yield before sleeping again: more may follow.  Not after a fabric's timer.
        p.since = now - spin
    return slept


cdef bint pause(engine_t *e, patience_t *p) noexcept nogil:
    cdef uint64_t now
    cdef uint64_t spin = e.spin_ns * e.ticks.per_us // 1000
    cdef uint64_t yields
    cdef uint32_t turns
    p.rounds += 1
    if e.spin_ns and not p.yielding and p.rounds % POLLS_PER_LOOK:
        cpu_relax()
        return False
    now = ticks_now()
    trace_clock(e, now)
    if p.since == 0:
        p.since = now
        p.turns = glance32(&e.busy_turns)
    elif now - p.since >= spin:
        turns = glance32(&e.busy_turns)
        if p.turns != turns:
            p.since = now - spin
            p.turns = turns
        p.yielding = True
        yields = e.yield_ns << glance32(&e.longer)
        if now - p.since >= spin + yields * e.ticks.per_us // 1000:
            return sleep(e, p, spin)
        sched_yield()
    return False


def patience(longer, yields, waited, came):
    """Doublings of the time that waiters yield, after one has slept.

    Parameters
    ----------
    longer : int
        Doublings before.
    yields : int
        The time without doublings, in any unit.
    waited : int
        How long ago the last event was, when something came or a slice of sleep had passed.
    came : bool
        Whether something came.

    Returns
    -------
    int
    """
    return learned(longer, yields, waited, came)
