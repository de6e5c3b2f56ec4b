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
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pyrdv.fabrics.contract cimport (
    FABRIC_AGAIN, FABRIC_INVALID, FABRIC_LOST, FABRIC_OK, HEADER_MAX, WR_BEHIND, WR_FENCE,
    WR_READ, WR_SEND, WR_SIGNALED, WR_WRITE, fabric_t, work_request)
from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_SEND_FENCE, IBV_SEND_SIGNALED, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND,
    ibv_send_wr, ibv_sge, verbs_set_remote)
from pyrdv.fabrics.verbs.memory cimport memory_lkey
from pyrdv.fabrics.verbs.posting cimport (
    before_t, copy_count, copy_room, credits_used, entry_next, head_fill, held, queue_room,
    remember, restore, ring_doorbell, slots_used, wr_name)
from pyrdv.fabrics.verbs.state cimport (
    CHAIN_MAX, HELD, KIND_DATA, LINK_DOWN, LINK_UP, RING_SLOT, RING_SLOTS, RING_TAIL, SEND_SLOTS,
    SLOT, SQ_DEPTH, SQ_READ, SQ_RESERVE, SQ_RING, SQ_SEND, SQ_WRITE, VERBS_HEADER, held_t, link_t,
    packet_head_t, qp_t, ring_tail_t, sq_entry_t, verbs_t)


cdef extern from "crc32c.h" nogil:
    uint32_t crc32c(uint32_t crc, const void *data, size_t length)
    uint32_t crc32c_portable(uint32_t crc, const uint8_t *data, size_t length)


cdef enum:
    SLOT_RESERVE = 4            # send slots that data leaves to control packets


def checksum(bytes data not None, bint portable=False):
    """CRC32C as in the tail of a ring slot; `portable` without the processor's instruction."""
    if portable:
        return crc32c_portable(0, <const uint8_t *> data, len(data))
    return crc32c(0, <const char *> data, len(data))


cdef inline bint send_room(const qp_t *qp) noexcept nogil:
    """A credit (V3) and a send slot beyond what held SENDs will need (V4a)."""
    return (credits_used(qp.link) < qp.link.offer.recv_slots
            and slots_used(qp) < SEND_SLOTS - SLOT_RESERVE)


cdef bint hold(qp_t *qp, const work_request *r) noexcept nogil:
    """Keep a fenced SEND until what was posted before is complete; False: no room (V4a)."""
    cdef held_t *entry = &qp.held[qp.held_tail % HELD]
    cdef char *where = qp.held_memory + <size_t> (qp.held_tail % HELD) * SLOT
    if held(qp) >= HELD or not send_room(qp):
        return False
    entry.position = qp.sq_head - 1
    entry.length = r.header_length + <uint32_t> r.length
    memcpy(where, r.header, r.header_length)
    if r.length:
        memcpy(where + r.header_length, r.local, r.length)
    qp.held_tail += 1
    return True


cdef void held_post(verbs_t *f, qp_t *qp) noexcept nogil:
    cdef link_t *link = qp.link
    cdef held_t *entry
    cdef packet_head_t head
    cdef before_t before
    cdef char *where
    while qp.held_head != qp.held_tail and not link.failure:
        entry = &qp.held[qp.held_head % HELD]
        if <int32_t> (qp.sq_done - entry.position) <= 0:
            return
        remember(qp, &before)
        where = copy_room(f, qp, 0, VERBS_HEADER + entry.length)
        if where == NULL:
            return
        head_fill(link, &head, KIND_DATA, link.sequence + 1)
        memcpy(where, &head, VERBS_HEADER)
        memcpy(where + VERBS_HEADER, qp.held_memory
               + <size_t> (qp.held_head % HELD) * SLOT, entry.length)
        f.wr[0].opcode = IBV_WR_SEND
        copy_count(f, qp, 0, SQ_SEND)
        link.sequence += 1
        link.sent += 1
        if ring_doorbell(f, qp, 1, &before) != FABRIC_OK:
            return
        qp.held_head += 1
        f.counters.packets += 1


cdef bint put_send(verbs_t *f, qp_t *qp, int i, const work_request *r) noexcept nogil:
    """A data packet by SEND; False: no credit or no slot (V3)."""
    cdef link_t *link = qp.link
    cdef packet_head_t head
    cdef char *where
    if not send_room(qp):
        return False
    where = copy_room(f, qp, i, VERBS_HEADER + r.header_length + <uint32_t> r.length)
    if where == NULL:
        return False
    head_fill(link, &head, KIND_DATA, link.sequence + 1)
    memcpy(where, &head, VERBS_HEADER)
    memcpy(where + VERBS_HEADER, r.header, r.header_length)
    if r.length:
        memcpy(where + VERBS_HEADER + r.header_length, r.local, r.length)
    f.wr[i].opcode = IBV_WR_SEND
    copy_count(f, qp, i, SQ_SEND)
    link.sequence += 1
    link.sent += 1
    return True


cdef void fence(verbs_t *f, qp_t *qp, int i) noexcept nogil:
    """Let request `i`, the last one recorded, wait for the READs before it (V4c)."""
    f.wr[i].send_flags |= IBV_SEND_FENCE
    if f.frail_fence:
        f.wr[i].send_flags |= IBV_SEND_SIGNALED
        qp.sq[(qp.sq_head - 1) % SQ_DEPTH].fenced = 1
        qp.fences += 1
        qp.unsignaled = 0


cdef inline bint ring_fits(const link_t *link, const work_request *r) noexcept nogil:
    return (link.ring_open and not r.flags & (WR_BEHIND | WR_FENCE)
            and r.header_length + r.length <= RING_SLOT - RING_TAIL)


cdef bint put_ring(verbs_t *f, qp_t *qp, int i, const work_request *r) noexcept nogil:
    """A small data packet by RDMA write into the peer's ring; False: no free slot."""
    cdef link_t *link = qp.link
    cdef ring_tail_t tail
    cdef uint32_t length = r.header_length + <uint32_t> r.length
    cdef uint32_t padded = (length + 7) & ~<uint32_t> 7
    cdef char *where
    if link.ring_sent - link.ring_peer_freed >= RING_SLOTS:
        return False
    if slots_used(qp) >= SEND_SLOTS - SLOT_RESERVE:
        return False
    where = copy_room(f, qp, i, padded + RING_TAIL)
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
    copy_count(f, qp, i, SQ_RING)
    link.sequence += 1
    link.ring_sent += 1
    return True


cdef int put_transfer(verbs_t *f, qp_t *qp, int i, const work_request *r) noexcept nogil:
    """A READ or WRITE; AGAIN: too many READs are out (V4)."""
    cdef sq_entry_t *entry
    cdef ibv_send_wr *wr = &f.wr[i]
    cdef ibv_sge *sge = &f.sge[i]
    cdef bint reading = r.opcode == WR_READ
    if not memory_lkey(f, r.local_key, r.local, r.length, &sge.lkey):
        return FABRIC_INVALID
    # One READ is left to the ping, if the device grants more than one.
    if reading and qp.reads >= (qp.reads_max - 1 if qp.reads_max > 1 else 1):
        return FABRIC_AGAIN
    wr.wr_id = wr_name(qp)
    wr.sg_list = sge
    wr.num_sge = 1
    wr.send_flags = IBV_SEND_SIGNALED
    wr.opcode = IBV_WR_RDMA_READ if reading else IBV_WR_RDMA_WRITE
    sge.addr = <uint64_t> r.local
    sge.length = <uint32_t> r.length
    verbs_set_remote(wr, r.remote, <uint32_t> (r.remote_key >> 32))
    entry = entry_next(qp, SQ_READ if reading else SQ_WRITE, r.id)
    entry.signaled = (r.flags & WR_SIGNALED) != 0
    if reading:
        qp.reads += 1
    else:
        qp.writes += 1
    qp.unsignaled = 0
    return FABRIC_OK


cdef bint acceptable(const verbs_t *f, const work_request *r) noexcept nogil:
    if r.opcode == WR_SEND:
        return (r.header_length <= HEADER_MAX
                and r.length <= f.base.packet_max - r.header_length)
    return ((r.opcode == WR_READ or r.opcode == WR_WRITE)
            and 0 < r.length <= f.base.transfer_max)


cdef int put_free(verbs_t *f, qp_t *qp, int i, const work_request *r) noexcept nogil:
    if r.opcode != WR_SEND:
        return put_transfer(f, qp, i, r)
    if ring_fits(qp.link, r):
        if put_ring(f, qp, i, r):
            f.counters.ring_packets += 1
            return FABRIC_OK
        f.counters.overflows += 1
    return FABRIC_OK if put_send(f, qp, i, r) else FABRIC_AGAIN


cdef int put(verbs_t *f, qp_t *qp, int i, const work_request *r,
             const before_t *before) noexcept nogil:
    """The next request of the chain that began at `before`, its fence included."""
    cdef bint behind_read = qp.reads != before.reads
    cdef int status
    if r.opcode == WR_READ and before.fences:
        return FABRIC_AGAIN     # V4c
    status = put_free(f, qp, i, r)
    if status == FABRIC_OK and r.flags & WR_FENCE and behind_read:
        fence(f, qp, i)
    return status


cdef int verbs_post(fabric_t *self, uint32_t peer, const work_request *chain,
                    int count) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef link_t *link
    cdef qp_t *qp
    cdef before_t before
    cdef int i
    cdef int built = 0
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
    qp = &link.qp
    if link.state != LINK_UP or queue_room(qp) < <uint32_t> count + SQ_RESERVE:
        return FABRIC_AGAIN
    remember(qp, &before)
    for i in range(count):
        if (f.soft_fence and chain[i].opcode == WR_SEND and chain[i].flags & WR_FENCE
                and qp.reads != before.reads):
            status = FABRIC_OK if hold(qp, &chain[i]) else FABRIC_AGAIN
        else:
            status = put(f, qp, built, &chain[i], &before)
            built += 1
        if status != FABRIC_OK:
            restore(qp, &before)
            return status
    status = ring_doorbell(f, qp, built, &before)
    if status == FABRIC_OK:
        f.counters.packets += link.sequence - before.sequence
        f.counters.reads += <uint32_t> (qp.reads - before.reads)
        f.counters.writes += <uint32_t> (qp.writes - before.writes)
    return status
