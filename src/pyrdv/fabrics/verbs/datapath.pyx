# cython: language_level=3
"""Arrivals: completions, rings, the order of packets (rules V3-V8, L2-L4 in state.pxd).

Completions are taken into the links (`drain`); packets of both channels are
put in the order of their numbers (`collect`); poll returns what is in order,
and the ends of transfers and of links.  A receive buffer is posted again when
its packet was released, and only then told to the peer (V3).

Costs per small message: half a poll of the completion queue, no copy, one
receive posted again (in batches), no system call on any known device.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport (
    EVENT_CLOSED, EVENT_LOST, EVENT_PACKET, EVENT_READ, EVENT_WRITE, FABRIC_OK,
    completion, fabric_t)
from pyrdv.fabrics.verbs.completing cimport completed, pass_silent
from pyrdv.fabrics.verbs.handshake cimport hello_check
from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_WC_SUCCESS, ibv_poll_cq, ibv_post_recv, ibv_recv_wr, ibv_wc)
from pyrdv.fabrics.verbs.posting cimport (
    link_busy, link_credit, link_fail, link_owe, link_pay)
from pyrdv.fabrics.verbs.state cimport (
    CQ_BATCH, FAIL_POST, FAIL_PROTOCOL, FAIL_TRANSPORT, INBOUND, KIND_ASLEEP,
    KIND_BYE, KIND_CREDIT, KIND_DATA, KIND_GRANT, KIND_HELLO, KIND_SLEEP, LINK_ACCEPTED,
    LINK_DOWN, LINK_UP, OWE_ASLEEP, OWE_GRANT, PROTOCOL, REPOST_BATCH, RING_CLOSED, RING_GRANTED,
    RING_OFFSET, RING_REVOKING, RING_SLOT, RING_SLOTS, RING_TAIL, SLOT, SQ_DEPTH,
    SQ_READ, VERBS_HEADER, inbound_t, link_t, order_t, packet_head_t, qp_t, ring_tail_t,
    sq_entry_t, verbs_t)


cdef extern from "crc32c.h" nogil:
    uint32_t crc32c(uint32_t crc, const void *data, size_t length)

cdef extern from "order.h" nogil:
    uint32_t observe32(const uint32_t *where)


cdef enum:
    GRANT_AFTER = 16            # packets without a sleep that make a ring worth its handshake
    DRAIN_ROUNDS = 4            # batches taken from one completion queue by one turn


# Receiving side -------------------------------------------------------------

cdef int receives_post(verbs_t *f, qp_t *qp) noexcept nogil:
    cdef link_t *link = qp.link
    cdef ibv_recv_wr *bad = NULL
    cdef uint32_t i
    cdef int status
    for i in range(link.repost_count):
        f.recv_sge[i].addr = <uint64_t> (link.memory + <size_t> link.repost[i] * SLOT)
        f.recv_sge[i].length = SLOT
        f.recv_sge[i].lkey = link.memory_mr.lkey
        f.recv_wr[i].wr_id = <uint64_t> qp.tag << 32 | <uint32_t> 1 << 31 | link.repost[i]
        f.recv_wr[i].sg_list = &f.recv_sge[i]
        f.recv_wr[i].num_sge = 1
        f.recv_wr[i].next = &f.recv_wr[i + 1] if i + 1 < link.repost_count else NULL
    status = ibv_post_recv(qp.id.qp, f.recv_wr, &bad)
    return status if status >= 0 else -status       # some providers (V7)


cdef void repost(verbs_t *f, link_t *link) noexcept nogil:
    """Post receives again, then count them as told-able (V3)."""
    cdef int problem
    if link.repost_count == 0 or link.state == LINK_DOWN or link.failure:
        return
    problem = receives_post(f, &link.qp)
    if problem:
        link_fail(f, link, FAIL_POST, problem)
        return
    link.freed += link.repost_count
    link.repost_count = 0


cdef void slot_free(verbs_t *f, link_t *link, uint32_t slot) noexcept nogil:
    link.repost[link.repost_count] = slot
    link.repost_count += 1
    if link.repost_count >= REPOST_BATCH:
        repost(f, link)


cdef bint credits_taken(link_t *link, uint32_t freed, uint32_t ring_freed) noexcept nogil:
    """Note what the peer has freed; older counts are ignored, impossible ones refused (R8)."""
    if <int32_t> (freed - link.peer_freed) > 0:
        if freed - link.peer_freed > link.sent - link.peer_freed:
            return False
        link.peer_freed = freed
    if <int32_t> (ring_freed - link.ring_peer_freed) > 0:
        if ring_freed - link.ring_peer_freed > link.ring_sent - link.ring_peer_freed:
            return False
        link.ring_peer_freed = ring_freed
    return True


cdef void ordered(verbs_t *f, link_t *link, void *data, uint32_t length, uint32_t slot,
                  bint ring, int kind) noexcept nogil:
    cdef order_t *next = &link.order[link.order_tail % INBOUND]
    next.data = data
    next.length = length
    next.slot = slot
    next.ring = ring
    next.kind = <uint8_t> kind
    link.order_tail += 1
    link.expected += 1
    f.counters.received += 1
    link_busy(f, link)


cdef bint take_ring(verbs_t *f, link_t *link) noexcept nogil:
    """The next ring slot, if it holds the next packet and all of it (V8)."""
    cdef char *slot = link.shared + RING_OFFSET + <size_t> (link.ring_next % RING_SLOTS) * RING_SLOT
    cdef char *end = slot + RING_SLOT - RING_TAIL
    cdef ring_tail_t tail
    cdef uint32_t crc
    cdef uint32_t padded
    if link.ring_next - link.ring_freed >= RING_SLOTS:
        return False
    if observe32(&(<ring_tail_t *> end).sequence) != link.expected + 1:
        return False
    memcpy(&tail, end, RING_TAIL)
    padded = (tail.length + 7) & ~<uint32_t> 7
    if tail.length > RING_SLOT - RING_TAIL or tail.reserved:
        if not link.ring_crc:
            link_fail(f, link, FAIL_PROTOCOL, 0)
        return False
    if link.ring_crc:
        crc = tail.crc
        tail.crc = 0
        if crc != crc32c(crc32c(0, end - padded, padded), &tail, RING_TAIL):
            f.counters.torn += 1
            return False
    if not credits_taken(link, tail.freed, tail.ring_freed):
        link_fail(f, link, FAIL_PROTOCOL, 0)
        return False
    link.ring_next += 1
    link.heard = 1
    ordered(f, link, end - padded, tail.length, 0, True, KIND_DATA)
    return True


cdef bint take_early(verbs_t *f, link_t *link) noexcept nogil:
    """The oldest arrival of the SEND channel, if it is the next packet."""
    cdef inbound_t *first = &link.early[link.early_head % INBOUND]
    if link.early_head == link.early_tail or first.sequence != link.expected + 1:
        return False
    link.early_head += 1
    ordered(f, link, first.data, first.length, first.slot, False, first.kind)
    return True


cdef void collect(verbs_t *f, link_t *link) noexcept nogil:
    """Put arrivals of both channels in order (L2); bounded by the slots of a link."""
    while not link.bye_seen and (
            take_early(f, link) or link.ring_mine != RING_CLOSED and take_ring(f, link)):
        if link.order[(link.order_tail - 1) % INBOUND].kind == KIND_BYE:
            # Nothing numbered may follow it; it is told as the end, not as a packet.
            link.bye_seen = 1
            link.order_tail -= 1
            slot_free(f, link, link.order[link.order_tail % INBOUND].slot)


cdef inline bint gap(const link_t *link) noexcept nogil:
    """Whether a number is missing that nothing can bring any more: without a ring, SENDs come in
    the order of their numbers (R8)."""
    return (link.early_head != link.early_tail and link.ring_mine == RING_CLOSED
            and not link.bye_seen)


cdef void hello(verbs_t *f, link_t *link, const char *data, uint32_t length) noexcept nogil:
    if link.state == LINK_ACCEPTED and hello_check(f, link, data, length):
        link.state = LINK_UP
        link.was_up = 1
        link.deadline = 0
        f.up += 1
        f.counters.links += 1
    else:
        link_fail(f, link, FAIL_PROTOCOL, 0)


cdef bint control(verbs_t *f, link_t *link, int kind, const char *data,
                  uint32_t length) noexcept nogil:
    """Act on a control packet; False: it is none, or shows that the peer breaks the rules."""
    if kind == KIND_HELLO:
        hello(f, link, data, length)
    elif kind == KIND_CREDIT and length == 0:
        pass
    elif kind == KIND_GRANT and length == 0:
        link.ring_open = link.offer.ring != 0
    elif kind == KIND_SLEEP and length == 0:
        link.ring_open = 0
        link_owe(f, link, OWE_ASLEEP)
    elif kind == KIND_ASLEEP and length == 0:
        # All ring writes came before it: take them now, then stop looking.
        collect(f, link)
        if link.ring_mine == RING_REVOKING:
            link.ring_mine = RING_CLOSED
        return not gap(link)
    else:
        return False
    return True


cdef void arrived(verbs_t *f, link_t *link, uint32_t slot, uint32_t bytes) noexcept nogil:
    """One packet of the SEND channel.  Everything is checked before use (R8)."""
    cdef char *data = link.memory + <size_t> slot * SLOT
    cdef packet_head_t head
    cdef inbound_t *early
    if bytes < VERBS_HEADER:
        link_fail(f, link, FAIL_PROTOCOL, 0)
        return
    memcpy(&head, data, VERBS_HEADER)
    if (head.version != PROTOCOL or head.reserved
            or (link.state != LINK_UP and head.kind != KIND_HELLO)
            or not credits_taken(link, head.freed, head.ring_freed)):
        link_fail(f, link, FAIL_PROTOCOL, 0)
        return
    link.heard = 1
    if head.kind == KIND_DATA or head.kind == KIND_BYE:
        if head.sequence - link.expected - 1 >= <uint32_t> INBOUND:
            link_fail(f, link, FAIL_PROTOCOL, 0)
            return
        early = &link.early[link.early_tail % INBOUND]
        early.data = data + VERBS_HEADER
        early.length = bytes - VERBS_HEADER
        early.slot = slot
        early.sequence = head.sequence
        early.kind = head.kind
        link.early_tail += 1
        collect(f, link)
        if gap(link):
            link_fail(f, link, FAIL_PROTOCOL, 0)
    elif control(f, link, head.kind, data + VERBS_HEADER, bytes - VERBS_HEADER):
        # At once, so that control packets never lack a receive, whatever the engine keeps.
        slot_free(f, link, slot)
        repost(f, link)
        link_credit(f, link)
    else:
        link_fail(f, link, FAIL_PROTOCOL, 0)


cdef inline qp_t *qp_of(const verbs_t *f, uint64_t wr_id) noexcept nogil:
    """The queue pair that a completion belongs to, or NULL if that one is gone (L4)."""
    cdef uint32_t tag = <uint32_t> (wr_id >> 32)
    cdef qp_t *qp
    if tag >> 16 >= f.link_room:
        return NULL
    qp = f.tags[tag >> 16].qp
    return qp if qp != NULL and qp.tag == tag and qp.link.state != LINK_DOWN else NULL


cdef void take(verbs_t *f, const ibv_wc *wc) noexcept nogil:
    cdef qp_t *qp = qp_of(f, wc.wr_id)
    cdef uint32_t low = <uint32_t> wc.wr_id
    if qp == NULL:
        return
    if not low >> 31:
        completed(f, qp, wc)
    elif wc.status == IBV_WC_SUCCESS:
        # A link that broke the rules is not listened to; one that merely ended still is (F7).
        if qp.link.failure != FAIL_PROTOCOL:
            arrived(f, qp.link, low & 0x7FFFFFFF, wc.byte_len)
    else:
        link_fail(f, qp.link, FAIL_TRANSPORT, wc.status)


cdef int drain(verbs_t *f) noexcept nogil:
    cdef ibv_wc wc[CQ_BATCH]
    cdef uint32_t i
    cdef int n
    cdef int j
    cdef int _round
    cdef int total = 0
    for i in range(f.queue_count):
        for _round in range(DRAIN_ROUNDS):
            n = ibv_poll_cq(f.queues[i].cq, CQ_BATCH, wc)
            if n <= 0:
                break
            for j in range(n):
                take(f, &wc[j])
            total += n
            if n < CQ_BATCH:
                break
    i = 0
    while i < f.granted_count:
        collect(f, f.granted[i])
        if f.granted[i].ring_mine == RING_CLOSED:
            f.granted_count -= 1
            f.granted[i] = f.granted[f.granted_count]
        else:
            i += 1
    return total


# Poll -----------------------------------------------------------------------

cdef int tell_transfers(qp_t *qp, completion *out, int limit) noexcept nogil:
    cdef sq_entry_t *entry
    cdef int n = 0
    while qp.sq_told != qp.sq_done and n < limit:
        entry = &qp.sq[qp.sq_told % SQ_DEPTH]
        out[n].kind = EVENT_READ if entry.kind == SQ_READ else EVENT_WRITE
        out[n].status = entry.status
        out[n].peer = qp.link.peer
        out[n].id = entry.id
        n += 1
        qp.sq_told += 1
        pass_silent(qp)
    return n


cdef int tell_packets(link_t *link, completion *out, int limit) noexcept nogil:
    cdef uint32_t at = link.order_head
    cdef int n = 0
    while at != link.order_tail and n < limit:
        out[n].kind = EVENT_PACKET
        out[n].status = FABRIC_OK
        out[n].peer = link.peer
        out[n].length = link.order[at % INBOUND].length
        out[n].data = link.order[at % INBOUND].data
        n += 1
        at += 1
    return n


cdef inline bint at_rest(const link_t *link) noexcept nogil:
    """Nothing that came before the end of `link` is left to be told or released (F7)."""
    return link.qp.sq_told == link.qp.sq_done and link.order_head == link.order_tail


cdef inline bint over(const link_t *link) noexcept nogil:
    """Whether the end of `link` may be told, once it is at rest."""
    return link.state == LINK_DOWN or (
        link.bye_seen and link.qp.reads == 0 and link.qp.writes == 0)


cdef int tell_end(verbs_t *f, link_t *link, completion *out) noexcept nogil:
    """The end of a link, once; a link that is down is given to the next call to be freed."""
    cdef int n = 0
    if f.peers[link.peer].link == link:
        if link.was_up and not f.peers[link.peer].ended:
            out.kind = EVENT_CLOSED if link.bye_seen else EVENT_LOST
            out.status = FABRIC_OK
            out.peer = link.peer
            f.peers[link.peer].ended = out.kind
            f.peers[link.peer].failure = link.failure
            f.peers[link.peer].wc_status = link.wc_status
            n = 1
        if link.state == LINK_DOWN:
            f.peers[link.peer].link = NULL
    if link.state == LINK_DOWN:
        f.call_wanted = 1
        f.base.calm = 0
    return n


cdef bint quiet(const verbs_t *f, const link_t *link) noexcept nogil:
    """Whether poll has nothing more to do for `link`."""
    return at_rest(link) and not (
        over(link) and (not f.peers[link.peer].ended or link.state == LINK_DOWN)
        and f.peers[link.peer].link == link)


cdef bint deliverable(verbs_t *f) noexcept nogil:
    cdef uint32_t i
    for i in range(f.busy_count):
        if not quiet(f, f.busy[i]):
            return True
    return False


cdef void pay_needy(verbs_t *f) noexcept nogil:
    cdef uint32_t count = f.needy_count
    cdef uint32_t i
    cdef link_t *link
    f.needy_count = 0
    # link_pay puts a link that still lacks room back at the front, never past the reader.
    for i in range(count):
        link = f.needy[i]
        link.needy = 0
        link_pay(f, link)


cdef void drop_quiet(verbs_t *f) noexcept nogil:
    cdef uint32_t kept = 0
    cdef uint32_t i
    for i in range(f.busy_count):
        if quiet(f, f.busy[i]):
            f.busy[i].busy = 0
        else:
            f.busy[kept] = f.busy[i]
            kept += 1
    f.busy_count = kept


cdef int verbs_poll(fabric_t *self, completion *out, int limit) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef link_t *link
    cdef uint32_t at
    cdef uint32_t looked
    cdef int n = 0
    drain(f)
    if f.needy_count:
        pay_needy(f)
    looked = f.busy_count
    if looked == 0:
        return 0
    # Each link once: a packet that is told twice by one poll would be taken for two.
    at = f.busy_next % looked
    while looked and n < limit:
        looked -= 1
        link = f.busy[at]
        n += tell_transfers(&link.qp, out + n, limit - n)
        n += tell_packets(link, out + n, limit - n)
        if n < limit and at_rest(link) and over(link):
            n += tell_end(f, link, out + n)
        at = at + 1 if at + 1 < f.busy_count else 0
    f.busy_next += 1
    drop_quiet(f)
    return n


cdef void grant_ring(verbs_t *f, link_t *link) noexcept nogil:
    """Let the peer use our ring, for we poll."""
    link.ring_mine = RING_GRANTED
    f.granted[f.granted_count] = link
    f.granted_count += 1
    link_owe(f, link, OWE_GRANT)


cdef void verbs_release(fabric_t *self, uint32_t peer, int count) noexcept nogil:
    cdef verbs_t *f = <verbs_t *> self
    cdef link_t *link = f.peers[peer].link
    cdef order_t *first
    cdef int _i
    if link == NULL:
        return
    for _i in range(count):
        if link.order_head == link.order_tail:
            break
        first = &link.order[link.order_head % INBOUND]
        if first.ring:
            link.ring_freed += 1
        else:
            slot_free(f, link, first.slot)
        link.order_head += 1
    if link.state != LINK_UP:
        return
    if link.order_head == link.order_tail:
        repost(f, link)
    link.since_sleep += <uint32_t> count
    if link.ring_mine == RING_CLOSED and link.ring_offered and link.since_sleep >= GRANT_AFTER:
        grant_ring(f, link)
    link_credit(f, link)
    if over(link):
        link_busy(f, link)
