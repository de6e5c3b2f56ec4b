# cython: language_level=3
"""Progress by a thread of its own, asleep until a fabric notices something.

This is what the parasite is compared with: the thread is interrupted by everything that comes, and
takes a processor from whoever computes, or at least a part of one.

Invariants:

H1  The thread touches no Python object and never wants the GIL.  Each of its turns is a call
    (calls.pxd, call_begin): it takes the engine's lock as every thread does, may connect, accept
    and register, and runs beside a program that holds the GIL for long.
H2  Before it sleeps it watches (sleeping.pyx, S9): the end of its own call arms the fabrics, and so
    does every later call that stirs something.  Where there is something to do instead, `stirred`
    writes its eventfd.  So it sleeps only if fabrics are armed, and no wake-up is lost.
H3  All signals are blocked in it, so handlers of the program do not run there.
H4  `stops` has it end, and waits for that.  It holds the GIL perhaps and the lock never.  A forked
    child has no such thread, so there it waits for nobody.
"""
from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport close, getpid, read, write

from pyrdv.engine.calls cimport call_begin, call_end, engine_lock, engine_unlock
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.event cimport TRACE_ALONE
from pyrdv.engine.sleeping cimport arm_fabrics, turn_awake, watch_begins, watch_ends
from pyrdv.engine.state cimport ANY_PEER, call_t, engine_t
from pyrdv.engine.trace cimport trace_event
from pyrdv.progress.contract cimport PROGRESS_THREAD, progress_t

from pyrdv.errors import ResourceError
from pyrdv.shortage import explain


cdef extern from "thread.h" nogil:
    ctypedef unsigned long pthread_t
    int thread_begin(pthread_t *thread, void *(*run)(void *) noexcept nogil, void *argument)
    int pthread_join(pthread_t thread, void **result)

cdef extern from "order.h" nogil:
    uint32_t observe32(const uint32_t *where)
    void publish32(uint32_t *where, uint32_t value)

cdef extern from "<sys/eventfd.h>" nogil:
    int EFD_CLOEXEC, EFD_NONBLOCK
    int eventfd(unsigned int initial, int flags)

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    short POLLIN
    int poll(pollfd *fds, unsigned long count, int timeout)


cdef struct thread_t:
    progress_t base             # first: the engine has this
    engine_t *engine
    pthread_t thread
    int fd                      # eventfd: calls it
    int pid                     # of the process that has it
    uint32_t stopping           # read without the lock
    uint8_t on                  # it is its engine's mode
    uint64_t wakes


cdef void ring(thread_t *self) noexcept nogil:
    cdef uint64_t one = 1
    write(self.fd, &one, sizeof(one))


cdef void one_turn(thread_t *self) noexcept nogil:
    cdef engine_t *e = self.engine
    cdef uint64_t drained
    cdef call_t *call = call_begin(e)
    watch_ends(e)
    read(self.fd, &drained, sizeof(drained))
    self.wakes += 1
    e.counters.flow_turns += 1
    if turn_awake(call):
        e.counters.flow_hits += 1
        trace_event(e, TRACE_ALONE, ANY_PEER)
    if not observe32(&self.stopping):
        watch_begins(e)
    e.stirred = 1               # so the end of the call arms (H2)
    call_end(call)


cdef void *run(void *argument) noexcept nogil:
    cdef thread_t *self = <thread_t *> argument
    cdef pollfd wanted[2]
    wanted[0].fd = self.engine.wait_fd
    wanted[1].fd = self.fd
    wanted[0].events = wanted[1].events = POLLIN
    while True:
        one_turn(self)
        # After its eventfd was drained: `stops` writes `stopping` first, then the eventfd.
        if observe32(&self.stopping):
            return NULL
        poll(wanted, 2, -1)


cdef void thread_posted(progress_t *base, void *op) noexcept nogil:
    pass                        # it wakes up for everything that comes


cdef uint32_t thread_needed(progress_t *base) noexcept nogil:
    return (<thread_t *> base).engine.ops_in_use


cdef void thread_passes(progress_t *base) noexcept nogil:
    pass                        # it is no matter who else waits


cdef void thread_stirred(progress_t *base) noexcept nogil:
    cdef thread_t *self = <thread_t *> base
    if not arm_fabrics(self.engine):
        ring(self)


cdef void thread_stops(progress_t *base) noexcept nogil:
    cdef thread_t *self = <thread_t *> base
    cdef engine_t *e = self.engine
    if not self.on:
        return
    self.on = False
    if self.pid != getpid():
        e.progress = NULL       # another thread of the parent may have had the lock (H4)
        return
    publish32(&self.stopping, 1)
    ring(self)
    pthread_join(self.thread, NULL)
    engine_lock(&e.lock)
    watch_ends(e)
    e.progress = NULL
    engine_unlock(&e.lock)


cdef class Thread:
    """The mode of one engine, which keeps it as its `mode`.

    Parameters
    ----------
    engine : Engine
    """

    cdef thread_t *c

    def __cinit__(self, Engine engine not None):
        self.c = <thread_t *> calloc(1, sizeof(thread_t))
        if self.c == NULL:
            raise MemoryError
        self.c.fd = -1
        self.c.engine = engine.c
        self.c.base.code = PROGRESS_THREAD
        self.c.base.posted = thread_posted
        self.c.base.needed = thread_needed
        self.c.base.enters = thread_passes
        self.c.base.leaves = thread_passes
        self.c.base.stops = thread_stops
        self.c.base.stirred = thread_stirred
        self.c.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if self.c.fd < 0:
            raise ResourceError(f"no descriptor for the progress thread: "
                                f"{explain('eventfd', errno)}")

    def __dealloc__(self):
        # The engine stops its mode before it ends, so what was not stopped has an engine.
        if self.c == NULL:
            return
        thread_stops(&self.c.base)
        if self.c.fd >= 0:
            close(self.c.fd)
        free(self.c)

    def begin(self, Engine engine not None):
        """From now on `engine`, for which it was made, has this mode, and a thread.

        Raises
        ------
        ValueError
            The engine is another one, closed, or has a mode.
        ResourceError
            The system gives no thread.
        """
        cdef engine_t *e = self.c.engine
        cdef int problem
        if engine.c != e or engine.closed:
            raise ValueError("this mode was made for another engine, or its engine is closed")
        if e.progress != NULL:
            raise ValueError("the engine has a mode; end that first")
        engine.mode = self
        self.c.stopping = 0
        self.c.pid = getpid()
        self.c.on = True
        engine_lock(&e.lock)
        e.progress = &self.c.base
        engine_unlock(&e.lock)
        problem = thread_begin(&self.c.thread, run, self.c)
        if problem:
            self.c.on = False
            engine_lock(&e.lock)
            e.progress = NULL
            engine_unlock(&e.lock)
            raise ResourceError(f"no progress thread: {explain('pthread_create', problem)}")
        e.counters.flows_spawned += 1

    def end(self):
        """The thread ends; calls make progress alone."""
        thread_stops(&self.c.base)

    def facts(self):
        """What is known of it now.

        Returns
        -------
        dict
            ``running``: whether there is a thread; ``wakes``: how often it woke up.
        """
        return {"running": self.c.on != 0, "wakes": self.c.wakes}
