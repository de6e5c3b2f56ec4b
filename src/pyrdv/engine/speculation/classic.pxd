# cython: language_level=3
"""The ``classic`` pairing of sends and offered receives, as published."""
from libc.stdint cimport uint8_t, uint32_t

from pyrdv.engine.speculation.offers cimport offers_t
from pyrdv.engine.state cimport node_t, policy_t

cdef enum:
    CLASSES = 64                # of envelopes, per peer; docs/wire.md, section 4.3

cdef struct class_t:            # envelopes that are treated as one
    uint32_t halts              # receiver: how often it heard STOP-RTR
    uint8_t stopped             # receiver: it heard STOP-RTR last
    uint8_t missed              # receiver: RTRs that met small messages, in a row
    uint8_t state               # sender: class_state
    node_t *oldest              # sender: those announced by RTS and not answered by anything
    node_t *newest

cdef struct classic_t:          # what it keeps of a peer
    offers_t offers
    uint32_t unacked            # its RTSs that were matched, and no answer was posted
    class_t classes[CLASSES]


cdef const policy_t *classic_policy() noexcept nogil
