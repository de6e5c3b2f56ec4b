# cython: language_level=3
"""The end of a peer.  Under the lock."""
from pyrdv.engine.state cimport call_t, peer_t

# call.  `p` has finished: end what can never complete now.
cdef void finish_peer(call_t *call, peer_t *p) noexcept nogil
# call.  `p` is gone altogether, or broke the rules: end whatever it took part in.
cdef void end_peer(call_t *call, peer_t *p) noexcept nogil
