# cython: language_level=3
"""Matching: which receive takes which message.

Invariants (cited by tests):

M1  All entries of one key (context, peer, tag) form one queue in order of
    posting or arrival.  Its oldest entry, the *leader*, stands in the hash
    chain; the others hang behind it.  So a queue of any length costs other
    keys one link, and matching does not depend on how many are posted.
M2  A posted receive has one key, which may hold wildcards.  An announcement
    looks at the (at most four) keys that could take it and chooses the
    receive with the smallest posting order.  Kinds nobody posted are skipped.
M3  An unexpected message stands under four keys, one per kind of receive, so
    every receive finds the oldest message it can take with one look.
M4  Removal from the middle (cancel) keeps the order of the rest.
"""
from libc.stdlib cimport calloc, free
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t

from pyrdv.engine.op cimport message_hold
from pyrdv.engine.state cimport (
    ANY_PEER, ANY_TAG_, OP_MATCH, PROTOCOL_GET, call_t, engine_t, index_t, message_t, node_t, op_t)
from pyrdv.engine.trace cimport trace_early


cdef extern from "order.h" nogil:
    void adjust32(uint32_t *where, int32_t amount)

cdef enum:
    BUCKETS_FIRST = 256


cdef inline uint32_t hash_key(uint32_t context, uint32_t peer, int32_t tag) noexcept nogil:
    # Odd multipliers of the golden-ratio family, then a fold of the high bits.
    cdef uint32_t h = context * <uint32_t> 0x9E3779B1u
    h ^= peer * <uint32_t> 0x85EBCA77u
    h ^= (<uint32_t> tag) * <uint32_t> 0xC2B2AE3Du
    h ^= h >> 15
    h *= <uint32_t> 0x2C1B3C6Du
    return h ^ (h >> 13)


cdef int index_init(index_t *index) noexcept nogil:
    index.buckets = <node_t **> calloc(BUCKETS_FIRST, sizeof(node_t *))
    index.mask = BUCKETS_FIRST - 1
    index.entries = 0
    return 0 if index.buckets != NULL else -1


cdef void index_free(index_t *index) noexcept nogil:
    free(index.buckets)
    index.buckets = NULL


cdef inline void lead(index_t *index, node_t *node) noexcept nogil:
    """Put `node`, whose queue is complete, at the head of its bucket."""
    cdef node_t **bucket = &index.buckets[node.hash & index.mask]
    node.chain = bucket[0]
    node.back = bucket
    if node.chain != NULL:
        node.chain.back = &node.chain
    bucket[0] = node


cdef inline node_t *leader_of(index_t *index, uint32_t hash_, uint32_t context, uint32_t peer,
                              int32_t tag) noexcept nogil:
    cdef node_t *at = index.buckets[hash_ & index.mask]
    while at != NULL:
        if at.hash == hash_ and at.tag == tag and at.peer == peer and at.context == context:
            return at
        at = at.chain
    return NULL


cdef inline void index_add(index_t *index, node_t *node, uint32_t context, uint32_t peer,
                           int32_t tag) noexcept nogil:
    cdef node_t *leader
    node.context = context
    node.peer = peer
    node.tag = tag
    node.hash = hash_key(context, peer, tag)
    node.next = NULL
    index.entries += 1
    leader = leader_of(index, node.hash, context, peer, tag)
    if leader == NULL:
        node.prev = NULL
        node.last = node
        lead(index, node)
    else:
        node.back = NULL
        node.prev = leader.last
        leader.last.next = node
        leader.last = node


cdef inline void index_remove(index_t *index, node_t *node) noexcept nogil:
    cdef node_t *heir
    cdef node_t *leader
    index.entries -= 1
    if node.back != NULL:
        heir = node.next
        if heir == NULL:
            node.back[0] = node.chain
            if node.chain != NULL:
                node.chain.back = node.back
        else:
            # The next in the queue takes the leader's place in the chain.
            heir.prev = NULL
            heir.last = node.last
            heir.chain = node.chain
            heir.back = node.back
            heir.back[0] = heir
            if heir.chain != NULL:
                heir.chain.back = &heir.chain
        node.back = NULL
        return
    node.prev.next = node.next
    if node.next != NULL:
        node.next.prev = node.prev
    else:
        leader = leader_of(index, node.hash, node.context, node.peer, node.tag)
        leader.last = node.prev


cdef void grow(index_t *index) noexcept nogil:
    cdef uint32_t old = index.mask + 1
    cdef uint32_t i
    cdef node_t *at
    cdef node_t *after
    cdef node_t **buckets = index.buckets
    cdef node_t **wider = <node_t **> calloc(<size_t> old * 4, sizeof(node_t *))
    if wider == NULL:
        return
    index.buckets = wider
    index.mask = old * 4 - 1
    for i in range(old):
        at = buckets[i]
        while at != NULL:
            after = at.chain
            lead(index, at)
            at = after
    free(buckets)


cdef void posted_reserve(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    if e.posted.entries > e.posted.mask:
        grow(&e.posted)


cdef void unexpected_reserve(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    if e.unexpected.entries > e.unexpected.mask:
        grow(&e.unexpected)


cdef inline int kind_of(uint32_t peer, int32_t tag) noexcept nogil:
    return (1 if tag == ANY_TAG_ else 0) + (2 if peer == ANY_PEER else 0)


cdef void posted_add(engine_t *e, op_t *op) noexcept nogil:
    e.order += 1
    op.order = e.order
    e.posted_kinds[kind_of(op.peer, op.tag)] += 1
    op.node.entry = op
    index_add(&e.posted, &op.node, op.context, op.peer, op.tag)


cdef void posted_remove(engine_t *e, op_t *op) noexcept nogil:
    e.posted_kinds[kind_of(op.peer, op.tag)] -= 1
    index_remove(&e.posted, &op.node)


cdef inline op_t *older(op_t *best, index_t *index, uint32_t context, uint32_t peer,
                        int32_t tag) noexcept nogil:
    cdef node_t *node = leader_of(index, hash_key(context, peer, tag), context, peer, tag)
    cdef op_t *op
    if node == NULL:
        return best
    op = <op_t *> node.entry
    return op if best == NULL or op.order < best.order else best


cdef op_t *posted_find(engine_t *e, uint32_t context, uint32_t peer, int32_t tag) noexcept nogil:
    cdef op_t *best = NULL
    if e.posted_kinds[0]:
        best = older(best, &e.posted, context, peer, tag)
    if e.posted_kinds[1]:
        best = older(best, &e.posted, context, peer, ANY_TAG_)
    if e.posted_kinds[2]:
        best = older(best, &e.posted, context, ANY_PEER, tag)
    if e.posted_kinds[3]:
        best = older(best, &e.posted, context, ANY_PEER, ANY_TAG_)
    return best


cdef bint posted_behind_wildcard(engine_t *e, const op_t *op) noexcept nogil:
    cdef op_t *wild = NULL
    if e.posted_kinds[1]:
        wild = older(wild, &e.posted, op.context, op.peer, ANY_TAG_)
    if e.posted_kinds[2]:
        wild = older(wild, &e.posted, op.context, ANY_PEER, op.tag)
    if e.posted_kinds[3]:
        wild = older(wild, &e.posted, op.context, ANY_PEER, ANY_TAG_)
    return wild != NULL and wild.order < op.order


cdef int posted_ahead(engine_t *e, const op_t *op, int limit) noexcept nogil:
    cdef node_t *at = leader_of(&e.posted, op.node.hash, op.context, op.peer, op.tag)
    cdef int ahead = 0
    if posted_behind_wildcard(e, op):
        return -1
    while at.entry != op:
        if ahead == limit or (<op_t *> at.entry).kind == OP_MATCH:
            return -1
        ahead += 1
        at = at.next
    return ahead


cdef void unexpected_add(engine_t *e, message_t *m) noexcept nogil:
    cdef int i
    for i in range(4):
        m.nodes[i].entry = m
        index_add(&e.unexpected, &m.nodes[i], m.context,
                  ANY_PEER if i & 2 else m.peer, ANY_TAG_ if i & 1 else m.tag)
    m.queued = 1


cdef inline void claim(engine_t *e, const message_t *m) noexcept nogil:
    if m.protocol == PROTOCOL_GET and e.policy.claimed != NULL:
        e.policy.claimed(&e.peers[m.peer])


cdef void unexpected_remove(engine_t *e, message_t *m) noexcept nogil:
    cdef int i
    for i in range(4):
        index_remove(&e.unexpected, &m.nodes[i])
    m.queued = 0
    claim(e, m)


cdef message_t *unexpected_find(engine_t *e, uint32_t context, uint32_t peer,
                                int32_t tag) noexcept nogil:
    cdef node_t *node = leader_of(&e.unexpected, hash_key(context, peer, tag),
                                  context, peer, tag)
    return NULL if node == NULL else <message_t *> node.entry


cdef void message_keep(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    m.number = e.peers[m.peer].recv_sequence
    if op != NULL:
        posted_remove(e, op)
        claim(e, m)
        message_hold(e, op, m)
    else:
        unexpected_add(e, m)
        e.counters.unexpected += 1
        trace_early(e, m)
        adjust32(&e.epoch, 1)
