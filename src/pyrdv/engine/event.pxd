# cython: language_level=3
"""What the trace of an engine consists of; ``trace`` writes it, ``pyrdv.recorded`` reads it.

An event is a slot of 32 bytes, half a line of the cache.  Of an eager message that is all, for its
protocol, reason and side follow from the kind.  Every other event of an operation or of a message
has a second slot behind it, `more_t`; it begins at an even slot, so it is one line.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef enum:
    SLOTS = 2048                # that an engine remembers; a power of two
    SLOTS_WRITTEN = 8192        # the same if they go to a file, half of them at a time
    HEAD = 4096                 # bytes of a file before its ring: a page
    NO_OPERATION = 0xFFFFFFFF   # more_t.op of what is nobody's

cdef enum trace_kind:
    TRACE_NOTHING = 0           # a slot left out
    TRACE_POST = 1              # an operation was started (T3)
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
    TRACE_ALONE = 19            # a step by itself, not one of a call, moved something
    TRACE_EAGER_SENT = 32       # an eager message was announced
    TRACE_EAGER_GOT = 33        # a receive was posted, `waited` ticks ago, and now got one
    TRACE_EAGER_EARLY = 34      # one came for which no receive was posted
    TRACE_MORE = 0x80           # flag: the next slot is the event's, too

cdef enum trace_block:          # what the file of an engine has behind its ring
    BLOCK_EVENTS = 1            # slots of the ring
    BLOCK_LINE = 2              # text: the next line of the program that got a number
    BLOCK_END = 3               # the engine was closed; nothing

cdef struct event_t:
    uint64_t ticks
    uint32_t waited             # of TRACE_EAGER_GOT; else 0
    uint32_t peer               # world rank, or ANY_PEER
    uint32_t context
    int32_t tag
    uint32_t number             # of the announcement, per pair of ranks and direction
    # trace_kind; above it, of the eager kinds the length, of others op_kind (0: of no operation),
    # protocol_code and choice_reason, 8 bits each.
    uint32_t what

cdef struct more_t:
    uint64_t length             # bytes of the message, or of what moves
    uint32_t op                 # index of the operation, or NO_OPERATION
    uint32_t generation
    float cost                  # seconds, as op.cost and op.instead
    float instead
    int32_t error               # op_error
    uint32_t line               # of the program that posted it, as op.line

cdef struct ring_t:             # 64 bytes; slots follow
    uint64_t count              # trace_t.count, if there is a file
    uint64_t written            # those of them that are behind the ring in the file
    uint64_t dropped            # and those that were overwritten before
    uint64_t ticks              # one moment by the counter and by the clock, the latest known
    int64_t ns
    uint64_t first_ticks        # the same when the engine was made
    int64_t first_ns
    int32_t error               # errno of the write that failed, after which none was tried; or 0
    uint32_t spare

cdef struct block_t:            # what a block begins with
    uint32_t kind               # trace_block
    uint32_t length             # bytes that follow
    uint64_t first              # which of all slots is the first here
    uint64_t ticks              # as ring_t
    int64_t ns

cdef struct trace_t:
    uint64_t count              # slots so far
    event_t *slots              # of the ring; the oldest is overwritten
    uint64_t mask               # how many, less one
    uint64_t clock              # counter when it was last read; noted without the lock, too
    uint32_t line               # of the program that calls, as op.line; of whoever holds the GIL
    uint8_t exact               # there is a file: each event reads the counter
    uint8_t lined               # lines of the program are noted
    uint8_t counter             # trace_time
    uint64_t told               # TIME_TOLD: what the time is
    ring_t *ring                # what the file says of the slots
    uint64_t due                # count at which a call writes; the largest number: never
    void *memory                # what all this lies in
    uint64_t size               # of that, if it is a file's
    int fd                      # that file, or -1
    uint64_t at                 # where its next block goes
    uint64_t most               # bytes that it may have
