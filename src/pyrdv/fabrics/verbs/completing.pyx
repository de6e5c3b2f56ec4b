# cython: language_level=3
"""Completions of what was posted (V4b, V6, L3, L4 in state.pxd)."""
from libc.stdint cimport uint32_t

from pyrdv.fabrics.contract cimport FABRIC_LOST, FABRIC_OK
from pyrdv.fabrics.verbs.libibverbs cimport IBV_WC_SUCCESS, ibv_wc
from pyrdv.fabrics.verbs.posting cimport link_busy, link_fail
from pyrdv.fabrics.verbs.sending cimport held_post
from pyrdv.fabrics.verbs.state cimport (
    FAIL_TRANSPORT, SQ_DEPTH, SQ_PING, SQ_READ, SQ_WRITE, link_t, sq_entry_t, verbs_t)


cdef void pass_silent(link_t *link) noexcept nogil:
    """Skip what poll has nothing to tell about."""
    while link.sq_told != link.sq_done and not link.sq[link.sq_told % SQ_DEPTH].signaled:
        link.sq_told += 1


cdef void finish(link_t *link, sq_entry_t *entry, int status) noexcept nogil:
    if entry.done:
        return
    entry.done = 1
    entry.status = <signed char> status
    # SENDs are done in their order, so slots are freed in theirs.
    link.slot_done += entry.slots
    link.fences -= entry.fenced
    if entry.kind == SQ_READ:
        link.reads -= 1
    elif entry.kind == SQ_WRITE:
        link.writes -= 1
    elif entry.kind == SQ_PING:
        link.reads -= 1
        if status == FABRIC_OK:
            link.pinged_at = 0


cdef void retire(verbs_t *f, link_t *link, uint32_t position) noexcept nogil:
    """`position` is complete, and all before it that are no READs (V4b, V6)."""
    cdef uint32_t at = link.sq_done
    cdef sq_entry_t *entry
    while True:
        entry = &link.sq[at % SQ_DEPTH]
        if at == position or (entry.kind != SQ_READ and entry.kind != SQ_PING):
            finish(link, entry, FABRIC_OK)
        if at == position:
            break
        at += 1
    advance(f, link)


cdef void advance(verbs_t *f, link_t *link) noexcept nogil:
    while link.sq_done != link.sq_head and link.sq[link.sq_done % SQ_DEPTH].done:
        link.sq_done += 1
    pass_silent(link)
    if link.sq_told != link.sq_done:
        link_busy(f, link)


cdef void transfers_lost(verbs_t *f, link_t *link) noexcept nogil:
    cdef uint32_t at = link.sq_done
    while at != link.sq_head:
        finish(link, &link.sq[at % SQ_DEPTH], FABRIC_LOST)
        at += 1
    advance(f, link)


cdef void flushed(link_t *link, uint32_t position) noexcept nogil:
    """`position` failed: the device has done with it, and with all before it that are no READs."""
    cdef uint32_t at = link.sq_done
    while at != position:
        if link.sq[at % SQ_DEPTH].kind != SQ_READ:
            link.sq[at % SQ_DEPTH].flushed = 1
        at += 1
    link.sq[position % SQ_DEPTH].flushed = 1


cdef void completed(verbs_t *f, link_t *link, const ibv_wc *wc) noexcept nogil:
    cdef uint32_t position = <uint32_t> wc.wr_id & 0x7FFFFFFF
    cdef uint32_t ahead = (position - link.sq_done) & 0x7FFFFFFF
    if ahead >= link.sq_head - link.sq_done:
        return                  # a flush of what was ended already
    if wc.status != IBV_WC_SUCCESS:
        # The link takes its transfers along when it goes down (L3); their order stays.
        flushed(link, link.sq_done + ahead)
        link_fail(f, link, FAIL_TRANSPORT, wc.status)
        return
    link.heard = 1
    retire(f, link, link.sq_done + ahead)
    if link.held_head != link.held_tail:
        held_post(f, link)
