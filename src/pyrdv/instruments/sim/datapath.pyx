# cython: language_level=3
"""The contract's operations over the simulated network (see core for S1-S6).

`post` puts events in flight; an event moves a packet into the destination's
mailbox, which is the delivered part of the channel's ring; `poll` shows the
mailbox until `release`.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from posix.unistd cimport read

from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, EVENT_CLOSED, EVENT_LOST, EVENT_PACKET, EVENT_READ, EVENT_WRITE, FABRIC_AGAIN,
    FABRIC_FAILED, FABRIC_INVALID, FABRIC_LOST, FABRIC_OK, HEADER_MAX, WATCHED, WR_BEHIND, WR_FENCE,
    WR_READ, WR_SEND, WR_SIGNALED, WR_WRITE, completion, fabric_ops, fabric_t, work_request,
)
from pyrdv.instruments.sim.core cimport (
    FAULT_LOCAL_KEY, FAULT_POST_CLOSED, FAULT_RELEASE, FAULT_REQUEST, SIM_CHUNK, SIM_COMPLETE,
    SIM_KINDS, sim_between, sim_channel, sim_drop_local, sim_entry, sim_finish, sim_fire,
    sim_net, sim_note_fault, sim_open, sim_packet, sim_rank, sim_ready, sim_region, sim_retire,
    sim_signal, sim_transfer,
)
from pyrdv.instruments.sim.regions cimport sim_deregister, sim_discard, sim_own_region, sim_register

cdef extern from "errno.h" nogil:
    int ENOMEM


# ------------------------------------------------------------------- post

cdef int check_request(sim_rank *rank, uint32_t peer, const work_request *wr) noexcept nogil:
    """FABRIC_OK, or FABRIC_INVALID with a note of what is wrong."""
    cdef sim_region *local
    cdef uint64_t at
    if wr.opcode == WR_SEND:
        if (wr.header_length <= HEADER_MAX and wr.length <= rank.fabric.packet_max
                and wr.header_length + wr.length <= rank.fabric.packet_max):
            return FABRIC_OK
        sim_note_fault(rank.net, FAULT_REQUEST, rank.fabric.rank, peer)
        return FABRIC_INVALID
    if ((wr.opcode != WR_READ and wr.opcode != WR_WRITE)
            or wr.length > rank.fabric.transfer_max):
        sim_note_fault(rank.net, FAULT_REQUEST, rank.fabric.rank, peer)
        return FABRIC_INVALID
    local = sim_own_region(rank, wr.local_key)
    if local != NULL and (wr.opcode == WR_WRITE or local.access & ACCESS_LOCAL):
        at = <uint64_t>wr.local - <uint64_t>local.address
        if at <= local.length and wr.length <= local.length - at:
            return FABRIC_OK
    sim_note_fault(rank.net, FAULT_LOCAL_KEY, rank.fabric.rank, peer)
    return FABRIC_INVALID


cdef double departure(sim_rank *rank, uint64_t length) noexcept nogil:
    """LogGP: when a message of `length` bytes has left the interface of `rank`."""
    cdef sim_net *net = rank.net
    cdef double start = max(net.now, rank.free_at) + net.overhead
    rank.free_at = start + max(net.gap, length * net.per_byte)
    return start


cdef void put_packet(sim_rank *rank, sim_channel *ch, const work_request *wr) noexcept nogil:
    cdef sim_net *net = rank.net
    cdef uint64_t index = ch.posted % net.slots
    cdef sim_packet *packet = &ch.packets[index]
    cdef char *data = packet.data
    if wr.header_length:
        memcpy(data, wr.header, wr.header_length)
    if wr.length:
        memcpy(data + wr.header_length, wr.local, wr.length)
    packet.length = wr.header_length + <uint32_t>wr.length
    packet.fenced = (wr.flags & WR_FENCE) != 0
    packet.behind = (wr.flags & WR_BEHIND) != 0
    packet.discarded = 0
    packet.chain = ch.chain
    packet.order = ch.order
    packet.time = (departure(rank, packet.length) + net.latency + ch.delay
                   + packet.length * net.per_byte)
    packet.time = ch.last = max(ch.last, packet.time)
    ch.posted += 1


cdef void put_transfer(sim_rank *rank, uint32_t peer, sim_channel *ch,
                       const work_request *wr) noexcept nogil:
    cdef sim_net *net = rank.net
    cdef sim_transfer *tr = ch.transfers
    cdef char *bounce
    cdef uint64_t first = min(wr.length, net.chunk)
    while tr.used:
        tr += 1
    bounce = tr.bounce
    memset(tr, 0, sizeof(sim_transfer))
    tr.bounce = bounce
    tr.used = 1
    tr.opcode = wr.opcode
    tr.signaled = (wr.flags & WR_SIGNALED) != 0
    tr.fenced = (wr.flags & WR_FENCE) != 0
    tr.chain = ch.chain
    tr.order = ch.order
    tr.local = <char *>wr.local
    tr.length = wr.length
    tr.local_key = wr.local_key
    tr.remote = wr.remote
    tr.remote_key = wr.remote_key
    tr.id = wr.id
    tr.turn = net.ranks[peer].turns
    sim_signal(net, peer)       # where it waits for a turn of the peer
    if wr.opcode == WR_READ:
        tr.time = departure(rank, 0) + 2 * net.latency + first * net.per_byte + ch.delay
    else:
        tr.time = departure(rank, wr.length) + net.latency + first * net.per_byte + ch.delay
    sim_own_region(rank, wr.local_key).transfers += 1
    ch.busy += 1


cdef int sim_post(fabric_t *self, uint32_t peer, const work_request *chain,
                  int count) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    cdef sim_net *net = rank.net
    cdef sim_channel *ch
    cdef uint64_t packets = 0
    cdef uint64_t transfers = 0
    cdef int i
    if peer >= net.size or count < 1:
        sim_note_fault(net, FAULT_REQUEST, self.rank, peer)
        return FABRIC_INVALID
    ch = sim_between(net, self.rank, peer)
    if rank.dead or rank.closed or sim_between(net, peer, self.rank).loss >= 2:
        return FABRIC_LOST
    if ch.close:
        sim_note_fault(net, FAULT_POST_CLOSED, self.rank, peer)
        return FABRIC_INVALID
    for i in range(count):
        if check_request(rank, peer, &chain[i]) != FABRIC_OK:
            return FABRIC_INVALID
        if chain[i].opcode == WR_SEND:
            packets += 1
        else:
            transfers += 1
    if packets > net.slots or transfers > net.transfers:
        sim_note_fault(net, FAULT_REQUEST, self.rank, peer)
        return FABRIC_INVALID
    if (not ch.connected or ch.posted - ch.released + packets > net.slots
            or <uint64_t>ch.busy + transfers > net.transfers):
        return FABRIC_AGAIN
    ch.chain += 1
    for i in range(count):
        ch.order += 1
        if chain[i].opcode == WR_SEND:
            put_packet(rank, ch, &chain[i])
        else:
            put_transfer(rank, peer, ch, &chain[i])
    if net.instant:
        sim_signal(net, peer)
        sim_signal(net, self.rank)
    return FABRIC_OK


# ------------------------------------------------------------ poll, release

cdef bint drain_channel(sim_net *net, uint32_t src, uint32_t dst) noexcept nogil:
    cdef sim_channel *ch = sim_between(net, src, dst)
    cdef uint32_t kind, slot, last
    cdef double time
    cdef bint moved = False
    if (ch.posted == ch.delivered and not ch.busy and ch.close != 1 and ch.loss != 1
            and (ch.connected or not ch.connecting)):
        return False
    for kind in range(SIM_KINDS):
        last = 1
        if kind == SIM_CHUNK or kind == SIM_COMPLETE:
            last = net.transfers if ch.busy else 0
        for slot in range(last):
            while sim_ready(net, kind, src, dst, slot, &time):
                sim_fire(net, kind, src, dst, slot)
                moved = True
    return moved


cdef void sim_drain(sim_net *net, uint32_t rank) noexcept nogil:
    """Let everything happen that concerns `rank`."""
    cdef uint32_t peer
    cdef bint moved = True
    while moved:
        moved = False
        for peer in range(net.size):
            if drain_channel(net, peer, rank):
                moved = True
            if peer != rank and drain_channel(net, rank, peer):
                moved = True


cdef int poll_queue(sim_rank *rank, completion *out, int limit) noexcept nogil:
    cdef sim_net *net = rank.net
    cdef sim_entry *entry
    cdef sim_transfer *tr
    cdef sim_channel *ch
    cdef int count = 0
    cdef uint64_t at
    # A WRITE is handed over before it is placed; its slot is freed by the
    # later of the two, and may be polled in between.
    while rank.queue_head < rank.queue_tail and count < limit:
        at = rank.queue_head % (net.size * net.transfers)
        entry = &rank.queue[at]
        ch = sim_between(net, rank.fabric.rank, entry.dst)
        tr = &ch.transfers[entry.slot]
        out[count].kind = EVENT_READ if tr.opcode == WR_READ else EVENT_WRITE
        out[count].status = tr.status
        out[count].peer = entry.dst
        out[count].length = 0
        out[count].data = NULL
        out[count].id = tr.id
        rank.queue_head += 1
        count += 1
        tr.signaled = 0
        if tr.placed:
            sim_retire(net, rank.fabric.rank, entry.dst, tr)
        else:
            sim_drop_local(net, rank.fabric.rank, tr)
    return count


cdef uint64_t release_discarded(sim_net *net, sim_channel *ch) noexcept nogil:
    while ch.released < ch.delivered and ch.packets[ch.released % net.slots].discarded:
        ch.released += 1
    return ch.delivered - ch.released


cdef bint poll_packet(sim_rank *rank, uint32_t peer, completion *out) noexcept nogil:
    """The next packet of `peer` that this poll has not yet returned."""
    cdef sim_net *net = rank.net
    cdef sim_channel *ch = sim_between(net, peer, rank.fabric.rank)
    cdef uint64_t index
    while ch.shown < ch.delivered and ch.packets[ch.shown % net.slots].discarded:
        ch.shown += 1
    if ch.shown == ch.delivered:
        return False
    index = ch.shown % net.slots
    out.kind = EVENT_PACKET
    out.status = FABRIC_OK
    out.peer = peer
    out.length = ch.packets[index].length
    out.data = ch.packets[index].data
    out.id = 0
    ch.shown += 1
    ch.returned += 1
    return True


cdef int poll_packets(sim_rank *rank, completion *out, int limit) noexcept nogil:
    """One packet of each peer in turn, so that no peer fills the whole array."""
    cdef sim_net *net = rank.net
    cdef sim_channel *ch
    cdef uint32_t i, peer
    cdef int count = 0
    cdef bint more = True
    for i in range(net.size):
        ch = sim_between(net, i, rank.fabric.rank)
        ch.returned = 0
        release_discarded(net, ch)
        ch.shown = ch.released
    while more:
        more = False
        for i in range(net.size):
            peer = (rank.rotation + i) % net.size
            ch = sim_between(net, peer, rank.fabric.rank)
            if ch.shown == ch.delivered:
                continue
            if count == limit:
                break
            if poll_packet(rank, peer, &out[count]):
                count += 1
                more = True
        if count == limit:
            break
    rank.rotation = (rank.rotation + 1) % net.size
    return count


cdef bint end_ready(sim_rank *rank, uint32_t peer) noexcept nogil:
    """True if the end of `peer` is known and nothing else of it is left to report."""
    cdef sim_net *net = rank.net
    cdef sim_channel *ch = sim_between(net, peer, rank.fabric.rank)
    return ((ch.close == 2 or ch.loss == 2) and release_discarded(net, ch) == 0
            and sim_between(net, rank.fabric.rank, peer).busy == 0)


cdef int poll_ends(sim_rank *rank, completion *out, int limit) noexcept nogil:
    """EVENT_CLOSED and EVENT_LOST, after everything else from that peer (F7)."""
    cdef sim_net *net = rank.net
    cdef sim_channel *ch
    cdef uint32_t peer
    cdef int count = 0
    for peer in range(net.size):
        if count == limit:
            break
        if not end_ready(rank, peer):
            continue
        ch = sim_between(net, peer, rank.fabric.rank)
        out[count].kind = EVENT_LOST
        out[count].status = FABRIC_OK
        if ch.loss != 2:
            out[count].kind = EVENT_CLOSED
            ch.close = 3
        elif ch.close == 3:
            ch.loss = 3
            continue
        else:
            ch.loss = 3
        out[count].peer = peer
        out[count].length = 0
        out[count].data = NULL
        out[count].id = 0
        count += 1
    return count


cdef int sim_poll(fabric_t *self, completion *out, int limit) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    cdef int count
    if rank.dead or rank.closed or limit < 1:
        return 0
    rank.turns += 1
    if rank.net.instant:
        sim_drain(rank.net, self.rank)
    count = poll_queue(rank, out, limit)
    count += poll_packets(rank, out + count, limit - count)
    return count + poll_ends(rank, out + count, limit - count)


cdef void sim_release(fabric_t *self, uint32_t peer, int count) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    cdef sim_net *net = rank.net
    cdef sim_channel *ch
    cdef sim_packet *packet
    cdef int _i
    if peer >= net.size or count < 0:
        sim_note_fault(net, FAULT_RELEASE, self.rank, peer)
        return
    ch = sim_between(net, peer, self.rank)
    if <uint32_t>count > ch.returned:
        sim_note_fault(net, FAULT_RELEASE, self.rank, peer)
        count = <int>ch.returned
    for _i in range(count):
        release_discarded(net, ch)
        # Poison: a reader of released memory shows.
        packet = &ch.packets[ch.released % net.slots]
        memset(packet.data, 0xdb, packet.length)
        ch.released += 1
    ch.returned -= <uint32_t>count
    if count:
        sim_signal(net, peer)


# -------------------------------------------------------------- connections

cdef int sim_connect(fabric_t *self, uint32_t peer) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    cdef sim_net *net = rank.net
    cdef sim_channel *ch
    if peer >= net.size:
        return FABRIC_INVALID
    ch = sim_between(net, self.rank, peer)
    if rank.dead or ch.close or sim_between(net, peer, self.rank).loss >= 2:
        return FABRIC_LOST
    if ch.connected:
        return FABRIC_OK
    if not sim_open(net, self.rank, peer):
        self.error = ENOMEM
        return FABRIC_FAILED
    ch.connecting = 1
    if net.lazy:
        if net.instant:
            sim_signal(net, peer)
        return FABRIC_AGAIN
    ch.connected = 1
    sim_between(net, peer, self.rank).connected = 1
    return FABRIC_OK


cdef void sim_disconnect(fabric_t *self, uint32_t peer) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    cdef sim_channel *ch
    if peer >= rank.net.size or rank.dead:
        return
    ch = sim_between(rank.net, self.rank, peer)
    if ch.connected and not ch.close:
        ch.close = 1
        if rank.net.instant:
            sim_signal(rank.net, peer)


cdef void fabric_close(sim_net *net, uint32_t rank) noexcept nogil:
    """`rank` leaves: its memory is not touched from now on."""
    cdef sim_rank *who = &net.ranks[rank]
    cdef uint32_t i, t
    cdef sim_channel *ch
    if who.closed:
        return
    who.closed = 1
    for i in range(net.size):
        ch = sim_between(net, rank, i)
        if ch.connected and not ch.close and not ch.loss:
            ch.loss = 1
            if net.instant:
                sim_signal(net, i)
        if ch.busy:
            for t in range(net.transfers):
                if ch.transfers[t].used and not ch.transfers[t].placed:
                    ch.transfers[t].signaled = 0
                    sim_finish(net, rank, i, &ch.transfers[t], FABRIC_LOST)
    for i in range(who.region_count):
        if who.regions[i].used:
            who.regions[i].used = 0
            who.regions[i].next_free = who.region_free
            who.region_free = i + 1
    who.region_used = 0
    who.locked = 0


cdef int sim_maintain(fabric_t *self) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    cdef int count
    if rank.dead:
        return 0
    if rank.net.instant:
        sim_drain(rank.net, self.rank)
    count = <int>rank.accepted
    rank.accepted = 0
    return count


# ------------------------------------------------------------------ sleeping

cdef bint anything(sim_rank *rank) noexcept nogil:
    """True if poll or maintain would have something to return."""
    cdef sim_net *net = rank.net
    cdef sim_channel *ch
    cdef uint32_t peer
    if rank.queue_head < rank.queue_tail or rank.accepted:
        return True
    for peer in range(net.size):
        ch = sim_between(net, peer, rank.fabric.rank)
        if release_discarded(net, ch) > 0 or end_ready(rank, peer):
            return True
    return False


cdef int sim_arm(fabric_t *self) noexcept nogil:
    cdef sim_rank *rank = <sim_rank *>self
    if rank.dead:
        return FABRIC_OK
    rank.armed = 1
    if rank.net.instant:
        sim_drain(rank.net, self.rank)
    if anything(rank):
        rank.armed = 0
        return FABRIC_AGAIN
    return FABRIC_OK


cdef int64_t sim_watch(fabric_t *self) noexcept nogil:
    return WATCHED if sim_arm(self) == FABRIC_OK else 0


cdef int sim_signals(fabric_t *self, int thread, int signal) noexcept nogil:
    return FABRIC_INVALID if thread else FABRIC_OK


cdef void sim_disarm(fabric_t *self) noexcept nogil:
    cdef uint64_t count
    cdef sim_rank *rank = <sim_rank *>self
    rank.armed = 0
    if self.wake_fd >= 0:
        read(self.wake_fd, &count, sizeof(count))


cdef fabric_ops operations
operations.post = sim_post
operations.poll = sim_poll
operations.release = sim_release
operations.discard = sim_discard
operations.register_memory = sim_register
operations.deregister = sim_deregister
operations.connect = sim_connect
operations.disconnect = sim_disconnect
operations.maintain = sim_maintain
operations.arm = sim_arm
operations.disarm = sim_disarm
operations.watch = sim_watch
operations.signals = sim_signals


cdef const fabric_ops *sim_operations() noexcept nogil:
    return &operations
