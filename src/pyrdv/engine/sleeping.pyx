# cython: language_level=3
"""Sleeping until something happens (R7): threads that wait, and event loops.

S1  No wake-up is lost: a sleeper has, under the lock, armed every fabric and found that nothing
    changed since its own look.
S2  What a fabric notices makes wait_fd readable (F8).  The first who wakes up takes the arming
    back, and arms the fabrics anew for the others; if that finds something, the others are called.
S3  What another thread does calls the sleepers: threads by local_fd, each event loop by a
    descriptor of its own.  A loop may be busy for long, and nobody else should wait for that.
S4  local_fd is drained by the last thread that was called, so each of them sees its call.  No
    thread falls asleep before that: local_fd would wake it at once.
S5  A sleeper that wakes up for no reason calls nobody.  Otherwise two sleepers, each woken by the
    other, would never rest.
S6  An arming knows nothing of what this process does after it: takes a doorbell away, accepts a
    connection, posts what wants room or a copy, leaves work to a turn or a call.  Whoever does
    such a thing notes `stirred`; while others sleep, it makes turns and arms anew for them before
    it gives the lock back.
S7  Nobody falls asleep after a turn in which something happened: a later one may find room, a
    lane or a connection that it left.
S8  A step by itself cannot arm anew, nor make the turns of S6, for both are for calls.  So if it
    did anything while others sleep, or left something to a call, it calls them, and they arm again
    if there is nothing to do.  It may: `ring` is one write to a descriptor that takes any number of
    them and never blocks; and what says who sleeps belongs to the lock, which it holds.  A thread
    that it interrupts between its arming and its sleep is called, too, and so does not fall asleep.
S9  A progress mode that watches counts as one that listens, so S6 holds for it.  But nobody calls
    it: it has no condition of its own to look at.  It is told to arm anew (`stirred`) by whoever
    would arm anew for sleepers, and by whoever has taken an arming back: a sleeper that wakes up,
    or one that cannot fall asleep.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from posix.unistd cimport read, write

from pyrdv.engine.calls cimport call_begin, call_end, engine_lock, engine_unlock
from pyrdv.engine.event cimport TRACE_ALONE, TRACE_WAKE
from pyrdv.engine.sleeper cimport listener_t
from pyrdv.engine.state cimport ANY_PEER, call_t, engine_t, peer_t
from pyrdv.engine.step cimport maintain, step, turn
from pyrdv.engine.trace cimport trace_event, trace_sleep
from pyrdv.fabrics.contract cimport FABRIC_OK, WATCHED


cdef extern from "order.h" nogil:
    void adjust32(uint32_t *where, int32_t amount)


cdef enum:
    SETTLING = 8        # turns at most for those who sleep; if that is too few, they are called


cdef void ring(int fd) noexcept nogil:
    cdef uint64_t one = 1
    write(fd, &one, sizeof(one))


cdef void drain(int fd) noexcept nogil:
    cdef uint64_t drained
    read(fd, &drained, sizeof(drained))


cdef void call_sleepers(engine_t *e) noexcept nogil:
    cdef listener_t *listener = e.listeners
    if e.sleepers > e.called:
        e.calls += 1
        e.called = e.sleepers
        ring(e.local_fd)
    while e.listening and listener != NULL:
        if listener.asleep and not listener.called:
            listener.called = True
            e.listening -= 1
            ring(listener.fd)
        listener = listener.next


cdef void have_all_look(engine_t *e) noexcept nogil:
    engine_lock(&e.lock)
    adjust32(&e.epoch, 1)
    call_sleepers(e)
    engine_unlock(&e.lock)


cdef void disarm(engine_t *e) noexcept nogil:
    cdef int i
    for i in range(e.fabric_count):
        e.fabrics[i].ops.disarm(e.fabrics[i])


cdef inline bint others_sleep(const engine_t *e) noexcept nogil:
    """Somebody sleeps, a mode that watches apart."""
    cdef uint32_t watching = e.progress != NULL and e.progress.watching
    return e.sleepers > e.called or e.listening > watching


cdef inline void tell_watcher(engine_t *e) noexcept nogil:
    if e.progress != NULL and e.progress.watching:
        e.progress.stirred(e.progress)


cdef bint arm_fabrics(engine_t *e) noexcept nogil:
    cdef int i
    cdef bint quiet = not (e.starved or e.pieces_due or e.unsettled)
    for i in range(e.fabric_count):
        if e.fabrics[i].ops.arm(e.fabrics[i]) != FABRIC_OK:
            quiet = False
    e.stirred = 0
    if not quiet:
        disarm(e)
        call_sleepers(e)
    return quiet


cdef bint prepare(engine_t *e, uint32_t epoch) noexcept nogil:
    if e.epoch != epoch:
        return False
    if arm_fabrics(e):
        return True
    tell_watcher(e)
    return False


cdef void awake(call_t *call) noexcept nogil:
    """Somebody is awake who slept, and counts no more (S2)."""
    cdef engine_t *e = &call.engine
    disarm(e)
    maintain(call)
    if others_sleep(e):
        arm_fabrics(e)
    tell_watcher(e)


cdef void stir_sleepers(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int _turn
    for _turn in range(SETTLING):
        if turn(call) == 0:
            break
    if others_sleep(e):
        if e.epoch != e.begun:
            call_sleepers(e)
        else:
            arm_fabrics(e)
    tell_watcher(e)


cdef int step_alone(engine_t *e) noexcept nogil:
    cdef uint32_t epoch = e.epoch
    cdef uint32_t starved = e.starved
    cdef const peer_t *calling = e.calling
    cdef int happened = step(e)
    if happened:
        trace_event(e, TRACE_ALONE, ANY_PEER)
    if others_sleep(e) and (happened or e.pieces_due or e.epoch != epoch
                            or e.starved != starved or e.calling != calling):
        call_sleepers(e)
    return happened


cdef void watch_begins(engine_t *e) noexcept nogil:
    if not e.progress.watching:
        e.progress.watching = 1
        e.listening += 1


cdef void watch_ends(engine_t *e) noexcept nogil:
    if e.progress.watching:
        e.progress.watching = 0
        e.listening -= 1


cdef int64_t watch_fabrics(engine_t *e) noexcept nogil:
    cdef int64_t wait = WATCHED
    cdef int i
    e.stirred = 0
    for i in range(e.fabric_count):
        wait = min(wait, e.fabrics[i].ops.watch(e.fabrics[i]))
    if e.pieces_due:
        wait = 0
    if wait == 0 and others_sleep(e):
        # What was to wake them may have been taken from a descriptor.
        call_sleepers(e)
    return wait


cdef int turn_awake(call_t *call) noexcept nogil:
    disarm(&call.engine)
    return maintain(call) + turn(call)


cdef bint sleep_prepare(engine_t *e, uint32_t epoch, uint32_t *called) noexcept nogil:
    cdef bint quiet
    engine_lock(&e.lock)
    quiet = e.called == 0 and prepare(e, epoch)
    if quiet:
        e.sleepers += 1
        called[0] = e.calls
        trace_sleep(e)
    engine_unlock(&e.lock)
    return quiet


cdef void sleep_finish(engine_t *e, uint32_t called) noexcept nogil:
    cdef call_t *call
    call = call_begin(e)
    e.sleepers -= 1
    trace_event(e, TRACE_WAKE, ANY_PEER)
    if called != e.calls:
        e.called -= 1
        if e.called == 0:
            drain(e.local_fd)
    awake(call)
    call_end(call)


cdef bint listener_prepare(engine_t *e, listener_t *listener, uint32_t epoch) noexcept nogil:
    cdef bint quiet
    engine_lock(&e.lock)
    quiet = prepare(e, epoch)
    if quiet:
        listener.asleep = True
        listener.called = False
        e.listening += 1
        trace_sleep(e)
    engine_unlock(&e.lock)
    return quiet


cdef void finish(call_t *call, listener_t *listener) noexcept nogil:
    cdef engine_t *e = &call.engine
    listener.asleep = False
    trace_event(e, TRACE_WAKE, ANY_PEER)
    if listener.called:
        drain(listener.fd)
    else:
        e.listening -= 1
    awake(call)


cdef void listener_finish(engine_t *e, listener_t *listener) noexcept nogil:
    cdef call_t *call
    call = call_begin(e)
    finish(call, listener)
    call_end(call)


cdef void listener_add(engine_t *e, listener_t *listener) noexcept nogil:
    engine_lock(&e.lock)
    listener.next = e.listeners
    e.listeners = listener
    engine_unlock(&e.lock)


cdef void listener_remove(engine_t *e, listener_t *listener) noexcept nogil:
    cdef listener_t **link = &e.listeners
    cdef call_t *call
    call = call_begin(e)
    while link[0] != listener:
        link = &link[0].next
    link[0] = listener.next
    if listener.asleep:
        finish(call, listener)
    call_end(call)
