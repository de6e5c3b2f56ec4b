# cython: language_level=3
"""The simulated network: its state, and the events that change it.

S1  All engines of one network run in one thread, and none of them inside a
    signal handler: the state is shared and has no lock.
S2  An ordered pair (src, dst) is one channel.  Its packets form a ring that is
    passed in posting order: posted >= delivered >= released (F1).
S3  A transfer touches local memory only until it is `handed`, and is freed
    only after it is `placed` and its completion was polled (F4).
S4  Whether an event may happen depends on the state alone, never on time: a
    chooser is free to take any event that `sim_ready` allows.  The time of an
    event is the LogGP estimate, and serves the default order.
S5  Nothing here allocates except `sim_setup` and `sim_open`, which run outside
    of `step`.
S6  What an engine does against the contract is noted in `faults`, and otherwise
    has no effect; a test asks for the list.

A transfer that fails completes with its status, and the fenced work requests
behind it in its chain are discarded (with FABRIC_FAILED if signaled).
"""
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.unistd cimport write

from pyrdv.fabrics.contract cimport (
    ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, FABRIC_FAILED, FABRIC_INVALID, FABRIC_LOST,
    FABRIC_OK, WR_READ, WR_WRITE,
)


cdef sim_channel *sim_between(sim_net *net, uint32_t src, uint32_t dst) noexcept nogil:
    return &net.channels[<uint64_t>src * net.size + dst]


cdef void sim_note_fault(sim_net *net, int code, uint32_t rank, uint32_t peer) noexcept nogil:
    cdef sim_note *note
    if net.fault_count < SIM_FAULT_LOG:
        note = &net.faults[net.fault_count]
        note.code = code
        note.rank = rank
        note.peer = peer
    net.fault_count += 1


cdef void sim_signal(sim_net *net, uint32_t rank) noexcept nogil:
    """Make the wake-up descriptor of an armed rank readable (F8)."""
    cdef uint64_t one = 1
    cdef sim_rank *who = &net.ranks[rank]
    if who.armed and who.fabric.wake_fd >= 0:
        write(who.fabric.wake_fd, &one, sizeof(one))


# ---------------------------------------------------------------- set-up

cdef int sim_setup(sim_net *net, uint32_t packet_max, uint32_t eager_max,
                   uint64_t transfer_max, uint32_t capabilities) noexcept nogil:
    """Reserve the ranks and channels of `net`, whose parameters are set."""
    cdef uint32_t i
    cdef uint64_t n = net.size
    cdef sim_rank *rank
    net.stride = (<uint64_t>packet_max + 63) & ~<uint64_t>63
    net.ranks = <sim_rank *>calloc(n, sizeof(sim_rank))
    net.channels = <sim_channel *>calloc(n * n, sizeof(sim_channel))
    if net.ranks == NULL or net.channels == NULL:
        return FABRIC_FAILED
    for i in range(net.size):
        rank = &net.ranks[i]
        rank.net = net
        rank.fabric.rank = i
        rank.fabric.size = net.size
        rank.fabric.capabilities = capabilities
        rank.fabric.packet_max = packet_max
        rank.fabric.eager_max = eager_max
        rank.fabric.transfer_max = transfer_max
        rank.fabric.wake_fd = -1
        rank.queue = <sim_entry *>calloc(n * net.transfers, sizeof(sim_entry))
        if rank.queue == NULL:
            return FABRIC_FAILED
    return FABRIC_OK


cdef void sim_teardown(sim_net *net) noexcept nogil:
    cdef uint64_t i
    cdef uint32_t t
    cdef sim_channel *ch
    if net.channels != NULL:
        for i in range(<uint64_t>net.size * net.size):
            ch = &net.channels[i]
            if ch.transfers != NULL:
                for t in range(net.transfers):
                    free(ch.transfers[t].bounce)
            free(ch.transfers)
            free(ch.packets)
            free(ch.data)
    if net.ranks != NULL:
        for i in range(net.size):
            free(net.ranks[i].queue)
            free(net.ranks[i].regions)
    free(net.channels)
    free(net.ranks)
    net.channels = NULL
    net.ranks = NULL


cdef bint reserve(sim_net *net, sim_channel *ch) noexcept nogil:
    cdef uint32_t t
    if ch.packets == NULL:
        ch.packets = <sim_packet *>calloc(net.slots, sizeof(sim_packet))
    if ch.data == NULL:
        ch.data = <char *>calloc(net.slots, net.stride)
    if ch.transfers == NULL:
        ch.transfers = <sim_transfer *>calloc(net.transfers, sizeof(sim_transfer))
    if ch.packets == NULL or ch.data == NULL or ch.transfers == NULL:
        return False
    for t in range(net.slots):
        if ch.packets[t].data == NULL:
            ch.packets[t].data = ch.data + t * net.stride
    for t in range(net.transfers):
        if ch.transfers[t].bounce == NULL:
            ch.transfers[t].bounce = <char *>calloc(1, SIM_BOUNCE)
        if ch.transfers[t].bounce == NULL:
            return False
    return True


cdef bint sim_open(sim_net *net, uint32_t src, uint32_t dst) noexcept nogil:
    """Reserve the memory of both directions between two ranks."""
    return (reserve(net, sim_between(net, src, dst))
            and reserve(net, sim_between(net, dst, src)))


# ------------------------------------------------------- what may happen next

cdef bint fence_open(sim_net *net, sim_channel *ch, uint64_t chain,
                     uint64_t order) noexcept nogil:
    """True if every earlier work request of the chain is complete (F5)."""
    cdef uint32_t t
    cdef uint64_t i
    cdef sim_transfer *tr
    cdef sim_packet *packet
    if ch.busy:
        for t in range(net.transfers):
            tr = &ch.transfers[t]
            if tr.used and not tr.placed and tr.chain == chain and tr.order < order:
                return False
    for i in range(ch.delivered, ch.posted):
        packet = &ch.packets[i % net.slots]
        if packet.chain == chain and packet.order < order:
            return False
    return True


cdef void skip_discarded(sim_net *net, sim_channel *ch) noexcept nogil:
    while ch.delivered < ch.posted and ch.packets[ch.delivered % net.slots].discarded:
        ch.delivered += 1


cdef bint may_pass(sim_net *net, sim_channel *ch) noexcept nogil:
    """Move the first packet that may be delivered before the closed fence at the head."""
    cdef uint64_t i = ch.delivered
    cdef uint64_t at
    cdef sim_packet found
    while i < ch.posted:
        found = ch.packets[i % net.slots]
        if not found.discarded and (not found.fenced and not found.behind
                                    or fence_open(net, ch, found.chain, found.order)):
            break
        if found.behind and not found.discarded:
            return False
        i += 1
    if i == ch.posted:
        return False
    for at in range(i, ch.delivered, -1):
        ch.packets[at % net.slots] = ch.packets[(at - 1) % net.slots]
    ch.packets[ch.delivered % net.slots] = found
    return True


cdef bint ready_packet(sim_net *net, uint32_t src, uint32_t dst, double *time) noexcept nogil:
    cdef sim_channel *ch = sim_between(net, src, dst)
    cdef sim_packet *packet
    if ch.posted == ch.delivered or ch.loss >= 2 or net.ranks[dst].dead:
        return False
    skip_discarded(net, ch)
    if ch.posted == ch.delivered:
        return False
    packet = &ch.packets[ch.delivered % net.slots]
    if (packet.fenced or packet.behind) \
            and not fence_open(net, ch, packet.chain, packet.order):
        if packet.behind or not net.overtaking or not may_pass(net, ch):
            return False
    time[0] = packet.time
    if packet.fenced or packet.behind:
        time[0] = max(time[0], ch.fence + net.latency)
    return True


cdef bint ready_chunk(sim_net *net, uint32_t src, uint32_t dst, uint32_t slot,
                      double *time) noexcept nogil:
    cdef sim_channel *ch = sim_between(net, src, dst)
    cdef sim_transfer *tr = &ch.transfers[slot]
    if not tr.used or tr.placed or net.ranks[dst].dead or net.ranks[src].dead:
        return False
    if ch.loss >= 2:
        return False
    if not net.single_copy and net.ranks[dst].turns <= tr.turn and not net.ranks[dst].closed:
        return False
    time[0] = tr.time
    if tr.fenced and tr.offset == 0:
        if not fence_open(net, ch, tr.chain, tr.order):
            return False
        time[0] = max(time[0], ch.fence + net.latency)
    return True


cdef bint ready_close(sim_net *net, uint32_t src, uint32_t dst) noexcept nogil:
    cdef sim_channel *ch = sim_between(net, src, dst)
    cdef uint32_t t
    if ch.close != 1 or ch.loss or net.ranks[dst].dead:
        return False
    if ch.posted > ch.delivered:
        skip_discarded(net, ch)
    if ch.posted > ch.delivered:
        return False
    if ch.busy:
        for t in range(net.transfers):
            if ch.transfers[t].used and not ch.transfers[t].placed:
                return False
    return True


cdef bint sim_ready(sim_net *net, uint32_t kind, uint32_t src, uint32_t dst, uint32_t slot,
                    double *time) noexcept nogil:
    cdef sim_channel *ch = sim_between(net, src, dst)
    cdef sim_transfer *tr
    time[0] = ch.last
    if kind == SIM_LOSS:
        return ch.loss == 1 and ch.posted == ch.delivered and not net.ranks[dst].dead
    if ch.held:
        return False
    if kind == SIM_CONNECT:
        return (ch.connecting and not ch.connected and not net.ranks[src].dead
                and not net.ranks[dst].dead)
    if ch.packets == NULL:
        return False
    if kind == SIM_PACKET:
        return ready_packet(net, src, dst, time)
    if kind == SIM_CLOSE:
        return ready_close(net, src, dst)
    if not ch.busy or slot >= net.transfers:
        return False
    if kind == SIM_CHUNK:
        return ready_chunk(net, src, dst, slot, time)
    if kind == SIM_COMPLETE:
        tr = &ch.transfers[slot]
        time[0] = tr.time
        return (tr.used and tr.signaled and tr.handed and not tr.queued
                and not net.ranks[src].dead)
    return False


cdef int sim_list(sim_net *net, sim_pending *out, int limit) noexcept nogil:
    """Fill `out` with all events that may happen next; returns how many."""
    cdef uint32_t src, dst, kind, slot, last
    cdef double time
    cdef sim_channel *ch
    cdef int count = 0
    for src in range(net.size):
        for dst in range(net.size):
            ch = sim_between(net, src, dst)
            for kind in range(SIM_KINDS):
                last = 1
                if kind == SIM_CHUNK or kind == SIM_COMPLETE:
                    last = net.transfers if ch.busy else 0
                for slot in range(last):
                    if not sim_ready(net, kind, src, dst, slot, &time):
                        continue
                    if count == limit:
                        return count
                    out[count].kind = kind
                    out[count].src = src
                    out[count].dst = dst
                    out[count].slot = slot
                    out[count].time = time
                    count += 1
    return count


# ------------------------------------------------------- making it happen

cdef void sim_drop_local(sim_net *net, uint32_t src, sim_transfer *tr) noexcept nogil:
    """The transfer no longer uses its local region."""
    cdef sim_rank *rank = &net.ranks[src]
    cdef uint64_t slot = <uint64_t><uint32_t>tr.local_key - 1
    if slot < rank.region_count and rank.regions[slot].transfers > 0:
        rank.regions[slot].transfers -= 1
    tr.local_key = 0


cdef void sim_retire(sim_net *net, uint32_t src, uint32_t dst,
                     sim_transfer *tr) noexcept nogil:
    """Free a transfer that is placed and of which nothing is to be reported."""
    sim_drop_local(net, src, tr)
    tr.used = 0
    sim_between(net, src, dst).busy -= 1


cdef void discard_chain(sim_net *net, uint32_t src, uint32_t dst, uint64_t chain,
                        uint64_t order) noexcept nogil:
    """Discard what is fenced behind a failed transfer of the same chain."""
    cdef sim_channel *ch = sim_between(net, src, dst)
    cdef sim_packet *packet
    cdef sim_transfer *tr
    cdef uint64_t i
    cdef uint32_t t
    for i in range(ch.delivered, ch.posted):
        packet = &ch.packets[i % net.slots]
        if packet.chain == chain and packet.order > order \
                and (packet.fenced or packet.behind):
            packet.discarded = 1
    for t in range(net.transfers):
        tr = &ch.transfers[t]
        if (tr.used and not tr.placed and tr.chain == chain and tr.order > order
                and tr.fenced):
            tr.status = FABRIC_FAILED
            tr.handed = 1
            tr.placed = 1
            if not tr.signaled:
                sim_retire(net, src, dst, tr)


cdef void sim_finish(sim_net *net, uint32_t src, uint32_t dst, sim_transfer *tr,
                     int status) noexcept nogil:
    """The transfer is placed or failed; its completion is an event of its own."""
    cdef sim_channel *ch = sim_between(net, src, dst)
    tr.handed = 1
    tr.placed = 1
    if not tr.queued:
        tr.status = <int8_t>status
    ch.fence = net.now
    if status != FABRIC_OK:
        discard_chain(net, src, dst, tr.chain, tr.order)
    if not tr.signaled:
        sim_retire(net, src, dst, tr)


cdef bint remote_valid(sim_net *net, uint32_t dst, sim_transfer *tr) noexcept nogil:
    """True if the target still offers the whole range for this kind of transfer."""
    cdef sim_rank *rank = &net.ranks[dst]
    cdef uint64_t slot = <uint64_t><uint32_t>tr.remote_key - 1
    cdef uint64_t start
    cdef sim_region *region
    cdef uint8_t access = (ACCESS_REMOTE_READ if tr.opcode == WR_READ
                           else ACCESS_REMOTE_WRITE)
    if slot >= rank.region_count:
        return False
    region = &rank.regions[slot]
    start = <uint64_t>region.address
    return (region.used and region.generation == tr.remote_key >> 32
            and region.access & access and tr.remote >= start
            and tr.remote - start <= region.length
            and tr.length <= region.length - (tr.remote - start))


cdef uint64_t landing(sim_net *net, const sim_transfer *tr) noexcept nogil:
    """Where the next piece of a WRITE goes: two neighbours change places, if it is scrambled."""
    cdef uint64_t pair = tr.offset // (2 * net.chunk) * 2 * net.chunk
    if not net.scrambled or pair + 2 * net.chunk > tr.length - SIM_BOUNCE:
        return tr.offset
    return pair if tr.offset > pair else pair + net.chunk


cdef void fire_chunk(sim_net *net, uint32_t src, uint32_t dst,
                     sim_transfer *tr) noexcept nogil:
    """Move one piece.  The last of a WRITE first goes into the bounce buffer, so that
    its completion may come before it is placed (V5)."""
    cdef uint64_t rest = tr.length - tr.offset
    cdef uint64_t piece = min(rest, net.chunk)
    cdef uint64_t at = tr.offset
    cdef char *remote
    if net.ranks[dst].closed:
        sim_finish(net, src, dst, tr, FABRIC_LOST)
        return
    if not remote_valid(net, dst, tr):
        sim_note_fault(net, FAULT_REMOTE_KEY, src, dst)
        sim_finish(net, src, dst, tr, FABRIC_INVALID)
        return
    tr.turn = net.ranks[dst].turns
    sim_signal(net, dst)
    tr.time = max(tr.time, net.now) + piece * net.per_byte
    if tr.opcode == WR_WRITE:
        if tr.picked or rest <= SIM_BOUNCE:
            piece = rest
        else:
            piece = min(piece, rest - SIM_BOUNCE)
            at = landing(net, tr)
    remote = <char *>tr.remote + at
    if tr.opcode == WR_READ:
        if tr.local != NULL:    # discarded otherwise
            memcpy(tr.local + at, remote, piece)
    elif tr.picked:
        memcpy(remote, tr.bounce, rest)
    elif rest <= SIM_BOUNCE:
        memcpy(tr.bounce, tr.local + at, rest)
        tr.picked = 1
        tr.handed = 1
        return
    else:
        memcpy(remote, tr.local + at, piece)
    tr.offset += piece
    if tr.offset == tr.length:
        sim_finish(net, src, dst, tr, FABRIC_OK)


cdef void fire_loss(sim_net *net, uint32_t src, uint32_t dst) noexcept nogil:
    """`dst` notices that `src` is gone: its transfers with `src` end."""
    cdef sim_channel *back = sim_between(net, dst, src)
    cdef uint32_t t
    sim_between(net, src, dst).loss = 2
    if not back.busy:
        return
    for t in range(net.transfers):
        if back.transfers[t].used and not back.transfers[t].placed:
            sim_finish(net, dst, src, &back.transfers[t], FABRIC_LOST)
    for t in range(net.transfers):
        if (back.transfers[t].used and back.transfers[t].signaled
                and not back.transfers[t].queued):
            enqueue(net, dst, src, t)


cdef void enqueue(sim_net *net, uint32_t src, uint32_t dst, uint32_t slot) noexcept nogil:
    cdef sim_rank *rank = &net.ranks[src]
    cdef sim_entry *entry = &rank.queue[rank.queue_tail % (net.size * net.transfers)]
    entry.dst = dst
    entry.slot = slot
    rank.queue_tail += 1
    sim_between(net, src, dst).transfers[slot].queued = 1


cdef void sim_fire(sim_net *net, uint32_t kind, uint32_t src, uint32_t dst,
                   uint32_t slot) noexcept nogil:
    """Let an event happen that `sim_ready` allows, and wake whom it concerns."""
    cdef sim_channel *ch = sim_between(net, src, dst)
    cdef double time = net.now
    sim_ready(net, kind, src, dst, slot, &time)
    net.now = max(net.now, time)
    if kind == SIM_PACKET:
        ch.delivered += 1
    elif kind == SIM_CHUNK:
        fire_chunk(net, src, dst, &ch.transfers[slot])
    elif kind == SIM_COMPLETE:
        enqueue(net, src, dst, slot)
    elif kind == SIM_CLOSE:
        ch.close = 2
    elif kind == SIM_LOSS:
        fire_loss(net, src, dst)
    elif kind == SIM_CONNECT:
        ch.connected = 1
        sim_between(net, dst, src).connected = 1
        net.ranks[dst].accepted += 1
        sim_signal(net, src)
    if kind == SIM_COMPLETE:
        sim_signal(net, src)
    elif kind != SIM_CHUNK:
        sim_signal(net, dst)
