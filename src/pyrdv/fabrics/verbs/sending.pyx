# cython: language_level=3
"""Posting: engine packets, transfers, control packets (rules V1-V10, L2 in state.pxd).

A chain becomes an array of verbs work requests and one call of ibv_post_send
(V10).  A SEND is copied into the request itself where it is small enough
(inline), else into a registered send slot.  A small one goes by RDMA write
into the peer's ring when the peer polls it and has a free slot, and by SEND
otherwise.  Nothing is counted before the device took the chain, so that a
chain that does not fit leaves no trace (F2).

Costs per small message: one copy, one doorbell (a system call on rxe and siw),
one completion per SIGNAL_EVERY messages.
"""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pyrdv.fabrics.contract cimport (
    FABRIC_AGAIN, FABRIC_INVALID, FABRIC_LOST, FABRIC_OK, HEADER_MAX, WR_FENCE, WR_READ,
    WR_SEND, WR_SIGNALED, WR_WRITE, fabric_t, work_request)
from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
    IBV_WR_SEND, ibv_post_send, ibv_send_wr, ibv_sge, verbs_set_remote)
from pyrdv.fabrics.verbs.memory cimport memory_lkey
from pyrdv.fabrics.verbs.state cimport (
    CHAIN_MAX, CONTROL_SLOTS, FAIL_NONE, FAIL_POST, INLINE_CHAIN, KIND_ASLEEP, KIND_BYE,
    KIND_CREDIT, KIND_DATA, KIND_GRANT, KIND_SLEEP, LINK_ACCEPTED, LINK_DOWN, LINK_UP,
    OWE_ASLEEP, OWE_BYE, OWE_CREDIT, OWE_GRANT, OWE_PROBE, OWE_SLEEP, PROBE_SINK, PROTOCOL,
    RING_SLOT, RING_SLOTS, RING_TAIL, SCRATCH, SEND_SLOTS, SIGNAL_EVERY, SLOT, SQ_DEPTH,
    SQ_PROBE, SQ_READ, SQ_RESERVE, SQ_RING, SQ_SEND, SQ_WRITE, VERBS_HEADER, link_t,
    packet_head_t, ring_tail_t, sq_entry_t, verbs_t)


cdef extern from "crc32c.h" nogil:
    uint32_t crc32c(uint32_t crc, const void *data, size_t length)
    uint32_t crc32c_portable(uint32_t crc, const uint8_t *data, size_t length)

cdef extern from "<unistd.h>" nogil:
    ssize_t write(int fd, const void *data, size_t length)


cdef enum:
    SLOT_RESERVE = 4            # send slots that data leaves to control packets

# What a chain changes, so that one that was not taken can be undone (F2).
cdef struct before_t:
    uint32_t sq_head
    uint32_t slot_head
    uint32_t unsignaled
    uint32_t reads
    uint32_t writes
    uint32_t sent
    uint32_t ring_sent
    uint32_t sequence
    uint32_t freed_told
    uint32_t ring_freed_told


def checksum(bytes data not None, bint portable=False):
    """CRC32C as in the tail of a ring slot; `portable` without the processor's instruction."""
    if portable:
        return crc32c_portable(0, <const uint8_t *> data, len(data))
    return crc32c(0, <const char *> data, len(data))


cdef void remember(const link_t *link, before_t *b) noexcept nogil:
    b.sq_head = link.sq_head
    b.slot_head = link.slot_head
    b.unsignaled = link.unsignaled
    b.reads = link.reads
    b.writes = link.writes
    b.sent = link.sent
    b.ring_sent = link.ring_sent
    b.sequence = link.sequence
    b.freed_told = link.freed_told
    b.ring_freed_told = link.ring_freed_told


cdef void restore(link_t *link, const before_t *b) noexcept nogil:
    link.sq_head = b.sq_head
    link.slot_head = b.slot_head
    link.unsignaled = b.unsignaled
    link.reads = b.reads
    link.writes = b.writes
    link.sent = b.sent
    link.ring_sent = b.ring_sent
    link.sequence = b.sequence
    link.freed_told = b.freed_told
    link.ring_freed_told = b.ring_freed_told


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


cdef inline sq_entry_t *entry_next(link_t *link, int kind, uint64_t ident) noexcept nogil:
    """The record of the next work request; its wr_id is ``sq_head`` before the call."""
    cdef sq_entry_t *entry = &link.sq[link.sq_head % SQ_DEPTH]
    entry.id = ident
    entry.kind = <uint8_t> kind
    entry.slots = 0
    entry.signaled = 0
    entry.status = 0
    link.sq_head += 1
    return entry


cdef inline uint64_t wr_name(const link_t *link) noexcept nogil:
    return <uint64_t> link.tag << 32 | (link.sq_head & 0x7FFFFFFF)


cdef char *place(verbs_t *f, link_t *link, int i, uint32_t total) noexcept nogil:
    """Memory for a copy of `total` bytes, described in the i-th request; NULL: no slot."""
    cdef ibv_send_wr *wr = &f.wr[i]
    cdef ibv_sge *sge = &f.sge[i]
    cdef char *where
    wr.wr_id = wr_name(link)
    wr.sg_list = sge
    wr.num_sge = 1
    wr.send_flags = 0
    sge.length = total
    if total <= link.inline_max and total <= SCRATCH and i < INLINE_CHAIN:
        where = f.scratch + i * SCRATCH
        wr.send_flags = IBV_SEND_INLINE
        sge.lkey = 0
    else:
        if link.slot_head - link.slot_done >= SEND_SLOTS:
            return NULL
        where = link.memory + <size_t> (
            link.recv_slots + CONTROL_SLOTS + link.slot_head % SEND_SLOTS) * SLOT
        sge.lkey = link.memory_mr.lkey
    sge.addr = <uint64_t> where
    return where


cdef void placed(verbs_t *f, link_t *link, int i, int kind) noexcept nogil:
    """Count the copied request `i`; every SIGNAL_EVERY-th asks for a completion (V6)."""
    cdef sq_entry_t *entry = entry_next(link, kind, 0)
    if not f.wr[i].send_flags & IBV_SEND_INLINE:
        entry.slots = 1
        link.slot_head += 1
    link.unsignaled += 1
    if link.unsignaled >= SIGNAL_EVERY:
        f.wr[i].send_flags |= IBV_SEND_SIGNALED
        link.unsignaled = 0


cdef void head_fill(link_t *link, packet_head_t *head, int kind, uint32_t sequence) noexcept nogil:
    head.sequence = sequence
    head.freed = link.freed
    head.ring_freed = link.ring_freed
    head.kind = <uint8_t> kind
    head.version = PROTOCOL
    head.reserved = 0
    link.freed_told = link.freed
    link.ring_freed_told = link.ring_freed


cdef bint put_send(verbs_t *f, link_t *link, int i, const work_request *r) noexcept nogil:
    """A data packet by SEND; False: no credit or no slot (V3)."""
    cdef packet_head_t head
    cdef char *where
    if link.sent - link.peer_freed >= link.offer.recv_slots:
        return False
    if link.slot_head - link.slot_done >= SEND_SLOTS - SLOT_RESERVE:
        return False
    where = place(f, link, i, VERBS_HEADER + r.header_length + <uint32_t> r.length)
    if where == NULL:
        return False
    head_fill(link, &head, KIND_DATA, link.sequence + 1)
    memcpy(where, &head, VERBS_HEADER)
    memcpy(where + VERBS_HEADER, r.header, r.header_length)
    if r.length:
        memcpy(where + VERBS_HEADER + r.header_length, r.local, r.length)
    f.wr[i].opcode = IBV_WR_SEND
    if r.flags & WR_FENCE:
        f.wr[i].send_flags |= IBV_SEND_FENCE
    placed(f, link, i, SQ_SEND)
    link.sequence += 1
    link.sent += 1
    return True


cdef inline bint ring_fits(const link_t *link, const work_request *r) noexcept nogil:
    return (link.ring_open and not r.flags & WR_FENCE
            and r.header_length + r.length <= RING_SLOT - RING_TAIL)


cdef bint put_ring(verbs_t *f, link_t *link, int i, const work_request *r) noexcept nogil:
    """A small data packet by RDMA write into the peer's ring; False: no free slot."""
    cdef ring_tail_t tail
    cdef uint32_t length = r.header_length + <uint32_t> r.length
    cdef uint32_t padded = (length + 7) & ~<uint32_t> 7
    cdef char *where
    if link.ring_sent - link.ring_peer_freed >= RING_SLOTS:
        return False
    if link.slot_head - link.slot_done >= SEND_SLOTS - SLOT_RESERVE:
        return False
    where = place(f, link, i, padded + RING_TAIL)
    if where == NULL:
        return False
    memcpy(where, r.header, r.header_length)
    if r.length:
        memcpy(where + r.header_length, r.local, r.length)
    memset(where + length, 0, padded - length)
    tail.freed = link.freed_told = link.freed
    tail.ring_freed = link.ring_freed_told = link.ring_freed
    tail.length = length
    tail.reserved = 0
    tail.crc = 0
    tail.sequence = link.sequence + 1
    memcpy(where + padded, &tail, RING_TAIL)
    if link.offer.ring_crc:
        tail.crc = crc32c(0, where, padded + RING_TAIL)
        memcpy(where + padded, &tail, RING_TAIL)
    f.wr[i].opcode = IBV_WR_RDMA_WRITE
    verbs_set_remote(&f.wr[i],
                     link.offer.ring + <uint64_t> (link.ring_sent % RING_SLOTS + 1) * RING_SLOT
                     - RING_TAIL - padded, link.offer.ring_key)
    placed(f, link, i, SQ_RING)
    link.sequence += 1
    link.ring_sent += 1
    return True


cdef int put_transfer(verbs_t *f, link_t *link, int i, const work_request *r) noexcept nogil:
    """A READ or WRITE; AGAIN: too many READs are out (V4)."""
    cdef sq_entry_t *entry
    cdef ibv_send_wr *wr = &f.wr[i]
    cdef ibv_sge *sge = &f.sge[i]
    cdef bint reading = r.opcode == WR_READ
    if not memory_lkey(f, r.local_key, r.local, r.length, &sge.lkey):
        return FABRIC_INVALID
    # One READ is left to the probe, if the device grants more than one.
    if reading and link.reads >= (link.reads_max - 1 if link.reads_max > 1 else 1):
        return FABRIC_AGAIN
    wr.wr_id = wr_name(link)
    wr.sg_list = sge
    wr.num_sge = 1
    wr.send_flags = IBV_SEND_SIGNALED
    wr.opcode = IBV_WR_RDMA_READ if reading else IBV_WR_RDMA_WRITE
    if r.flags & WR_FENCE:
        wr.send_flags |= IBV_SEND_FENCE
    sge.addr = <uint64_t> r.local
    sge.length = <uint32_t> r.length
    verbs_set_remote(wr, r.remote, <uint32_t> (r.remote_key >> 32))
    entry = entry_next(link, SQ_READ if reading else SQ_WRITE, r.id)
    entry.signaled = (r.flags & WR_SIGNALED) != 0
    if reading:
        link.reads += 1
    else:
        link.writes += 1
    link.unsignaled = 0
    return FABRIC_OK


cdef bint acceptable(const verbs_t *f, const work_request *r) noexcept nogil:
    if r.opcode == WR_SEND:
        return (r.header_length <= HEADER_MAX
                and r.length <= f.base.packet_max - r.header_length)
    return ((r.opcode == WR_READ or r.opcode == WR_WRITE)
            and 0 < r.length <= f.base.transfer_max)


cdef int put(verbs_t *f, link_t *link, int i, const work_request *r) noexcept nogil:
    if r.opcode != WR_SEND:
        return put_transfer(f, link, i, r)
    if ring_fits(link, r):
        if put_ring(f, link, i, r):
            f.counters.ring_packets += 1
            return FABRIC_OK
        f.counters.overflows += 1
    return FABRIC_OK if put_send(f, link, i, r) else FABRIC_AGAIN


cdef int ring_doorbell(verbs_t *f, link_t *link, int count, const before_t *b) noexcept nogil:
    """Hand the first `count` requests to the device as one chain (V10)."""
    cdef ibv_send_wr *bad = NULL
    cdef int i
    cdef int status
    for i in range(count - 1):
        f.wr[i].next = &f.wr[i + 1]
    f.wr[count - 1].next = NULL
    f.counters.posts += 1
    status = ibv_post_send(link.id.qp, f.wr, &bad)
    if status == 0:
        return FABRIC_OK
    if status < 0:
        status = -status        # some providers (V7)
    if bad == NULL or bad == &f.wr[0]:
        restore(link, b)
        if status == ENOMEM:
            return FABRIC_AGAIN
        link_fail(f, link, FAIL_POST, status)
        return FABRIC_LOST
    # A part was taken: the chain counts as posted and ends with the link (F2, F4).
    link_fail(f, link, FAIL_POST, status)
    return FABRIC_OK


cdef int verbs_post(fabric_t *self, uint32_t peer, const work_request *chain,
                    int count) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef link_t *link
    cdef before_t before
    cdef int i
    cdef int status
    if peer >= self.size or count <= 0 or count > CHAIN_MAX:
        return FABRIC_INVALID
    for i in range(count):
        if not acceptable(f, &chain[i]):
            return FABRIC_INVALID
    if f.peers[peer].ended or f.peers[peer].leaving:
        return FABRIC_LOST
    link = f.peers[peer].link
    if link == NULL:
        return FABRIC_AGAIN
    if link.failure or link.state == LINK_DOWN:
        return FABRIC_LOST
    if link.state != LINK_UP or SQ_DEPTH - (link.sq_head - link.sq_told) < count + SQ_RESERVE:
        return FABRIC_AGAIN
    remember(link, &before)
    for i in range(count):
        status = put(f, link, i, &chain[i])
        if status != FABRIC_OK:
            restore(link, &before)
            return status
    status = ring_doorbell(f, link, count, &before)
    if status == FABRIC_OK:
        f.counters.packets += link.sequence - before.sequence
        f.counters.reads += <uint32_t> (link.reads - before.reads)
        f.counters.writes += <uint32_t> (link.writes - before.writes)
    return status


cdef int control_send(verbs_t *f, link_t *link, int kind, const void *payload,
                      uint32_t length) noexcept nogil:
    cdef packet_head_t head
    cdef before_t before
    cdef char *where
    cdef int status
    if link.failure or link.state == LINK_DOWN or link.state == LINK_ACCEPTED:
        return FABRIC_LOST
    if (SQ_DEPTH - (link.sq_head - link.sq_told) < 2
            or link.sent - link.peer_freed >= link.offer.recv_slots + CONTROL_SLOTS):
        return FABRIC_AGAIN
    remember(link, &before)
    where = place(f, link, 0, VERBS_HEADER + length)
    if where == NULL:
        return FABRIC_AGAIN
    head_fill(link, &head, kind, link.sequence + 1 if kind == KIND_BYE else 0)
    memcpy(where, &head, VERBS_HEADER)
    if length:
        memcpy(where + VERBS_HEADER, payload, length)
    f.wr[0].opcode = IBV_WR_SEND
    placed(f, link, 0, SQ_SEND)
    link.sent += 1
    if kind == KIND_BYE:
        link.sequence += 1
    status = ring_doorbell(f, link, 1, &before)
    if status == FABRIC_OK and kind == KIND_CREDIT:
        f.counters.credits += 1
    return status


cdef int probe_post(verbs_t *f, link_t *link) noexcept nogil:
    """Read the peer's control word: its machine answers, not its program."""
    cdef before_t before
    cdef ibv_send_wr *wr = &f.wr[0]
    if link.reads >= link.reads_max or SQ_DEPTH - (link.sq_head - link.sq_told) < 2:
        return FABRIC_AGAIN
    remember(link, &before)
    wr.wr_id = wr_name(link)
    wr.sg_list = &f.sge[0]
    wr.num_sge = 1
    wr.opcode = IBV_WR_RDMA_READ
    wr.send_flags = IBV_SEND_SIGNALED
    f.sge[0].addr = <uint64_t> (link.shared + PROBE_SINK)
    f.sge[0].length = 8
    f.sge[0].lkey = link.shared_mr.lkey
    verbs_set_remote(wr, link.offer.control, link.offer.control_key)
    entry_next(link, SQ_PROBE, 0)
    link.reads += 1
    link.unsignaled = 0
    f.counters.probes += 1
    return ring_doorbell(f, link, 1, &before)


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
    return probe_post(f, link)


cdef void link_pay(verbs_t *f, link_t *link) noexcept nogil:
    cdef int bit = 1
    cdef int status
    if link.state != LINK_UP or link.failure:
        link.owed = 0
        return
    while bit <= OWE_PROBE:
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
