# cython: language_level=3
"""Packets through shared rings: post, poll, release.

D1  F1: a packet's place in the order is where it is published.  A SEND that
    must wait for transfers (WR_FENCE, or behind a WRITE of its chain, which
    verbs would order too) is published when the last of them is complete;
    packets posted meanwhile are published at once and come first.
D2  F2: room for all packets of a chain and nodes for all its transfers are
    found before the first word is written.
D3  F6, F7: what poll returned stays in the ring until release; the lengths are
    remembered privately, so a peer that changes them afterwards shifts nothing.
    The end of a peer is reported when its ring is empty and released.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.fabrics.contract cimport (
    EVENT_CLOSED, EVENT_LOST, EVENT_PACKET, FABRIC_AGAIN, FABRIC_INVALID, FABRIC_LOST, FABRIC_OK,
    HEADER_MAX, WR_FENCE, WR_READ, WR_SEND, WR_WRITE, completion, fabric_t, work_request)
from pyrdv.fabrics.shm.channel cimport (
    NODE_NEW, SHM_INLINE, SHM_JOBS, SHM_KIND_BULK, SHM_KIND_INLINE, SHM_SLOTS, fail_peer,
    glance32, have_room, inbound_t, node_t, observe32, outbound_t, peer_t, put_packet, return_room,
    shm_bulk_need, shm_bulk_place, shm_slot, shm_t, shm_tail, wake_consumer, wake_producer)
from pyrdv.fabrics.shm.channels cimport FEW_CHANNELS, channel_unlist, channels_choose
from pyrdv.fabrics.shm.transfer cimport (
    transfer_add, transfer_flush, transfer_go, transfer_ready, transfer_report, transfer_turn)


cdef int post_chain(shm_t *self, uint32_t peer, const work_request *chain,
                    int count) noexcept nogil:
    # The general case: any mixture.  First look (D2), then do.
    cdef outbound_t *out = self.peers[peer].out
    cdef const work_request *request
    cdef uint32_t slots = 0, nodes = 0, total, bulk = out.bulk_head
    cdef uint64_t waits = 0
    cdef bint wrote = False
    cdef int i, status
    if count > 64:
        return FABRIC_INVALID
    for i in range(count):
        request = &chain[i]
        if request.opcode == WR_SEND:
            if request.header_length > HEADER_MAX or request.length > self.base.packet_max:
                return FABRIC_INVALID
            total = request.header_length + <uint32_t> request.length
            if total > self.base.packet_max:
                return FABRIC_INVALID
            # Behind another waiting SEND it must wait as well, to keep the order.
            if nodes and (request.flags & WR_FENCE or wrote or waits):
                if total > SHM_INLINE:
                    return FABRIC_INVALID
                waits |= <uint64_t> 1 << i
                nodes += 1
                continue
            slots += 1
            if total > SHM_INLINE:
                bulk = shm_bulk_place(out.bulk, bulk, total) + shm_bulk_need(total)
        elif request.opcode == WR_READ or request.opcode == WR_WRITE:
            if request.length > self.base.transfer_max:
                return FABRIC_INVALID
            wrote = wrote or request.opcode == WR_WRITE
            nodes += 1
        else:
            return FABRIC_INVALID
    if slots > SHM_SLOTS or bulk - out.bulk_head > out.bulk:
        return FABRIC_INVALID
    if nodes > self.free_count:
        return FABRIC_AGAIN
    status = have_room(out, slots, bulk)
    if status != FABRIC_OK:
        return no_room(self, peer, status)
    self.chain += 1
    for i in range(count):
        request = &chain[i]
        if request.opcode != WR_SEND or waits >> i & 1:
            transfer_add(self, peer, request, <bint> (waits >> i & 1))
        else:
            put_packet(self, out, request.header, request.header_length, request.local,
                       <uint32_t> request.length)
    if nodes:
        transfer_go(self, peer)
    if slots:
        wake_consumer(self, out)
    return FABRIC_OK


cdef int no_room(shm_t *self, uint32_t peer, int status) noexcept nogil:
    if status == FABRIC_LOST:
        fail_peer(self, peer)
    else:
        self.peers[peer].out.starved = 1
    return status


cdef int shm_post(fabric_t *base, uint32_t peer, const work_request *chain,
                  int count) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef outbound_t *out
    cdef uint32_t total, bulk
    cdef int status
    if peer >= base.size or count < 1:
        return FABRIC_INVALID
    if self.peers[peer].gone:
        return FABRIC_LOST
    if self.peers[peer].closing:
        return FABRIC_INVALID
    out = self.peers[peer].out
    if out == NULL:
        return FABRIC_AGAIN
    if count > 1 or chain.opcode != WR_SEND:
        return post_chain(self, peer, chain, count)
    if chain.header_length > HEADER_MAX or chain.length > self.base.packet_max:
        return FABRIC_INVALID
    total = chain.header_length + <uint32_t> chain.length
    if total > self.base.packet_max:
        return FABRIC_INVALID
    bulk = out.bulk_head
    if total > SHM_INLINE:
        bulk = shm_bulk_place(out.bulk, bulk, total) + shm_bulk_need(total)
    status = have_room(out, 1, bulk)
    if status != FABRIC_OK:
        return no_room(self, peer, status)
    put_packet(self, out, chain.header, chain.header_length, chain.local,
               <uint32_t> chain.length)
    wake_consumer(self, out)
    return FABRIC_OK


cdef int take_kept(inbound_t *into, uint32_t rank, completion *out, int limit) noexcept nogil:
    # Packets that came with a transfer's end, if everything before them was released (Y4).  An
    # empty ring is proof enough, whatever a broken peer says.
    cdef shm_tail *kept
    cdef shm_slot *slot = &into.segment.slots[into.tail & (SHM_SLOTS - 1)]
    cdef int count = 0
    into.kept_polled = 0
    while count < limit and into.kept_head + into.kept_polled != into.kept_tail:
        kept = &into.kept[(into.kept_head + into.kept_polled) % SHM_JOBS]
        if (<int32_t> (into.tail - kept.after) < 0
                and observe32(&slot.stamp) == into.tail + 1):
            break
        out[count].kind = EVENT_PACKET
        out[count].status = FABRIC_OK
        out[count].peer = rank
        out[count].length = kept.length
        out[count].data = kept.data
        into.kept_polled += 1
        count += 1
    return count


cdef int take_packets(shm_t *self, inbound_t *into, uint32_t rank, completion *out,
                      int limit) noexcept nogil:
    # Up to `limit` packets from the ring's tail on.  Partner: put_packet.
    cdef uint32_t index = into.tail, bulk = into.bulk_tail, word, length
    cdef shm_slot *slot
    cdef int count = 0
    cdef int kept = 0
    if into.kept_head != into.kept_tail:
        kept = count = take_kept(into, rank, out, limit)
    while count < limit:
        if (into.kept_head + into.kept_polled != into.kept_tail
                and index == into.kept[(into.kept_head + into.kept_polled) % SHM_JOBS].after):
            break
        slot = &into.segment.slots[index & (SHM_SLOTS - 1)]
        if observe32(&slot.stamp) != index + 1 or index - into.tail == SHM_SLOTS:
            break
        word = glance32(&slot.word)  # once: a hostile peer may change it
        length = word & 0xffffff
        if word >> 24 == SHM_KIND_INLINE and length <= SHM_INLINE:
            out[count].data = slot.data
        elif word >> 24 == SHM_KIND_BULK and SHM_INLINE < length <= self.base.packet_max:
            bulk = shm_bulk_place(into.bulk, bulk, length)
            out[count].data = &into.segment.bulk[bulk & (into.bulk - 1)]
            bulk += shm_bulk_need(length)
        else:
            fail_peer(self, rank)
            break
        out[count].kind = EVENT_PACKET
        out[count].status = FABRIC_OK
        out[count].peer = rank
        out[count].length = length
        into.length[index & (SHM_SLOTS - 1)] = length
        index += 1
        count += 1
    into.polled = <uint32_t> (count - kept)
    return count


cdef void shm_release(fabric_t *base, uint32_t peer, int count) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef inbound_t *into
    cdef uint32_t length, _i
    if peer >= base.size or count <= 0:
        return
    into = self.peers[peer].into
    if into == NULL:
        return
    for _i in range(<uint32_t> count):
        if into.kept_polled:
            into.kept_head += 1
            into.kept_polled -= 1
            self.counters.received += 1
            continue
        if into.polled == 0:
            break
        length = into.length[into.tail & (SHM_SLOTS - 1)]
        if length > SHM_INLINE:
            into.bulk_tail = (shm_bulk_place(into.bulk, into.bulk_tail, length)
                              + shm_bulk_need(length))
        into.tail += 1
        into.polled -= 1
        self.counters.received += 1
    return_room(into)
    wake_producer(self, into)


cdef bint shm_discard(fabric_t *base, uint32_t peer, uint64_t ident) noexcept nogil:
    # What has not started needs no start, and what goes through cells is not copied out (T4).
    # By single copy the peer may be writing a chunk, and this processor can move all others.
    cdef shm_t *self = <shm_t *> base
    cdef outbound_t *out = self.peers[peer].out if peer < base.size else NULL
    cdef node_t *node = out.first if out != NULL else NULL
    while node != NULL and (node.opcode != WR_READ or node.id != ident):
        node = node.next
    if node == NULL:
        return True     # it has ended, and only its completion is to be told
    if node.state != NODE_NEW and out.staged != node:
        return False
    node.unwanted = 1
    return True


cdef bint drained(inbound_t *into) noexcept nogil:
    cdef shm_slot *slot = &into.segment.slots[into.tail & (SHM_SLOTS - 1)]
    return (into.polled == 0 and into.kept_head == into.kept_tail
            and observe32(&slot.stamp) != into.tail + 1)


cdef int report_ends(shm_t *self, completion *out, int limit) noexcept nogil:
    # F7: one event per peer, after its packets and after our own transfers' ends.
    cdef uint32_t i = 0, rank
    cdef peer_t *peer
    cdef bint bye
    cdef int count = 0
    while i < self.ending_count and count < limit:
        rank = self.ending[i]
        peer = &self.peers[rank]
        i += 1
        if peer.gone and peer.out != NULL and peer.out.first != NULL:
            transfer_flush(self, rank)
        if self.finished != NULL or (peer.out != NULL and peer.out.first != NULL):
            continue
        if not peer.broken:
            if not peer.confirmed or (peer.into != NULL and not drained(peer.into)):
                continue
        bye = ((peer.into != NULL and observe32(&peer.into.segment.producer_bye))
               or (peer.out != NULL and observe32(&peer.out.segment.consumer_bye)))
        out[count].kind = EVENT_CLOSED if bye and not peer.broken else EVENT_LOST
        out[count].status = FABRIC_OK
        out[count].peer = rank
        out[count].length = 0
        out[count].data = NULL
        count += 1
        peer.reported = 1
        if peer.into != NULL:
            channel_unlist(self, peer.into)
        i -= 1
        self.ending_count -= 1
        self.ending[i] = self.ending[self.ending_count]
    return count


cdef int shm_poll(fabric_t *base, completion *out, int limit) noexcept nogil:
    cdef shm_t *self = <shm_t *> base
    cdef uint32_t _k, index = 0, count = self.inbound_count
    cdef inbound_t *into
    cdef bint wanted = self.busy_count > 0
    cdef int found = 0, before
    if self.finished != NULL:
        found = transfer_report(self, out, limit)
    before = found
    self.rotation += 1
    if count > FEW_CHANNELS:
        count = channels_choose(self)
    if count:
        index = self.rotation % count
    for _k in range(count):
        into = self.inbound[index]
        found += take_packets(self, into, self.inbound_rank[index], &out[found], limit - found)
        if glance32(&into.segment.help) != into.help_seen or into.serving:
            wanted = True
        index += 1
        if index == count:
            index = 0
    # Copying takes long: packets go first, but not for ever.
    if wanted:
        if found == before or self.owed:
            self.owed = 0
            transfer_turn(self)
            if self.finished != NULL:
                found += transfer_report(self, &out[found], limit - found)
        else:
            self.owed = 1
    if self.ending_count:
        found += report_ends(self, &out[found], limit - found)
    return found


cdef bint datapath_ready(shm_t *self) noexcept nogil:
    cdef uint32_t i, index
    cdef inbound_t *into
    cdef peer_t *peer
    for i in range(self.inbound_count):
        into = self.inbound[i]
        index = into.tail + into.polled
        if (into.polled < SHM_SLOTS
                and observe32(&into.segment.slots[index & (SHM_SLOTS - 1)].stamp) == index + 1):
            return True
        if into.kept_head + into.kept_polled != into.kept_tail:
            return True
    for i in range(self.ending_count):
        peer = &self.peers[self.ending[i]]
        if peer.out != NULL and peer.out.first != NULL and not peer.gone:
            continue  # its end waits for a transfer; transfer_ready speaks for that
        if not peer.confirmed or peer.broken or peer.into == NULL or drained(peer.into):
            return True
    return transfer_ready(self)
