# cython: language_level=3
"""The verbs-shaped contract between the engine and every fabric.

A *fabric* moves packets and memory between the ranks of one job.  The engine
sees it only through the structures below; a fabric never calls the engine.
Peers are named by their world rank.

Two kinds of calling context exist, and each operation says which it allows:

``step``
    Any thread that holds the engine's lock, possibly inside a signal handler.
    Must be ``noexcept nogil``, never block, never call malloc/free, take no
    lock, touch no Python object and do bounded work (rule R1).
``call``
    A thread inside an API call that holds the engine's lock.  May allocate
    and make non-blocking system calls.  Never a signal handler.

Invariants that every fabric keeps:

F1  Packets from one peer are delivered in the order they were posted, but for
    fenced SENDs: one takes its place when its fence opens, at the latest
    before `poll` returns the completion that opened it.  Later chains may
    overtake it until then.  Nothing overtakes a SEND that is behind (F9).
F2  A chain is accepted whole or not at all.
F3  A SEND's header and payload are copied before ``post`` returns.
F4  A READ or WRITE touches local memory from ``post`` until its completion
    is returned by ``poll``, and never afterwards.  A READ that `discard` took
    touches none from then on; its completion is returned all the same.
F5  A fenced work request starts only after all earlier work requests of its
    chain are complete.
F6  A packet that was not released is returned by the next ``poll`` again.
F7  After EVENT_LOST or EVENT_CLOSED for a peer nothing more comes from it;
    every packet it had handed over, and the completion of every transfer with
    it (status FABRIC_LOST if it could not end well), was returned before.
F8  After ``arm`` returned FABRIC_OK, anything that ``poll`` or ``maintain``
    would act on makes ``wake_fd`` readable, until this side uses the fabric
    again: then `arm` it anew.
F9  A SEND with WR_BEHIND is delivered when the WRITEs before it in its chain
    are placed.  Only where CAP_BEHIND; a chain has no fences then.
"""
from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t, uint64_t


cdef enum:
    # The largest header of a SEND, in bytes.
    HEADER_MAX = 64
    # ns; of `watch`: no look is due by time.
    WATCHED = 1 << 30

cdef enum fabric_status:
    FABRIC_OK = 0
    FABRIC_AGAIN = 1        # no resource now; ordinary: poll, then try again
    FABRIC_LOST = -1        # the peer is gone
    FABRIC_INVALID = -2     # an argument was refused, nothing was done
    FABRIC_FAILED = -3      # the system refused something to this process; errno is in
                            # fabric_t.error.  No peer is to blame, and it may work later.

cdef enum opcode:
    WR_SEND = 1             # header + payload, delivered as one packet
    WR_READ = 2             # remote memory -> local memory
    WR_WRITE = 3            # local memory -> remote memory

cdef enum wr_flag:
    WR_SIGNALED = 1         # report READ/WRITE completion through poll
    WR_FENCE = 2            # see F5
    WR_BEHIND = 4           # see F9

cdef enum access_flag:
    ACCESS_LOCAL = 1        # local sink of a transfer; a source needs no right of its own,
                            # so that read-only memory can be sent
    ACCESS_REMOTE_READ = 2
    ACCESS_REMOTE_WRITE = 4
    ACCESS_KEPT = 8         # outlives its operation: no other registration may share the region

cdef enum event_kind:
    EVENT_PACKET = 1        # data/length: a packet inside fabric memory
    EVENT_READ = 2          # a signaled READ ended, id and status are set
    EVENT_WRITE = 3         # a signaled WRITE was handed over (V5), likewise
    EVENT_CLOSED = 4        # the peer disconnected in good order
    EVENT_LOST = 5          # the peer died or broke the protocol

cdef enum lack_flag:
    # What this process lacks, by peer (fabric_t.lacks); nothing is lost by it.
    LACK_CONNECT = 1        # `connect` was refused something by the system
    LACK_ACCEPT = 2         # so was the acceptance of its connection, which still waits

cdef enum capability:
    CAP_SINGLE_COPY = 1     # READ/WRITE move data without the peer's CPU
    CAP_LOCAL = 2           # the peer runs on this host
    CAP_POLLED = 4          # READ/WRITE advance only while an end polls
    CAP_ORDERED = 8         # who polls memory sees the bytes of a WRITE in their order (V8)
    CAP_PINS = 16           # registering is slow, and keeps the pages in place: worth keeping
    CAP_OPEN_SINK = 32      # the peer of a READ may write into its sink as long as that is
                            # registered (iWARP)
    CAP_SOFT = 64           # a processor does the device's work: a packet costs as much as copying
                            # many kilobytes
    CAP_BEHIND = 128        # SENDs may be behind WRITEs (F9)
    CAP_FREE_SINK = 256     # the sink of a READ needs no region
    CAP_HELD = 512          # a SEND fenced by a READ leaves only when this side polls after it

cdef struct work_request:
    uint8_t opcode
    uint8_t flags
    uint32_t header_length  # SEND: <= HEADER_MAX
    const void *header      # SEND
    void *local             # SEND: payload; READ: sink; WRITE: source
    uint64_t length         # of the payload or the transfer, bytes
    uint64_t local_key      # READ/WRITE: key of a region that holds local (CAP_FREE_SINK)
    uint64_t remote         # READ/WRITE: address in the peer
    uint64_t remote_key     # READ/WRITE: the peer's region key
    uint64_t id             # READ/WRITE: comes back in the completion

cdef struct completion:
    uint8_t kind            # event_kind
    int8_t status           # READ/WRITE: a fabric_status
    uint32_t peer
    uint32_t length         # PACKET: bytes at data
    const void *data        # PACKET: 8-byte aligned, valid until released;
                            # a hostile peer may still change it: copy, then check
    uint64_t id             # READ/WRITE

cdef struct region:
    uint64_t key            # goes into work requests and over the wire
    void *address
    uint64_t length

cdef struct fabric_t

cdef struct fabric_ops:
    # step.  Post `count` work requests to `peer` as one chain.
    # OK | AGAIN | LOST | INVALID.  A peer that was not connected: AGAIN.
    int (*post)(fabric_t *self, uint32_t peer, const work_request *chain,
                int count) noexcept nogil
    # step.  Fill up to `limit` completions, peers in rotation; returns how
    # many.  Packets stay with the fabric until released.
    int (*poll)(fabric_t *self, completion *out, int limit) noexcept nogil
    # step.  The first `count` packets of `peer` returned by the last poll
    # were consumed; their memory goes back to the fabric.
    void (*release)(fabric_t *self, uint32_t peer, int count) noexcept nogil
    # call.  Make [address, address+length) usable; fills `out`.
    # OK | INVALID | FAILED.
    int (*register_memory)(fabric_t *self, void *address, uint64_t length,
                           int access, region *out) noexcept nogil
    # call.  Nobody wants the data of READ `id` of `peer`, which is under way: True if it
    # touches no local memory any more (F4), and its region may be deregistered.  False: wait
    # for its completion, which needs no calls of the peer.  NULL: False.
    bint (*discard)(fabric_t *self, uint32_t peer, uint64_t id) noexcept nogil
    # step.  The region must have no transfer under way.
    void (*deregister)(fabric_t *self, region *which) noexcept nogil
    # call.  Have the device forget now what was deregistered; NULL: it does so at once.
    void (*flush)(fabric_t *self) noexcept nogil
    # call.  Start or continue the connection to `peer`.  OK once packets can
    # be posted; AGAIN while it is under way; LOST; FAILED: LACK_CONNECT is set, and a
    # later call tries again.
    int (*connect)(fabric_t *self, uint32_t peer) noexcept nogil
    # call.  No more posts to `peer`: what was posted is still delivered, the
    # peer sees EVENT_CLOSED after it.  Idempotent.
    void (*disconnect)(fabric_t *self, uint32_t peer) noexcept nogil
    # call.  Accept connections, notice deaths, refill pools.  Never blocks.
    # Returns the number of things that happened.
    int (*maintain)(fabric_t *self) noexcept nogil
    # call.  Prepare to sleep on wake_fd (F8), armed already or not.  OK: sleep; AGAIN: poll first.
    int (*arm)(fabric_t *self) noexcept nogil
    # call.  Awake again: take back the arming, drain wake_fd.
    void (*disarm)(fabric_t *self) noexcept nogil
    # step.  As `arm`, from a step: what a step can act on then sends the signal that `signals`
    # asked for; connections and ends are left to calls.  After how many ns to poll all the same;
    # 0: poll first, and WATCHED: when the signal comes.
    int64_t (*watch)(fabric_t *self) noexcept nogil
    # step.  What `watch` is for sends `signal` to `thread` of this process, by the descriptors
    # themselves (O_ASYNC); 0: to nobody.  OK | INVALID: there is a descriptor that cannot.
    int (*signals)(fabric_t *self, int thread, int signal) noexcept nogil

cdef struct fabric_t:
    const fabric_ops *ops
    uint32_t rank           # own world rank
    uint32_t size           # ranks in the job
    uint32_t capabilities   # capability flags that hold for every peer
    uint32_t packet_max     # largest SEND, header and payload, bytes
    uint32_t eager_max      # payload up to which eager is the better protocol
    uint64_t transfer_max   # largest READ/WRITE, bytes
    int wake_fd             # readable when armed and something happened
    int error               # errno of the last FABRIC_FAILED
    uint8_t *lacks          # lack_flags of each peer; NULL: this fabric never lacks anything
    uint32_t lacking        # peers with any of them
    uint32_t carried        # grows with each piece of a transfer that `poll` has moved (CAP_POLLED)
    uint8_t calm            # `maintain` saw no connection that comes up or ends, and need not be
                            # called soon; the fabric takes it back when that changes


cdef inline void lack_begins(fabric_t *self, uint32_t peer, int flag) noexcept nogil:
    if self.lacks[peer] == 0:
        self.lacking += 1
    self.lacks[peer] |= <uint8_t> flag


cdef inline void lack_ends(fabric_t *self, uint32_t peer, int flag) noexcept nogil:
    if self.lacks[peer] == 0:
        return
    self.lacks[peer] &= <uint8_t> ~flag
    if self.lacks[peer] == 0:
        self.lacking -= 1


cdef class Fabric:
    """Owner of one ``fabric_t``; what ``world`` hands to the engine."""
    cdef fabric_t *handle
