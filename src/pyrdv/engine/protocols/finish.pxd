# cython: language_level=3
"""FINISH: the orderly end of a rank.  Under the lock."""
from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport call_t, peer_t

# call.  Tell `p` that this rank announces and receives nothing more; whether that is done.
cdef bint finish_tell(call_t *call, peer_t *p) noexcept nogil

cdef protocol_t *finish_protocol() noexcept nogil
