# cython: language_level=3
"""Superpipeline: RTS, GRANT, chunks by WRITE, CHUNK, TAKEN, DONE.  Step-safe, under the lock."""
from pyrdv.engine.protocols.lanes cimport lane_peer_t
from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.state cimport peer_t

# What it keeps of `p`.
cdef lane_peer_t *pipe_peer(const peer_t *p) noexcept nogil

cdef protocol_t *pipeline_protocol() noexcept nogil
