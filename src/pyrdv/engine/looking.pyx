# cython: language_level=3
"""Whether peers live, asked by calls that never wait.

The end of a peer is noticed by `maintain`, a system call, and told by the next poll.  Who waits
comes to that soon.  A program that only sends small messages, or only tests, would find out when
a ring is full, or never: so such calls look after the peers, at most every `look_ns`.  Between two
looks they read the processor's counter.
"""
from libc.stdint cimport int32_t, uint64_t

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.state cimport OP_PEER_LOST, PEER_NEW, call_t, engine_t, peer_t
from pyrdv.engine.step cimport maintain, turn
from pyrdv.fabrics.contract cimport EVENT_LOST, FABRIC_LOST


cdef enum:
    DRAINS = 4096               # turns, each of a bounded number of packets


cdef void look_every(engine_t *e, uint64_t ns) noexcept nogil:
    e.look_ns = ns
    e.look_ticks = <uint64_t> -1
    if ns:
        e.look_ticks = ns * e.ticks.per_us // 1000


cdef void look(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    # The length of a tick may have been learned since.
    look_every(e, e.look_ns)
    e.looked = ticks_now()
    maintain(call)
    turn(call)


cdef int32_t peer_unreachable(call_t *call, peer_t *p) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int _i
    if p.state == PEER_NEW and not p.gone \
            and p.fabric.ops.connect(p.fabric, p.rank) == FABRIC_LOST:
        # What it had handed over comes first (F7), even over a connection not yet accepted.
        for _i in range(DRAINS):
            if maintain(call) + turn(call) == 0:
                break
        if not p.gone:
            p.gone = EVENT_LOST
            peer_call(e, p)
            turn(call)
    return OP_PEER_LOST
