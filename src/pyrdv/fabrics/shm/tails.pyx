# cython: language_level=3
"""The packet behind a shared transfer.

A DONE or FIN is fenced behind the transfer that it speaks of.  The poster may compute, outside
of the library, when the helper moves the last chunk; then nobody would post that packet.  So a
copy of it stands in the job's *tail* (csrc/ring.h), and one of the two delivers it.

Y1  Exactly one delivers it: the word in the job goes from ARMED to BACK by the producer, or to
    CLAIMED by the consumer, by compare-and-swap; its generation tells old jobs from new ones.
Y2  The consumer takes it only when its own chunk was the last (`done` equals the number of
    chunks) and nothing failed.  A producer that fails takes it back before it counts its chunk
    as done, and a helper that failed does not take it.
Y3  The consumer copies the tail before it says TAKEN, and the producer does not use the job
    again before.
Y4  A packet from a tail takes its place behind those that were in the ring when the job was
    published, for what stood before it in its chain is among them, and before those that come
    after it was taken (F1).
"""
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_LOST, FABRIC_OK, WR_SEND
from pyrdv.fabrics.shm.channel cimport (
    SHM_JOBS, SHM_TAIL, SHM_TAIL_ARMED, SHM_TAIL_BACK, SHM_TAIL_CLAIMED, SHM_TAIL_TAKEN,
    claim64, glance32, inbound_t, node_t, observe64, outbound_t, publish64, shm_claim, shm_job,
    shm_tail, shm_tail_word)


cdef inline node_t *tail_of(node_t *node) noexcept nogil:
    # The SEND that waits for this transfer and for nothing else, and ends the chain, or NULL.
    cdef node_t *send = node.next
    if (send == NULL or send.chain != node.chain or send.opcode != WR_SEND
            or send.length > SHM_TAIL or (send.next != NULL and send.next.chain == node.chain)
            or (node.previous != NULL and node.previous.chain == node.chain)):
        return NULL
    return send


cdef void tail_arm(outbound_t *out, node_t *node, uint64_t claim) noexcept nogil:
    cdef node_t *send = tail_of(node)
    cdef shm_tail *tail = &out.segment.tails[node.slot]
    node.tailed = send != NULL
    if send != NULL:
        tail.length = <uint32_t> send.length
        tail.after = out.head
        memcpy(tail.data, send.data, send.length)
    publish64(&out.segment.jobs[node.slot].tail,
              shm_tail_word(claim, SHM_TAIL_ARMED if node.tailed else SHM_TAIL_BACK))


cdef int tail_back(outbound_t *out, node_t *node) noexcept nogil:
    # Partner: tail_take.
    cdef shm_job *job
    cdef uint64_t claim
    if not node.tailed:
        return FABRIC_OK
    job = &out.segment.jobs[node.slot]
    claim = shm_claim(out.generation[node.slot], 0, 0)
    if claim64(&job.tail, shm_tail_word(claim, SHM_TAIL_ARMED),
               shm_tail_word(claim, SHM_TAIL_BACK)):
        node.tailed = 0
        return FABRIC_OK
    if observe64(&job.tail) == shm_tail_word(claim, SHM_TAIL_TAKEN):
        return FABRIC_LOST
    return FABRIC_AGAIN


cdef void tail_take(inbound_t *into, int index, uint64_t claim) noexcept nogil:
    # Partner: tail_back.  Without room the producer delivers it when it comes by.
    cdef shm_job *job = &into.segment.jobs[index]
    cdef shm_tail *kept = &into.kept[into.kept_tail % SHM_JOBS]
    if into.kept_tail - into.kept_head == SHM_JOBS:
        return
    if not claim64(&job.tail, shm_tail_word(claim, SHM_TAIL_ARMED),
                   shm_tail_word(claim, SHM_TAIL_CLAIMED)):
        return
    kept.length = glance32(&into.segment.tails[index].length)
    if kept.length > SHM_TAIL:
        kept.length = SHM_TAIL  # nonsense from a broken peer: the engine refuses it
    kept.after = glance32(&into.segment.tails[index].after)
    memcpy(kept.data, into.segment.tails[index].data, kept.length)
    into.kept_tail += 1
    publish64(&job.tail, shm_tail_word(claim, SHM_TAIL_TAKEN))
