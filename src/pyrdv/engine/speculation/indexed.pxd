# cython: language_level=3
"""The ``indexed`` pairing of sends and offered receives."""
from libc.stdint cimport int32_t, uint32_t

from pyrdv.engine.speculation.offers cimport offers_t
from pyrdv.engine.state cimport policy_t

cdef enum:
    SENT_LOG = 64               # announcements to one peer whose envelopes are remembered

cdef struct sent_t:             # the envelope of an announcement
    uint32_t context
    int32_t tag

cdef struct indexed_t:          # what it keeps of a peer
    offers_t offers
    sent_t sent[SENT_LOG]       # by sequence number


cdef const policy_t *indexed_policy() noexcept nogil
