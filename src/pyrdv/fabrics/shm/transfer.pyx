# cython: language_level=3
"""READ and WRITE by single copy, shared between both processors.

The kernel copies between two processes in the caller's time.  So that a large
transfer is not limited by one processor, and goes on while its poster
computes, it is cut into chunks which the poster (the channel's producer) and
the peer (the consumer) both claim from a word in shared memory.

J1  A chunk is moved by the one who claimed it, by nobody else.  A claim is a
    compare-and-swap of a word that holds generation, number of chunks and next
    chunk, so it fails if the entry was used again since the word was read.
J2  The entry's other fields are written before the claim word is published
    and not again until every chunk is done.
J3  A transfer ends when `done` equals the number of chunks: then no helper can
    touch its memory any more (F4).  If the peer dies, nobody else is left to.
J4  A helper that may not copy says so and counts its chunk as done; the
    poster then moves the whole transfer again by itself.
J5  If a transfer fails, the requests of its chain that have not started end
    with the same status: a fenced message about data that never came would lie.
J6  One turn moves at most one large chunk, or small ones up to TURN_BYTES.
J7  A helper touches only memory of its own that it has registered for such a transfer, and looks
    for each chunk anew, so a region deregistered in between is never touched, whatever the poster
    believes.  A chunk that it may not help with is left to the poster.
"""
from libc.errno cimport errno
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport (
    EVENT_READ, EVENT_WRITE, FABRIC_AGAIN, FABRIC_LOST, FABRIC_OK, WR_FENCE, WR_READ, WR_SEND,
    WR_SIGNALED, completion, work_request)
from pyrdv.fabrics.shm.channel cimport (
    MAY_READ, MAY_WRITE, NO_SLOT, NODE_ACTIVE, NODE_NEW, NODE_TAKEN, SHM_CHUNK_MAX, SHM_CHUNK_MIN,
    SHM_GENERATIONS, SHM_JOBS, add32, claim64, fail_peer, glance32, have_room, inbound_t, node_t,
    note32, note64, observe32, observe64, outbound_t, peer_t, publish32, publish64, put_packet,
    shm_claim, shm_claim_next, shm_job, shm_t, wake_consumer)
from pyrdv.fabrics.shm.helping cimport copy_chunk, help_turn
from pyrdv.fabrics.shm.staging cimport serve_ready, stage_begin, stage_ready, stage_turn
from pyrdv.fabrics.shm.tails cimport tail_arm, tail_back


cdef extern from *:
    int __builtin_ctz(unsigned int value) nogil

cdef enum:
    SHARE_MIN = 32768   # sharing costs about 0.2 us, copying this 5 us
    TURN_BYTES = 65536
    TURN_NODES = 32     # looked at per peer and turn
    TURN_PEERS = 8
    WAKE_CHUNKS = 4     # waking a sleeper to help pays from here
    CLAIM_TRIES = 64    # a claim fails only if the helper took a chunk


cdef void release_node(shm_t *self, node_t *node) noexcept nogil:
    node.next = self.free_nodes
    self.free_nodes = node
    self.free_count += 1


cdef void report(shm_t *self, node_t *node) noexcept nogil:
    node.next = NULL
    if self.finished == NULL:
        self.finished = node
    else:
        self.finished_last.next = node
    self.finished_last = node


cdef void finish(shm_t *self, outbound_t *out, node_t *node, int status) noexcept nogil:
    # Takes the node off its peer's list.  transfer_report returns a signaled completion, but only
    # after the SEND right behind it: else somebody learns of the end and overtakes that SEND (F1).
    cdef node_t *other = node.next
    cdef node_t *send = NULL
    if (other != NULL and other.chain == node.chain and other.opcode == WR_SEND
            and other.state == NODE_NEW):
        send = other
    if status != FABRIC_OK:
        while other != NULL and other.chain == node.chain:
            if other.state == NODE_NEW:
                other.status = <int> status
            other = other.next
    if node.previous != NULL:
        node.previous.next = node.next
    else:
        out.first = node.next
    if node.next != NULL:
        node.next.previous = node.previous
    else:
        out.last = node.previous
    if node.slot != NO_SLOT:
        out.slots_used &= ~(<uint32_t> 1 << node.slot)
    if out.staged == node:
        out.staged = NULL
    if node.opcode == WR_SEND and node.held != NULL:
        report(self, node.held)
    if node.opcode == WR_SEND or not node.flags & WR_SIGNALED:
        release_node(self, node)
        return
    node.status = <int> status
    if send != NULL:
        send.held = node
    else:
        report(self, node)


cdef int transfer_report(shm_t *self, completion *out, int limit) noexcept nogil:
    cdef int count = 0
    cdef node_t *node
    while count < limit and self.finished != NULL:
        node = self.finished
        self.finished = node.next
        out[count].kind = EVENT_READ if node.opcode == WR_READ else EVENT_WRITE
        out[count].status = node.status
        out[count].peer = node.peer
        out[count].length = 0
        out[count].data = NULL
        out[count].id = node.id
        release_node(self, node)
        count += 1
    return count


cdef inline bint fenced(node_t *node) noexcept nogil:
    # F5: whether an earlier request of its chain is not complete.
    return (node.flags & WR_FENCE and node.previous != NULL
            and node.previous.chain == node.chain)


cdef inline uint32_t chunk_for(uint64_t length) noexcept nogil:
    # Eight chunks, but none so small that the fixed cost shows and none so
    # large that a step takes long; whole pages.
    cdef uint64_t chunk = (length / 8 + 4095) & ~<uint64_t> 4095
    if chunk < SHM_CHUNK_MIN:
        return SHM_CHUNK_MIN
    return <uint32_t> chunk if chunk < SHM_CHUNK_MAX else SHM_CHUNK_MAX


cdef void share(shm_t *self, outbound_t *out, node_t *node) noexcept nogil:
    # J2.  Partner: help_one in helping.pyx.
    cdef int slot = __builtin_ctz(~out.slots_used)
    cdef shm_job *job = &out.segment.jobs[slot]
    cdef uint64_t claim
    out.slots_used |= <uint32_t> 1 << slot
    out.generation[slot] = (out.generation[slot] + 1) % SHM_GENERATIONS
    claim = shm_claim(out.generation[slot], node.chunks, 0)
    node.slot = slot
    note64(&job.producer_address, node.local)
    note64(&job.consumer_address, node.remote)
    note64(&job.key, node.key)
    note64(&job.length, node.length)
    note32(&job.chunk, node.chunk)
    note32(&job.to_producer, node.opcode == WR_READ)
    note32(&job.done, 0)
    note32(&job.helper_error, 0)
    tail_arm(out, node, claim)
    publish64(&job.claim, claim)
    out.helps += 1
    publish32(&out.segment.help, out.helps)
    if node.chunks >= WAKE_CHUNKS:
        wake_consumer(self, out)


cdef inline bint direct(const outbound_t *out, const node_t *node) noexcept nogil:
    # Whether the kernel copies; else it goes through the cells.
    return out.may & (MAY_READ if node.opcode == WR_READ else MAY_WRITE)


cdef bint start(shm_t *self, outbound_t *out, node_t *node, bint now) noexcept nogil:
    # Start a transfer if there is a place for it.  `now`: its first chunk is
    # moved at once by the caller, so it may start without being shared.
    if not direct(out, node):
        if node.length == 0:
            node.state = NODE_ACTIVE
            node.chunks = 0
        elif out.staged != NULL:
            return False
        else:
            stage_begin(self, out, node)
        return True
    if node.length >= SHARE_MIN and not node.alone:
        if out.slots_used != (1 << SHM_JOBS) - 1:
            node.chunk = chunk_for(node.length)
            node.chunks = <uint32_t> ((node.length + node.chunk - 1) / node.chunk)
            node.state = NODE_ACTIVE
            share(self, out, node)
            return True
    if not now:
        return False
    node.chunk = chunk_for(node.length)
    node.chunks = <uint32_t> ((node.length + node.chunk - 1) / node.chunk)
    node.next_chunk = 0
    node.state = NODE_ACTIVE
    return True


cdef void transfer_add(shm_t *self, uint32_t peer, const work_request *request,
                       bint waits) noexcept nogil:
    cdef peer_t *state = &self.peers[peer]
    cdef outbound_t *out = state.out
    cdef node_t *node = self.free_nodes
    self.free_nodes = node.next
    self.free_count -= 1
    node.opcode = request.opcode
    node.flags = request.flags | (WR_FENCE if waits else 0)
    node.state = NODE_NEW
    node.status = FABRIC_OK
    node.alone = 0
    node.tailed = 0
    node.unwanted = 0
    node.held = NULL
    node.slot = NO_SLOT
    node.peer = peer
    node.chain = self.chain
    node.local = <uint64_t> request.local
    node.remote = request.remote
    node.key = request.remote_key
    node.length = request.length
    node.id = request.id
    if request.opcode == WR_SEND:
        memcpy(node.data, request.header, request.header_length)
        if request.length:
            memcpy(&node.data[request.header_length], request.local, request.length)
        node.length = request.header_length + request.length
    node.next = NULL
    node.previous = out.last
    if out.last != NULL:
        out.last.next = node
    else:
        out.first = node
    out.last = node
    if not state.pending:
        state.pending = 1
        self.busy[self.busy_count] = peer
        self.busy_count += 1
    if request.opcode != WR_SEND:
        self.counters.jobs += 1


cdef void transfer_go(shm_t *self, uint32_t peer) noexcept nogil:
    cdef outbound_t *out = self.peers[peer].out
    cdef node_t *node = out.last
    while node.previous != NULL and node.previous.chain == self.chain:
        node = node.previous
    while node != NULL:
        if node.opcode != WR_SEND and not fenced(node):
            start(self, out, node, False)
        node = node.next


cdef int claim_own(outbound_t *out, node_t *node) noexcept nogil:
    # The next chunk of an active transfer, -1 if none is left to claim.
    cdef shm_job *job
    cdef uint64_t word
    cdef uint32_t chunk
    cdef int _tried
    if node.slot == NO_SLOT:
        if node.next_chunk >= node.chunks:
            return -1
        node.next_chunk += 1
        return <int> (node.next_chunk - 1)
    job = &out.segment.jobs[node.slot]
    for _tried in range(CLAIM_TRIES):
        word = observe64(&job.claim)
        chunk = shm_claim_next(word)
        if chunk >= node.chunks:
            break
        if claim64(&job.claim, word, word + 1):
            return <int> chunk
    return -1


cdef void close_claims(outbound_t *out, node_t *node) noexcept nogil:
    # After a failure: nobody may claim any more; what is unclaimed counts as done.
    cdef shm_job *job
    cdef uint64_t word
    cdef uint32_t chunk
    cdef int _tried
    if node.slot == NO_SLOT:
        node.next_chunk = node.chunks
        return
    job = &out.segment.jobs[node.slot]
    for _tried in range(CLAIM_TRIES):
        word = observe64(&job.claim)
        chunk = shm_claim_next(word)
        if chunk >= node.chunks:
            return
        if claim64(&job.claim, word,
                   shm_claim(out.generation[node.slot], node.chunks, node.chunks)):
            add32(&job.done, node.chunks - chunk)
            return


cdef inline bint complete(outbound_t *out, node_t *node) noexcept nogil:
    # J3.  Partner: the add32 of help_one.
    if node.slot == NO_SLOT:
        return node.next_chunk >= node.chunks
    return observe32(&out.segment.jobs[node.slot].done) >= node.chunks


cdef void conclude(shm_t *self, outbound_t *out, node_t *node) noexcept nogil:
    # Every chunk is done: finish, or begin again alone (J4).
    cdef int tail = tail_back(out, node)
    if tail == FABRIC_AGAIN:
        return
    if tail == FABRIC_LOST:
        self.counters.packets += 1
        node.next.state = NODE_TAKEN
    if (node.slot != NO_SLOT and node.status == FABRIC_OK
            and glance32(&out.segment.jobs[node.slot].helper_error)):
        out.slots_used &= ~(<uint32_t> 1 << node.slot)
        node.slot = NO_SLOT
        node.alone = 1
        node.next_chunk = 0
        return
    finish(self, out, node, node.status)


cdef uint64_t move_chunks(shm_t *self, outbound_t *out, node_t *node,
                          uint64_t moved) noexcept nogil:
    # Own chunks of an active single-copy transfer within the turn's limit.
    cdef int chunk, status
    cdef uint64_t offset, length
    while moved < TURN_BYTES:
        chunk = claim_own(out, node)
        if chunk < 0:
            break
        offset = <uint64_t> chunk * node.chunk
        length = node.length - offset
        if length > node.chunk:
            length = node.chunk
        status = copy_chunk(out.pid, node.local + offset, node.remote + offset, length,
                            node.opcode == WR_READ)
        self.counters.chunks += 1
        self.base.carried += 1
        moved += length + 4096  # a call's fixed cost counts as a page more
        if status != FABRIC_OK:
            self.base.error = errno
            node.status = <int> status
            tail_back(out, node)  # Y2
        if node.slot != NO_SLOT:
            add32(&out.segment.jobs[node.slot].done, 1)
        if status != FABRIC_OK:
            close_claims(out, node)
    return moved


cdef uint64_t node_turn(shm_t *self, peer_t *state, node_t *node, uint64_t moved) noexcept nogil:
    # Advance one request; the bytes moved in this turn so far.
    cdef outbound_t *out = state.out
    cdef int status
    if node.state == NODE_TAKEN:
        finish(self, out, node, FABRIC_OK)
        return moved
    if node.state == NODE_NEW:
        if node.status != FABRIC_OK:
            finish(self, out, node, node.status)
            return moved
        if fenced(node):
            return moved
        if node.unwanted:
            finish(self, out, node, FABRIC_OK)
            return moved
        if node.opcode == WR_SEND:
            status = have_room(out, 1, out.bulk_head)
            if status == FABRIC_OK:
                put_packet(self, out, node.data, <uint32_t> node.length, NULL, 0)
                wake_consumer(self, out)
                finish(self, out, node, FABRIC_OK)
            elif status == FABRIC_LOST:
                fail_peer(self, node.peer)
            return moved
        if not start(self, out, node, moved < TURN_BYTES):
            return moved
    if out.staged == node:
        if moved < TURN_BYTES:
            status = stage_turn(self, out, &moved)
            if status != FABRIC_AGAIN:
                if status == FABRIC_LOST:
                    fail_peer(self, node.peer)
                finish(self, out, node, status)
        return moved
    if moved < TURN_BYTES:
        moved = move_chunks(self, out, node, moved)
    if complete(out, node):
        conclude(self, out, node)
    return moved


cdef uint64_t peer_turn(shm_t *self, uint32_t peer, uint64_t moved) noexcept nogil:
    cdef peer_t *state = &self.peers[peer]
    cdef node_t *node = state.out.first
    cdef node_t *after
    cdef int _looked
    for _looked in range(TURN_NODES):
        if node == NULL or state.gone:
            break
        after = node.next
        moved = node_turn(self, state, node, moved)
        node = after
    if state.gone:
        transfer_flush(self, peer)
    return moved


cdef void transfer_flush(shm_t *self, uint32_t peer) noexcept nogil:
    # J3: the peer is dead or its socket is closed, so no helper is at work.
    cdef outbound_t *out = self.peers[peer].out
    cdef node_t *node
    while out != NULL and out.first != NULL:
        node = out.first
        # With its last packet in hand the peer may have left in good order (tails.pyx).
        if node.tailed and complete(out, node) and tail_back(out, node) == FABRIC_LOST:
            conclude(self, out, node)
        else:
            finish(self, out, node, FABRIC_OK if node.state == NODE_TAKEN else FABRIC_LOST)


cdef void transfer_turn(shm_t *self) noexcept nogil:
    cdef uint64_t moved = 0
    cdef uint32_t _tried, index, peer
    cdef uint32_t count = self.busy_count if self.busy_count < TURN_PEERS else TURN_PEERS
    for _tried in range(count):
        index = self.busy_rotation % self.busy_count
        peer = self.busy[index]
        moved = peer_turn(self, peer, moved)
        if self.peers[peer].out.first == NULL:
            self.peers[peer].pending = 0
            self.busy_count -= 1
            self.busy[index] = self.busy[self.busy_count]
            if self.busy_count == 0:
                break
        else:
            self.busy_rotation += 1
    if moved == 0:
        help_turn(self)


cdef bint node_ready(outbound_t *out, node_t *node) noexcept nogil:
    # Whether node_turn would do something now.
    if node.state == NODE_TAKEN:
        return True
    if node.state == NODE_NEW:
        if node.status != FABRIC_OK:
            return True
        if fenced(node):
            return False
        if node.opcode == WR_SEND:
            return have_room(out, 1, out.bulk_head) != FABRIC_AGAIN
        return direct(out, node) or out.staged == NULL
    if out.staged == node:
        return stage_ready(out)
    if complete(out, node):
        return True
    return node.slot == NO_SLOT or (
        shm_claim_next(observe64(&out.segment.jobs[node.slot].claim)) < node.chunks)


cdef bint transfer_ready(shm_t *self) noexcept nogil:
    cdef uint32_t index
    cdef outbound_t *out
    cdef node_t *node
    cdef inbound_t *into
    if self.finished != NULL:
        return True
    for index in range(self.busy_count):
        if self.peers[self.busy[index]].gone:
            return True
        out = self.peers[self.busy[index]].out
        node = out.first
        while node != NULL:
            if node_ready(out, node):
                return True
            node = node.next
    for index in range(self.inbound_count):
        into = self.inbound[index]
        if into.staged and serve_ready(into):
            return True
        if into.can_help and observe32(&into.segment.help) != into.help_seen:
            return True
    return False
