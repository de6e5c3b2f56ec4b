# cython: language_level=3
"""A digest of an engine's state, for explorers that must know where they have been.

It covers all that later behaviour depends on, but for what is the same throughout one
exploration: addresses, the fabric, pools.  What is added to the state must be added here, or
an explorer takes different states for one and leaves out what follows from the second.
"""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.engine.digest cimport mix
from pyrdv.engine.protocols.superpipeline cimport pipe_peer
from pyrdv.engine.protocols.table cimport protocol_table, table_t
from pyrdv.engine.schedule.plan cimport schedule_t
from pyrdv.engine.protocols.lanes cimport lane_t, lanes_of
from pyrdv.engine.state cimport (
    ANY_PEER, ANY_TAG_, OPS_PER_SLAB, OP_COMPLETE, OP_FREE, OP_POSTED, PAIR_UNANSWERED,
    PROTOCOL_PLACED, engine_t, message_t, node_t, op_t, peer_t)


cdef const table_t *TABLE = protocol_table()


cdef void mix_op(uint64_t *h, const op_t *op) noexcept nogil:
    mix(h, <uint64_t> op.index << 32 | op.generation)
    mix(h, <uint64_t> op.content << 40 | <uint64_t> op.pairing << 32 | <uint64_t> op.kind << 24
        | <uint64_t> op.state << 16 | <uint64_t> op.flags << 8 | op.error)
    if op.state == OP_COMPLETE:
        mix(h, <uint64_t> op.source << 32 | <uint32_t> op.source_tag)
        mix(h, op.total)
        return
    mix(h, <uint64_t> op.peer << 32 | op.context)
    mix(h, <uint64_t> <uint32_t> op.tag << 32 | op.source)
    mix(h, op.length)
    mix(h, op.total)
    mix(h, op.moved)
    mix(h, <uint64_t> op.promised << 16 | <uint64_t> op.protocol << 8 | op.waits)
    mix(h, op.halts if op.state == OP_POSTED else 0)
    if op.pairing & PAIR_UNANSWERED and op.node.prev != NULL:
        mix(h, (<op_t *> op.node.prev.entry).index)
    if op.state != OP_POSTED:
        mix(h, op.cookie)


cdef void mix_ops(uint64_t *h, engine_t *e) noexcept nogil:
    cdef uint32_t slab, other
    cdef int i, k
    cdef uint32_t before
    cdef op_t *op
    cdef op_t *at
    for slab in range(e.op_slab_count):
        for i in range(OPS_PER_SLAB):
            op = &e.op_slabs[slab][i]
            if op.state == OP_FREE:
                continue
            mix_op(h, op)
            if op.state != OP_POSTED:
                continue
            # Its place among the posted, not the number it got.
            before = 0
            for other in range(e.op_slab_count):
                for k in range(OPS_PER_SLAB):
                    at = &e.op_slabs[other][k]
                    before += at.state == OP_POSTED and at.order < op.order
            mix(h, before)


cdef void mix_unexpected(uint64_t *h, engine_t *e) noexcept nogil:
    cdef uint32_t b
    cdef node_t *leader
    cdef node_t *at
    cdef message_t *m
    if e.unexpected.entries == 0:
        return
    for b in range(e.unexpected.mask + 1):
        leader = e.unexpected.buckets[b]
        while leader != NULL:
            at = leader if leader.peer == ANY_PEER and leader.tag == ANY_TAG_ else NULL
            while at != NULL:
                m = <message_t *> at.entry
                mix(h, <uint64_t> m.content << 48 | <uint64_t> m.protocol << 40
                    | <uint64_t> m.flags << 32 | m.peer)
                mix(h, <uint64_t> m.context << 32 | <uint32_t> m.tag)
                mix(h, m.length)
                mix(h, m.cookie)
                mix(h, m.slot if m.protocol == PROTOCOL_PLACED else 0)
                at = at.next
            leader = leader.chain


cdef void mix_peer(uint64_t *h, const engine_t *e, const peer_t *p) noexcept nogil:
    cdef uint32_t i
    cdef const op_t *op = p.queue_head
    mix(h, <uint64_t> p.calling << 56 | <uint64_t> p.state << 48 | <uint64_t> p.active << 40
        | <uint64_t> p.broken << 32 | <uint64_t> p.gone << 24 | <uint64_t> p.finished << 16
        | <uint64_t> p.finish_told << 8 | p.spoke)
    mix(h, <uint64_t> p.send_sequence << 32 | p.recv_sequence)
    mix(h, <uint64_t> p.eager_sent << 32 | p.eager_returned)
    mix(h, <uint64_t> p.eager_taken << 32 | p.returned)
    mix(h, p.returned_told)
    mix(h, <uint64_t> p.patience << 16 | <uint64_t> p.prompt[0] << 8 | p.prompt[1])
    mix(h, <uint64_t> p.freed[0] << 32 | p.freed[1])
    mix(h, <uint64_t> p.freed_told << 32 | p.placed)
    for i in range(TABLE.count):
        if TABLE.rows[i].hash != NULL:
            TABLE.rows[i].hash(p, h)
    if e.policy.hash_peer != NULL:
        e.policy.hash_peer(p, h)
    while op != NULL:
        mix(h, op.index)
        op = op.next
    mix(h, 1)
    op = p.ready_head
    while op != NULL:
        mix(h, op.index)
        op = op.next
    mix(h, 2)


cdef void mix_lane(uint64_t *h, const lane_t *lane) noexcept nogil:
    mix(h, <uint64_t> lane.index << 32 | lane.peer)
    mix(h, <uint64_t> (lane.op.index if lane.op != NULL else 0xFFFFFFFFu) << 32 | lane.base)
    mix(h, <uint64_t> lane.receiving << 24 | <uint64_t> lane.granted << 16
        | <uint64_t> lane.checked << 8 | lane.busy)
    mix(h, <uint64_t> lane.filled << 32 | lane.posted)
    mix(h, <uint64_t> lane.taken << 32 | lane.told)
    mix(h, lane.offset)
    mix(h, lane.noticed)
    mix(h, lane.within)
    mix(h, lane.lengths[0] << 42 ^ lane.lengths[1] << 21 ^ lane.lengths[2])


cdef void mix_lanes(uint64_t *h, engine_t *e) noexcept nogil:
    cdef uint32_t i
    cdef const lane_t *lane = lanes_of(e).used
    cdef const peer_t *p = lanes_of(e).waiting
    while lane != NULL:
        mix_lane(h, lane)
        lane = lane.next
    mix(h, lanes_of(e).count)
    for i in range(lanes_of(e).count):
        # Whose WRITEs a free one is open to, and where it goes on counting.
        mix(h, <uint64_t> lanes_of(e).all[i].peer << 32 | lanes_of(e).all[i].base)
    while p != NULL:
        mix(h, p.rank)
        p = pipe_peer(p).next


cdef void mix_schedules(uint64_t *h, const engine_t *e) noexcept nogil:
    cdef const schedule_t *s = <const schedule_t *> e.schedules
    while s != NULL:
        mix(h, <uint64_t> s.state << 40 | <uint64_t> s.calling << 32 | <uint32_t> s.error)
        mix(h, <uint64_t> s.round << 32 | s.at)
        mix(h, s.offset)
        mix(h, <uint64_t> s.context << 32 | <uint32_t> s.tag)
        s = s.next


cdef uint64_t engine_fingerprint(engine_t *e) noexcept nogil:
    cdef uint64_t h = <uint64_t> 0xCBF29CE484222325u
    cdef uint32_t i
    mix(&h, e.moving)
    mix(&h, e.starved)
    mix_ops(&h, e)
    if e.policy.hash != NULL:
        e.policy.hash(e, &h)
    mix_unexpected(&h, e)
    mix_lanes(&h, e)
    mix_schedules(&h, e)
    for i in range(e.size):
        mix_peer(&h, e, &e.peers[i])
    return h
