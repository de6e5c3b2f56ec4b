# cython: language_level=3
"""Sends the signal of a parasite to its own thread at chosen points, and judges its handler.

The signal is a real one, and so is the handler: it runs on top of what it interrupts.  A point is
told by code that is compiled for that (tests/explore/points.c): each access to memory is one, just
before it is made.  The product has none.

Of these points only those count at which a signal can matter.  While no call holds the engine's
lock, that is each.  While one does, the handler may touch nothing but its flow and its mode, so
the points between two accesses to these, or to the lock, are alike.  `whole` counts them all the
same.  Around each signal is seen whether the handler kept to that:

- While the lock is held, it makes no step: the engine's memory is as it was, the lock taken.
- It allocates nothing: no pool of the engine is larger afterwards.
"""
from libc.stdint cimport uint32_t, uint64_t
from libc.stddef cimport size_t
from libc.string cimport memcmp

from pyrdv.engine.calls cimport engine_lock, engine_turn, engine_unlock
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.sleeping cimport sleep_finish, sleep_prepare
from pyrdv.engine.protocols.lanes cimport lanes_of
from pyrdv.engine.state cimport engine_t
from pyrdv.instruments.sim.core cimport sim_rank
from pyrdv.progress.contract cimport progress_enters, progress_leaves
from pyrdv.progress.parasite cimport Parasite, flow_t, parasite_t


cdef extern from "signals.h" nogil:
    bint descriptor_readable(int fd)

cdef extern from "strike.h" nogil:
    bint strike_due(int timer)
    int strike(int number, int tid, int timer, void *pulse)


cdef enum broken_rule:          # added up
    ENTERED = 1                 # the handler went on although a call held the lock
    GREW = 2                    # a pool grew in it
    UNSENT = 4                  # no signal was sent

cdef struct aim_t:
    parasite_t *mode            # whose handler; NULL: points are not looked at
    bint whole
    bint within                 # the handler runs
    uint64_t points             # that counted so far
    uint64_t wanted             # the one at which it fires; 0: at each of them
    uint64_t struck             # signals sent, since `aim`
    uint64_t refused            # of all: those that found the lock taken
    uint32_t broken
    engine_t before


cdef aim_t AIM
AIM.mode = NULL


cdef inline bint among(const void *address, const void *begin, size_t size) noexcept nogil:
    return <size_t> (<const char *> address - <const char *> begin) < size


cdef uint64_t pools(const engine_t *e) noexcept nogil:
    return e.slab_bytes + e.op_slab_count + e.posted.mask + e.unexpected.mask + lanes_of(e).count


cdef void hit(aim_t *a) noexcept nogil:
    """One signal, now."""
    cdef engine_t *e = a.mode.engine
    cdef flow_t *f = a.mode.flows
    cdef bint held = e.lock != 0
    cdef uint64_t before = pools(e)
    if held:
        a.before = e[0]
    a.within = True
    if strike(f.pulse.number, f.pulse.tid, f.pulse.timer, f) != 0:
        a.broken |= UNSENT
    a.within = False
    a.struck += 1
    a.refused += held
    if held and memcmp(&a.before, e, sizeof(engine_t)) != 0:
        a.broken |= ENTERED
    if pools(e) != before:
        a.broken |= GREW


cdef void point(const void *address) noexcept nogil:
    """Memory at `address` is about to be read or written."""
    cdef aim_t *a = &AIM
    cdef engine_t *e
    if a.mode == NULL or a.within or a.mode.flows == NULL:
        return
    e = a.mode.engine
    if e.lock and not a.whole and not among(address, a.mode.flows, sizeof(flow_t)) \
            and not among(address, a.mode, sizeof(parasite_t)) \
            and not among(address, &e.lock, sizeof(e.lock)):
        return
    a.points += 1
    if a.wanted == 0 or a.wanted == a.points:
        hit(a)


def pointer():
    """The address of the function that is to be told of each access, of type ``void (*)(void *)``.

    Returns
    -------
    int
    """
    return <size_t> <void *> point


cdef class Striker:
    """The signals of one engine's parasite, which was made `by_hand`.

    Parameters
    ----------
    mode : Parasite
    engine : Engine
        Over a simulated network.

    Attributes
    ----------
    struck, refused : int
        Signals that were sent, and those of them that found the lock taken.
    """

    cdef Parasite mode
    cdef Engine engine
    cdef uint32_t epoch
    cdef uint32_t called
    cdef readonly uint64_t struck
    cdef readonly uint64_t refused

    def __cinit__(self, Parasite mode not None, Engine engine not None):
        self.mode = mode
        self.engine = engine

    def aim(self, uint64_t wanted, bint whole=False):
        """Fire at point `wanted` from now on (0: at each), if one is told; `whole`: count all."""
        AIM.whole = whole
        AIM.points = AIM.struck = AIM.refused = AIM.broken = 0
        AIM.wanted = wanted
        AIM.mode = self.mode.c          # last: from here on points are looked at

    def rest(self):
        """No point is looked at any more.

        Returns
        -------
        tuple of int and str
            Signals that were sent since `aim`, and what their handlers did wrong, or "".
        """
        AIM.mode = NULL
        self.struck += AIM.struck
        self.refused += AIM.refused
        wrong = ""
        if AIM.broken & UNSENT:
            wrong = "no signal could be sent"
        elif AIM.broken & ENTERED:
            wrong = "the handler entered while a call held the lock"
        elif AIM.broken & GREW:
            wrong = "a pool grew in the handler"
        return AIM.struck, wrong

    @property
    def ready(self):
        """Whether a signal would come: its timer is set, or a descriptor tells of something."""
        cdef flow_t *f = self.mode.c.flows
        return f != NULL and (strike_due(f.pulse.timer) or self.mode.c.owner == f
                              and descriptor_readable(self.engine.c.wait_fd))

    def fire(self):
        """One signal, now, if one would come; what its handler did wrong, or ""."""
        if not self.ready:
            return ""
        self.aim(0)
        hit(&AIM)
        return self.rest()[1]

    def needed(self):
        """Whether an operation that it watches needs a trigger."""
        cdef parasite_t *c = self.mode.c
        cdef bint needed
        engine_lock(&c.engine.lock)
        needed = c.on and c.base.needed(&c.base) != 0
        engine_unlock(&c.engine.lock)
        return needed

    def words(self):
        """What later signals depend on; a tuple of numbers, but no times."""
        cdef engine_t *e = self.engine.c
        cdef flow_t *f = self.mode.c.flows
        cdef sim_rank *rank = <sim_rank *> e.fabrics[0]
        mine = ()
        if f != NULL:
            mine = (f.armed, strike_due(f.pulse.timer), f.inside, f.watched.count,
                    self.mode.c.owner == f)
        return (*mine, e.stirred, e.unsettled, e.pieces_due, e.listening, e.sleepers, e.called,
                self.mode.c.base.watching, rank.armed, descriptor_readable(e.wait_fd),
                descriptor_readable(e.local_fd))

    # A wait, in its parts.

    def enters(self):
        """Its thread begins to wait."""
        progress_enters(self.engine.c.progress)

    def leaves(self):
        """Its thread waits no more."""
        progress_leaves(self.engine.c.progress)

    def look(self):
        """One turn, before which whoever wants to sleep remembers what it saw; the epoch."""
        self.epoch = self.engine.c.epoch
        engine_turn(self.engine.c)
        return self.epoch

    def sleep(self):
        """Whether the thread may fall asleep now; if so, `wake` must follow."""
        return sleep_prepare(self.engine.c, self.epoch, &self.called)

    def wake(self):
        """The thread is awake."""
        sleep_finish(self.engine.c, self.called)

    @property
    def fds(self):
        """The descriptors that wake up a thread that is asleep."""
        return self.engine.c.wait_fd, self.engine.c.local_fd
