# cython: language_level=3
"""The ``indexed`` pairing: an RTR says which send it is meant for.

An RTR carries `seen`, the number of announcements that its receiver had handled, and `ahead`,
the number of earlier receives of its envelope that were still unmatched.  The sender counts
the announcements m of that envelope that it posted after `seen`.

Invariants:

X1  No announcement that the receiver had handled matches the receive, or it would not be
    posted any more.  The next `ahead` of its envelope belong to the receives before it, so
    the one after them is its own, whatever else is posted later.
X2  X1 needs that nothing else takes messages of the envelope: no RTR is sent behind an
    earlier compatible wildcard, nor behind a matched probe, whose cancel would not wait.
X3  X1 needs that no receive before it is taken back: a cancel first revokes all RTRs
    (``rendezvous_put``).
X4  m > `ahead`: its own message was announced already; the RTR is stale and dropped.
    Otherwise `skip` = `ahead` - m more announcements of the envelope come first.  At `skip`
    = 0 the next one takes the offer away, used or not.  So an offer is never kept beyond
    its own message, and none can be used for another.
X5  Dropping an RTR is always safe: its message is then announced by RTS.  So the log of
    announcements may be short: an RTR that is older than the log is dropped.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.digest cimport mix
from pyrdv.engine.matching cimport posted_ahead
from pyrdv.engine.speculation.offers cimport (
    offer_drop, offer_keep, offer_lost, offers_hash, offers_of)
from pyrdv.engine.speculation.regret cimport (
    regret_hash, regret_heard, regret_hopes, regret_met, regret_offered, regret_read, regret_t,
    regret_withholds)
from pyrdv.engine.state cimport engine_t, offer_t, op_t, peer_t, policy_t
from pyrdv.engine.wire cimport PACKET_START, header_t, rtr_t


cdef enum:
    AHEAD_MAX = 16              # further back no RTR is sent: it bounds the look at the queue


cdef inline indexed_t *own(const peer_t *p) noexcept nogil:
    return <indexed_t *> p.pairing


cdef bint indexed_may_offer(engine_t *e, op_t *op, uint32_t *ahead) noexcept nogil:
    cdef int found = posted_ahead(e, op, AHEAD_MAX)
    if found < 0:
        return False
    ahead[0] = <uint32_t> found
    return True


cdef void indexed_arrived(engine_t *e, peer_t *p, const rtr_t *rtr) noexcept nogil:
    cdef uint32_t unseen = p.send_sequence - rtr.header.sequence
    cdef uint32_t i
    cdef uint32_t later = 0
    cdef const sent_t *sent
    regret_heard(e, p, &rtr.header)
    if unseen > SENT_LOG:
        e.counters.rtrs_refused += 1
        offer_lost(e, p, rtr.header.context, rtr.header.tag)
        return
    for i in range(unseen):
        sent = &own(p).sent[(rtr.header.sequence + i) % SENT_LOG]
        if sent.tag == rtr.header.tag and sent.context == rtr.header.context:
            later += 1
    if later > rtr.ahead:
        e.counters.rtrs_stale += 1
        offer_lost(e, p, rtr.header.context, rtr.header.tag)
    elif not offer_keep(e, p, rtr, rtr.ahead - later):
        e.counters.rtrs_refused += 1


cdef offer_t *indexed_find(engine_t *e, peer_t *p, uint32_t context,
                           int32_t tag) noexcept nogil:
    cdef offer_t *at = offers_of(p).first
    while at != NULL:
        if at.skip == 0 and at.tag == tag and at.context == context:
            return at
        at = at.next
    return NULL


cdef void indexed_announced(engine_t *e, peer_t *p, const header_t *h) noexcept nogil:
    cdef sent_t *sent = &own(p).sent[p.send_sequence % SENT_LOG]
    cdef offer_t **link = &own(p).offers.first
    cdef offer_t *at = link[0]
    cdef bint used = h.kind == PACKET_START
    sent.context = h.context
    sent.tag = h.tag
    while at != NULL:
        if at.tag != h.tag or at.context != h.context:
            link = &at.next
        elif at.skip:
            at.skip -= 1
            link = &at.next
        else:
            offer_drop(e, p, link)
            if not used:
                e.counters.rtrs_unused += 1
                offer_lost(e, p, h.context, h.tag)
        at = link[0]


cdef void indexed_hash(const peer_t *p, uint64_t *h) noexcept nogil:
    cdef uint32_t i
    offers_hash(p, h)
    for i in range(min(p.send_sequence, <uint32_t> SENT_LOG)):
        mix(h, <uint64_t> own(p).sent[i].context << 32 | <uint32_t> own(p).sent[i].tag)


cdef policy_t operations
operations.offers = True
operations.engine_bytes = sizeof(regret_t)
operations.peer_bytes = sizeof(indexed_t)
operations.may_offer = indexed_may_offer
operations.withholds = regret_withholds
operations.offered = regret_offered
operations.met = regret_met
operations.read = regret_read
operations.hopes = regret_hopes
operations.arrived = indexed_arrived
operations.find = indexed_find
operations.announced = indexed_announced
operations.hash = regret_hash
operations.hash_peer = indexed_hash


cdef const policy_t *indexed_policy() noexcept nogil:
    return &operations
