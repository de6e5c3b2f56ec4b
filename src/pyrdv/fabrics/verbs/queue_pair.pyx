# cython: language_level=3
"""The life of one queue pair: tag, completion queue, making, end (K2, K3, K5 in link.pyx; W6)."""
from libc.errno cimport EAGAIN, EBUSY, EMFILE, ENOSPC, errno
from libc.stdint cimport uint32_t
from libc.string cimport memset

from pyrdv.fabrics.verbs.libibverbs cimport (
    IBV_QP_STATE, IBV_QPS_ERR, IBV_QPT_RC, ibv_cq, ibv_device_attr, ibv_qp, ibv_qp_attr,
    ibv_qp_init_attr, ibv_req_notify_cq)
from pyrdv.fabrics.verbs.state cimport (
    CONTROL_SLOTS, CQ_SHARERS, LACK_CQ, LACK_QP, SQ_DEPTH, SQ_READ, SQ_WRITE, qp_t, queue_t,
    sq_entry_t, verbs_t)


cdef enum:
    FIRST_INLINE = 256      # SCRATCH: more is never asked for


cdef void qp_tag(verbs_t *f, qp_t *qp, uint32_t index) noexcept nogil:
    f.tags[index].qp = qp
    f.tags[index].generation += 1
    qp.tag = index << 16 | f.tags[index].generation


cdef int make_cq(verbs_t *f, uint32_t each) noexcept nogil:
    # One more completion queue, for as many queue pairs as the device allows (K2).
    cdef ibv_device_attr attr
    cdef ibv_cq *cq
    cdef uint32_t wanted = f.base.size + 1 if f.base.size < CQ_SHARERS else CQ_SHARERS
    if f.lib.ibv_query_device(f.context, &attr) == 0 and attr.max_cqe > 0:
        if <uint32_t> attr.max_cqe < each:
            return lacking(f, LACK_CQ, ENOSPC)
        if <uint32_t> attr.max_cqe < each * wanted:
            wanted = <uint32_t> attr.max_cqe // each
    # Its events tell the number of the queue.
    cq = f.lib.ibv_create_cq(f.context, <int> (each * wanted), <void *> <size_t> f.queue_count,
                             f.channel, 0)
    if cq == NULL:
        return lacking(f, LACK_CQ, errno)
    if f.armed:
        ibv_req_notify_cq(cq, 0)
    f.queues[f.queue_count].cq = cq
    f.queues[f.queue_count].sharers = f.queues[f.queue_count].taken = 0
    f.queue_count += 1
    return 0


cdef void events_take(verbs_t *f) noexcept nogil:
    # The descriptor does not block: the loop ends when nothing is left.
    cdef ibv_cq *cq
    cdef void *number
    while f.channel != NULL and f.lib.ibv_get_cq_event(f.channel, &cq, &number) == 0:
        f.queues[<size_t> number].taken += 1


cdef void events_acknowledge(verbs_t *f) noexcept nogil:
    cdef queue_t *queue
    cdef uint32_t i
    for i in range(f.queue_count):
        queue = &f.queues[i]
        if queue.taken:
            f.lib.ibv_ack_cq_events(queue.cq, queue.taken)
            queue.taken = 0


cdef int qp_provide(verbs_t *f, qp_t *qp) noexcept nogil:
    cdef uint32_t each = qp.link.recv_slots + CONTROL_SLOTS + SQ_DEPTH
    cdef uint32_t i
    cdef int problem
    for i in range(f.queue_count):
        if (f.queues[i].sharers + 1) * each <= <uint32_t> f.queues[i].cq.cqe:
            qp.queue = i
            return 0
    problem = make_cq(f, each)
    qp.queue = f.queue_count - 1
    return problem


cdef void describe_qp(const verbs_t *f, const qp_t *qp, uint32_t size,
                      ibv_qp_init_attr *out) noexcept nogil:
    memset(out, 0, sizeof(ibv_qp_init_attr))
    out.send_cq = f.queues[qp.queue].cq
    out.recv_cq = f.queues[qp.queue].cq
    out.qp_type = IBV_QPT_RC
    out.cap.max_send_wr = SQ_DEPTH
    out.cap.max_recv_wr = qp.link.recv_slots + CONTROL_SLOTS
    out.cap.max_send_sge = 1
    out.cap.max_recv_sge = 1
    out.cap.max_inline_data = size


cdef int qp_make(verbs_t *f, qp_t *qp) noexcept nogil:
    # The inline limit differs between devices and cannot be asked for: try it.
    cdef ibv_qp_init_attr attr
    cdef uint32_t size = FIRST_INLINE
    cdef int problem = 0
    while True:
        describe_qp(f, qp, size, &attr)
        if f.lib.rdma_create_qp(qp.id, f.pd, &attr) == 0:
            qp.inline_max = size
            f.queues[qp.queue].sharers += 1
            return 0
        problem = errno
        if size == 0 or problem == EAGAIN or problem == EMFILE or problem == EBUSY:
            return lacking(f, LACK_QP, problem)
        size = size >> 1 if size > 64 else 0


cdef int qp_rehearse(verbs_t *f, qp_t *qp) noexcept nogil:
    cdef ibv_qp_init_attr attr
    cdef ibv_qp *trial
    describe_qp(f, qp, 0, &attr)
    trial = f.lib.ibv_create_qp(f.pd, &attr)
    if trial == NULL:
        return lacking(f, LACK_QP, errno)
    f.lib.ibv_destroy_qp(trial)
    return 0


cdef bint qp_stop(verbs_t *f, qp_t *qp) noexcept nogil:
    cdef ibv_qp_attr attr
    if qp.id == NULL or qp.id.qp == NULL:
        return False
    # The first tells the peer and lets iWARP end its stream in order, the second
    # holds wherever the first was refused.
    f.lib.rdma_disconnect(qp.id)
    memset(&attr, 0, sizeof(attr))
    attr.qp_state = IBV_QPS_ERR
    f.lib.ibv_modify_qp(qp.id.qp, &attr, IBV_QP_STATE)
    return True


cdef bint transfers_flushed(const qp_t *qp) noexcept nogil:
    """Whether no transfer of the engine is in the hands of the device any more."""
    cdef uint32_t at = qp.sq_done
    cdef const sq_entry_t *entry
    while at != qp.sq_head:
        entry = &qp.sq[at % SQ_DEPTH]
        if not entry.done and not entry.flushed and (
                entry.kind == SQ_READ or entry.kind == SQ_WRITE):
            return False
        at += 1
    return True


cdef void qp_destroy(verbs_t *f, qp_t *qp) noexcept nogil:
    if qp.id != NULL and qp.id.qp != NULL:
        f.lib.rdma_destroy_qp(qp.id)
        f.queues[qp.queue].sharers -= 1


cdef void qp_bury(verbs_t *f, qp_t *qp) noexcept nogil:
    qp_destroy(f, qp)
    # Every event that was taken is acknowledged, so this does not wait for us.
    if qp.id != NULL:
        f.lib.rdma_destroy_id(qp.id)
        qp.id = NULL
