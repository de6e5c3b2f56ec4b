# cython: language_level=3
"""What the trace of an engine consists of; ``trace`` writes and reads it."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t


cdef enum:
    EVENTS = 2048               # that an engine remembers; a power of two
    EVENTS_WRITTEN = 1 << 17    # the same, if they are to be written out
    NO_OPERATION = 0xFFFFFFFF   # event.op of what is nobody's

cdef enum trace_kind:
    TRACE_POST = 1              # an operation was started
    TRACE_CHOOSE = 2            # its protocol was chosen, or changed; with the reason
    TRACE_REGISTER = 3          # its memory was registered, or was already; `error`: refused
    TRACE_CREDIT = 4            # small, but its receiver owes credit: it goes another way
    TRACE_QUEUE = 5             # a send waits for room, or behind one that does
    TRACE_ANNOUNCE = 6          # a message was announced; `number` is that of the announcement
    TRACE_MATCH = 7             # a receive got its message; `number` as above, of its sender
    TRACE_UNEXPECTED = 8        # a message came for which no receive was posted
    TRACE_BEGIN = 9             # a READ, a WRITE or a chunk was posted
    TRACE_END = 10              # it ended
    TRACE_COMPLETE = 11         # an operation ended; of eager ones only if an error is its end
    TRACE_OFFER = 12            # a receive offered its buffer
    TRACE_USED = 13             # a send writes into an offered buffer
    TRACE_DROPPED = 14          # an offer that came was of no use
    TRACE_SLEEP = 15            # a waiter sleeps
    TRACE_WAKE = 16
    TRACE_LOST = 17             # a peer died, or broke the rules
    TRACE_CLOSED = 18           # a peer ended in good order

cdef struct event_t:            # 64 bytes, a line of the cache
    uint64_t ticks
    uint64_t length             # bytes of the message, or of what moves
    uint32_t op                 # index of the operation, or NO_OPERATION
    uint32_t generation
    uint32_t peer               # world rank, or ANY_PEER
    uint32_t context
    int32_t tag
    uint32_t number             # of the announcement, per pair of ranks and direction
    uint8_t kind                # trace_kind
    uint8_t side                # op_kind; 0: of no operation
    uint8_t protocol            # protocol_code
    uint8_t reason              # choice_reason
    int32_t error               # op_error
    float cost                  # seconds, as op.cost and op.instead
    float instead
    uint32_t line               # of the program that posted it, as op.line
    uint32_t spare

cdef struct trace_t:
    event_t *events             # ring, the oldest is overwritten
    uint64_t mask               # its length, less one
    void *memory                # what `events` lies in
    uint64_t count              # of all events so far
    uint64_t clock              # ticks when they were last read; noted without the lock, too
    uint32_t line               # of the program that calls, as op.line; of whoever holds the GIL
    uint8_t exact               # each event reads the clock, those of small messages as well
