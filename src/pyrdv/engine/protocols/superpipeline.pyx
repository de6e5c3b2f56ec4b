# cython: language_level=3
"""Superpipeline: the data is copied through registered buffers while earlier parts of it travel.

sender                                      receiver
  RTS(cookie)                       ─────▶   matched now or later
  copies chunk 0                    ◀─────   GRANT(cookie, receive, address, key, room)
  WRITE chunk 0, CHUNK(receive) fenced ──▶   copies it out, while chunk 1 travels
  WRITE chunk 1, CHUNK(receive) fenced ──▶
  WRITE chunk 2, CHUNK(receive) fenced ──▶
                                    ◀─────   TAKEN(cookie, 2): chunks 0 and 1 are copied out
  WRITE chunk 3, …                  ─────▶   into the buffer of chunk 0
                                    ◀─────   DONE(cookie, bytes)

After A. Denis, "A High-Performance Superpipeline Protocol for InfiniBand", Euro-Par 2011.  Chunks
grow by `chunk_growth` from `chunk_first`, for a copy is faster than the network; so there are
few of them, and little is copied before the first one leaves.  The user's memory need not be
registered on either side.  A receiver grants what cannot be read (RTS says PIPED, or its own
buffer cannot be registered) or what it was told to.

A chunk may be divided into blocks, each with a flag behind its bytes: the receiver copies a
block when it sees the flag, while the rest of the chunk arrives.  The flag holds the chunk's number
and, where the fabric promises no order of bytes, the CRC32C of the block (V8).

Invariants:

Q1  Chunk i goes into buffer i modulo 3 on both sides: into the sender's when the WRITE from there
    is complete, into the receiver's when TAKEN has told that chunk i - 3 is copied out.
Q2  CHUNK says that all of a chunk is there (F5), and wakes a sleeper.  Those of one message may
    come in another order, but not from further ahead than Q1 allows.
Q3  A flag is a hint that the block may be there, and never the only sign: without CHUNK a
    message does not end.  A block is right if its flag has the chunk's number (B5) and, if
    CHECKED, the CRC of the bytes as they were copied (K1); else it is copied again.  Flags have
    fixed places, where no data ever stands: the last block of a message is short, and has none.
Q4  The receiver ends by DONE, the sender by getting it.  So every RTS has one DONE, or one CHUNK
    that says REFUSED.  A lane outlives its send until all of its WRITEs are complete (F4).
Q5  A turn copies at most TURN_BYTES; what is left is noted in `pieces_due`, and nobody sleeps.
"""
from libc.stdint cimport uint64_t

from pyrdv.engine.calling cimport peer_call
from pyrdv.engine.digest cimport mix
from pyrdv.engine.protocols.lanes cimport (
    lane_free, lane_next, lane_peer_t, lane_spare, lane_t, lane_take, lanes_awaited, lanes_of)
from pyrdv.engine.peer cimport eager_limit, peer_activate
from pyrdv.engine.protocols.contract cimport protocol_t
from pyrdv.engine.protocols.pipe_in cimport (
    chunk_arrived, receive_begin, receive_refused, receive_turn)
from pyrdv.engine.protocols.pipe_out cimport (
    grant_arrived, grant_follow, pipe_announced, pipe_refuse, pipe_written, send_turn,
    taken_arrived)
from pyrdv.engine.protocols.rendezvous_get cimport rts_post
from pyrdv.engine.registering cimport op_sinks
from pyrdv.engine.state cimport (
    ANY_PEER, CHOICE_GET, CHOICE_PIPELINE, OP_LANELESS, OP_PIPING, OP_POSTED, OP_READY, OP_RECV,
    PEER_NEW, PEER_UP, PROTOCOL_PIPELINE, call_t, engine_t, op_t, peer_t)
from pyrdv.engine.wire cimport (
    PACKET_CHECKED, PACKET_CHUNK, PACKET_GRANT, PACKET_REFUSED, PACKET_TAKEN, WIRE_GRANT,
    WIRE_HEADER)
from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_OK


cdef enum:
    TURN_BYTES = 1 << 18

cdef protocol_t operations


cdef lane_peer_t *pipe_peer(const peer_t *p) noexcept nogil:
    return <lane_peer_t *> (p.own + operations.peer_offset)


cdef int feed(engine_t *e, peer_t *p, bint receiving) noexcept nogil:
    """Give lanes to operations with `p` that wait for one; to how many."""
    cdef op_t *op = pipe_peer(p).head[receiving]
    cdef int count = 0
    cdef int status
    while op != NULL:
        status = lane_take(e, p, op, receiving)
        if status == FABRIC_AGAIN:
            break
        lane_next(p, receiving)
        count += 1
        if not receiving:
            grant_follow(e, p, op, status)
        elif status == FABRIC_OK:
            receive_begin(e, op)
        else:
            receive_refused(e, p, op)
        op = pipe_peer(p).head[receiving]
    return count


cdef int feed_all(engine_t *e) noexcept nogil:
    cdef peer_t *p = lanes_of(e).waiting
    cdef lane_peer_t *own
    cdef peer_t *after
    cdef int count = 0
    lanes_of(e).waiting = NULL
    while p != NULL:
        own = pipe_peer(p)
        after = own.next
        own.waiting = 0
        count += feed(e, p, False) + feed(e, p, True)
        if own.head[0] != NULL or own.head[1] != NULL:
            lanes_awaited(e, p)
        p = after
    return count


cdef int lane_turn(engine_t *e, lane_t *lane, uint64_t *budget) noexcept nogil:
    cdef peer_t *p = &e.peers[lane.peer]
    if lane.op == NULL:
        if not lane.busy:
            lane_free(e, lane)
        return 0
    if p.state == PEER_NEW:
        peer_call(e, p)
        peer_activate(e, p)
        return 0
    if p.state != PEER_UP or lane.op.state != OP_PIPING:
        return 0
    if lane.receiving:
        return receive_turn(e, p, lane, budget)
    return send_turn(e, p, lane, budget)


cdef int pipe_turn(engine_t *e) noexcept nogil:
    cdef lane_t *lane = lanes_of(e).used
    cdef lane_t *after
    cdef uint64_t budget = TURN_BYTES
    cdef int happened = 0
    e.pieces_due = 0
    while lane != NULL:
        after = lane.next
        happened += lane_turn(e, lane, &budget)
        lane = after
    if lanes_of(e).waiting != NULL:
        happened += feed_all(e)
    e.pieces = lanes_of(e).used != NULL or lanes_of(e).waiting != NULL
    return happened


cdef int pipe_start(engine_t *e, peer_t *p, op_t *op) noexcept nogil:
    cdef int status = rts_post(e, p, op)
    if status == FABRIC_OK:
        pipe_announced(e, p, op)
    return status


cdef void pipe_reserve(call_t *call, op_t *op) noexcept nogil:
    # Which lane fits depends on who sends (B4).  A send has got its lane where it was chosen.
    cdef engine_t *e = &call.engine
    cdef peer_t *p
    if op.kind != OP_RECV or op.state != OP_POSTED or op.peer == ANY_PEER:
        return
    p = &e.peers[op.peer]
    if p.fabric == NULL or op.length <= eager_limit(e, p.fabric) or e.protocol == CHOICE_GET:
        return
    if e.protocol == CHOICE_PIPELINE or not op_sinks(op, p.fabric):
        lane_spare(call, p, True)


cdef bint pipe_forsake(call_t *call, op_t *op) noexcept nogil:
    # Only steps of this process write into the buffer, and `block_take` knows that there is none.
    return op.state == OP_LANELESS or op.state == OP_PIPING or op.state == OP_READY


cdef void pipe_gone(call_t *call, peer_t *p, bint everything) noexcept nogil:
    """Sends do not wait for lanes any more, nor do receives if all is over."""
    cdef lane_peer_t *own = pipe_peer(p)
    cdef int receiving
    for receiving in range(2 if everything else 1):
        own.head[receiving] = own.tail[receiving] = NULL


cdef void pipe_hash(const peer_t *p, uint64_t *h) noexcept nogil:
    cdef const op_t *op
    cdef int receiving
    for receiving in range(2):
        op = pipe_peer(p).head[receiving]
        while op != NULL:
            mix(h, op.index)
            op = op.next
        mix(h, receiving)


operations.name = b"pipeline"
operations.code = PROTOCOL_PIPELINE
operations.reserve = pipe_reserve
operations.start = pipe_start
operations.serve = pipe_refuse
operations.own_ended = pipe_written
operations.move = pipe_turn
operations.forsake = pipe_forsake
operations.peer_gone = pipe_gone
operations.peer_bytes = sizeof(lane_peer_t)
operations.hash = pipe_hash
operations.kind_count = 3
operations.kinds[0].kind = PACKET_GRANT
operations.kinds[0].length = WIRE_GRANT
operations.kinds[0].flags = PACKET_CHECKED
operations.kinds[0].arrived = grant_arrived
operations.kinds[1].kind = PACKET_CHUNK
operations.kinds[1].length = WIRE_HEADER
operations.kinds[1].flags = PACKET_REFUSED
operations.kinds[1].arrived = chunk_arrived
operations.kinds[2].kind = PACKET_TAKEN
operations.kinds[2].length = WIRE_HEADER
operations.kinds[2].arrived = taken_arrived


cdef protocol_t *pipeline_protocol() noexcept nogil:
    return &operations
