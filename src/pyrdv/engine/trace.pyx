# cython: language_level=3
"""The trace: the ring of an engine, its file, and what of it is too long for the header."""
from libc.stddef cimport size_t
from libc.errno cimport EFBIG, EIO, ENOMEM, errno
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport close

from pyrdv.engine.event cimport (
    BLOCK_END, BLOCK_EVENTS, BLOCK_LINE, HEAD, NO_OPERATION, SLOTS, SLOTS_WRITTEN, TRACE_MORE,
    TRACE_NOTHING, TRACE_POST, TRACE_SLEEP, TRACE_WAKE, block_t, event_t, more_t, ring_t)
from pyrdv.engine.state cimport (
    ANY_PEER, OP_POSTED, OP_SEND, OPS_PER_SLAB, engine_t, op_t)


cdef extern from "ticks.h" nogil:
    void ticks_pair(int64_t *ns, uint64_t *ticks)
    bint ticks_are_time()

cdef extern from "<sys/mman.h>" nogil:
    int PROT_READ, PROT_WRITE, MAP_SHARED
    void *MAP_FAILED
    void *mmap(void *where, size_t length, int access, int flags, int fd, int64_t offset)
    int munmap(void *where, size_t length)

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t pwritev(int fd, const iovec *parts, int count, int64_t offset)


cdef enum:
    LINE = 64                   # of the cache

if not sizeof(event_t) * 2 == sizeof(more_t) * 2 == sizeof(ring_t) == LINE:
    raise ImportError("events of the trace do not fill lines of the cache")

from os import strerror


cdef int trace_open(engine_t *e, int fd, uint64_t most) noexcept nogil:
    # From fresh pages, which take memory only once they are used.
    cdef uint64_t slots = SLOTS if fd < 0 else SLOTS_WRITTEN
    cdef uint64_t start
    e.trace.mask = slots - 1
    e.trace.fd = fd
    e.trace.exact = fd >= 0
    e.trace.counter = TIME_COUNTED if ticks_are_time() else TIME_READ
    e.trace.due = <uint64_t> -1
    e.trace.size = HEAD + LINE + slots * sizeof(event_t)
    if fd < 0:
        e.trace.memory = calloc(slots + 4, sizeof(event_t))
        if e.trace.memory == NULL:
            return ENOMEM
        start = (<uint64_t> e.trace.memory + LINE - 1) // LINE * LINE
    else:
        e.trace.memory = mmap(NULL, e.trace.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        if e.trace.memory == MAP_FAILED:
            e.trace.memory = NULL
            return errno
        start = <uint64_t> e.trace.memory + HEAD
        e.trace.due = slots // 2
        e.trace.at = e.trace.size
        e.trace.most = most
    e.trace.ring = <ring_t *> start
    e.trace.slots = <event_t *> (start + LINE)
    trace_pair(e, &e.trace.ring.first_ns, &e.trace.ring.first_ticks)
    e.trace.ring.ns = e.trace.ring.first_ns
    e.trace.ring.ticks = e.trace.ring.first_ticks
    trace_read(e)
    return 0


cdef int trace_start(engine_t *e, int fd, uint64_t most) except -1:
    cdef int status = trace_open(e, fd, most)
    if status:
        raise OSError(status, strerror(status), "events of the engine")
    return 0


cdef void trace_close(engine_t *e) noexcept nogil:
    if e.trace.exact and e.trace.memory != NULL:
        munmap(e.trace.memory, e.trace.size)
        if e.trace.fd >= 0:
            close(e.trace.fd)
    else:
        free(e.trace.memory)
    e.trace.memory = NULL


cdef void trace_pair(const engine_t *e, int64_t *ns, uint64_t *ticks) noexcept nogil:
    ticks_pair(ns, ticks)
    if e.trace.counter != TIME_COUNTED:
        ticks[0] = <uint64_t> ns[0]


# Events ------------------------------------------------------------------------

cdef event_t *begin(engine_t *e, int kind, uint32_t peer, bint more, uint64_t ticks) noexcept nogil:
    """The slot of a new event, whose time, kind and peer are filled; `ended` makes it one."""
    cdef event_t *slot
    if more and e.trace.count & 1:
        e.trace.slots[e.trace.count & e.trace.mask].what = TRACE_NOTHING
        trace_counts(e, e.trace.count + 1)
    slot = &e.trace.slots[e.trace.count & e.trace.mask]
    slot.ticks = ticks
    slot.waited = 0
    slot.peer = peer
    slot.context = 0
    slot.tag = 0
    slot.number = 0
    slot.what = <uint32_t> (kind | TRACE_MORE if more else kind)
    return slot


cdef inline void ended(engine_t *e, bint more) noexcept nogil:
    trace_counts(e, e.trace.count + 1 + more)


cdef void trace_event(engine_t *e, int kind, uint32_t peer) noexcept nogil:
    begin(e, kind, peer, False, trace_read(e))
    ended(e, False)


cdef void trace_message(engine_t *e, int kind, uint32_t peer, uint32_t context, int32_t tag,
                        uint64_t length, uint32_t number, int protocol,
                        int reason) noexcept nogil:
    cdef event_t *slot = begin(e, kind, peer, True, trace_read(e))
    cdef more_t *more = <more_t *> (slot + 1)
    slot.context = context
    slot.tag = tag
    slot.number = number
    slot.what |= <uint32_t> protocol << 16 | <uint32_t> reason << 24
    more.length = length
    more.op = NO_OPERATION
    more.generation = 0
    more.cost = more.instead = 0
    more.error = 0
    more.line = e.trace.line
    ended(e, True)


cdef void tell(engine_t *e, int kind, const op_t *op, uint64_t length, uint32_t number, int error,
               uint64_t ticks) noexcept nogil:
    cdef bint own = op.kind == OP_SEND or kind == TRACE_POST    # the envelope that it was given
    cdef event_t *slot = begin(e, kind, op.peer if own else op.source, True, ticks)
    cdef more_t *more = <more_t *> (slot + 1)
    slot.context = op.context
    slot.tag = op.tag if own else op.source_tag
    slot.number = number
    slot.what |= <uint32_t> op.kind << 8
    if kind != TRACE_POST:
        slot.what |= <uint32_t> op.protocol << 16 | <uint32_t> op.reason << 24
    more.length = length
    more.op = op.index
    more.generation = op.generation
    more.cost = op.cost
    more.instead = op.instead
    more.error = error
    more.line = op.line
    ended(e, True)


cdef void trace_post(engine_t *e, op_t *op) noexcept nogil:
    if not op.told:
        op.told = 1
        if op.posted == 0:
            op.posted = glance64(&e.trace.clock)
        tell(e, TRACE_POST, op, op.length, 0, 0, op.posted)


cdef void trace_op(engine_t *e, int kind, op_t *op, uint64_t length, uint32_t number,
                   int error) noexcept nogil:
    trace_post(e, op)
    tell(e, kind, op, length, number, error, trace_read(e))


cdef void trace_sleep(engine_t *e) noexcept nogil:
    # Slices of one sleep, between which nothing happened, are one.
    cdef uint64_t last = e.trace.count - 1
    if e.trace.fd >= 0:
        trace_pair(e, &e.trace.ring.ns, &e.trace.ring.ticks)
    if e.trace.count > e.trace.ring.written \
            and e.trace.slots[last & e.trace.mask].what == TRACE_WAKE:
        trace_counts(e, last)
    else:
        trace_event(e, TRACE_SLEEP, ANY_PEER)


# The file ----------------------------------------------------------------------

cdef bint put(engine_t *e, int kind, uint64_t first, iovec *parts) noexcept nogil:
    """Append a block; `parts`: three, of which the first becomes its beginning."""
    cdef block_t block
    cdef uint64_t length = parts[1].iov_len + parts[2].iov_len
    cdef ssize_t done
    if e.trace.ring.error:
        return False
    trace_pair(e, &e.trace.ring.ns, &e.trace.ring.ticks)
    block.kind = kind
    block.length = <uint32_t> length
    block.first = first
    block.ticks = e.trace.ring.ticks
    block.ns = e.trace.ring.ns
    parts[0].iov_base = &block
    parts[0].iov_len = sizeof(block)
    if e.trace.at + sizeof(block) + length > e.trace.most:
        e.trace.ring.error = EFBIG
    else:
        done = pwritev(e.trace.fd, parts, 3, <int64_t> e.trace.at)
        if done < 0:
            e.trace.ring.error = errno
        elif <uint64_t> done < sizeof(block) + length:
            e.trace.ring.error = EIO        # the rest would say why: no room, most likely
        else:
            e.trace.at += sizeof(block) + length
    if e.trace.ring.error:
        e.trace.due = <uint64_t> -1
    return e.trace.ring.error == 0


cdef void trace_write(engine_t *e) noexcept nogil:
    # From an even slot up to one, so that no event is cut.
    cdef iovec parts[3]
    cdef uint64_t slots = e.trace.mask + 1
    cdef uint64_t last = e.trace.count & ~<uint64_t> 1
    cdef uint64_t first = max(e.trace.ring.written, last - min(last, slots))
    cdef uint64_t at = first & e.trace.mask
    cdef uint64_t whole = min(last - first, slots - at)
    parts[1].iov_base = &e.trace.slots[at]
    parts[1].iov_len = whole * sizeof(event_t)
    parts[2].iov_base = e.trace.slots
    parts[2].iov_len = (last - first - whole) * sizeof(event_t)
    if put(e, BLOCK_EVENTS, first, parts):
        e.trace.ring.dropped += first - e.trace.ring.written
        publish64(&e.trace.ring.written, last)
        e.trace.due = last + slots // 2


cdef void trace_line(engine_t *e, const char *text, uint32_t length) noexcept nogil:
    cdef iovec parts[3]
    if e.trace.fd < 0:
        return
    parts[1].iov_base = <void *> text
    parts[1].iov_len = length
    parts[2].iov_base = NULL
    parts[2].iov_len = 0
    put(e, BLOCK_LINE, e.trace.count, parts)


cdef void trace_end(engine_t *e) noexcept nogil:
    cdef iovec parts[3]
    cdef uint32_t slab
    cdef int i
    cdef op_t *op
    if e.trace.fd < 0:
        return
    for slab in range(e.op_slab_count):
        for i in range(OPS_PER_SLAB):
            op = &e.op_slabs[slab][i]
            if op.state == OP_POSTED:
                trace_post(e, op)
    if e.trace.count & 1:
        begin(e, TRACE_NOTHING, ANY_PEER, False, 0)
        ended(e, False)
    trace_write(e)
    parts[1].iov_len = parts[2].iov_len = 0
    parts[1].iov_base = parts[2].iov_base = NULL
    put(e, BLOCK_END, e.trace.count, parts)
    e.trace.due = <uint64_t> -1
    close(e.trace.fd)
    e.trace.fd = -1
