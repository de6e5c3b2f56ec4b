# cython: language_level=3
"""What the modules of the shm fabric share: private state and packet sending.

The state below is private to one process; what two processes share is laid
out in csrc/ring.h, and its invariants L1-L4 stand there.

S1  All functions run under the engine's lock: private state needs no atomics.
S2  Structures are allocated by ``call`` operations and freed by ``close`` only,
    so a pointer seen in a step stays valid.
S3  No wake-up is lost.  A sleeper sets its waiting flag, passes
    announce_then_look(), looks at everything once more and only then sleeps.
    A waker publishes, passes announce_then_look(), and only then looks at the
    flag.  Whichever fence comes second sees what the other side did: either
    the sleeper sees the news or the waker sees the flag.  The waker takes the
    flag, so one sleep costs at most one doorbell per channel; the byte stays
    in the socket until it is drained, after which everything is polled again.
"""
from libc.errno cimport EAGAIN, ECONNRESET, EPIPE, errno
from libc.stdint cimport int8_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport (
    FABRIC_AGAIN, FABRIC_LOST, FABRIC_OK, completion, fabric_t, work_request)


cdef extern from "ticks.h" nogil:
    ctypedef struct ticks_scale:
        uint64_t per_us

cdef extern from "ring.h" nogil:
    enum:
        SHM_SLOTS
        SHM_INLINE
        SHM_BULK_MIN
        SHM_JOBS
        SHM_CELLS
        SHM_CELL
        SHM_TAIL
        SHM_TAIL_BACK
        SHM_TAIL_ARMED
        SHM_TAIL_CLAIMED
        SHM_TAIL_TAKEN
        SHM_CHUNK_MIN
        SHM_CHUNK_MAX
        SHM_KIND_INLINE
        SHM_KIND_BULK
    const uint64_t SHM_MAGIC
    const uint32_t SHM_VERSION
    const uint64_t SHM_GENERATIONS
    const uint64_t SHM_CHUNKS_MAX
    struct shm_slot:
        uint32_t stamp
        uint32_t word
        uint8_t data[120]
    struct shm_job:
        uint64_t claim
        uint64_t producer_address
        uint64_t consumer_address
        uint64_t length
        uint32_t chunk
        uint32_t to_producer
        uint32_t done
        uint32_t helper_error
        uint64_t tail
        uint64_t key
    struct shm_tail:
        uint32_t length
        uint32_t after
        uint8_t data[56]
    struct shm_stage:
        uint32_t serial
        uint32_t to_producer
        uint64_t consumer_address
        uint64_t key
        uint64_t length
        uint64_t producer_cells
        uint64_t consumer_cells
        uint32_t refused
    struct shm_segment:
        uint64_t magic
        uint32_t version
        uint32_t bytes
        uint32_t from_rank
        uint32_t to_rank
        uint32_t staged
        uint32_t producer_waiting
        uint32_t help
        uint32_t producer_bye
        uint64_t credit
        uint32_t consumer_waiting
        uint32_t consumer_bye
        shm_stage stage
        shm_job jobs[16]
        shm_tail tails[16]
        shm_slot slots[128]
        uint8_t bulk[0]
    uint64_t shm_claim(uint64_t generation, uint64_t chunks, uint64_t next)
    uint64_t shm_tail_word(uint64_t claim, uint64_t state)
    uint32_t shm_claim_chunks(uint64_t claim)
    uint32_t shm_claim_next(uint64_t claim)
    uint32_t shm_bulk_size(uint32_t ranks)
    uint32_t shm_packet_max(uint32_t bulk)
    uint32_t shm_bytes(uint32_t bulk, int staged)
    uint32_t shm_bulk_need(uint32_t length)
    uint32_t shm_bulk_place(uint32_t bulk, uint32_t position, uint32_t length)

cdef extern from "order.h" nogil:
    void publish32(uint32_t *where, uint32_t value)
    void publish64(uint64_t *where, uint64_t value)
    uint32_t observe32(const uint32_t *where)
    uint64_t observe64(const uint64_t *where)
    uint32_t glance32(const uint32_t *where)
    uint64_t glance64(const uint64_t *where)
    void note32(uint32_t *where, uint32_t value)
    void note64(uint64_t *where, uint64_t value)
    int claim64(uint64_t *where, uint64_t expected, uint64_t wanted)
    uint32_t add32(uint32_t *where, uint32_t amount)
    uint32_t take32(uint32_t *where)
    void announce_then_look()

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT
    int MSG_NOSIGNAL
    ssize_t send(int fd, const void *data, size_t length, int flags)


cdef enum node_state:
    NODE_NEW = 0        # waits for its fence, for room or for a turn
    NODE_ACTIVE = 1     # a transfer under way
    NODE_TAKEN = 2      # a SEND that the consumer took from the tail

cdef enum:
    NODES = 512         # posted and not completed work requests, all peers
    PENDING = 16        # connections of unknown processes whose hello is not here yet
    TOKEN = 32          # bytes of the job's digest in a hello
    NO_SLOT = -1

cdef enum may_flag:
    MAY_READ = 1        # process_vm_readv works with that peer
    MAY_WRITE = 2       # so does process_vm_writev
    MAY_BOTH = 3

cdef struct node_t:
    # A posted work request that is not complete: a transfer, or a SEND that
    # waits for the transfers before it.
    node_t *previous    # in the order of posting, per peer
    node_t *next
    node_t *held        # SEND: the ended transfer whose completion waits for it (F1)
    uint8_t opcode
    uint8_t flags
    uint8_t state
    int8_t status
    uint8_t alone       # do not share it: a helper failed
    uint8_t tailed      # the SEND behind it stands in the job's tail
    uint8_t unwanted    # READ: its data goes nowhere (shm_discard)
    int slot            # in the segment's job table, or NO_SLOT
    uint32_t peer
    uint32_t chain      # serial number; nodes of a chain are neighbours
    uint32_t chunk
    uint32_t chunks
    uint32_t next_chunk  # only without a slot
    uint64_t local
    uint64_t remote
    uint64_t key
    uint64_t length     # SEND: of data
    uint64_t id
    uint8_t data[120]

cdef struct outbound_t:
    shm_segment *segment
    int fd              # -1 once the peer is gone
    int memory          # descriptor of the segment until it was handed over, then -1
    int pid
    uint32_t head       # slots published
    uint32_t freed      # slots freed, as last seen
    uint32_t bulk       # size of the bulk area
    uint32_t bulk_head
    uint32_t bulk_freed
    uint8_t may         # may_flags; transfers of the other direction go through cells
    uint8_t has_cells
    uint8_t starved     # a post got AGAIN and nobody told it of room since
    uint8_t bye         # our goodbye is published
    uint32_t slots_used  # bit per entry of the job table
    uint64_t generation[16]
    node_t *first
    node_t *last
    node_t *staged      # the transfer that uses the cells
    uint64_t staged_at  # bytes of it that passed
    uint32_t cells      # filled or emptied by us
    uint32_t serial     # of the last transfer through the cells
    uint32_t helps      # transfers published

cdef struct inbound_t:
    shm_segment *segment
    int fd
    int pid
    uint32_t tail       # slots freed
    uint32_t bulk       # size of the bulk area
    uint32_t bulk_tail
    uint32_t polled     # returned by the last poll and not released
    uint32_t length[128]  # of the returned packets: never read twice
    shm_tail kept[16]   # packets taken from tails; at a multiple of 8, for they are read here
    uint32_t reviewed   # `tail` at the last review (``channels``)
    uint32_t kept_head  # released
    uint32_t kept_tail  # taken
    uint32_t kept_polled  # returned by the last poll, before the ring's, and not released
    uint32_t help_seen
    uint8_t can_help    # may_flags
    uint8_t staged      # it has cells; never read from shared memory again
    uint8_t serving     # a staged transfer is under way
    uint8_t listed      # among the channels that are polled
    uint32_t served     # serial of the last staged transfer taken up
    uint32_t to_producer
    uint64_t address
    uint64_t key
    uint64_t remaining
    uint32_t cells      # filled or emptied by us

cdef struct pending_t:
    # An accepted connection whose hello is not here yet.
    int fd              # -1: none
    int64_t since       # ns
    uint8_t held        # its hello is here, but for want of something it cannot be taken yet
    uint32_t rank       # if held

cdef struct peer_t:
    outbound_t *out
    outbound_t *ready   # made and not handed over yet
    inbound_t *into
    void *address       # address_t, or NULL: not on this host
    uint8_t ending      # closed or dead, seen by maintain
    uint8_t confirmed   # nothing of it can be left in the listening socket
    uint8_t reported    # its only EVENT_CLOSED or EVENT_LOST was delivered
    uint8_t gone        # no posts any more
    uint8_t broken      # it broke the protocol
    uint8_t closing     # disconnect was called
    uint8_t pending     # out.first is not NULL and the rank is in `busy`
    pending_t caller    # a connection of its process
    uint8_t held        # some connection with its hello is held
    uint8_t connect_call  # refused_call that stood in the way, and its errno
    uint8_t accept_call
    int connect_error
    int accept_error
    uint8_t *words      # what it said last, or NULL
    uint32_t words_length

cdef struct entry_t:
    # One registered region.
    uint64_t address
    uint64_t length
    uint32_t generation
    uint32_t access     # 0: free
    uint32_t next_free

cdef struct counters_t:
    uint64_t packets
    uint64_t bulk_packets
    uint64_t received
    uint64_t jobs
    uint64_t chunks
    uint64_t chunks_helped
    uint64_t staged_jobs
    uint64_t cells
    uint64_t doorbells
    uint64_t sleeps
    uint64_t refused
    uint64_t foreign
    uint64_t accept_errors

cdef struct shm_t:
    fabric_t base       # first: a fabric_t * is a shm_t *
    int pid
    int public_fd       # listening sockets (doors.pyx); -1: none
    int private_fd
    int place_fd        # of the private one (D1)
    int timer_fd        # part of wake_fd; -1 until it is needed
    uint32_t uid
    uint32_t unknown_count
    uint32_t caller_count  # peers with a `caller`
    uint32_t strangers  # connections since the last rest that became no channel
    int64_t stranger_at  # ns; when the last one came
    int64_t hear_at     # ns; when to watch the doors again, if `deaf`
    uint8_t deaf        # the doors are not watched for a while (A4)
    uint8_t shut_out    # somebody waits at a door, and this process cannot let him in
    uint8_t call        # refused_call of base.error
    uint8_t lack_news   # a connection cannot be taken, and no sleeper knows of it yet
    uint8_t knocked     # somebody may wait at a door
    uint8_t again       # a connect found a full queue: wake up soon
    uint8_t unconfirmed  # some peer in `ending` is not confirmed
    uint8_t mode        # 0: never single copy, 1: if allowed, 2: or fail
    uint8_t owed        # a poll skipped the copying
    uint8_t attention   # maintain has sockets to close or goodbyes to say
    uint8_t wide        # the next poll looks at all channels (``channels``)
    uint32_t rotation
    uint32_t calm_rotation
    uint32_t busy_rotation
    uint32_t chain      # serial number of the last chain
    peer_t *peers
    inbound_t **inbound  # the channels that are polled, the lively ones first (``channels``)
    uint32_t *inbound_rank
    uint32_t inbound_count
    uint32_t lively_count
    uint64_t wide_at    # ticks when a poll looked at all of them
    ticks_scale ticks
    uint32_t *busy      # peers with unfinished nodes
    uint32_t busy_count
    uint32_t *ending    # peers that end
    uint32_t ending_count
    node_t *nodes
    node_t *free_nodes
    uint32_t free_count
    node_t *finished    # signaled, complete, not reported; in order
    node_t *finished_last
    entry_t *regions
    uint32_t region_count
    uint32_t region_free  # index + 1 of a free entry, 0: none
    pending_t unknown[16]
    uint8_t token[32]
    uint64_t mark       # a random word that peers try to read
    counters_t counters
    int signal_thread   # whom the channels' sockets signal (C4); 0: nobody
    int signal


cdef inline bint granted(const shm_t *self, uint64_t key, uint64_t address, uint64_t length,
                         uint32_t access) noexcept nogil:
    # Whether a peer may have this memory of ours now.  The key is the entry's index and
    # generation.  It holds until the end of the step: deregistering needs the lock too (S1).
    cdef uint32_t index = <uint32_t> key
    cdef const entry_t *entry
    if index >= self.region_count:
        return False
    entry = &self.regions[index]
    if not entry.access & access or entry.generation != key >> 32:
        return False
    return (address >= entry.address and length <= entry.length
            and address - entry.address <= entry.length - length)


cdef inline void end_peer(shm_t *self, uint32_t rank) noexcept nogil:
    # Something of the peer ended; poll reports it once maintain confirmed it.
    if not self.peers[rank].ending:
        self.peers[rank].ending = 1
        self.ending[self.ending_count] = rank
        self.ending_count += 1
        self.unconfirmed = 1


cdef inline void fail_peer(shm_t *self, uint32_t rank) noexcept nogil:
    # It broke the protocol: nothing more is taken from it or given to it.
    self.peers[rank].broken = 1
    self.peers[rank].gone = 1
    self.attention = 1
    end_peer(self, rank)


cdef inline void ring_doorbell(shm_t *self, int fd) noexcept nogil:
    # One byte; if the socket is full the other end is readable anyway.
    cdef int kept = errno
    self.counters.doorbells += 1
    send(fd, b"", 1, MSG_DONTWAIT | MSG_NOSIGNAL)
    (&errno)[0] = kept


cdef inline void wake_consumer(shm_t *self, outbound_t *out) noexcept nogil:
    # After publishing something for the consumer; partner: arm (S3).
    announce_then_look()
    if glance32(&out.segment.consumer_waiting) and take32(&out.segment.consumer_waiting):
        ring_doorbell(self, out.fd)


cdef inline void wake_producer(shm_t *self, inbound_t *into) noexcept nogil:
    # After giving back room or finishing a chunk; partner: arm (S3).
    announce_then_look()
    if glance32(&into.segment.producer_waiting) and take32(&into.segment.producer_waiting):
        ring_doorbell(self, into.fd)


cdef inline int refresh_room(outbound_t *out) noexcept nogil:
    # Partner: return_room.  A count that cannot be true is a broken peer.
    cdef uint64_t credit = observe64(&out.segment.credit)
    cdef uint32_t slots = <uint32_t> credit
    cdef uint32_t bulk = <uint32_t> (credit >> 32)
    if out.head - slots > SHM_SLOTS or out.bulk_head - bulk > out.bulk:
        return FABRIC_LOST
    out.freed = slots
    out.bulk_freed = bulk
    return FABRIC_OK


cdef inline int have_room(outbound_t *out, uint32_t slots, uint32_t bulk_end) noexcept nogil:
    # Whether `slots` packets that end at bulk position `bulk_end` fit now.
    cdef int turn
    for turn in range(2):
        if (out.head + slots - out.freed <= SHM_SLOTS
                and bulk_end - out.bulk_freed <= out.bulk):
            return FABRIC_OK
        if turn == 0 and refresh_room(out) != FABRIC_OK:
            return FABRIC_LOST
    return FABRIC_AGAIN


cdef inline void return_room(inbound_t *into) noexcept nogil:
    # Partner: refresh_room.
    publish64(&into.segment.credit, <uint64_t> into.bulk_tail << 32 | into.tail)


cdef inline void put_packet(shm_t *self, outbound_t *out, const void *header,
                            uint32_t header_length, const void *payload,
                            uint32_t length) noexcept nogil:
    # There is room (have_room).  Publishes; partner: poll's observe of the stamp.
    cdef shm_slot *slot = &out.segment.slots[out.head & (SHM_SLOTS - 1)]
    cdef uint32_t total = header_length + length
    cdef uint8_t *data
    if total <= SHM_INLINE:
        data = slot.data
        note32(&slot.word, SHM_KIND_INLINE << 24 | total)
    else:
        out.bulk_head = shm_bulk_place(out.bulk, out.bulk_head, total)
        data = &out.segment.bulk[out.bulk_head & (out.bulk - 1)]
        out.bulk_head += shm_bulk_need(total)
        note32(&slot.word, SHM_KIND_BULK << 24 | total)
        self.counters.bulk_packets += 1
    if header_length:
        memcpy(data, header, header_length)
    if length:
        memcpy(data + header_length, payload, length)
    self.counters.packets += 1
    out.head += 1
    publish32(&slot.stamp, out.head)
