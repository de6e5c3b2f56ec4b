# cython: language_level=3
"""FINISH: the orderly end of a rank.  Under the lock."""
from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport call_t, engine_t, peer_t

# step.  Tell `p` that this rank announces and receives nothing more; a fabric_status.
cdef int finish_post(engine_t *e, peer_t *p) noexcept nogil
# call.  End every operation that only `p` could complete; `all`: also those that
# need its memory (it is gone altogether).
cdef void end_operations(call_t *call, peer_t *p, bint everything) noexcept nogil

cdef protocol_t *finish_protocol() noexcept nogil
