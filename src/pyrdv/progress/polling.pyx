# cython: language_level=3
"""Waiting in the caller: spin, yield, sleep (R7).

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
interrupt it.  Who waits for a large message has pages made for it, by system
calls: at once in an array to which none came before, else when it yields.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t, uint64_t

from pyrdv.engine.calls cimport (
    cpu_relax, engine_abandon, engine_awaits, engine_deaths, engine_hopeless, engine_peer_ended,
    engine_holds, engine_peers_left, engine_room, engine_test, engine_turn)
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.lacking cimport complain
from pyrdv.engine.sleeping cimport sleep_finish, sleep_prepare
from pyrdv.engine.state cimport ANY_PEER, OP_FINALIZED, engine_t, op_t, ticks_scale
from pyrdv.engine.trace cimport ticks_now, trace_clock
from pyrdv.progress.contract cimport progress_enters, progress_leaves

from pyrdv.errors import from_status


cdef extern from "order.h" nogil:
    uint32_t glance32(const uint32_t *where)
    void note32(uint32_t *where, uint32_t value)

cdef extern from "ticks.h" nogil:
    int64_t ticks_clock_ns()
    void ticks_learn(ticks_scale *scale)

cdef extern from "pages.h" nogil:
    void pages_whole(char **begin, uint64_t *length)
    int pages_make(char *begin, uint64_t length)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    short POLLIN
    int poll(pollfd *fds, unsigned long count, int timeout)


#: How often calls that do not wait, as sends of small messages, look whether the peers live, ns.
LOOK_NS = 5_000_000

cdef enum:
    POLLS_WITH_GIL = 100        # about 2 µs
    POLLS_PER_LOOK = 32         # how long it took is looked at every so many polls
    EVENTS_PER_LOOK = 64        # signals are looked at every so many events, while many come
    SLICE_MS = 100              # the longest sleep in one piece
    DOUBLINGS = 3               # of the time it yields
    ROOM_PIECE = 256 << 10      # bytes whose pages are made between two polls; whole pages


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


cdef bint prepare_room(engine_t *e, op_t *op, uint32_t generation, patience_t *p) noexcept nogil:
    """Have the kernel make some pages of the room of a receive, if it has none there yet; whether
    there was something to do.

    Whoever is the first to write there waits for that: the copy, or the registration.  A waiter
    has the time; for memory that was used before, not before it yields.  Contents stay as they are;
    where it cannot be done, nothing happens.
    """
    cdef uint64_t piece
    if not p.prepared:
        p.prepared = True
        p.fresh = engine_room(e, op, generation, &p.room, &p.left)
        pages_whole(&p.room, &p.left)
    if p.left == 0 or not p.fresh and not p.yielding:
        return False
    piece = min(p.left, <uint64_t> ROOM_PIECE)
    if pages_make(p.room, piece) != 0:
        p.left = 0
    else:
        p.room += piece
        p.left -= piece
    return True


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
