# cython: language_level=3
"""Waiting in the caller.

Contract: called without the engine's lock, in an API call.  Nothing here
raises except `wait`, which runs Python's signal handlers and says what this process lacks.
"""
from libc.stdint cimport int32_t, uint32_t

from pyrdv.engine.engine cimport Engine
from pyrdv.engine.state cimport engine_t, op_t
from pyrdv.progress.pausing cimport patience_t


# What ends a wait early: a message under a tag, or a number that is not what it was.
cdef struct bell_t:
    uint32_t context
    int32_t tag
    const uint32_t *rung    # outlives the wait
    uint32_t heard
    bint rings              # result

# Whether it names something to read, of what is here already.
cdef bint bell_rings(engine_t *e, const bell_t *bell) noexcept nogil
# Wait for `op`.  Returns when it is complete (or was released by another
# thread).  Raises what a signal handler raises; the op is then as it was.
cdef int wait(Engine engine, op_t *op, uint32_t generation) except -1
# As `wait`, but returns False as soon as a message that `bell` names waits to be received, or
# bell.rung is not bell.heard; True: `op` is complete.
cdef bint wait_beside(Engine engine, op_t *op, uint32_t generation, bell_t *bell) except -1
# One turn and one pause outside the GIL, then signal handlers and notices if it
# slept, which it returns.  The caller calls patience_looks before it looks at its condition.
cdef int wait_turn(Engine engine, patience_t *p) except -1
