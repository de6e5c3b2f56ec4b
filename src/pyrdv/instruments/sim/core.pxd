# cython: language_level=3
"""State of the simulated network, and the operations on it that need no Python."""
from libc.stdint cimport int8_t, uint8_t, uint32_t, uint64_t

from pyrdv.fabrics.contract cimport fabric_t


cdef enum sim_kind:
    SIM_PACKET = 0      # the oldest packet in flight from src reaches dst
    SIM_CHUNK = 1       # one piece of a READ/WRITE that src posted on dst moves
    SIM_COMPLETE = 2    # the completion of that READ/WRITE reaches src
    SIM_CLOSE = 3       # dst learns that src disconnected
    SIM_LOSS = 4        # dst learns that src is lost
    SIM_CONNECT = 5     # the connection that src asked dst for comes up
    SIM_KINDS = 6

cdef enum sim_fault:
    FAULT_RELEASE = 0       # released more packets than the last poll returned
    FAULT_POST_CLOSED = 1   # posted after disconnect
    FAULT_BUSY_REGION = 2   # deregistered the local region of a transfer under way
    FAULT_UNKNOWN_REGION = 3
    FAULT_LOCAL_KEY = 4     # local key unknown, or too small for the transfer
    FAULT_REQUEST = 5       # malformed work request
    FAULT_REMOTE_KEY = 6    # a transfer named remote memory that is not registered
    SIM_FAULTS = 7

cdef enum:
    SIM_FAULT_LOG = 64
    SIM_BOUNCE = 4096

cdef struct sim_packet:
    char *data              # one of the channel's buffers
    uint32_t length
    uint8_t fenced
    uint8_t behind          # F9
    uint8_t discarded       # an earlier part of its chain failed
    uint64_t chain
    uint64_t order
    double time

cdef struct sim_transfer:
    uint8_t used
    uint8_t opcode
    uint8_t signaled
    uint8_t fenced
    uint8_t picked          # WRITE: its last bytes are in `bounce`
    uint8_t handed          # the local memory is no longer needed
    uint8_t placed          # all bytes are where they belong, or it failed
    uint8_t queued          # its completion waits in the initiator's queue
    int8_t status
    uint64_t chain
    uint64_t order
    char *local
    uint64_t length
    uint64_t local_key
    uint64_t remote
    uint64_t remote_key
    uint64_t id
    uint64_t offset         # bytes moved so far
    uint64_t turn           # the target's turns when the last piece moved
    char *bounce
    double time             # when the next piece is due

cdef struct sim_channel:    # one ordered pair: what src sends to dst
    uint8_t connected
    uint8_t connecting
    uint8_t held            # fault: nothing moves
    uint8_t close           # 0, 1 posted, 2 arrived, 3 reported to dst
    uint8_t loss            # the same, for the loss of src as dst sees it
    sim_packet *packets     # ring of net.slots
    char *data              # the buffers of the ring's packets
    uint64_t posted
    uint64_t delivered
    uint64_t released
    uint64_t shown          # next packet that this poll may return
    uint32_t returned       # packets the last poll of dst returned, still unreleased
    sim_transfer *transfers
    int busy                # transfers in use
    uint64_t chain
    uint64_t order
    double last             # latest arrival so far: arrivals never overtake
    double fence            # when a transfer was last placed
    double delay            # fault: extra latency of later posts

cdef struct sim_region:
    uint8_t used
    uint8_t access
    uint32_t generation
    uint32_t transfers      # own transfers that use it as local memory
    uint32_t next_free
    char *address
    uint64_t length

cdef struct sim_entry:      # a completion in a rank's queue
    uint32_t dst
    uint32_t slot

cdef struct sim_rank:
    fabric_t fabric         # first: a fabric_t * of this network is a sim_rank *
    sim_net *net
    uint8_t dead
    uint8_t closed
    uint8_t armed
    uint32_t accepted
    uint32_t rotation
    uint64_t turns          # polls so far
    double free_at          # when the interface can take the next message
    sim_entry *queue        # ring of size * net.transfers
    uint64_t queue_head
    uint64_t queue_tail
    sim_region *regions
    uint32_t region_count
    uint32_t region_free    # first free slot + 1
    uint32_t region_used
    uint64_t locked         # bytes registered
    uint64_t lock_limit     # and how many may be; 0: any number

cdef struct sim_note:
    int code
    uint32_t rank
    uint32_t peer

cdef struct sim_net:
    uint32_t size
    uint32_t slots
    uint32_t transfers
    uint64_t stride
    uint64_t chunk
    uint8_t instant         # poll delivers everything first
    uint8_t lazy
    uint8_t single_copy
    uint8_t scrambled       # the pieces of a WRITE come in another order
    uint8_t overtaking      # unfenced packets pass one whose fence is closed
    double now
    double latency
    double overhead
    double gap
    double per_byte
    sim_rank *ranks
    sim_channel *channels
    uint64_t fault_count
    sim_note faults[SIM_FAULT_LOG]

cdef struct sim_pending:
    uint32_t kind
    uint32_t src
    uint32_t dst
    uint32_t slot
    double time

cdef int sim_setup(sim_net *net, uint32_t packet_max, uint32_t eager_max,
                   uint64_t transfer_max, uint32_t capabilities) noexcept nogil
cdef void sim_teardown(sim_net *net) noexcept nogil
cdef bint sim_open(sim_net *net, uint32_t src, uint32_t dst) noexcept nogil
cdef sim_channel *sim_between(sim_net *net, uint32_t src, uint32_t dst) noexcept nogil
cdef int sim_list(sim_net *net, sim_pending *out, int limit) noexcept nogil
cdef bint sim_ready(sim_net *net, uint32_t kind, uint32_t src, uint32_t dst, uint32_t slot,
                    double *time) noexcept nogil
cdef void sim_fire(sim_net *net, uint32_t kind, uint32_t src, uint32_t dst,
                   uint32_t slot) noexcept nogil
cdef void sim_signal(sim_net *net, uint32_t rank) noexcept nogil
cdef void sim_finish(sim_net *net, uint32_t src, uint32_t dst, sim_transfer *transfer,
                     int status) noexcept nogil
cdef void sim_note_fault(sim_net *net, int code, uint32_t rank, uint32_t peer) noexcept nogil
cdef void sim_retire(sim_net *net, uint32_t src, uint32_t dst,
                     sim_transfer *transfer) noexcept nogil
cdef void sim_drop_local(sim_net *net, uint32_t src, sim_transfer *transfer) noexcept nogil
