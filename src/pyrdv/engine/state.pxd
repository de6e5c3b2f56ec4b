# cython: language_level=3
"""The engine's data, in one place.  Code lives in the modules named below.

All of it belongs to the engine's lock: who reads or writes a field holds it.
The memory of operations and messages is never given back to the system while
the engine lives, so a stale pointer can always be told by its generation.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.counters cimport counters_t
from pyrdv.engine.event cimport trace_t
from pyrdv.engine.sleeper cimport listener_t
from pyrdv.engine.wire cimport header_t, rtr_t
from pyrdv.fabrics.contract cimport completion, fabric_t, region
from pyrdv.memory.mappings cimport cache_t, mapping_t, owner_t
from pyrdv.progress.contract cimport progress_t


cdef extern from "ticks.h":
    ctypedef struct ticks_scale:
        uint64_t per_us
        uint64_t first_ticks
        int64_t first_ns


cdef enum:
    ANY_PEER = 0xFFFFFFFF       # wildcard source inside the engine
    ANY_TAG_ = -1               # wildcard tag, the same number as MPI.ANY_TAG
    POLL_BATCH = 32             # completions taken by one poll
    SERVE_LIMIT = 16            # posts to one peer in one turn
    DATA_CLASSES = 16           # 64 B << class
    FABRICS_MAX = 4
    OPS_PER_SLAB = 128
    MESSAGES_LOW = 32           # free descriptors below which a call refills the pool
    UNIT = 64                   # bytes of one credit unit
    MESSAGE_UNITS = 6           # units that an unexpected message costs beside its data
    OFFERS_LOW = 32             # free offers below which a call refills the pool
    TELL = 2                    # freed buffers that one packet reports; the sender still holds one
    PATIENT = 2                 # receives in a row that waited: the next one probably will
    POINTS = 8                  # of a piecewise linear function

# Results of operations; errors.from_status turns them into exceptions.
cdef enum op_error:
    OP_OK = 0
    OP_TRUNCATED = 1
    OP_PEER_LOST = 2
    OP_CANCELLED = 3
    OP_NO_MEMORY = 4
    OP_INVALID = 5
    OP_NOT_REGISTERED = 6
    OP_LACKING = 7              # this process lacks what the fabric needs; the fabric knows what
    OP_FINALIZED = 8            # cancelled by the end of the world, not by its owner
    OP_SHORT = 11               # collectives: shorter than its receiver expects (9, 10: ``core``)
    OP_FAILED_THERE = 12        # collectives: its sender has failed

cdef enum op_kind:
    OP_SEND = 1
    OP_RECV = 2
    OP_MATCH = 3                # a receive that takes the message but not yet its data
    OP_SCHEDULE = 4             # a schedule, as its request sees it

cdef enum op_state:
    OP_FREE = 0
    OP_QUEUED = 1               # send: waits in its peer's queue
    OP_WAITING = 2              # send: announced, waits for DONE
    OP_POSTED = 3               # receive: in the posted index
    OP_READY = 4                # matched, waits for room to post its READ or DONE, WRITE or FIN
    OP_READING = 5              # receive: READ under way
    OP_LANDING = 6              # receive: START came, the peer writes into its buffer
    OP_WRITING = 7              # send: WRITE under way
    OP_COMPLETE = 8
    OP_LANELESS = 9             # matched receive, or granted send: waits for a lane
    OP_PIPING = 10              # its data passes through a lane
    OP_RESERVED = 11            # send, receive: of a round of a schedule that has not begun
    OP_SCHEDULED = 12           # schedule: under way

cdef enum op_flag:
    OP_SYNC = 1                 # send: complete only when matched
    OP_DONE_ONLY = 2            # receive: the data is here, DONE is still to be posted
    OP_REGISTERED = 4           # op.local is a live region
    OP_REFUSED = 8              # DONE (send: FIN) says that its data was not moved; see op.error
    OP_OFFERED = 16             # posted receive: the peer may hold its RTR
    OP_CANCELLING = 32          # posted receive: cancelled once its peer's RTRs are revoked
    OP_UNWANTED = 64            # receive: it is left, and the READ under way not yet its last
    OP_ENDED = 128              # posted receive: if it is cancelled, the world's end has done it

cdef enum pair_flag:            # op.pairing
    PAIR_UNANSWERED = 1         # send: in the queue of those that nothing has answered
    PAIR_STOP = 2               # send: its RTS says STOP-RTR
    PAIR_ACK = 4                # receive: its RTS is to be acknowledged

cdef enum wait_flag:            # op.waits
    WAITS_HERE = 1              # its caller waits until it is complete, and perhaps others with it
    WAITS_THERE = 2             # receive: so does its sender's, as RTS said
    WAITS_WHOLE = 4             # receive: it did already when its READ was posted

# What moves the data of a message; a row of `protocols/table`.  A code is not a pointer: the
# objects (`protocols/contract`) name the structs of this file, which cannot name them in turn.
cdef enum protocol_code:
    PROTOCOL_NONE = 0           # not chosen yet
    PROTOCOL_EAGER = 1          # with the announcement
    PROTOCOL_PLACED = 2         # into a standing buffer, before the announcement
    PROTOCOL_GET = 3            # the receiver reads
    PROTOCOL_PUT = 4            # the sender writes into an offered buffer
    PROTOCOL_PIPELINE = 5       # copied through lanes
    PROTOCOL_LOOPBACK = 6       # the sender is this process
    PROTOCOL_DONE = 7           # of no message: it lets senders go
    PROTOCOLS = 7

cdef enum choice_reason:        # op.reason: why that one
    REASON_NONE = 0
    REASON_SIZE = 1             # eager, for it is small
    REASON_CREDIT = 2           # small, but its receiver has not given eager memory back
    REASON_ASKED = 3            # PYRDV_PROTOCOL
    REASON_ONLY = 4             # nothing else was possible, or nothing was measured
    REASON_HELD = 5             # its memory is registered already
    REASON_COST = 6             # less time, `op.cost` against `op.instead`
    REASON_UNWAITED = 7         # more time, but to copy needs calls, and one side may compute
    REASON_REFUSED = 8          # its memory could not be registered
    REASON_OFFER = 9            # its receiver came first
    REASON_PEER = 10            # the other side said so
    REASON_SELF = 11            # to this process

cdef enum promise_state:        # of a message that another one has announced, on both sides
    PROMISE_NONE = 0
    PROMISE_GIVEN = 1           # if its data cannot be sent, an empty message goes instead
    PROMISE_EMPTY = 2           # so it is

cdef enum peer_state:
    PEER_NEW = 0                # no outbound connection yet
    PEER_UP = 1
    PEER_CLOSED = 2             # it finished in good order
    PEER_LOST = 3               # it died or broke the protocol
    PEER_SELF = 4
    PEER_DEAF = 5               # nothing can be sent to it; its end is still to be told (lost.pyx)

cdef enum protocol_choice:      # of messages that are too long for eager
    CHOICE_AUTO = 0             # what costs less; pipeline if memory cannot be registered
    CHOICE_GET = 1
    CHOICE_PIPELINE = 2

cdef enum arrival_choice:       # how a receiver learns that a block of a chunk is there
    ARRIVAL_AUTO = 0            # flags where the fabric writes in order, else notice
    ARRIVAL_FLAGS = 1           # with a CRC where it does not
    ARRIVAL_NOTICE = 2          # by the CHUNK behind the WRITE

# A member of an index: entries of one key form a queue, led by the oldest.
cdef struct node_t:
    node_t *chain               # leaders of one bucket
    node_t **back               # what points at this leader; NULL: not a leader
    node_t *next                # queue of one key, oldest first
    node_t *prev
    node_t *last                # leader only: end of its queue
    void *entry                 # the op_t or message_t it belongs to
    uint32_t context
    uint32_t peer
    int32_t tag
    uint32_t hash

cdef struct index_t:
    node_t **buckets
    uint32_t mask
    uint32_t entries

cdef struct op_t:
    node_t node                 # receives: the posted index; sends: the policy's
    op_t *next                  # free list, or a queue of its peer
    uint32_t index
    uint32_t generation         # grows each time the op is released
    uint8_t kind
    uint8_t state
    uint8_t flags
    uint8_t pairing             # pair_flag
    int32_t error
    uint32_t peer               # world rank; receives: or ANY_PEER
    uint32_t context
    int32_t tag
    uint64_t order              # receives: order of posting
    uint32_t halts              # posted receive: `halts` of its class when it sent its RTR
    char *buffer
    uint64_t length             # send: bytes to go; receive: room
    region local
    fabric_t *local_fabric      # where `local` is registered
    owner_t *owner              # whose memory the buffer is, named; NULL: not known
    mapping_t *mapping          # what `local` is a part of; NULL: registered for this op alone
    uint32_t source             # receives, after the match: envelope of the message
    int32_t source_tag
    uint64_t total              # bytes of the message
    uint64_t moved              # receives: bytes whose READ was posted; sends: bytes taken
    uint64_t cookie             # the sender's, to be sent back in DONE
    uint64_t remote, remote_key
    message_t *message          # OP_MATCH: what was matched; send to self: what waits
    char own[24]                # what its protocol keeps of it; all 0 at first
    uint8_t waits               # wait_flag
    uint8_t content             # packet_content of the message; receives: after the match
    uint8_t protocol            # protocol_code
    uint8_t reason              # choice_reason
    float cost                  # seconds that the choice reckoned with: its own,
    float instead               # and of what it was compared with; 0: nothing was compared
    uint64_t born               # ticks when it was started, by a call that went on; 0: judged
    uint64_t posted             # ticks when it was started; 0: not known yet
    uint64_t since              # receive: ticks when its caller waits while it moves; 0: not known
    uint32_t turns              # receive: of the engine, when its caller began to wait
    uint64_t late               # receive without an RTR: how long its RTS may have lain here
    uint32_t line               # of the program that started it, by Engine.lines; 0: not known
    uint8_t told                # its post is in the trace
    uint8_t access              # if OP_REGISTERED: what for (access_flag)
    uint8_t promised            # promise_state
    char peek[24]               # objects that the room does not hold: how they begin (op_matched)

cdef struct message_t:
    node_t nodes[4]             # exact, any tag, any source, any both
    message_t *next
    uint8_t protocol            # protocol_code
    uint8_t flags               # packet_flag
    uint8_t data_class
    uint8_t queued              # in the unexpected index
    uint32_t peer
    uint32_t context
    int32_t tag
    uint32_t number             # of its announcement
    uint64_t length
    uint64_t cookie
    uint64_t remote, remote_key
    uint8_t slot                # placed: the buffer
    uint8_t content             # packet_content
    void *data                  # eager: the copy
    op_t *sender                # loopback: its data is still there

cdef struct offer_t:            # an RTR, kept by the sender
    offer_t *next
    uint64_t cookie             # the receive
    uint64_t address, key, capacity
    uint32_t context
    int32_t tag
    uint32_t skip               # announcements of this envelope that come before its own

cdef struct usage_t:            # of one envelope, over the whole run; ``history``
    uint32_t context
    uint32_t peer
    int32_t tag
    uint8_t known               # 0: an empty place
    uint8_t useless             # a former run says so
    uint64_t sent               # RTRs; counted if they are recorded
    uint64_t used
    uint64_t cost               # ``regret``: of an RTR, smoothed
    uint64_t wasted             # by RTRs in a row that were not used
    uint8_t unused              # how many those are
    uint8_t stopped
    uint8_t missed              # messages in a row, while it is stopped
    uint8_t resumed             # how often it was, and no RTR was used after it
    uint8_t skipped             # RTRs kept back since the last trial
    uint8_t silent              # sender: large sends since the last RTR came

cdef struct peer_t:
    fabric_t *fabric
    char *own                   # what the protocols keep of it (protocol_t.peer_bytes)
    char *pairing               # and the policy (policy_t.peer_bytes)
    uint8_t state
    uint8_t active              # in the engine's list of peers to serve
    uint8_t refused             # a packet was left with the fabric in this turn
    uint8_t spoke               # a packet of it came that announced nothing
    uint8_t broken              # protocol violation seen; ends at the next call
    uint8_t gone                # event_kind of its end, not yet dealt with
    uint8_t finished            # it sent FINISH; 2: what that ends was ended
    uint8_t finish_told         # we sent FINISH
    uint32_t rank
    uint8_t calling             # in the engine's list of peers that need a call
    peer_t *next_active
    peer_t *next_calling
    uint32_t send_sequence
    uint32_t recv_sequence
    uint32_t answered           # that number at our last send to it
    op_t *queue_head            # sends in order of their calls, not yet announced
    op_t *queue_tail
    op_t *ready_head            # matched operations waiting to post
    op_t *ready_tail
    uint32_t eager_sent         # cumulative units, modulo 2**32
    uint32_t eager_returned     # as told by the peer
    uint32_t eager_taken        # units that arrived, cumulative; modulo 2**32 like all of these
    uint32_t returned           # units we give back, cumulative
    uint32_t returned_told      # as last told to the peer
    uint32_t placed             # standing buffers of it that we filled, cumulative
    uint32_t freed[2]           # standing buffers given back, likewise: [0] to us, [1] by us
    uint32_t freed_told         # of those by us, as last told to the peer
    uint8_t patience            # its last receives of large messages, in a row, that waited
    uint8_t prompt[2]           # own large sends, and receives, in a row, that were soon waited for

cdef struct line_t:             # a piecewise linear function of bytes, in seconds
    uint32_t count
    double bytes[8]
    double seconds[8]

cdef struct figures_t:          # what messages over one fabric cost
    uint8_t known               # 0: nothing is, but how chunks grow
    double latency              # of a small WRITE
    double gap                  # between two of them
    line_t net                  # a WRITE, registered
    line_t read                 # a READ, from its post to its completion
    line_t copy
    line_t registration         # and the deregistration
    double registrable          # most bytes that can be registered
    double buffer               # of a bounce buffer, bytes
    uint32_t chunk_first        # of superpipelines, bytes
    uint32_t chunk_growth       # per cent of a chunk that the next one has

cdef struct engine_t
cdef struct call_t

# How sends meet offers; one file of `speculation` each.  Step-safe, under the lock; * may be NULL.
cdef struct policy_t:
    uint8_t offers              # receives offer their buffers; else nothing but `arrived` is called
    uint8_t rts_flags           # packet_flags of its own on RTS; 0: and there is no RTS-ACK
    # What it keeps: a struct in `engine_t.pairing`, and one of each peer in `peer_t.pairing`,
    # which begins with an offers_t (``offers``).  All 0 at first.
    uint32_t engine_bytes
    uint32_t peer_bytes
    # The receiver's side.  May posted receive `op` send an RTR now?  Fills `ahead` of
    # docs/wire.md, section 4.1.
    bint (*may_offer)(engine_t *e, op_t *op, uint32_t *ahead) noexcept nogil
    # It may; but does it keep the RTR back, for those of its envelope were not used?
    bint (*withholds)(engine_t *e, const op_t *op) noexcept nogil
    # * call.  It has sent one, which took `spent` of `trace_now`.
    void (*offered)(call_t *call, const op_t *op, uint64_t spent) noexcept nogil
    # * Announcement `h` arrived, and has flags of PACKET_ADVICE.
    void (*heard)(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
    # * Announcement `h` arrived and is taken by `op`, which stood in the posted index; NULL: by
    # none yet.  Of EAGER and PLACED only those that meet an offer are told.
    void (*met)(engine_t *e, peer_t *p, op_t *op, const header_t *h) noexcept nogil
    # * A message that an RTS announced, and no receive awaited, was taken by a receive or a probe.
    void (*claimed)(peer_t *p) noexcept nogil
    # * What acknowledges the RTS of receive `op` (PAIR_ACK) was posted.
    void (*acknowledged)(peer_t *p, op_t *op) noexcept nogil
    # * The message of `op` was read.
    void (*read)(engine_t *e, peer_t *p, const op_t *op) noexcept nogil
    # The sender's side.  * call.  Might an RTR be here for a large send that is about to begin?
    bint (*hopes)(call_t *call, const peer_t *p, uint32_t context, int32_t tag) noexcept nogil
    # A well-formed RTR arrived: keep it, or drop it and count why.
    void (*arrived)(engine_t *e, peer_t *p, const rtr_t *rtr) noexcept nogil
    # The offer that the next announcement of this envelope is meant for, or NULL.
    offer_t *(*find)(engine_t *e, peer_t *p, uint32_t context, int32_t tag) noexcept nogil
    # * Announcement `h` is to be posted: add the flags that tell something to its receiver.
    void (*advise)(engine_t *e, peer_t *p, header_t *h) noexcept nogil
    # * Announcement `h` was posted.
    void (*announced)(engine_t *e, peer_t *p, const header_t *h) noexcept nogil
    # * DONE, GRANT or RTS-ACK came for send `op`; or nothing comes any more.
    void (*answered)(peer_t *p, op_t *op) noexcept nogil
    # * Mix what it keeps, of the engine and of peer `p`, into `h`, for explorers.
    void (*hash)(const engine_t *e, uint64_t *h) noexcept nogil
    void (*hash_peer)(const peer_t *p, uint64_t *h) noexcept nogil

cdef struct engine_t:
    # What each call reads: one line of the cache.
    uint32_t lock
    uint32_t begun              # `epoch` when it began
    uint32_t epoch              # changes whenever a waiter might have something to see
    uint32_t sleepers           # threads asleep on wait_fd and local_fd
    uint32_t called             # those of them that were called and have not seen it yet
    uint32_t listening          # event loops that sleep and were not called
    uint8_t in_call             # a call runs, and no step by itself
    uint8_t debug               # assert rules at run time (PYRDV_DEBUG)
    uint8_t stirred             # what sleepers are armed for may have changed since (sleeping, S6)
    uint8_t unsettled           # something happened in the last turn; the next may find more
    uint8_t unattended          # steps by themselves go on with what calls post
    uint32_t rank, size
    uint32_t eager_units        # units that one peer may have outstanding
    uint64_t eager_max          # payload; 0: the fabric's
    fabric_t *fabrics[FABRICS_MAX]
    int fabric_count
    uint8_t polled              # some fabric's READs advance only by polls
    progress_t *progress        # who makes steps while no call runs; NULL: nobody
    peer_t *peers
    peer_t *active              # peers with something to post
    peer_t *calling             # peers with work that only a call may do
    void *schedules             # schedule_t (``schedule/plan``): those that are under way
    uint64_t retry_at           # ticks; before, a connection that the system refused is not tried
    uint32_t starved            # bit c: data class c ran dry; bit 31: messages did
    index_t posted
    uint32_t posted_kinds[4]    # how many posted receives are of each wildcard kind
    uint64_t order              # posting order of receives
    index_t unexpected
    op_t **op_slabs
    uint32_t op_slab_count, op_slab_room
    op_t *op_free
    uint32_t ops_in_use
    uint32_t regions_in_use
    cache_t *cache              # of registrations
    uint32_t moving             # READs and WRITEs under way
    uint8_t initial_turn        # large sends and receives look for their peer's packet first
    const policy_t *policy      # of speculative rendezvous
    char *pairing               # what the policy keeps (policy_t.engine_bytes)
    uint8_t recording           # how RTRs fare, in `usage`
    uint8_t usage_kept          # most of them are needed: none is forgotten
    uint32_t usage_slots, usage_count
    usage_t *usage              # hash table of envelopes; NULL: none is known
    figures_t figures[FABRICS_MAX]
    uint8_t protocol            # protocol_choice
    uint8_t arrival             # arrival_choice
    uint8_t pieces              # something may be copied by processors, or waits for that
    uint8_t pieces_due          # a turn ended before all that could be copied was
    void *lanes                 # lanes_t (``protocols/lanes``)
    offer_t *offer_free
    uint32_t offer_free_count
    message_t *message_free
    uint32_t message_free_count
    uint32_t messages_in_use
    void *data_free[DATA_CLASSES]
    void **slabs                # every block from malloc, for the destructor
    uint32_t slab_count
    uint32_t slab_room
    uint64_t slab_bytes
    uint64_t spin_ns            # how long a waiter polls before it yields
    uint64_t yield_ns           # how long it yields between polls before it sleeps, at least
    uint32_t longer             # doublings of that; a hint, noted and glanced at without the lock
    ticks_scale ticks           # written by holders of the GIL, not of the lock
    uint64_t look_ns            # calls look after the peers so often; 0: by turns only
    uint64_t calm_until         # ticks; before, turns look at no fabric that is calm
    uint64_t look_ticks         # the same in ticks
    uint64_t looked             # ticks of the last such look
    uint32_t calls              # how often such threads were called
    listener_t *listeners       # event loops that sleep now and then
    uint32_t idle_turns         # turns in a row in which nothing happened
    uint32_t busy_turns
    int local_fd                # eventfd: calls sleepers when another thread made progress
    int wait_fd                 # epoll over the fabrics' wake_fd
    uint32_t peers_left         # other peers neither closed nor lost
    uint32_t peers_lost         # peers that died; glanced at without the lock
    completion batch[POLL_BATCH]
    counters_t counters
    trace_t trace

# An engine in a call of the API: the same memory, and another type.  What registers, connects or
# allocates wants one, and only `call_begin` makes it, so no step gets there (R1) but by
# `call_running`.
cdef struct call_t:
    engine_t engine
