# cython: language_level=3
"""Waiting in the caller, for an operation or for a condition.

Between two looks a waiter pauses (``pausing``), makes pages (``pages``) and helps (``beside``).
"""
from libc.stdint cimport int64_t, uint32_t

from pyrdv.engine.calls cimport (
    engine_awaits, engine_holds, engine_hopeless, engine_test, engine_turn)
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.lacking cimport complain
from pyrdv.engine.state cimport ANY_PEER, engine_t, op_t, ticks_scale
from pyrdv.progress.contract cimport progress_enters, progress_leaves
from pyrdv.progress.beside cimport end_hopeless, help_pending, look_around
from pyrdv.progress.pages cimport prepare_room
from pyrdv.progress.pausing cimport patience_looks, patience_reset, patience_t, pause


cdef extern from "order.h" nogil:
    uint32_t glance32(const uint32_t *where)

cdef extern from "ticks.h" nogil:
    int64_t ticks_clock_ns()
    void ticks_learn(ticks_scale *scale)


#: How often calls that do not wait, as sends of small messages, look whether the peers live, ns.
LOOK_NS = 5_000_000

cdef enum:
    POLLS_WITH_GIL = 100        # about 2 µs
    EVENTS_PER_LOOK = 64        # signals are looked at every so many events, while many come


cdef bint wait_some(engine_t *e, op_t *op, uint32_t generation, patience_t *p,
                    bint helping) noexcept nogil:
    """Wait until `op` is complete (True), or signals or, `helping`, others deserve a look."""
    cdef uint32_t seen = glance32(&e.epoch)
    cdef bint slept
    while not engine_test(e, op, generation, True, &p.epoch):
        if helping and glance32(&e.epoch) != seen:
            return False
        if (p.left or not p.prepared) and prepare_room(e, op, generation, p):
            continue
        slept = pause(e, p)
        if p.since and not p.told:
            p.told = True
            engine_awaits(e, op, generation)
        if slept:
            engine_hopeless(e, op, generation)
            return False
    return True


cdef inline bint soon(engine_t *e, op_t *op, uint32_t generation, patience_t *p) noexcept:
    """Poll with the GIL, while that is cheaper than to hand it over; whether `op` is complete."""
    cdef int _attempt
    for _attempt in range(POLLS_WITH_GIL if e.spin_ns else 1):
        if engine_test(e, op, generation, True, &p.epoch):
            return True
    patience_reset(p)
    ticks_learn(&e.ticks)
    return False


cdef int wait(Engine engine, op_t *op, uint32_t generation) except -1:
    cdef engine_t *e = engine.c
    cdef patience_t p
    cdef bint done
    cdef bint helping
    if soon(e, op, generation, &p):
        return 0
    while True:
        helping = len(engine.pending) != 0
        if helping:
            help_pending(engine, p.rounds == 0)
        with nogil:
            progress_enters(e.progress)
            done = wait_some(e, op, generation, &p, helping)
            progress_leaves(e.progress)
        if done:
            return 0
        # First: without its descriptors this process takes the launcher for gone, too.
        complain(engine, op, generation)
        look_around(engine)
        end_hopeless(engine, op, generation, True)


cdef bint bell_rings(engine_t *e, const bell_t *bell) noexcept nogil:
    return glance32(bell.rung) != bell.heard or engine_holds(
        e, ANY_PEER, bell.context, bell.tag)


cdef bint attend(engine_t *e, op_t *op, uint32_t generation, patience_t *p, bell_t *bell,
                 bint helping) noexcept nogil:
    """`wait_some` that looks at the bell after every event; True: complete, or the bell rang."""
    cdef uint32_t seen
    cdef int _event
    for _event in range(EVENTS_PER_LOOK):
        # Before the look: others may have this thread's messages come, too.
        seen = glance32(&e.epoch)
        if bell_rings(e, bell):
            bell.rings = True
            return True
        if wait_some(e, op, generation, p, True):
            return True
        if helping or seen == glance32(&e.epoch):
            return False            # somebody deserves a look; it slept, so signals do
    return False


cdef bint wait_beside(Engine engine, op_t *op, uint32_t generation, bell_t *bell) except -1:
    cdef engine_t *e = engine.c
    cdef patience_t p
    cdef bint done
    cdef bint helping
    if soon(e, op, generation, &p):
        return True
    bell.rings = False
    while True:
        helping = len(engine.pending) != 0
        if helping:
            help_pending(engine, p.rounds == 0)
        with nogil:
            progress_enters(e.progress)
            done = attend(e, op, generation, &p, bell, helping)
            progress_leaves(e.progress)
        if done:
            return not bell.rings
        complain(engine, op, generation)
        look_around(engine)
        end_hopeless(engine, op, generation, True)


cdef int wait_turn(Engine engine, patience_t *p) except -1:
    cdef bint slept
    ticks_learn(&engine.c.ticks)
    with nogil:
        progress_enters(engine.c.progress)
        engine_turn(engine.c)
        slept = pause(engine.c, p)
        progress_leaves(engine.c.progress)
    if slept:
        look_around(engine)
    help_pending(engine, slept)
    return slept


def wait_until(Engine engine not None, condition, timeout=None, lacking=None):
    """Make progress until `condition()` is true.

    Parameters
    ----------
    engine : Engine
    condition : callable
        Without arguments; called between turns.
    timeout : float, optional
        Seconds after which to give up.
    lacking : callable, optional
        Called with the engine after each sleep in vain; what it raises ends the wait.

    Returns
    -------
    bool
        Whether the condition became true.
    """
    cdef patience_t patience
    cdef int64_t start = ticks_clock_ns()
    patience_reset(&patience)
    while True:
        patience_looks(engine.c, &patience)
        if condition():
            return True
        if timeout is not None and ticks_clock_ns() - start > timeout * 1e9:
            return False
        if wait_turn(engine, &patience) and lacking is not None:
            lacking(engine)
