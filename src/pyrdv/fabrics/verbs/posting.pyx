# cython: language_level=3
"""Work requests: memory for copies, records, the doorbell; control packets of a link.

Nothing is counted for good before the device took the chain: who builds one
remembers the counts first, and the doorbell restores them if the chain
was refused (F2).
"""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_LOST, FABRIC_OK
from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WR_RDMA_READ, IBV_WR_SEND, ibv_post_send, ibv_send_wr,
    ibv_sge, verbs_set_remote)
from pyrdv.fabrics.verbs.state cimport (
    CONTROL_SLOTS, FAIL_NONE, FAIL_POST, INLINE_CHAIN, KIND_ASLEEP, KIND_BYE, KIND_CREDIT,
    KIND_GRANT, KIND_SLEEP, LINK_ACCEPTED, LINK_DOWN, LINK_UP, OWE_ASLEEP, OWE_BYE, OWE_CREDIT,
    OWE_GRANT, OWE_PING, OWE_SLEEP, PING_SINK, PROTOCOL, RING_SLOTS, SCRATCH, SEND_SLOTS,
    SIGNAL_EVERY, SLOT, SQ_DEPTH, SQ_PING, SQ_SEND, VERBS_HEADER, link_t, packet_head_t,
    qp_t, sq_entry_t, verbs_t)


cdef extern from "<unistd.h>" nogil:
    ssize_t write(int fd, const void *data, size_t length)


cdef enum:
    PAGE = 4096                 # siw sends what is longer, and unsignaled, by reference (V6a)


# Of a queue pair ------------------------------------------------------------

cdef void remember(const qp_t *qp, before_t *b) noexcept nogil:
    cdef const link_t *link = qp.link
    b.sq_head = qp.sq_head
    b.slot_head = qp.slot_head
    b.unsignaled = qp.unsignaled
    b.reads = qp.reads
    b.writes = qp.writes
    b.fences = qp.fences
    b.held_tail = qp.held_tail
    b.sent = link.sent
    b.ring_sent = link.ring_sent
    b.sequence = link.sequence
    b.freed_told = link.freed_told
    b.ring_freed_told = link.ring_freed_told


cdef void restore(qp_t *qp, const before_t *b) noexcept nogil:
    cdef link_t *link = qp.link
    qp.sq_head = b.sq_head
    qp.slot_head = b.slot_head
    qp.unsignaled = b.unsignaled
    qp.reads = b.reads
    qp.writes = b.writes
    qp.fences = b.fences
    qp.held_tail = b.held_tail
    link.sent = b.sent
    link.ring_sent = b.ring_sent
    link.sequence = b.sequence
    link.freed_told = b.freed_told
    link.ring_freed_told = b.ring_freed_told


cdef sq_entry_t *entry_next(qp_t *qp, int kind, uint64_t ident) noexcept nogil:
    """The record of the next work request; its wr_id is ``sq_head`` before the call."""
    cdef sq_entry_t *entry = &qp.sq[qp.sq_head % SQ_DEPTH]
    entry.id = ident
    entry.kind = <uint8_t> kind
    entry.slots = 0
    entry.signaled = 0
    entry.fenced = 0
    entry.done = 0
    entry.flushed = 0
    entry.status = 0
    qp.sq_head += 1
    return entry


cdef uint64_t wr_name(const qp_t *qp) noexcept nogil:
    return <uint64_t> qp.tag << 32 | (qp.sq_head & 0x7FFFFFFF)


cdef char *copy_room(verbs_t *f, qp_t *qp, int i, uint32_t total) noexcept nogil:
    """Memory for a copy of `total` bytes, described in the i-th request; NULL: no slot."""
    cdef ibv_send_wr *wr = &f.wr[i]
    cdef ibv_sge *sge = &f.sge[i]
    cdef char *where
    wr.wr_id = wr_name(qp)
    wr.sg_list = sge
    wr.num_sge = 1
    wr.send_flags = 0
    sge.length = total
    if total <= qp.inline_max and total <= SCRATCH and i < INLINE_CHAIN:
        where = f.scratch + i * SCRATCH
        wr.send_flags = IBV_SEND_INLINE
        sge.lkey = 0
    else:
        if qp.slot_head - qp.slot_done >= SEND_SLOTS:
            return NULL
        where = qp.slots + <size_t> (qp.slot_head % SEND_SLOTS) * SLOT
        sge.lkey = qp.slots_key
    sge.addr = <uint64_t> where
    return where


cdef void copy_count(verbs_t *f, qp_t *qp, int i, int kind) noexcept nogil:
    """Count the copied request `i`; every SIGNAL_EVERY-th asks for a completion (V6, V6a)."""
    cdef sq_entry_t *entry = entry_next(qp, kind, 0)
    if not f.wr[i].send_flags & IBV_SEND_INLINE:
        entry.slots = 1
        qp.slot_head += 1
    qp.unsignaled += 1
    if qp.unsignaled >= SIGNAL_EVERY or f.soft_fence and f.sge[i].length > PAGE:
        f.wr[i].send_flags |= IBV_SEND_SIGNALED
        qp.unsignaled = 0


cdef int ring_doorbell(verbs_t *f, qp_t *qp, int count, const before_t *b) noexcept nogil:
    """Hand the first `count` requests to the device as one chain (V10)."""
    cdef ibv_send_wr *bad = NULL
    cdef int i
    cdef int status
    for i in range(count - 1):
        f.wr[i].next = &f.wr[i + 1]
    f.wr[count - 1].next = NULL
    f.counters.posts += 1
    status = ibv_post_send(qp.id.qp, f.wr, &bad)
    if status == 0:
        return FABRIC_OK
    if status < 0:
        status = -status        # some providers (V7)
    if bad == NULL or bad == &f.wr[0]:
        restore(qp, b)
        if status == ENOMEM:
            return FABRIC_AGAIN
        link_fail(f, qp.link, FAIL_POST, status)
        return FABRIC_LOST
    # A part was taken: the chain counts as posted and ends with the link (F2, F4).
    link_fail(f, qp.link, FAIL_POST, status)
    return FABRIC_OK


# Of a link ------------------------------------------------------------------

cdef void link_busy(verbs_t *f, link_t *link) noexcept nogil:
    if not link.busy:
        link.busy = 1
        f.busy[f.busy_count] = link
        f.busy_count += 1


cdef void link_fail(verbs_t *f, link_t *link, int failure, int status) noexcept nogil:
    cdef uint64_t one = 1
    if link.failure == FAIL_NONE:
        link.failure = <uint8_t> failure
        link.wc_status = status
    f.call_wanted = 1
    f.base.calm = 0
    if f.armed:
        # Someone sleeps: the next call must be his.
        write(f.kick_fd, &one, sizeof(one))


cdef void forget_in(link_t **items, uint32_t *count, link_t *link) noexcept nogil:
    cdef uint32_t i
    for i in range(count[0]):
        if items[i] == link:
            count[0] -= 1
            items[i] = items[count[0]]
            return


cdef void link_forget(verbs_t *f, link_t *link) noexcept nogil:
    forget_in(f.busy, &f.busy_count, link)
    forget_in(f.needy, &f.needy_count, link)
    forget_in(f.granted, &f.granted_count, link)
    link.busy = link.needy = 0


cdef void head_fill(link_t *link, packet_head_t *head, int kind, uint32_t sequence) noexcept nogil:
    head.sequence = sequence
    head.freed = link.freed
    head.ring_freed = link.ring_freed
    head.kind = <uint8_t> kind
    head.version = PROTOCOL
    head.reserved = 0
    link.freed_told = link.freed
    link.ring_freed_told = link.ring_freed


cdef int control_send(verbs_t *f, link_t *link, int kind, const void *payload,
                      uint32_t length) noexcept nogil:
    cdef qp_t *qp = &link.qp
    cdef packet_head_t head
    cdef before_t before
    cdef char *where
    cdef int status
    if link.failure or link.state == LINK_DOWN or link.state == LINK_ACCEPTED:
        return FABRIC_LOST
    if (queue_room(qp) < 2 or slots_used(qp) >= SEND_SLOTS
            or credits_used(link) >= link.offer.recv_slots + CONTROL_SLOTS):
        return FABRIC_AGAIN
    remember(qp, &before)
    where = copy_room(f, qp, 0, VERBS_HEADER + length)
    if where == NULL:
        return FABRIC_AGAIN
    head_fill(link, &head, kind, link.sequence + 1 if kind == KIND_BYE else 0)
    memcpy(where, &head, VERBS_HEADER)
    if length:
        memcpy(where + VERBS_HEADER, payload, length)
    f.wr[0].opcode = IBV_WR_SEND
    copy_count(f, qp, 0, SQ_SEND)
    link.sent += 1
    if kind == KIND_BYE:
        link.sequence += 1
    status = ring_doorbell(f, qp, 1, &before)
    if status == FABRIC_OK and kind == KIND_CREDIT:
        f.counters.credits += 1
    return status


cdef int ping_post(verbs_t *f, link_t *link) noexcept nogil:
    """Read the peer's control word: its machine answers, not its program."""
    cdef qp_t *qp = &link.qp
    cdef before_t before
    cdef ibv_send_wr *wr = &f.wr[0]
    if qp.fences or qp.reads >= qp.reads_max or queue_room(qp) < 2:
        return FABRIC_AGAIN
    remember(qp, &before)
    wr.wr_id = wr_name(qp)
    wr.sg_list = &f.sge[0]
    wr.num_sge = 1
    wr.opcode = IBV_WR_RDMA_READ
    wr.send_flags = IBV_SEND_SIGNALED
    f.sge[0].addr = <uint64_t> (link.shared + PING_SINK)
    f.sge[0].length = 8
    f.sge[0].lkey = link.shared_mr.lkey
    verbs_set_remote(wr, link.offer.control, link.offer.control_key)
    entry_next(qp, SQ_PING, 0)
    qp.reads += 1
    qp.unsignaled = 0
    f.counters.pings += 1
    return ring_doorbell(f, qp, 1, &before)


cdef int pay(verbs_t *f, link_t *link, int bit) noexcept nogil:
    if bit == OWE_CREDIT:
        if link.freed == link.freed_told and link.ring_freed == link.ring_freed_told:
            return FABRIC_OK    # another packet has told it
        return control_send(f, link, KIND_CREDIT, NULL, 0)
    if bit == OWE_GRANT:
        return control_send(f, link, KIND_GRANT, NULL, 0)
    if bit == OWE_SLEEP:
        return control_send(f, link, KIND_SLEEP, NULL, 0)
    if bit == OWE_ASLEEP:
        return control_send(f, link, KIND_ASLEEP, NULL, 0)
    if bit == OWE_BYE:
        return control_send(f, link, KIND_BYE, NULL, 0)
    return ping_post(f, link)


cdef void link_pay(verbs_t *f, link_t *link) noexcept nogil:
    cdef int bit = 1
    cdef int status
    if link.state != LINK_UP or link.failure:
        link.owed = 0
        return
    while bit <= OWE_PING:
        if link.owed & bit:
            status = pay(f, link, bit)
            if status != FABRIC_AGAIN:
                link.owed &= <uint8_t> ~bit
                if bit == OWE_BYE and status == FABRIC_OK:
                    link.bye_sent = 1
        bit <<= 1
    if link.owed and not link.needy:
        link.needy = 1
        f.needy[f.needy_count] = link
        f.needy_count += 1


cdef void link_owe(verbs_t *f, link_t *link, int bits) noexcept nogil:
    link.owed |= <uint8_t> bits
    link_pay(f, link)


cdef void link_credit(verbs_t *f, link_t *link) noexcept nogil:
    if (link.freed - link.freed_told >= link.recv_slots >> 1
            or link.ring_freed - link.ring_freed_told >= RING_SLOTS >> 1):
        link_owe(f, link, OWE_CREDIT)
