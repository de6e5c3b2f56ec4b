# cython: language_level=3
"""The life of one link: memory, receives, queue pair, end.

K1  Memory of a link is two blocks of whole pages, so that a fork, which keeps
    registered pages from the child, takes nothing else along.  The first is
    local: receive slots, then send slots.  The second is open to the peer: the
    control word that it may read, the sink of our ping (V4: the sink may be
    written from outside on iWARP), the ring.
K2  A completion queue never overflows: it has an entry for every work request
    that its queue pairs can have outstanding.
K3  Whatever an attempt to connect made, it is given back or used by the next.
    A new queue pair of the same link gets a new tag, so that completions of
    the former one are nobody's (L4).
K4  Receives are posted before the peer can know of the queue pair.
K5  Destroying the queue pair of a peer that does not answer can take seconds:
    a soft device waits for its packets that wait for the peer's hardware
    address.  F4 needs less: a queue pair in the error state flushes what was
    posted, and from then on it touches memory of the link only; what the peer
    was allowed to reach ends with its registration.  So it is destroyed later
    (LINGER_MS), with the link, and at once only where the flush of a transfer
    does not come (FLUSH_MS).
"""
from libc.errno cimport ENOBUFS, ENOMEM, errno
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free

from pyrdv.fabrics.contract cimport CAP_ORDERED, LACK_ACCEPT, LACK_CONNECT, lack_ends
from pyrdv.fabrics.verbs.completing cimport transfers_lost
from pyrdv.fabrics.verbs.datapath cimport drain, receives_post
from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE)
from pyrdv.fabrics.verbs.posting cimport link_busy, link_forget, link_owe
from pyrdv.fabrics.verbs.queue_pair cimport (
    lacking, qp_bury, qp_make, qp_provide, qp_rehearse, qp_stop, qp_tag, transfers_flushed)
from pyrdv.fabrics.verbs.state cimport (
    CONTROL_SLOTS, FAIL_SILENT, FAIL_TRANSPORT, HELD, LACK_MEMORY, LACK_RECEIVES, LACK_REGISTERED,
    LINK_DOWN, LINK_NEW, LINK_UP, OWE_BYE, RING_OFFSET, RING_SLOT, RING_SLOTS, SEND_SLOTS, SLOT,
    link_t, verbs_t)


cdef extern from "<sys/mman.h>" nogil:
    int PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS
    void *MAP_FAILED
    void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
    int munmap(void *address, size_t length)

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec *out)


cdef enum:
    LINGER_MS = 4000        # the kernel gives an address up after 3 s
    FLUSH_MS = 50           # a soft device takes microseconds
    SETTLE_ROUNDS = 1024    # of drain, each of a bounded number of completions


cdef int64_t now_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t> t.tv_sec * 1000000000 + t.tv_nsec


cdef link_t *link_new(verbs_t *f, uint32_t peer) noexcept nogil:
    cdef link_t *link
    cdef uint32_t index
    for index in range(f.link_room):
        if f.links[index] == NULL:
            break
    else:
        f.base.error = ENOBUFS
        return NULL
    link = <link_t *> calloc(1, sizeof(link_t))
    if link == NULL:
        f.base.error = ENOMEM
        return NULL
    link.peer = peer
    link.iwarp = f.iwarp
    link.recv_slots = f.recv_slots
    link.state = LINK_NEW
    link.index = index
    link.qp.link = link
    qp_tag(f, &link.qp, index)
    f.links[index] = link
    return link


cdef void *pages(size_t size) noexcept nogil:
    """Whole pages of zeros that nobody has touched: the device pins them faster than we would."""
    cdef void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    return NULL if memory == MAP_FAILED else memory


cdef void unpages(void *memory, size_t size) noexcept nogil:
    if memory != NULL:
        munmap(memory, size)


cdef inline size_t memory_size(const link_t *link) noexcept nogil:
    return <size_t> (link.recv_slots + CONTROL_SLOTS + SEND_SLOTS) * SLOT


cdef int take_memory(verbs_t *f, link_t *link) noexcept nogil:
    # K1.
    cdef size_t size = memory_size(link)
    link.shared_size = RING_OFFSET + RING_SLOTS * RING_SLOT
    if link.memory == NULL:
        link.memory = <char *> pages(size)
    if link.shared == NULL:
        link.shared = <char *> pages(link.shared_size)
    if f.soft_fence and link.qp.held_memory == NULL:
        link.qp.held_memory = <char *> pages(<size_t> HELD * SLOT)
        if link.qp.held_memory == NULL:
            return lacking(f, LACK_MEMORY, ENOMEM)
    if link.memory == NULL or link.shared == NULL:
        return lacking(f, LACK_MEMORY, ENOMEM)
    if link.memory_mr == NULL:
        link.memory_mr = f.lib.ibv_reg_mr(f.pd, link.memory, size, IBV_ACCESS_LOCAL_WRITE)
        if link.memory_mr == NULL:
            return lacking(f, LACK_REGISTERED, errno)
    if link.shared_mr == NULL:
        link.shared_mr = f.lib.ibv_reg_mr(
            f.pd, link.shared, link.shared_size,
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
        if link.shared_mr == NULL:
            return lacking(f, LACK_REGISTERED, errno)
    link.qp.slots = link.memory + <size_t> (link.recv_slots + CONTROL_SLOTS) * SLOT
    link.qp.slots_key = link.memory_mr.lkey
    return 0


cdef void offer_ring(verbs_t *f, link_t *link) noexcept nogil:
    # V8.
    cdef bint promised = (
        f.lib.ibv_query_qp_data_in_order != NULL
        and f.lib.ibv_query_qp_data_in_order(link.qp.id.qp, IBV_WR_RDMA_WRITE, 0) == 1)
    link.ring_crc = not promised
    # All links are of one device, which answers alike for each.
    if promised:
        f.base.capabilities |= CAP_ORDERED
    else:
        f.base.capabilities &= ~<uint32_t> CAP_ORDERED
    link.ring_offered = f.ring_mode == 2 or (f.ring_mode == 1 and promised)


cdef int post_receives(verbs_t *f, link_t *link) noexcept nogil:
    cdef uint32_t i
    cdef int problem
    link.repost_count = link.recv_slots + CONTROL_SLOTS
    for i in range(link.repost_count):
        link.repost[i] = i
    problem = receives_post(f, &link.qp)
    link.repost_count = 0
    return lacking(f, LACK_RECEIVES, problem) if problem else 0


cdef int link_provide(verbs_t *f, link_t *link) noexcept nogil:
    cdef int problem = take_memory(f, link)
    return problem if problem else qp_provide(f, &link.qp)


cdef int link_rehearse(verbs_t *f, link_t *link) noexcept nogil:
    cdef int problem = link_provide(f, link)
    return problem if problem else qp_rehearse(f, &link.qp)


cdef int link_equip(verbs_t *f, link_t *link) noexcept nogil:
    cdef int problem = link_provide(f, link)
    if problem == 0:
        problem = qp_make(f, &link.qp)
    if problem == 0:
        offer_ring(f, link)
        problem = post_receives(f, link)
    return problem


cdef void link_strip(verbs_t *f, link_t *link) noexcept nogil:
    qp_bury(f, &link.qp)
    qp_tag(f, &link.qp, link.index)


cdef void links_settle(verbs_t *f) noexcept nogil:
    cdef int _i
    for _i in range(SETTLE_ROUNDS):
        if drain(f) == 0:
            return


cdef void link_up(verbs_t *f, link_t *link) noexcept nogil:
    link.state = LINK_UP
    link.was_up = 1
    lack_ends(&f.base, link.peer, LACK_CONNECT | LACK_ACCEPT)
    f.peers[link.peer].said = 0
    link.deadline = 0
    link.pinged_at = 0
    link.heard_at = now_ns()
    f.up += 1
    f.counters.links += 1
    if f.peers[link.peer].leaving:
        link_owe(f, link, OWE_BYE)


cdef bint may_linger(verbs_t *f, const link_t *link) noexcept nogil:
    """Whether the queue pair, which is in the error state, may be destroyed later (K5)."""
    cdef int64_t limit
    if link.failure != FAIL_SILENT and link.failure != FAIL_TRANSPORT:
        return False
    limit = now_ns() + <int64_t> FLUSH_MS * 1000000
    while not transfers_flushed(&link.qp):
        if now_ns() > limit:
            return False
        links_settle(f)
    return True


cdef void link_bury(verbs_t *f, link_t *link) noexcept nogil:
    qp_bury(f, &link.qp)
    deregister(f, link)


cdef void link_down(verbs_t *f, link_t *link) noexcept nogil:
    if link.state != LINK_UP:
        return
    links_settle(f)
    if qp_stop(f, &link.qp):
        links_settle(f)
    if may_linger(f, link):
        link.deadline = now_ns() + <int64_t> LINGER_MS * 1000000
    else:
        link_bury(f, link)
    transfers_lost(f, &link.qp)
    link.state = LINK_DOWN
    link.owed = 0
    f.up -= 1
    link_busy(f, link)


cdef void deregister(verbs_t *f, link_t *link) noexcept nogil:
    if link.memory_mr != NULL:
        f.lib.ibv_dereg_mr(link.memory_mr)
        link.memory_mr = NULL
    if link.shared_mr != NULL:
        f.lib.ibv_dereg_mr(link.shared_mr)
        link.shared_mr = NULL


cdef void link_free(verbs_t *f, link_t *link) noexcept nogil:
    link_bury(f, link)
    link_forget(f, link)
    if f.peers[link.peer].link == link:
        f.peers[link.peer].link = NULL
        # What it lacked is lacked no more, for nobody wants it; the next one will see.
        lack_ends(&f.base, link.peer, LACK_CONNECT | LACK_ACCEPT)
    f.links[link.index] = NULL
    f.tags[link.index].qp = NULL
    unpages(link.memory, memory_size(link))
    unpages(link.shared, link.shared_size)
    unpages(link.qp.held_memory, <size_t> HELD * SLOT)
    free(link)
