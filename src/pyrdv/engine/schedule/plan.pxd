# cython: language_level=3
"""What a schedule consists of.  `schedule` executes it; who builds it fills these structs.

All memory of a schedule is one block that its builder allocates, and keeps while anything of it is
under way (`schedule`, L6).
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.state cimport op_t
from pyrdv.memory.mappings cimport owner_t

# ``into[i] = from[i] op into[i]``, or with the operands exchanged (``csrc/reduce.h``).
ctypedef void (*reduce_t)(const char *origin, char *into, size_t count) noexcept nogil

cdef enum action_kind:
    ACTION_SEND = 1             # `bytes` of `buffer` to `peer`
    ACTION_RECV = 2             # into `buffer`, exactly `bytes` of them, from `peer`
    ACTION_REDUCE = 3           # `origin` and `buffer` into `buffer`, by `reduce`
    ACTION_COPY = 4             # `origin` into `buffer`
    ACTION_CALL = 5             # by Python, in a call: the builder does it (`schedule_waits`)

cdef struct action_t:
    uint8_t kind                # action_kind
    uint8_t part                # its message is marked: one of the parts that a vector is cut into
    uint8_t excused             # receive: what `peer` has not announced, it will not send any more
    uint32_t peer               # world rank, never this one
    char *buffer
    const char *origin
    uint64_t length             # bytes
    uint32_t unit               # reductions: bytes of one element
    reduce_t reduce
    owner_t *owner              # of `buffer`, if it is to be sent or received into; or NULL
    op_t *op                    # send, receive: reserved when the schedule starts

cdef struct round_t:            # actions `begin` .. `end` - 1; messages first, then the rest
    uint32_t begin, middle, end

cdef enum schedule_state:
    SCHEDULE_NEW = 0            # not started
    SCHEDULE_OPENS = 1          # its round is to be started
    SCHEDULE_MOVES = 2          # messages of its round are under way
    SCHEDULE_WORKS = 3          # they are complete: reductions and copies
    SCHEDULE_ENDS = 4           # it has failed, and waits for what may still write to its memory
    SCHEDULE_OVER = 5

cdef struct schedule_t:
    schedule_t *next            # those that are not over
    schedule_t *before
    op_t *op                    # what its request waits for (OP_SCHEDULE)
    action_t *actions
    round_t *rounds
    uint32_t *members           # world ranks of its communicator
    uint32_t action_count, round_count, member_count
    uint32_t context
    int32_t tag
    uint8_t state               # schedule_state
    uint8_t calling             # its next action is ACTION_CALL
    uint8_t strict              # members whose lengths differ may have other rounds (L5)
    uint8_t way                 # which algorithm it is, as `pyrdv.algorithms` counts; 0: not chosen
    uint8_t reason              # why that one
    uint32_t round              # the present one
    uint32_t at                 # the first action of it that is not complete
    uint64_t offset             # bytes of that one that are done
    int32_t error               # op_error: what its request will tell
    uint32_t culprit            # world rank: with whom that happened
    uint64_t total, room        # OP_TRUNCATED, OP_SHORT: bytes that came, and were expected


# What is not under way becomes new again: its actions, rounds and members stay.
cdef inline void schedule_renew(schedule_t *s) noexcept nogil:
    s.next = s.before = NULL
    s.op = NULL
    s.state = SCHEDULE_NEW
    s.calling = 0
    s.round = s.at = s.culprit = 0
    s.offset = s.total = s.room = 0
    s.error = 0
