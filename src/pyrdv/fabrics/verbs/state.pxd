# cython: language_level=3
"""What the modules of the verbs fabric share: one fabric, its peers, their links and queue pairs.

A *link* is what a peer is to the engine: the order of packets, credits, receives,
the ring, and the memory for them.  A peer has at most one link in use, whoever opened
it.  A *queue pair* (RC, one connection) is where a link posts: the place in its send
queue, send slots, READs, fences.  A link has one, in the same allocation.

V-rules of the design that are held here; tests cite them by number:

V1  SEND, RDMA WRITE, RDMA READ and receives, nothing else.
V2  The active side sends first: its HELLO.  The passive side is silent until
    that has arrived (state LINK_ACCEPTED), which also proves the job secret.
V3  Never a SEND without a credit.  `sent` counts SENDs posted, `peer_freed`
    the receives the peer has re-posted since, as told in every packet; both are
    cumulative modulo 2**32.  Data may have ``recv_slots`` SENDs outstanding, control
    packets CONTROL_SLOTS more, and as many receives are always posted.  A receive
    is re-posted before it is told.  Control packets take no place in the order of
    data, so they always drain, and told credits with them: no deadlock.
V4  A READ has one scatter element; at most ``reads_max`` (negotiated) are out.
V4a On siw a queue pair whose next work request waits behind a fence answers no READ
    of its peer, so two ranks that read from each other would wait for ever (seen on
    kernels 6.1 and 7.3).  There (`soft_fence`) a SEND fenced by a READ is held back, and
    posted when the READs before it are complete; its credit, its send slot and its
    place in the send queue are reserved meanwhile.  Nobody but a poll posts it (CAP_HELD).
V4b A READ is complete when its own completion says so, not when a later one comes:
    siw completes a SEND that was handed over although a READ before it is still out.
V4c A fence of rxe counts the READs that are under way, not those before it.  If the
    fenced request is lost and the queue is sent again from there, it waits for the
    READs behind it, and these for it, for ever (read and seen in kernel 7.3).  There
    (`frail_fence`) a READ is posted only when no fenced request is out (`fences`); each
    asks for its completion.  On every device a fence is set only behind a READ of its
    chain: what follows a WRITE is in order without.
V4d F9 is the order of the queue pair. But the ring is polled in memory (V8), where a
    device need not show the bytes of two WRITEs in their order: such a SEND is sent.
V5  A completed WRITE is handed over, no more; the engine's DONE says placed.
V6  Memory of a send slot is reused only after a completion that covers it.
V6a siw sends what is longer than a page and unsignaled without copying it, page by
    page, which takes it twice as long as a copy: such SENDs are signaled.
V7  Transfers are cut at ``transfer_max``; post calls may fail with either sign.
V8  The ring is polled in memory.  A slot counts only if its sequence number is
    the next one, and its CRC32C is right where the device promises no order.
V10 A chain is one call of ibv_post_send.

L1  All of it belongs to the engine's lock.  Links are allocated by ``call``
    operations; one that ended keeps its memory until all its packets were
    released and its end was returned by poll.
L2  Packets of a link are numbered in the order of their posts (`sequence`), in
    whichever channel they travel; the receiver delivers them by number (F1).
L3  A link that fails (`failure` set) is only noted by a step.  The next ``call``
    (arm or maintain) moves the queue pair to the error state and destroys it, so
    that nothing touches user memory any more, and then ends the transfers that
    were under way with FABRIC_LOST (F4, F7).
L4  wr_id = queue pair's tag << 32 | receive flag << 31 | position.  So a completion finds
    its queue pair, and from there its link; one of a queue pair that is gone finds
    another tag and is ignored.  `qp_num` would not do: on siw a new queue pair has the
    number of one that was destroyed, whose completions are still in the queue (seen).
L5  A queue pair knows its link.  Which one a link posts to is said where a post begins;
    whatever touches a send queue is given the queue pair, and takes the link from there.
"""
from libc.stdint cimport int8_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from pyrdv.fabrics.contract cimport fabric_t
from pyrdv.fabrics.verbs.libibverbs cimport (
    ibv_comp_channel, ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_recv_wr, ibv_send_wr, ibv_sge)
from pyrdv.fabrics.verbs.library cimport verbs_calls
from pyrdv.fabrics.verbs.librdmacm cimport rdma_cm_id, rdma_event_channel, sockaddr_storage


cdef enum:
    PACKET_ROOM = 16384 + 64    # largest packet of the engine: header and payload
    VERBS_HEADER = 16           # sizeof(packet_head_t)
    SLOT = 16512                # VERBS_HEADER + PACKET_ROOM, rounded up to 64
    CONTROL_SLOTS = 8           # receives beyond the data credits (V3)
    SEND_SLOTS = 32             # copies of SENDs that are not inline
    SQ_DEPTH = 256              # a power of two: positions are taken modulo it
    SQ_RESERVE = 16             # work requests that data leaves to control packets
    SIGNAL_EVERY = 8            # SENDs between two signaled ones; < SEND_SLOTS / 2
    CHAIN_MAX = 96              # work requests of one post
    SCRATCH = 256               # largest inline SEND or ring write; bytes per request
    INLINE_CHAIN = 16           # requests of one chain that may be inline
    RING_SLOTS = 32             # a power of two
    RING_SLOT = 256
    RING_TAIL = 24              # sizeof(ring_tail_t)
    INBOUND = 128               # > all receives and ring slots of one link; a power of two
    PING_SINK = 64              # offset of the ping's 8 bytes in link.shared
    RING_OFFSET = 256           # offset of the ring in link.shared
    CQ_SHARERS = 32             # queue pairs that share one completion queue
    CQ_BATCH = 16
    HELD = 16                   # fenced SENDs that are held back (V4a); a power of two
    SIW_VENDOR = 0x626D74       # vendor id that siw gives
    RXE_VENDOR = 0xFFFFFF       # and rxe
    REPOST_BATCH = 8            # receives posted again by one call, at most 64
    PROTOCOL = 1                # version of everything in this file and of docs/wire.md, verbs

cdef enum link_state:
    LINK_NEW = 0
    LINK_RESOLVING = 1          # active: address, then route
    LINK_CONNECTING = 2         # active: rdma_connect was called
    LINK_ACCEPTED = 3           # passive: rdma_accept was called; waits for HELLO (V2)
    LINK_UP = 4
    LINK_DOWN = 5               # queue pair destroyed; what it holds is still to be returned

cdef enum link_failure:
    FAIL_NONE = 0
    FAIL_DISCONNECTED = 1       # the peer or its machine ended the connection
    FAIL_TRANSPORT = 2          # the device gave up (retries, flushes); `wc_status` says why
    FAIL_SILENT = 3             # no answer in time; `wc_status` is for how long, ms
    FAIL_PROTOCOL = 4           # the peer broke the rules of this file
    FAIL_DEVICE = 5             # the device was removed or failed
    FAIL_POST = 6               # the device refused a work request; `wc_status` is the errno
    FAIL_REFUSED = 7            # connection refused, unreachable or not authenticated

# What could not be made, in the upper half of what link_equip returns; errno is in the lower.
cdef enum equipment:
    LACK_MEMORY = 1             # allocated
    LACK_REGISTERED = 2         # pinned
    LACK_CQ = 3
    LACK_QP = 4
    LACK_RECEIVES = 5
    LACK_LINK = 6               # place in the fabric's table
    LACK_ID = 7                 # of the connection manager

cdef enum packet_kind:
    KIND_DATA = 1               # an engine packet
    KIND_BYE = 2                # the last numbered packet of a link: orderly end
    KIND_HELLO = 3              # control from here on: not numbered
    KIND_CREDIT = 4
    KIND_GRANT = 5              # the sender of it polls: the ring may be used
    KIND_SLEEP = 6              # the sender of it will sleep: use SEND
    KIND_ASLEEP = 7             # answer: no ring write comes after this packet

cdef enum ring_state:           # of the ring that the peer writes into
    RING_CLOSED = 0
    RING_GRANTED = 1
    RING_REVOKING = 2           # SLEEP told, ASLEEP not yet seen

cdef enum owed:                 # control packets to be posted when there is room
    OWE_CREDIT = 1
    OWE_GRANT = 2
    OWE_SLEEP = 4
    OWE_ASLEEP = 8
    OWE_BYE = 16
    OWE_PING = 32               # the READ that asks whether the peer's machine lives

cdef enum sq_kind:
    SQ_SEND = 1
    SQ_READ = 2
    SQ_WRITE = 3
    SQ_PING = 4
    SQ_RING = 5

cdef struct packet_head_t:      # before every packet of the SEND channel
    uint32_t sequence           # KIND_DATA, KIND_BYE; else 0
    uint32_t freed              # receives re-posted so far
    uint32_t ring_freed         # ring slots consumed so far
    uint8_t kind
    uint8_t version             # PROTOCOL
    uint16_t reserved           # zero

cdef struct ring_tail_t:        # the last bytes of a ring slot; the packet ends where it begins
    uint32_t freed
    uint32_t ring_freed
    uint32_t length             # of the packet
    uint32_t reserved           # zero
    uint32_t crc                # CRC32C of packet and the fields above and `sequence`
    uint32_t sequence           # written last where the device writes in order

# What one side tells the other about its memory, in REP private data and in HELLO.
cdef struct link_offer_t:
    uint64_t control            # address of an 8-byte word that may be read (ping)
    uint64_t ring               # address of RING_SLOTS ring slots; 0: no ring
    uint32_t control_key
    uint32_t ring_key
    uint32_t recv_slots         # data credits
    uint32_t slot               # SLOT
    uint32_t ring_crc           # 1: ring slots need their CRC
    uint32_t reserved

cdef struct sq_entry_t:
    uint64_t id
    uint8_t kind                # sq_kind
    uint8_t slots               # send slots to be freed with it
    uint8_t signaled            # the engine wants to hear of it
    uint8_t fenced              # counted in `fences`
    uint8_t done
    uint8_t flushed             # it failed: the device has done with its memory (K5)
    int8_t status               # fabric_status, once done

cdef struct inbound_t:          # a numbered packet that was not yet released
    void *data
    uint32_t length
    uint32_t slot               # receive slot
    uint32_t sequence
    uint8_t kind

cdef struct order_t:            # packets in order of their numbers, ready to be returned
    void *data
    uint32_t length
    uint32_t slot
    uint8_t ring                # slot is a ring slot
    uint8_t kind

cdef struct held_t:             # a fenced SEND, its data in `held_memory` (V4a)
    uint32_t position           # may go when `sq_done` is past it
    uint32_t length             # header and payload

cdef struct link_t

cdef struct qp_t:
    link_t *link                # whose it is
    rdma_cm_id *id              # has the ibv_qp
    uint32_t tag                # index in fabric.tags << 16 | generation (L4)
    uint32_t inline_max
    uint32_t sq_head            # next position to post
    uint32_t sq_done            # positions before it are complete
    uint32_t sq_told            # positions before it were returned by poll where wanted
    uint32_t unsignaled         # SENDs since the last signaled one
    uint32_t slot_head          # send slots, cumulative
    uint32_t slot_done
    uint32_t reads
    uint32_t writes
    uint32_t fences             # requests behind a fence that are out, with `frail_fence`
    uint32_t held_head
    uint32_t held_tail
    uint32_t reads_max
    char *slots                 # SEND_SLOTS, in link.memory
    uint32_t slots_key
    uint32_t queue              # index of its completion queue
    char *held_memory           # HELD slots, only with `soft_fence`
    held_t held[16]
    sq_entry_t sq[256]

cdef struct link_t:
    uint32_t peer
    uint32_t index              # in fabric.links
    uint8_t state               # link_state
    uint8_t active              # this side called rdma_connect
    uint8_t failure             # link_failure
    uint8_t ending              # FAIL_DISCONNECTED or the like was seen: drain, then end
    uint8_t busy                # in fabric.busy
    uint8_t needy               # in fabric.needy
    uint8_t heard               # something came since the last look at the clock
    uint8_t was_up              # it has been LINK_UP: its end is an event
    uint8_t iwarp
    int lack                    # what it lacks: equipment << 16 | errno; 0: nothing (lacks.pyx)
    int wc_status
    # Set-up (connection.pyx)
    uint64_t nonce              # ours
    uint64_t peer_nonce
    uint32_t candidate          # which pair of addresses is being tried
    int64_t deadline            # ns; of the present step of the set-up
    int64_t heard_at            # ns; last sign of life
    int64_t pinged_at           # ns; when the ping under way was posted, 0: none
    link_offer_t offer          # the peer's
    # Memory
    char *memory                # receive slots, then send slots
    ibv_mr *memory_mr
    char *shared                # control word, ping sink, ring: see link.pyx
    ibv_mr *shared_mr
    uint64_t shared_size
    # Credits of the SEND channel
    uint32_t sent
    uint32_t peer_freed
    uint32_t freed
    uint32_t freed_told
    uint32_t recv_slots         # data credits that this side gives
    uint8_t owed                # bits of `owed`
    uint8_t bye_sent
    uint8_t bye_seen
    # Ring towards the peer, and ours
    uint8_t ring_open           # the peer granted its ring
    uint8_t ring_mine           # ring_state
    uint8_t ring_offered        # the peer was told of our ring
    uint8_t ring_crc            # our ring needs CRCs
    uint32_t ring_sent
    uint32_t ring_peer_freed
    uint32_t ring_freed
    uint32_t ring_freed_told
    uint32_t ring_next          # our ring: the next slot to look at, cumulative
    uint32_t since_sleep        # packets since the last sleep: when to grant
    # Order
    uint32_t sequence           # of the last packet we posted; the first is 1
    uint32_t expected           # of the last packet that was put in order
    inbound_t early[128]        # arrivals of the SEND channel, FIFO
    uint32_t early_head
    uint32_t early_tail
    order_t order[128]          # in order, not yet released
    uint32_t order_head
    uint32_t order_tail
    uint32_t repost[64]         # receive slots to be posted again
    uint32_t repost_count
    qp_t qp

cdef struct queue_t:            # a completion queue
    ibv_cq *cq
    uint32_t sharers            # queue pairs on it
    uint32_t taken              # events of it that were taken, and not acknowledged yet (W6)

cdef struct tag_t:              # which queue pair has a tag of this index (L4)
    qp_t *qp                    # NULL: free
    uint16_t generation

cdef struct peer_t:
    link_t *link                # in use, or being set up; NULL once its end was returned
    uint8_t ended               # event_kind that was returned for it, 0: none
    uint8_t leaving             # disconnect was called
    uint8_t failure             # link_failure of the last link
    int wc_status
    int connect_lack            # what refused a connection to it here: equipment << 16 | errno
    int accept_lack             # and one from it
    int said                    # the errno of its own lack, as it said last; 0: nothing
    void *address               # parsed set of addresses, owned by connection.pyx
    uint8_t key[16]             # SipHash key for the pair, the same on both sides

cdef struct memory_t:           # one registered region
    ibv_mr *mr
    uint32_t next               # free list, or list of the dead
    uint32_t users              # of a live region (M4); 0: it is not live
    int rights                  # flags of ibv_access_flags

cdef struct counters_t:
    uint64_t packets
    uint64_t ring_packets
    uint64_t overflows          # ring packets that went by SEND for want of a slot
    uint64_t received
    uint64_t reads
    uint64_t writes
    uint64_t posts              # calls of ibv_post_send
    uint64_t credits
    uint64_t pings
    uint64_t sleeps
    uint64_t torn               # ring slots seen before they were whole
    uint64_t registrations
    uint64_t deregistrations
    uint64_t shared_regions     # registrations that found their memory registered (M4)
    uint64_t refused            # strangers, wrong versions, second links
    uint64_t links

cdef struct verbs_t:
    fabric_t base
    const verbs_calls *lib
    ibv_context *context
    ibv_pd *pd
    ibv_comp_channel *channel
    rdma_event_channel *events
    rdma_event_channel *door    # of the listeners (admission.pyx)
    rdma_cm_id *listener
    int timer_fd                # part of wake_fd: pings, deadlines, a ring being revoked
    int kick_fd                 # part of wake_fd: a step found work for a call
    int pid
    uint8_t iwarp
    uint8_t soft_fence          # V4a
    uint8_t frail_fence         # V4c
    uint8_t ring_mode           # 0 off, 1 where the device promises order, 2 always
    uint8_t call_wanted         # maintain has work (L3)
    uint8_t armed
    uint8_t device_gone
    uint8_t deaf                # the door is left alone until `hear_at`
    uint32_t strangers          # in a row, and when the last one came, ns
    int64_t stranger_at
    int64_t hear_at
    uint32_t crowded            # turns in a row after which events were left (N7)
    int64_t peer_timeout        # ns
    int64_t ping_every          # ns
    uint32_t mtu                # enum ibv_mtu of the port at the start; 0 on iWARP (J7)
    uint32_t recv_slots
    uint32_t reads_max          # what the device offers
    uint32_t reads_init_max
    peer_t *peers
    link_t **links              # by index; NULL: free
    tag_t *tags                 # by index, that of the link
    uint32_t link_room          # of both
    uint32_t up                 # links in LINK_UP
    queue_t *queues
    uint32_t queue_count
    link_t **busy               # room for link_room
    uint32_t busy_count
    uint32_t busy_next          # rotation
    link_t **needy
    uint32_t needy_count
    link_t **granted            # links whose ring is polled
    uint32_t granted_count
    memory_t *regions
    uint32_t region_room
    uint32_t region_free        # index + 1; 0: none
    uint32_t region_dead        # index + 1: to be deregistered by a call (M2)
    uint64_t dead_bytes         # how much waits for that
    uint32_t region_last        # index of the one that was registered last (M4)
    uint64_t backoff            # ns; timer while a ring is being revoked
    ibv_send_wr wr[96]
    ibv_sge sge[96]
    char scratch[4096]          # INLINE_CHAIN x SCRATCH
    ibv_recv_wr recv_wr[64]
    ibv_sge recv_sge[64]
    counters_t counters
