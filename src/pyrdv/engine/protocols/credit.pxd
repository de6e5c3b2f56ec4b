# cython: language_level=3
"""CREDIT: what is given back to a peer, told on its own.  Step-safe, under the lock."""
from pyrdv.engine.protocols.contract cimport protocol_t

cdef protocol_t *credit_protocol() noexcept nogil
