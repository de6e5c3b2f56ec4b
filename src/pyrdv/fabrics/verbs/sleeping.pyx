# cython: language_level=3
"""Sleeping on wake_fd, and the work that only a call may do.

No wake-up is lost (F8):

W1  Completions: the queues are armed, then looked into once more.  What comes
    later makes the completion channel readable.
W2  Connections, device events: their descriptors are readable by themselves.
W3  What a step left for a call (L3): `kick_fd`, written when someone sleeps.
W4  Ring writes raise no completion.  So a sleeper first withdraws its rings:
    it tells SLEEP, after which the peer uses SEND as soon as it has seen it,
    and answers ASLEEP.  Until that answer a write may still come; the timer
    looks for it, soon at first (the packet is on its way) and ever more rarely
    (a peer that computes sends nothing; when it sends again it sees SLEEP
    before).
W5  Silence, and connections being set up: the timer lets connection_turn ask
    whether the peers live, and try again.
W6  A step that watches arms the queues and withdraws the rings, too: the completion channel
    signals by itself.  The timer does not, so whoever watches looks again by a timer of his own.
    A step takes its events, and counts them: they are acknowledged by calls, and before the queues
    are destroyed, for that takes a mutex and a condition of the library, which no handler may.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_INVALID, FABRIC_OK, WATCHED, fabric_t
from pyrdv.fabrics.verbs.connection cimport connection_due, connection_turn
from pyrdv.fabrics.verbs.datapath cimport deliverable, drain
from pyrdv.fabrics.verbs.libibverbs cimport ibv_req_notify_cq
from pyrdv.fabrics.verbs.memory cimport memory_flush
from pyrdv.fabrics.verbs.posting cimport link_owe
from pyrdv.fabrics.verbs.queue_pair cimport events_acknowledge, events_take
from pyrdv.fabrics.verbs.state cimport (
    OWE_GRANT, OWE_SLEEP, RING_CLOSED, RING_GRANTED, RING_REVOKING, link_t, verbs_t)


cdef extern from "<sys/timerfd.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    struct itimerspec:
        timespec it_interval
        timespec it_value
    int timerfd_settime(int fd, int flags, const itimerspec *value, itimerspec *old)

cdef extern from "signals.h" nogil:
    int descriptor_signals(int fd, int thread, int signal)

cdef extern from "<unistd.h>" nogil:
    ssize_t read(int fd, void *data, size_t length)


cdef enum:
    RING_LOOK_FIRST = 200_000       # ns; about the time a packet is under way
    RING_LOOK_LAST = 20_000_000     # ns


cdef void timer_set(verbs_t *f, uint64_t ns) noexcept nogil:
    cdef itimerspec value
    value.it_interval.tv_sec = value.it_interval.tv_nsec = 0
    value.it_value.tv_sec = <long> (ns // 1_000_000_000)
    value.it_value.tv_nsec = <long> (ns % 1_000_000_000)
    timerfd_settime(f.timer_fd, 0, &value, NULL)


cdef bint rings_withdraw(verbs_t *f) noexcept nogil:
    """Tell the peers to use SEND (W4); True while an answer is out."""
    cdef uint32_t i
    cdef link_t *link
    cdef bint waiting = False
    for i in range(f.granted_count):
        link = f.granted[i]
        if link.ring_mine == RING_GRANTED:
            link.since_sleep = 0
            if link.owed & OWE_GRANT:
                link.owed &= ~<uint32_t> OWE_GRANT
                link.ring_mine = RING_CLOSED    # drain takes it off the list
            else:
                link.ring_mine = RING_REVOKING
                f.backoff = RING_LOOK_FIRST
                link_owe(f, link, OWE_SLEEP)
        waiting |= link.ring_mine == RING_REVOKING
    return waiting


cdef int verbs_arm(fabric_t *self) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef uint64_t wait
    cdef uint32_t i
    if f.call_wanted:
        verbs_maintain(self)
    drain(f)
    if deliverable(f):
        return FABRIC_AGAIN
    f.armed = 1
    for i in range(f.queue_count):
        ibv_req_notify_cq(f.queues[i].cq, 0)
    wait = <uint64_t> connection_due(f)
    if rings_withdraw(f):
        wait = min(wait, f.backoff)
        f.backoff = min(f.backoff * 2, <uint64_t> RING_LOOK_LAST)
    drain(f)
    if deliverable(f) or f.call_wanted:
        return FABRIC_AGAIN
    if f.needy_count:
        wait = min(wait, <uint64_t> RING_LOOK_LAST)
    timer_set(f, wait)
    f.counters.sleeps += 1
    return FABRIC_OK


cdef int64_t verbs_watch(fabric_t *self) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef int64_t wait = WATCHED
    cdef uint32_t i
    events_take(f)
    drain(f)
    if deliverable(f):
        return 0
    f.armed = 1
    for i in range(f.queue_count):
        ibv_req_notify_cq(f.queues[i].cq, 0)
    if rings_withdraw(f):
        wait = <int64_t> f.backoff
        f.backoff = min(f.backoff * 2, <uint64_t> RING_LOOK_LAST)
    drain(f)
    if deliverable(f):
        return 0
    return min(wait, <int64_t> RING_LOOK_LAST) if f.needy_count else wait


cdef int verbs_signals(fabric_t *self, int thread, int signal) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    if f.channel == NULL:
        return FABRIC_OK if thread == 0 else FABRIC_INVALID
    return FABRIC_INVALID if descriptor_signals(f.channel.fd, thread, signal) else FABRIC_OK


cdef void verbs_disarm(fabric_t *self) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef uint64_t drained
    if not f.armed:
        return
    f.armed = 0
    timer_set(f, 0)
    read(f.timer_fd, &drained, sizeof(drained))
    read(f.kick_fd, &drained, sizeof(drained))
    events_take(f)
    events_acknowledge(f)


cdef int verbs_maintain(fabric_t *self) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef int happened
    f.call_wanted = 0
    events_acknowledge(f)
    happened = connection_turn(f)
    return happened + memory_flush(f)
