# cython: language_level=3
"""Messages that nobody will get: their senders are let go.

Contract: needs the GIL; never waits.
"""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.api.core cimport CommBase
from pyrdv.engine.engine cimport Engine, own_process
from pyrdv.engine.state cimport message_t, op_t


cdef class Refusal:
    """What is still to be done until the senders of a message and its parts are let go."""
    cdef CommBase comm
    cdef message_t *m               # matched, not taken yet
    cdef op_t *op                   # a receive that is under way, or NULL
    cdef uint32_t generation
    cdef object keeper              # keeps its buffer alive
    cdef bint busy                  # a step of it is under way
    cdef uint32_t source            # of parts that are still to be taken, and how many there are
    cdef uint64_t cookie
    cdef uint64_t left
    cdef object __weakref__
    # Take the steps that need no waiting; whoever waits in this process goes on with the others.
    cdef int begin(self) except -1
    cdef bint go_on(self) noexcept

# Whether messages of `engine` can be taken: it has not ended, and is not a forked child's copy,
# whose lock another thread of the parent may have for ever.
cdef inline bint usable(Engine engine) noexcept:
    return not engine.closed and own_process(engine)

# The object that `op`, a complete receive, has met is not wanted: take its parts and throw them
# away.  Nothing happens if it met a buffer, or an object without parts.
cdef int refuse_object(CommBase comm, const op_t *op) except -1
# Nobody will look at receive `op`, which is not complete: its buffer is kept, and an object that
# it meets is refused.
cdef int forsake(CommBase comm, op_t *op, object keeper) except -1
# Nobody will receive matched message `m`: it is taken, with its parts, and thrown away.
cdef int refuse_message(CommBase comm, message_t *m) except -1
# Take `count` parts of an object and throw them away; how many could not be posted yet.
cdef uint64_t drop_parts(CommBase comm, uint32_t source, uint64_t cookie,
                         uint64_t count) noexcept
