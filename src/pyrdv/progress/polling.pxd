# cython: language_level=3
"""Waiting in the caller: spin, yield, sleep.

Contract: called without the engine's lock, in an API call.  Nothing here
raises except `wait`, which runs Python's signal handlers and says what this process lacks.
"""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.engine.engine cimport Engine
from pyrdv.engine.state cimport engine_t, op_t


# How long this waiter has waited for nothing.  Zeroed by patience_reset.
cdef struct patience_t:
    uint64_t since          # ticks; 0: not started
    uint32_t rounds
    bint yielding           # it has spun long enough
    uint32_t turns          # engine.busy_turns as of the last look at the clock
    uint32_t epoch          # as of the waiter's last look at its condition
    bint prepared           # `room` was looked for
    bint fresh              # no message came there before
    char *room              # of the receive that is waited for, while none has come
    uint64_t left           # bytes of it whose pages were not made yet

cdef void patience_reset(patience_t *p) noexcept nogil
# The waiter is about to look at its condition: what changes from now on ends a `pause` at once.
cdef void patience_looks(const engine_t *e, patience_t *p) noexcept nogil
# The waiter looked and found nothing: pause as fits, at most about 100 ms.
# True: it slept, so signals and notices deserve a look.
cdef bint pause(engine_t *e, patience_t *p) noexcept nogil
# Wait for `op`.  Returns when it is complete (or was released by another
# thread).  Raises what a signal handler raises; the op is then as it was.
cdef int wait(Engine engine, op_t *op, uint32_t generation) except -1
# Let what is under way in `engine.pending` go on: receives of objects, whose next step needs
# the GIL.  Without `fully`, many of them are only looked at now and then.
cdef int help_pending(Engine engine, bint fully) except -1
# One turn and one pause outside the GIL, then signal handlers and notices if it
# slept.  The caller calls patience_looks before it looks at its condition.
cdef int wait_turn(Engine engine, patience_t *p) except -1
