# cython: language_level=3
"""Waiting in the caller: spin, yield, sleep.

Contract: called without the engine's lock, in an API call.  Nothing here
raises except `wait`, which runs Python's signal handlers and says what this process lacks.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.engine cimport Engine
from pyrdv.engine.state cimport engine_t, op_t


# How long this waiter has waited for nothing.  Zeroed by patience_reset.
cdef struct patience_t:
    uint64_t since          # ticks; 0: not started
    uint32_t rounds
    bint yielding           # it has spun long enough
    uint32_t turns          # engine.busy_turns as of the last look at the clock
    uint32_t epoch          # as of the waiter's last look at its condition
    bint told               # of what is waited for: `engine_awaits`
    bint prepared           # `room` was looked for
    bint fresh              # no message came there before
    char *room              # of the receive that is waited for, while none has come
    uint64_t left           # bytes of it whose pages were not made yet

# What ends a wait early: a message under a tag, or a number that is not what it was.
cdef struct bell_t:
    uint32_t context
    int32_t tag
    const uint32_t *rung    # outlives the wait
    uint32_t heard
    bint rings              # result

cdef void patience_reset(patience_t *p) noexcept nogil
# The waiter is about to look at its condition: what changes from now on ends a `pause` at once.
cdef void patience_looks(const engine_t *e, patience_t *p) noexcept nogil
# The waiter looked and found nothing: pause as fits, at most about 100 ms.
# True: it slept, so signals and notices deserve a look.
cdef bint pause(engine_t *e, patience_t *p) noexcept nogil
# Whether it names something to read, of what is here already.
cdef bint bell_rings(engine_t *e, const bell_t *bell) noexcept nogil
# Wait for `op`.  Returns when it is complete (or was released by another
# thread).  Raises what a signal handler raises; the op is then as it was.
cdef int wait(Engine engine, op_t *op, uint32_t generation) except -1
# If nobody is left who could send what `op` receives, from anybody, it ends as lost.  `waits`: the
# caller does, so an orderly end counts as well as a death.
cdef int end_hopeless(Engine engine, op_t *op, uint32_t generation, bint waits) except -1
# Whether nobody is left in the communicator of `context` but this process.
cdef bint alone(Engine engine, uint32_t context) except -1
# The same, but returns False as soon as a message that `bell` names waits to be received, or
# bell.rung is not bell.heard; True: `op` is complete.
cdef bint wait_beside(Engine engine, op_t *op, uint32_t generation, bell_t *bell) except -1
# Let what is under way in `engine.pending` go on: receives of objects, whose next step needs
# the GIL.  Without `fully`, many of them are only looked at now and then.
cdef int help_pending(Engine engine, bint fully) except -1
# One turn and one pause outside the GIL, then signal handlers and notices if it
# slept, which it returns.  The caller calls patience_looks before it looks at its condition.
cdef int wait_turn(Engine engine, patience_t *p) except -1
