# cython: language_level=3
"""Completions of what was posted (V4b, V6, L3, L4 in state.pxd)."""
from libc.stdint cimport uint32_t

from pyrdv.fabrics.contract cimport FABRIC_LOST, FABRIC_OK
from pyrdv.fabrics.verbs.libibverbs cimport IBV_WC_SUCCESS, ibv_wc
from pyrdv.fabrics.verbs.posting cimport link_busy, link_fail
from pyrdv.fabrics.verbs.sending cimport held_post
from pyrdv.fabrics.verbs.state cimport (
    FAIL_TRANSPORT, SQ_DEPTH, SQ_PING, SQ_READ, SQ_WRITE, qp_t, sq_entry_t, verbs_t)


cdef void pass_silent(qp_t *qp) noexcept nogil:
    """Skip what poll has nothing to tell about."""
    while qp.sq_told != qp.sq_done and not qp.sq[qp.sq_told % SQ_DEPTH].signaled:
        qp.sq_told += 1


cdef void finish(qp_t *qp, sq_entry_t *entry, int status) noexcept nogil:
    if entry.done:
        return
    entry.done = 1
    entry.status = <signed char> status
    # SENDs are done in their order, so slots are freed in theirs.
    qp.slot_done += entry.slots
    qp.fences -= entry.fenced
    if entry.kind == SQ_READ:
        qp.reads -= 1
    elif entry.kind == SQ_WRITE:
        qp.writes -= 1
    elif entry.kind == SQ_PING:
        qp.reads -= 1
        if status == FABRIC_OK:
            qp.link.pinged_at = 0


cdef void retire(verbs_t *f, qp_t *qp, uint32_t position) noexcept nogil:
    """`position` is complete, and all before it that are no READs (V4b, V6)."""
    cdef uint32_t at = qp.sq_done
    cdef sq_entry_t *entry
    while True:
        entry = &qp.sq[at % SQ_DEPTH]
        if at == position or (entry.kind != SQ_READ and entry.kind != SQ_PING):
            finish(qp, entry, FABRIC_OK)
        if at == position:
            break
        at += 1
    advance(f, qp)


cdef void advance(verbs_t *f, qp_t *qp) noexcept nogil:
    while qp.sq_done != qp.sq_head and qp.sq[qp.sq_done % SQ_DEPTH].done:
        qp.sq_done += 1
    pass_silent(qp)
    if qp.sq_told != qp.sq_done:
        link_busy(f, qp.link)


cdef void transfers_lost(verbs_t *f, qp_t *qp) noexcept nogil:
    cdef uint32_t at = qp.sq_done
    while at != qp.sq_head:
        finish(qp, &qp.sq[at % SQ_DEPTH], FABRIC_LOST)
        at += 1
    advance(f, qp)


cdef void flushed(qp_t *qp, uint32_t position) noexcept nogil:
    """`position` failed: the device has done with it, and with all before it that are no READs."""
    cdef uint32_t at = qp.sq_done
    while at != position:
        if qp.sq[at % SQ_DEPTH].kind != SQ_READ:
            qp.sq[at % SQ_DEPTH].flushed = 1
        at += 1
    qp.sq[position % SQ_DEPTH].flushed = 1


cdef void completed(verbs_t *f, qp_t *qp, const ibv_wc *wc) noexcept nogil:
    cdef uint32_t position = <uint32_t> wc.wr_id & 0x7FFFFFFF
    cdef uint32_t ahead = (position - qp.sq_done) & 0x7FFFFFFF
    if ahead >= qp.sq_head - qp.sq_done:
        return                  # a flush of what was ended already
    if wc.status != IBV_WC_SUCCESS:
        # The link takes its transfers along when it goes down (L3); their order stays.
        flushed(qp, qp.sq_done + ahead)
        link_fail(f, qp.link, FAIL_TRANSPORT, wc.status)
        return
    qp.link.heard = 1
    retire(f, qp, qp.sq_done + ahead)
    if qp.held_head != qp.held_tail:
        held_post(f, qp)
