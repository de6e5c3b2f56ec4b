# cython: language_level=3
"""All connections at start with a server thread: what ``connect_all`` is measured against.

The start that "MPI over uDAPL" (Chai, Noronha and Panda, 2006, section 3.2) improves on: each rank
serves the higher ones and is a client of the lower ones.  A thread accepts and handles all events
until every connection is there; the main thread asks the lower ranks.  No job starts like this;
``pyrdv bench startup`` does, so the comparison has to be fair:

T1  Both starts do the same turn (`drain`, `maintain`), wait the same way and for as long between
    two turns, and make the same links.  They differ in who asks whom when, and in the thread.
T2  Nothing here holds the GIL once the fabric is at work: neither thread waits for Python.
T3  The fabric is touched by the holder of `lock` only, but for the wait, which only looks at the
    event channel's descriptor: that stays open until both threads are done.
T4  Whoever waits for `changed` is woken after every turn in which something happened, and when
    the server ends, which it does at the limit at the latest.
"""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc

from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_OK, Fabric
from pyrdv.fabrics.verbs.connection cimport (
    connection_refused, connection_wait, verbs_connect)
from pyrdv.fabrics.verbs.datapath cimport drain
from pyrdv.fabrics.verbs.link cimport now_ns
from pyrdv.fabrics.verbs.sleeping cimport verbs_maintain
from pyrdv.fabrics.verbs.state cimport LINK_UP, link_t, verbs_t

import os

from pyrdv.fabrics.verbs.fabric import VerbsFabric
from pyrdv.fabrics.verbs.reasons import late


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_t:
        pass
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    int pthread_create(pthread_t *out, void *attributes, void *(*run)(void *) noexcept nogil,
                       void *argument)
    int pthread_join(pthread_t thread, void **out)
    int pthread_mutex_init(pthread_mutex_t *mutex, void *attributes)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)
    int pthread_mutex_destroy(pthread_mutex_t *mutex)
    int pthread_cond_init(pthread_cond_t *condition, void *attributes)
    int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
    int pthread_cond_signal(pthread_cond_t *condition)
    int pthread_cond_destroy(pthread_cond_t *condition)


cdef enum:
    WAIT_MS = 1     # as in VerbsFabric.connect_all

cdef struct start_t:
    verbs_t *fabric
    int64_t limit           # ns, of the clock of now_ns
    pthread_mutex_t lock
    pthread_cond_t changed
    int failed              # a peer that was lost, or refused by the system; -1: none
    int over                # the server ended


cdef bint peer_up(const verbs_t *f, uint32_t peer) noexcept nogil:
    cdef const link_t *link = f.peers[peer].link
    return link != NULL and link.state == LINK_UP


cdef bint every_peer_up(start_t *s) noexcept nogil:
    """Whether nobody is missing; notes whose connection cannot come up."""
    cdef verbs_t *f = s.fabric
    cdef uint32_t peer
    cdef bint every = True
    for peer in range(f.base.size):
        if f.peers[peer].address == NULL:
            continue
        if not peer_up(f, peer):
            every = False
            if connection_refused(f, peer):
                s.failed = <int> peer
    return every


cdef void *serve_peers(void *argument) noexcept nogil:
    """The server thread."""
    cdef start_t *s = <start_t *> argument
    cdef int happened
    pthread_mutex_lock(&s.lock)
    while not every_peer_up(s) and s.failed < 0 and now_ns() < s.limit:
        happened = drain(s.fabric)
        happened += verbs_maintain(&s.fabric.base)
        if happened:
            pthread_cond_signal(&s.changed)
        # The main thread may want to ask: it gets the lock in either case.
        pthread_mutex_unlock(&s.lock)
        if not happened:
            connection_wait(s.fabric, WAIT_MS)
        pthread_mutex_lock(&s.lock)
    s.over = 1
    pthread_cond_signal(&s.changed)
    pthread_mutex_unlock(&s.lock)
    return NULL


cdef void ask_peers(start_t *s, bint at_once) noexcept nogil:
    """The main thread: ask every lower rank, the nearest first, so that not all begin with rank 0.

    Either for one connection at a time, or for all and then wait.
    """
    cdef verbs_t *f = s.fabric
    cdef int peer, status
    pthread_mutex_lock(&s.lock)
    for peer in range(<int> f.base.rank - 1, -1, -1):
        if f.peers[<uint32_t> peer].address == NULL:
            continue
        status = verbs_connect(&f.base, <uint32_t> peer)
        while status == FABRIC_AGAIN and not at_once and not s.over:
            pthread_cond_wait(&s.changed, &s.lock)
            status = verbs_connect(&f.base, <uint32_t> peer)
        if status < FABRIC_OK:
            s.failed = peer
        if s.failed >= 0:
            break
    while not s.over:
        pthread_cond_wait(&s.changed, &s.lock)
    pthread_mutex_unlock(&s.lock)


cdef int run_start(start_t *s, bint at_once) noexcept nogil:
    """Start the server, be the client, join; 0 or an errno."""
    cdef pthread_t thread
    cdef int problem
    pthread_mutex_init(&s.lock, NULL)
    pthread_cond_init(&s.changed, NULL)
    problem = pthread_create(&thread, NULL, serve_peers, s)
    if problem == 0:
        ask_peers(s, at_once)
        pthread_join(thread, NULL)
    pthread_cond_destroy(&s.changed)
    pthread_mutex_destroy(&s.lock)
    return problem


def connect_all_threaded(Fabric fabric, double timeout, bint at_once=False):
    """Connect to every peer that was given an address, all ranks together, by a server thread.

    Parameters
    ----------
    fabric : VerbsFabric
        Used by nobody else meanwhile.
    timeout : float
        Seconds for all of it.
    at_once : bool
        Whether all requests are sent before one connection is waited for; else one at a time.

    Raises
    ------
    TimeoutError
        If some are missing when the time is over; the text has what they said.
    OSError
        If one is lost, this rank lacks something for it, or no thread can be made.
    TypeError
        If `fabric` is no `VerbsFabric`.
    """
    cdef start_t *s
    cdef int problem, failed
    if not isinstance(fabric, VerbsFabric):
        raise TypeError(f"{type(fabric).__name__} is no VerbsFabric: give one")
    if fabric.closed:
        raise ValueError("this fabric is closed: open another")
    s = <start_t *> malloc(sizeof(start_t))
    if s == NULL:
        raise MemoryError("no memory for a start with a thread")
    s.fabric = <verbs_t *> fabric.handle
    s.failed, s.over = -1, 0
    s.limit = now_ns() + <int64_t> (timeout * 1e9)
    with nogil:
        problem = run_start(s, at_once)
    failed = s.failed
    free(s)
    if problem:
        raise OSError(problem, f"no thread for the start: {os.strerror(problem)}")
    if failed >= 0:
        raise OSError(fabric.refusal_text(failed))
    missing = {peer: said_by(fabric, peer) for peer in range(fabric.size)
               if not reached(fabric, peer)}
    if missing:
        raise TimeoutError(late(fabric.rank, timeout, missing))


cdef bint reached(Fabric fabric, uint32_t peer) noexcept:
    cdef verbs_t *f = <verbs_t *> fabric.handle
    return f.peers[peer].address == NULL or peer_up(f, peer)


cdef int said_by(Fabric fabric, uint32_t peer) noexcept:
    return (<verbs_t *> fabric.handle).peers[peer].said
