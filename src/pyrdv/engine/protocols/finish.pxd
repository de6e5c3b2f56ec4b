# cython: language_level=3
"""FINISH: the orderly end of a rank.  Under the lock."""
from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport engine_t, peer_t

# step.  Tell `p` that this rank announces and receives nothing more; a fabric_status.
cdef int finish_post(engine_t *e, peer_t *p) noexcept nogil

cdef protocol_t *finish_protocol() noexcept nogil
