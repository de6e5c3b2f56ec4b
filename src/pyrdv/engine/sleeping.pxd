# cython: language_level=3
"""Sleeping until something happens (R7): threads that wait, and event loops.

Everything runs in a call, unless it says *step*.  The functions take the engine's lock unless they
say *locked*.
"""
from libc.stdint cimport int64_t, uint32_t

from pyrdv.engine.sleeper cimport listener_t
from pyrdv.engine.state cimport call_t, engine_t

# Whether this thread may sleep, on wait_fd and local_fd; False when something changed since
# `epoch`.  If it may, `sleep_finish` must follow with the `called` that was filled here.
cdef bint sleep_prepare(engine_t *e, uint32_t epoch, uint32_t *called) noexcept nogil
cdef void sleep_finish(engine_t *e, uint32_t called) noexcept nogil
# The same for an event loop, which sleeps on wait_fd and listener.fd.
cdef bint listener_prepare(engine_t *e, listener_t *listener, uint32_t epoch) noexcept nogil
cdef void listener_finish(engine_t *e, listener_t *listener) noexcept nogil
# An event loop comes; it goes, asleep or not.
cdef void listener_add(engine_t *e, listener_t *listener) noexcept nogil
cdef void listener_remove(engine_t *e, listener_t *listener) noexcept nogil
# Something changed above the engine: have all who sleep look again, and who would fall asleep.
cdef void have_all_look(engine_t *e) noexcept nogil
# locked.  Have all who sleep look again.
cdef void call_sleepers(engine_t *e) noexcept nogil


# step, locked.  One step by itself, for a signal handler: the sleepers whom it concerns are called.
cdef int step_alone(engine_t *e) noexcept nogil


# locked.  The progress mode of `e` waits for what the fabrics notice, or no longer (S9).
cdef void watch_begins(engine_t *e) noexcept nogil
cdef void watch_ends(engine_t *e) noexcept nogil
# step, locked.  Arm the fabrics for the handler of a mode: `fabric_ops.watch`, of all of them.
cdef int64_t watch_fabrics(engine_t *e) noexcept nogil
# locked, in no handler.  Arm every fabric; False if there is something to do: then none is armed,
# and who slept was called.
cdef bint arm_fabrics(engine_t *e) noexcept nogil
# The mode's own thread is awake (S2): makes a turn, and returns how much happened.
cdef int turn_awake(call_t *call) noexcept nogil


# locked.  Whether somebody sleeps who was not called since, or a mode watches.
cdef inline bint somebody_sleeps(const engine_t *e) noexcept nogil:
    return e.sleepers > e.called or e.listening != 0


# call.  Something happened while they sleep: have them look again, or arm anew for them (S6).
cdef void stir_sleepers(call_t *call) noexcept nogil


# call.  It ends: sleepers look again if the epoch is not what it was.
cdef inline void wake_sleepers(call_t *call) noexcept nogil:
    cdef const engine_t *e = &call.engine
    if somebody_sleeps(e) and (e.epoch != e.begun or e.stirred):
        stir_sleepers(call)
