# cython: language_level=3
"""What somebody who waits does beside: signal handlers, notices, and what needs the interpreter."""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint32_t

from pyrdv.engine.calls cimport (
    engine_abandon, engine_deaths, engine_peer_ended, engine_peers_left)
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.state cimport ANY_PEER, OP_FINALIZED, op_t

from pyrdv.errors import from_status


cdef int help_pending(Engine engine, bint fully) except -1:
    """A message that waits for its sender's or receiver's next step must not wait for the user
    to look at that very request: the user may be waiting here for what depends on it."""
    cdef Py_ssize_t count = len(engine.pending)
    if engine.helping or count == 0:
        return 0
    engine.unhelped += 1
    if not fully and engine.unhelped < count >> 6:
        return 0
    engine.unhelped = 0
    engine.helping = True
    try:
        for reference in list(engine.pending.values()):
            waiting = reference()
            if waiting is not None:
                waiting.help()
    finally:
        engine.helping = False
    return 0


cdef bint alone(Engine engine, uint32_t context) except -1:
    group = engine.groups.get(context)
    if group is None:
        return engine_peers_left(engine.c) == 0 and engine.c.size > 1
    if len(group) < 2:
        return False
    for rank in group:
        if rank != engine.c.rank and not engine_peer_ended(engine.c, rank):
            return False
    return True


cdef int end_hopeless(Engine engine, op_t *op, uint32_t generation, bint waits) except -1:
    # Whether it is still posted is asked again under the lock.
    if op.peer != ANY_PEER or not waits and not engine_deaths(engine.c):
        return 0
    if engine_peers_left(engine.c) + 1 != engine.c.size and alone(engine, op.context):
        engine_abandon(engine.c, op, generation)
    return 0


cdef int look_around(Engine engine) except -1:
    PyErr_CheckSignals()
    if engine.closed:
        raise from_status(OP_FINALIZED)
    if engine.notice is not None:
        engine.notice()
    return 0
