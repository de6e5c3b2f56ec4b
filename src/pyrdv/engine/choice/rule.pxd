# cython: language_level=3
"""The rule by which protocols are chosen: a function of facts and of nothing else.  Step-safe."""
from libc.stdint cimport uint8_t, uint64_t

from pyrdv.engine.state cimport figures_t

cdef struct facts_t:            # what the rule goes by, for one message and one side of it
    const figures_t *figures    # of the fabric
    uint64_t length             # bytes
    uint8_t asked               # protocol_choice
    bint pins                   # registering costs something there
    bint registered             # its memory is, for this operation
    bint waited                 # both ends wait for it, and a lane is free
    double near                 # messages that a registration of this side would serve; 0: is there
    double far                  # the same of the other side

cdef struct decision_t:
    uint8_t protocol            # protocol_code
    uint8_t reason              # choice_reason
    double cost                 # seconds of that protocol, and of what it was compared with;
    double instead              # 0: nothing was compared

# A message that may go eager and has credit is eager; of the others:
# Is it copied into a standing buffer, which there is for it?  Fills `out` if so.
cdef bint rule_place(const facts_t *facts, decision_t *out) noexcept nogil
# Is it read, or copied through lanes?  Fills `out`.
cdef void rule_read(const facts_t *facts, decision_t *out) noexcept nogil
