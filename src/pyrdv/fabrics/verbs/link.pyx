# cython: language_level=3
"""The life of one link: memory, completion queue, queue pair, end.

K1  Memory of a link is two blocks of whole pages, so that a fork, which keeps
    registered pages from the child, takes nothing else along.  The first is
    local: receive slots, then send slots.  The second is open to the peer: the
    control word that it may read, the sink of our ping (V4: the sink may be
    written from outside on iWARP), the ring.
K2  A completion queue never overflows: it has an entry for every work request
    that its links can have outstanding.
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
from libc.errno cimport EAGAIN, EBUSY, EMFILE, ENOBUFS, ENOMEM, ENOSPC, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from pyrdv.fabrics.contract cimport CAP_ORDERED, LACK_ACCEPT, LACK_CONNECT, lack_ends
from pyrdv.fabrics.verbs.completing cimport transfers_lost
from pyrdv.fabrics.verbs.datapath cimport drain
from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QP_STATE,
    IBV_QPS_ERR, IBV_QPT_RC, IBV_WR_RDMA_WRITE, ibv_cq, ibv_device_attr, ibv_post_recv, ibv_qp,
    ibv_qp_attr, ibv_qp_init_attr, ibv_recv_wr, ibv_req_notify_cq)
from pyrdv.fabrics.verbs.posting cimport link_busy, link_forget, link_owe
from pyrdv.fabrics.verbs.state cimport (
    CONTROL_SLOTS, CQ_LINKS, FAIL_SILENT, FAIL_TRANSPORT, HELD, LINK_DOWN, LINK_NEW, LINK_UP,
    OWE_BYE, RING_OFFSET, RING_SLOT, RING_SLOTS, SEND_SLOTS, SLOT, SQ_DEPTH, SQ_READ,
    SQ_WRITE, link_t, sq_entry_t, verbs_t)


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
    FIRST_INLINE = 256      # SCRATCH: more is never asked for


cdef int64_t now_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t> t.tv_sec * 1000000000 + t.tv_nsec


cdef inline int lacking(verbs_t *f, int what, int error) noexcept nogil:
    # Some libraries return no errno; a code of 0 would mean success.
    f.base.error = error if error else ENOMEM
    return what << 16 | (f.base.error & 0xFFFF)


cdef void retag(verbs_t *f, link_t *link, uint32_t index) noexcept nogil:
    f.generations[index] += 1
    link.tag = index << 16 | f.generations[index]


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
    retag(f, link, index)
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
    if f.soft_fence and link.held_memory == NULL:
        link.held_memory = <char *> pages(<size_t> HELD * SLOT)
        if link.held_memory == NULL:
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
    return 0


cdef int make_cq(verbs_t *f, uint32_t each) noexcept nogil:
    # One more completion queue, for as many links as the device allows (K2).
    cdef ibv_device_attr attr
    cdef ibv_cq *cq
    cdef uint32_t wanted = f.base.size + 1 if f.base.size < CQ_LINKS else CQ_LINKS
    if f.lib.ibv_query_device(f.context, &attr) == 0 and attr.max_cqe > 0:
        if <uint32_t> attr.max_cqe < each:
            return lacking(f, LACK_CQ, ENOSPC)
        if <uint32_t> attr.max_cqe < each * wanted:
            wanted = <uint32_t> attr.max_cqe // each
    cq = f.lib.ibv_create_cq(f.context, <int> (each * wanted), NULL, f.channel, 0)
    if cq == NULL:
        return lacking(f, LACK_CQ, errno)
    if f.armed:
        ibv_req_notify_cq(cq, 0)
    f.cqs[f.cq_count] = cq
    f.cq_links[f.cq_count] = 0
    f.cq_count += 1
    return 0


cdef int take_cq(verbs_t *f, link_t *link) noexcept nogil:
    cdef uint32_t each = link.recv_slots + CONTROL_SLOTS + SQ_DEPTH
    cdef uint32_t i
    cdef int problem
    for i in range(f.cq_count):
        if (f.cq_links[i] + 1) * each <= <uint32_t> f.cqs[i].cqe:
            link.cq = i
            return 0
    problem = make_cq(f, each)
    link.cq = f.cq_count - 1
    return problem


cdef void describe_qp(const verbs_t *f, const link_t *link, uint32_t size,
                      ibv_qp_init_attr *out) noexcept nogil:
    memset(out, 0, sizeof(ibv_qp_init_attr))
    out.send_cq = f.cqs[link.cq]
    out.recv_cq = f.cqs[link.cq]
    out.qp_type = IBV_QPT_RC
    out.cap.max_send_wr = SQ_DEPTH
    out.cap.max_recv_wr = link.recv_slots + CONTROL_SLOTS
    out.cap.max_send_sge = 1
    out.cap.max_recv_sge = 1
    out.cap.max_inline_data = size


cdef int make_qp(verbs_t *f, link_t *link) noexcept nogil:
    # The inline limit differs between devices and cannot be asked for: try it.
    cdef ibv_qp_init_attr attr
    cdef uint32_t size = FIRST_INLINE
    cdef int problem = 0
    while True:
        describe_qp(f, link, size, &attr)
        if f.lib.rdma_create_qp(link.id, f.pd, &attr) == 0:
            link.inline_max = size
            f.cq_links[link.cq] += 1
            return 0
        problem = errno
        if size == 0 or problem == EAGAIN or problem == EMFILE or problem == EBUSY:
            return lacking(f, LACK_QP, problem)
        size = size >> 1 if size > 64 else 0


cdef void offer_ring(verbs_t *f, link_t *link) noexcept nogil:
    # V8.
    cdef bint promised = (
        f.lib.ibv_query_qp_data_in_order != NULL
        and f.lib.ibv_query_qp_data_in_order(link.id.qp, IBV_WR_RDMA_WRITE, 0) == 1)
    link.ring_crc = not promised
    # All links are of one device, which answers alike for each.
    if promised:
        f.base.capabilities |= CAP_ORDERED
    else:
        f.base.capabilities &= ~<uint32_t> CAP_ORDERED
    link.ring_offered = f.ring_mode == 2 or (f.ring_mode == 1 and promised)


cdef int post_receives(verbs_t *f, link_t *link) noexcept nogil:
    cdef ibv_recv_wr *bad = NULL
    cdef uint32_t count = link.recv_slots + CONTROL_SLOTS
    cdef uint32_t i
    cdef int status
    for i in range(count):
        f.recv_sge[i].addr = <uint64_t> (link.memory + <size_t> i * SLOT)
        f.recv_sge[i].length = SLOT
        f.recv_sge[i].lkey = link.memory_mr.lkey
        f.recv_wr[i].wr_id = <uint64_t> link.tag << 32 | <uint32_t> 1 << 31 | i
        f.recv_wr[i].sg_list = &f.recv_sge[i]
        f.recv_wr[i].num_sge = 1
        f.recv_wr[i].next = &f.recv_wr[i + 1] if i + 1 < count else NULL
    status = ibv_post_recv(link.id.qp, f.recv_wr, &bad)
    if status:
        return lacking(f, LACK_RECEIVES, status if status > 0 else -status)
    return 0


cdef int link_provide(verbs_t *f, link_t *link) noexcept nogil:
    cdef int problem = take_memory(f, link)
    return problem if problem else take_cq(f, link)


cdef int link_rehearse(verbs_t *f, link_t *link) noexcept nogil:
    cdef ibv_qp_init_attr attr
    cdef ibv_qp *trial
    cdef int problem = link_provide(f, link)
    if problem:
        return problem
    describe_qp(f, link, 0, &attr)
    trial = f.lib.ibv_create_qp(f.pd, &attr)
    if trial == NULL:
        return lacking(f, LACK_QP, errno)
    f.lib.ibv_destroy_qp(trial)
    return 0


cdef int link_equip(verbs_t *f, link_t *link) noexcept nogil:
    cdef int problem = link_provide(f, link)
    if problem == 0:
        problem = make_qp(f, link)
    if problem == 0:
        offer_ring(f, link)
        problem = post_receives(f, link)
    return problem


cdef void destroy_qp(verbs_t *f, link_t *link) noexcept nogil:
    if link.id != NULL and link.id.qp != NULL:
        f.lib.rdma_destroy_qp(link.id)
        f.cq_links[link.cq] -= 1


cdef void destroy_id(verbs_t *f, link_t *link) noexcept nogil:
    # Every event that was taken is acknowledged, so this does not wait for us.
    if link.id != NULL:
        f.lib.rdma_destroy_id(link.id)
        link.id = NULL


cdef void link_strip(verbs_t *f, link_t *link) noexcept nogil:
    destroy_qp(f, link)
    destroy_id(f, link)
    retag(f, link, link.tag >> 16)


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


cdef bint transfers_flushed(const link_t *link) noexcept nogil:
    """Whether no transfer of the engine is in the hands of the device any more."""
    cdef uint32_t at = link.sq_done
    cdef const sq_entry_t *entry
    while at != link.sq_head:
        entry = &link.sq[at % SQ_DEPTH]
        if not entry.done and not entry.flushed and (
                entry.kind == SQ_READ or entry.kind == SQ_WRITE):
            return False
        at += 1
    return True


cdef bint may_linger(verbs_t *f, const link_t *link) noexcept nogil:
    """Whether the queue pair, which is in the error state, may be destroyed later (K5)."""
    cdef int64_t limit
    if link.failure != FAIL_SILENT and link.failure != FAIL_TRANSPORT:
        return False
    limit = now_ns() + <int64_t> FLUSH_MS * 1000000
    while not transfers_flushed(link):
        if now_ns() > limit:
            return False
        links_settle(f)
    return True


cdef void link_bury(verbs_t *f, link_t *link) noexcept nogil:
    destroy_qp(f, link)
    destroy_id(f, link)
    deregister(f, link)


cdef void link_down(verbs_t *f, link_t *link) noexcept nogil:
    cdef ibv_qp_attr attr
    if link.state != LINK_UP:
        return
    links_settle(f)
    if link.id != NULL and link.id.qp != NULL:
        # The first tells the peer and lets iWARP end its stream in order, the second
        # holds wherever the first was refused.
        f.lib.rdma_disconnect(link.id)
        memset(&attr, 0, sizeof(attr))
        attr.qp_state = IBV_QPS_ERR
        f.lib.ibv_modify_qp(link.id.qp, &attr, IBV_QP_STATE)
        links_settle(f)
    if may_linger(f, link):
        link.deadline = now_ns() + <int64_t> LINGER_MS * 1000000
    else:
        link_bury(f, link)
    transfers_lost(f, link)
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
    cdef uint32_t index = link.tag >> 16
    link_bury(f, link)
    link_forget(f, link)
    if f.peers[link.peer].link == link:
        f.peers[link.peer].link = NULL
        # What it lacked is lacked no more, for nobody wants it; the next one will see.
        lack_ends(&f.base, link.peer, LACK_CONNECT | LACK_ACCEPT)
    f.links[index] = NULL
    unpages(link.memory, memory_size(link))
    unpages(link.shared, link.shared_size)
    unpages(link.held_memory, <size_t> HELD * SLOT)
    free(link)
