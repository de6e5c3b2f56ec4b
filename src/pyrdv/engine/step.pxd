# cython: language_level=3
"""One bounded, non-blocking turn of progress.  Under the lock."""
from pyrdv.engine.state cimport call_t, engine_t, op_t, peer_t

# step.  Take a batch of packets from every fabric, serve peers that wait to
# post; returns how many things happened.
cdef int step(engine_t *e) noexcept nogil
# call.  One step of it; with PYRDV_DEBUG one by itself, as a signal would make it, and another one
# if that left something to a call.
cdef int call_step(call_t *call) noexcept nogil
# call.  Further steps while READs or WRITEs need polls; how many things happened.
cdef int keep_moving(call_t *call) noexcept nogil
# call.  Have free what steps take from pools.
cdef void refill(call_t *call) noexcept nogil
# call.  step, and what only a call may do: refill pools, connect, end peers,
# now and then accept connections.
cdef int turn(call_t *call) noexcept nogil
# call.  Accept connections and notice deaths on every fabric.
cdef int maintain(call_t *call) noexcept nogil
# step.  Announce send `op`, the first in the queue of its peer; `served`.
cdef int announce(engine_t *e, peer_t *p, op_t *op) noexcept nogil
