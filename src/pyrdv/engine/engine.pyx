# cython: language_level=3
"""An engine is an object (R2): messages of one rank over one or more fabrics."""
cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset
from posix.unistd cimport close, getpid

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.calls cimport (
    call_begin, call_end, counts_t, engine_cancel, engine_counts, engine_lock, engine_probe,
    engine_release, engine_unlock, envelope_t)
from pyrdv.engine.choice.costs cimport figures_configure
from pyrdv.engine.looking cimport look_every
from pyrdv.engine.matching cimport index_free
from pyrdv.engine.op cimport ops_free
from pyrdv.engine.opening cimport add_fabrics, add_pools, open_wait, set_allowance
from pyrdv.engine.parameters cimport parameters_set
from pyrdv.engine.peer cimport peer_connect, peers_abandon
from pyrdv.engine.pools cimport pools_free
from pyrdv.engine.protocols.finish cimport finish_tell
from pyrdv.engine.protocols.lanes cimport lanes_close
from pyrdv.engine.registering cimport cache_open
from pyrdv.engine.sleeping cimport call_sleepers
from pyrdv.engine.speculation.policies cimport policy_choose, policy_free
from pyrdv.engine.state cimport (
    ANY_PEER, ANY_TAG_, FABRICS_MAX, OPS_PER_SLAB, OP_CANCELLING, OP_COMPLETE, OP_ENDED, OP_FREE,
    OP_LACKING, OP_LANDING, OP_LANELESS, OP_PEER_LOST, OP_PIPING, OP_POSTED, OP_QUEUED, OP_READING,
    OP_READY, OP_SEND, OP_WAITING, OP_WRITING, PEER_NEW, PEER_SELF, PEER_UP, PROMISE_NONE, call_t,
    engine_t, op_t, peer_t, ticks_scale)
from pyrdv.engine.step cimport maintain, turn
from pyrdv.engine.trace cimport trace_close, trace_end, trace_start
from pyrdv.fabrics.contract cimport EVENT_CLOSED, EVENT_LOST
from pyrdv.memory.mappings cimport cache_idle
from pyrdv.memory.registration cimport Registrations
from pyrdv.progress.contract cimport progress_stop

from weakref import WeakKeyDictionary


cdef extern from "fork.h" nogil:
    int fork_watch()
    const unsigned int *fork_counter()

cdef extern from "order.h" nogil:
    uint8_t glance8(const uint8_t *where)
    uint32_t glance32(const uint32_t *where)

cdef extern from "ticks.h" nogil:
    void ticks_begin(ticks_scale *scale)

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLIN
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)


cdef inline op_t *op_at(const engine_t *e, uint32_t i) noexcept nogil:
    """Operation `i` of the pool; under the lock, for the pool may grow."""
    return &e.op_slabs[i // OPS_PER_SLAB][i % OPS_PER_SLAB]


cdef void op_copy(engine_t *e, uint32_t i, op_t *out) noexcept nogil:
    engine_lock(&e.lock)
    out[0] = op_at(e, i)[0]
    engine_unlock(&e.lock)


cdef enum:
    ORPHAN_BYTES = 1 << 24      # of buffers without a request that may have ended unnoticed


if fork_watch():
    raise MemoryError("pthread_atfork")


@cython.no_gc_clear     # requests that end with it still hand it their operations
cdef class Engine:
    """Messages of one rank.

    Parameters
    ----------
    rank, size : int
        World rank of this process and number of ranks.
    fabrics : sequence of Fabric
        The first one reaches every peer that `routes` does not name.
    eager_max : int
        Largest payload in bytes sent eagerly; 0 takes the fabric's figure.
    unexpected_max : int
        Bytes of unexpected eager data to hold at most, for all peers (at least 64 KiB each).
    spin_ns : int
        How long a waiting call polls before it yields, in ns.
    yield_ns : int
        How long it yields the processor between polls before it sleeps, in ns.
    routes : dict of int to int, optional
        Index into `fabrics` per peer.
    speculation : str
        ``indexed`` or ``classic``: large receives offer their buffers, and are paired with
        sends by that rule; ``off``: they wait for the sender.  The same on all ranks.
    adapt : int
        Per cent of an envelope's offers below which ``classic`` stops them; 0: they never are.
    windows : tuple of int
        Offers that judge an envelope, receives per trial of a stopped one, used trials to resume.
    initial_turn : bool
        Whether large sends and receives first look whether their peer's packet has come.
    registrations : Registrations, optional
        What may stay registered between messages; used by no other engine.
    figures : sequence of dict or None
        What is known of the costs of each fabric, as ``pyrdv tune`` measures them.
    look_ns : int
        How often calls that do not wait look whether the peers live, in ns; 0: by turns only.
    trace : int
        Descriptor of a file of `traced.record`, for its events; closed by the engine.  -1: none.
    trace_most : int
        Bytes that this file may have.
    debug : bool
        Assert rules at run time, and make steps of calls by themselves, as a signal would.
    **pipeline
        Those of `pyrdv.engine.parameters.DEFAULTS`.

    Raises
    ------
    ValueError
        If ranks and fabrics do not fit together, or there is no such speculation or protocol.
    MemoryError
    """

    def __cinit__(self, int rank, int size, fabrics, uint64_t eager_max=0,
                  uint64_t unexpected_max=64 << 20, uint64_t spin_ns=20000,
                  uint64_t yield_ns=50000, routes=None, speculation="indexed", uint32_t adapt=80,
                  windows=(8, 16, 2), bint initial_turn=True, Registrations registrations=None,
                  figures=(), uint64_t look_ns=0, int trace=-1, uint64_t trace_most=0,
                  bint debug=False, **pipeline):
        cdef engine_t *e
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} is not in 0..{size - 1}")
        self.fabrics = tuple(fabrics)
        if not self.fabrics and size > 1 or len(self.fabrics) > FABRICS_MAX:
            raise ValueError(f"{len(self.fabrics)} fabrics for {size} ranks")
        e = self.c = <engine_t *> PyMem_Calloc(1, sizeof(engine_t))
        if e == NULL:
            raise MemoryError
        e.local_fd = e.wait_fd = -1
        e.rank = rank
        e.size = size
        e.peers_left = size - 1
        e.eager_max = eager_max
        policy_choose(e, speculation, adapt, windows)
        e.initial_turn = initial_turn
        e.spin_ns = spin_ns
        e.yield_ns = yield_ns
        ticks_begin(&e.ticks)
        look_every(e, look_ns)
        e.peers = <peer_t *> PyMem_Calloc(size, sizeof(peer_t))
        trace_start(e, trace, trace_most)
        e.debug = debug
        add_pools(e)
        add_fabrics(e, self.fabrics, routes or {})
        set_allowance(e, unexpected_max)
        self.registrations = Registrations() if registrations is None else registrations
        cache_open(e, self.registrations.c, self.registrations.everywhere)
        parameters_set(e, pipeline)
        figures_configure(e, figures)
        open_wait(e)
        self.orphans = []
        self.pending = {}
        self.ends = {}
        self.groups = {}
        self.matched = set()
        self.forsaken = set()
        self.watchers = WeakKeyDictionary()
        self.reap_at = 32
        self.fork_count = fork_counter()
        self.forks = self.fork_count[0]
        self.creator = getpid()

    def __dealloc__(self):
        if self.c == NULL:
            return
        progress_stop(self.c.progress)
        if self.registrations is not None:
            self.registrations.end()
        if self.c.local_fd >= 0:
            close(self.c.local_fd)
        if self.c.wait_fd >= 0:
            close(self.c.wait_fd)
        lanes_close(self.c)
        ops_free(self.c)
        pools_free(self.c)
        index_free(&self.c.posted)
        index_free(&self.c.unexpected)
        policy_free(self.c)
        trace_close(self.c)
        if self.c.peers != NULL:
            PyMem_Free(self.c.peers[0].own)
        PyMem_Free(self.c.peers)
        PyMem_Free(self.c)

    @property
    def rank(self):
        """World rank of this process."""
        return self.c.rank

    @property
    def size(self):
        """Number of ranks."""
        return self.c.size

    def turn(self):
        """Make one turn of progress; returns how many things happened."""
        cdef call_t *call
        cdef int happened
        with nogil:
            call = call_begin(self.c)
            happened = turn(call)
            if happened == 0:
                happened = maintain(call)
            call_end(call)
        return happened

    def connect(self, int peer):
        """Start the connection to `peer`; True once it is up.  Raises ResourceError."""
        cdef call_t *call
        cdef int status = 0
        call = call_begin(self.c)
        if peer != <int> self.c.rank:
            status = peer_connect(call, &self.c.peers[peer])
        call_end(call)
        if status == OP_LACKING:
            from pyrdv.engine.lacking import error

            raise error(self, peer)
        return status == 0 and glance8(&self.c.peers[peer].state) in (PEER_UP, PEER_SELF)

    def peer_gone(self, int peer, bint orderly, text=""):
        """Note from outside (the launcher) that `peer` posts nothing any more, and why."""
        cdef call_t *call
        cdef peer_t *p = &self.c.peers[peer]
        if p.state == PEER_SELF:
            return
        # What it had handed over comes first (F7), even over a connection not yet accepted.
        while self.turn():
            pass
        call = call_begin(self.c)
        if not p.gone:
            self.ends[peer] = text
            p.gone = EVENT_CLOSED if orderly else EVENT_LOST
            peer_call(self.c, p)
        turn(call)
        call_end(call)

    def cancel_receives(self):
        """Take back all receives that were not matched, for the world ends; returns how many.

        One whose buffer was offered to its peer ends when the peer has answered.  One of a promised
        message stays: its sender sends the message without fail, and waits until it was taken.
        """
        cdef op_t *op
        cdef int count = 0
        cdef uint32_t i
        cdef bint posted
        self.ending = self.unusual = True
        for i in range(self.c.op_slab_count * OPS_PER_SLAB):
            engine_lock(&self.c.lock)
            op = op_at(self.c, i)
            posted = op.state == OP_POSTED and op.promised == PROMISE_NONE
            if posted and not op.flags & OP_CANCELLING:
                op.flags |= OP_ENDED
            engine_unlock(&self.c.lock)
            if posted:
                count += engine_cancel(self.c, op)
        return count

    def handed_over(self):
        """Whether every send was announced and has left this process's memory, and every matched,
        promised or cancelled receive is complete; and nobody who sent an object waits for its
        parts."""
        cdef op_t *op
        cdef uint32_t i
        cdef bint done
        engine_lock(&self.c.lock)
        done = self.c.moving == 0
        for i in range(self.c.op_slab_count * OPS_PER_SLAB):
            op = op_at(self.c, i)
            if op.state in (OP_QUEUED, OP_READY, OP_READING, OP_LANDING, OP_WRITING,
                            OP_LANELESS, OP_PIPING) \
                    or op.state == OP_POSTED and (op.flags & OP_CANCELLING
                                                  or op.promised != PROMISE_NONE):
                done = False
        engine_unlock(&self.c.lock)
        return done and not self.forsaken

    def finish(self):
        """Send FINISH to every peer that a packet went to, or came from; True once it is done."""
        cdef call_t *call = call_begin(self.c)
        cdef uint32_t i
        cdef bint done = True
        for i in range(self.c.size):
            done &= finish_tell(call, &self.c.peers[i])
        call_end(call)
        return done

    def unreceived(self):
        """Sends that no receive took yet: list of (peer, tag, bytes)."""
        cdef op_t seen
        cdef const op_t *op = &seen
        cdef uint32_t i
        found = []
        for i in range(self.c.op_slab_count * OPS_PER_SLAB):
            op_copy(self.c, i, &seen)
            if op.state == OP_WAITING \
                    or op.kind == OP_SEND and op.state in (OP_LANELESS, OP_PIPING):
                found.append((op.peer, op.tag, op.length))
        return found

    def never_received(self):
        """Sends that ended because their peer did, and nobody asked: (peer, tag, bytes)."""
        cdef op_t seen
        cdef const op_t *op = &seen
        cdef uint32_t i
        found = []
        for i in range(self.c.op_slab_count * OPS_PER_SLAB):
            op_copy(self.c, i, &seen)
            if op.state == OP_COMPLETE and op.kind == OP_SEND and op.error == OP_PEER_LOST:
                found.append((op.peer, op.tag, op.length))
        return found

    def uses(self, uint32_t first, uint32_t count):
        """Whether anything could still match in contexts `first` .. `first` + `count` - 1.

        That is a receive without its message, a send that was not received, or a message that
        nobody asked for.
        """
        cdef envelope_t envelope
        cdef op_t *op
        cdef uint32_t i
        cdef bint found = False
        for i in range(first, first + count):
            if engine_probe(self.c, ANY_PEER, i, ANY_TAG_, &envelope, NULL):
                return True
        engine_lock(&self.c.lock)
        for i in range(self.c.op_slab_count * OPS_PER_SLAB):
            op = op_at(self.c, i)
            if op.state not in (OP_FREE, OP_COMPLETE) and first <= op.context < first + count:
                found = True
        engine_unlock(&self.c.lock)
        return found

    def disconnect(self):
        """Close every connection in good order, whoever made it."""
        cdef uint32_t i
        engine_lock(&self.c.lock)
        for i in range(self.c.size):
            if glance8(&self.c.peers[i].state) in (PEER_NEW, PEER_UP):
                self.c.peers[i].fabric.ops.disconnect(self.c.peers[i].fabric, i)
        engine_unlock(&self.c.lock)

    def peer_states(self):
        """State of each peer: 'new', 'up', 'closed', 'lost', 'self' or 'deaf'."""
        names = ("new", "up", "closed", "lost", "self", "deaf")
        return [names[glance8(&self.c.peers[i].state)] for i in range(<int> self.c.size)]

    def events(self):
        """What happened last; a list of `pyrdv.recorded.Event`, the oldest first."""
        from pyrdv.engine.traced import events

        return events(self)

    def note_lines(self, bint wanted):
        """Whether each operation remembers the line of the program that posts it, from now on."""
        self.lines, self.line_numbers = [""] if wanted else None, {}
        self.c.trace.lined = self.unusual = wanted

    def counters(self):
        """What was counted since the start, and what is held now, as a dict."""
        cdef counts_t seen
        engine_counts(self.c, own_process(self), &seen)
        return {**seen.counted, **seen.held, **self.registrations.counters()}

    def watch(self, int fd, notice):
        """Have waits wake up when `fd` is readable, and call `notice()` now and then."""
        cdef epoll_event event
        memset(&event, 0, sizeof(event))
        event.events = EPOLLIN
        if epoll_ctl(self.c.wait_fd, EPOLL_CTL_ADD, fd, &event):
            raise OSError(f"cannot watch descriptor {fd}")
        self.notice = notice

    def unwatch(self, int fd):
        """Undo `watch`."""
        self.notice = None
        epoll_ctl(self.c.wait_fd, EPOLL_CTL_DEL, fd, NULL)

    @property
    def epoch(self):
        """Changes whenever something happened that a waiter may care for."""
        return glance32(&self.c.epoch)

    def reap(self):
        """Release orphaned operations that are complete; returns those still under way."""
        cdef Orphan orphan
        for waiting in list(self.forsaken):
            waiting.help()
        self.orphans[:] = [orphan for orphan in self.orphans if not orphan.settle()]
        return self.orphans

    def fork(self):
        """Before a fork: give back what is registered and not in use.

        The child would get copies of registered pages, or none at all.
        """
        if not self.closed and own_process(self):
            engine_lock(&self.c.lock)
            cache_idle(self.c.cache)
            engine_unlock(&self.c.lock)

    def forked(self):
        """In a forked child: let go of the fabrics, whose connections are the parent's."""
        # Another thread of the parent may have held the lock at the fork; nothing here needs it.
        self.registrations.abandon()
        self.c.fabric_count = 0
        for fabric in self.fabrics:
            fabric.close()

    def close(self):
        """Close the fabrics.  Operations still under way are abandoned; who waits is told."""
        if not self.closed:
            self.ending = self.unusual = self.closed = True
            progress_stop(self.c.progress)
            # Other threads may be in a wait.
            engine_lock(&self.c.lock)
            trace_end(self.c)
            peers_abandon(self.c)
            call_sleepers(self.c)
            engine_unlock(&self.c.lock)
            self.matched.clear()
            self.forsaken.clear()
            self.registrations.end()
            for fabric in self.fabrics:
                fabric.close()


cdef class Orphan:
    """An operation that outlived its request, and what its buffer needs to stay alive."""

    cdef bint settle(self):
        if self.op.generation != self.generation:
            return True
        if self.op.state != OP_COMPLETE:
            return False
        engine_release(self.engine.c, self.op)
        return True

    @property
    def peer(self):
        """World rank of the other side."""
        return self.op.peer

    @property
    def tag(self):
        """Tag of the message."""
        return self.op.tag

    @property
    def nbytes(self):
        """Length of the message or of the receive's room, bytes."""
        return self.op.length

    @property
    def failed(self):
        """Whether it ended with an error."""
        return self.op.state == OP_COMPLETE and self.op.error != 0

    def cancel(self):
        """Take it back if it was not matched (receive) or announced (send)."""
        return engine_cancel(self.engine.c, self.op)


cdef int adopt(Engine engine, op_t *op, object keeper) except -1:
    cdef Orphan orphan = Orphan.__new__(Orphan)
    orphan.engine = engine
    orphan.op = op
    orphan.generation = op.generation
    orphan.keeper = keeper
    engine.adopted += op.length
    if len(engine.orphans) >= engine.reap_at or engine.adopted > ORPHAN_BYTES:
        engine.adopted = 0
        engine.reap_at = 2 * len(engine.orphans) + 32   # `reap` may adopt
        engine.reap()
        engine.reap_at = 2 * len(engine.orphans) + 32
    engine.orphans.append(orphan)
    return 0
