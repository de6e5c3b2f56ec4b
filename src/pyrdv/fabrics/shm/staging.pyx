# cython: language_level=3
"""READ and WRITE through shared cells, for hosts that forbid single copy.

A channel that its producer created with cells carries the producer's
transfers through them, one at a time: for a READ the consumer fills cells and
the producer empties them, for a WRITE the other way round.

T1  Both sides count cells privately and publish the count together with the
    transfer's serial number; a count of an older transfer means zero.  The
    length of a cell follows from the length of the transfer, so nothing that
    the peer writes is used as a size or an address (R8).
T2  The consumer checks region, bounds and access in every turn, so that a
    region deregistered in between is never touched.
T3  A transfer is complete when every cell was emptied: for a WRITE that is
    the consumer's count, so completion means placed.
T4  Only the producer writes into the memory of its READ.  So it may discard the data of one: the
    cells go on as before, for the consumer may be filling one, and nothing is copied out.
"""
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport (
    ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, FABRIC_AGAIN, FABRIC_INVALID, FABRIC_LOST,
    FABRIC_OK, WR_READ)
from pyrdv.fabrics.shm.channel cimport (
    NODE_ACTIVE, SHM_CELL, SHM_CELLS, glance32, glance64, granted, inbound_t, node_t, note32,
    note64, observe32, observe64, outbound_t, publish32, publish64, shm_segment, shm_stage, shm_t,
    wake_consumer, wake_producer)


cdef inline uint32_t smaller(uint64_t a, uint32_t b) noexcept nogil:
    return <uint32_t> a if a < b else b


cdef inline uint8_t *cell(shm_segment *segment, uint32_t bulk, uint32_t index) noexcept nogil:
    return &segment.bulk[bulk + (index & (SHM_CELLS - 1)) * SHM_CELL]


cdef void stage_begin(shm_t *self, outbound_t *out, node_t *node) noexcept nogil:
    cdef shm_stage *stage = &out.segment.stage
    out.staged = node
    out.staged_at = 0
    out.cells = 0
    out.serial += 1
    node.state = NODE_ACTIVE
    node.chunks = <uint32_t> ((node.length + SHM_CELL - 1) / SHM_CELL)
    note32(&stage.to_producer, node.opcode == WR_READ)
    note64(&stage.consumer_address, node.remote)
    note64(&stage.key, node.key)
    note64(&stage.length, node.length)
    note64(&stage.producer_cells, <uint64_t> out.serial << 32)
    publish32(&stage.serial, out.serial)
    out.helps += 1
    publish32(&out.segment.help, out.helps)
    self.counters.staged_jobs += 1
    wake_consumer(self, out)


cdef inline uint32_t peer_cells(outbound_t *out) noexcept nogil:
    # Partner: the publish64 at the end of stage_serve.
    cdef uint64_t word = observe64(&out.segment.stage.consumer_cells)
    return <uint32_t> word if word >> 32 == out.serial else 0


cdef int stage_turn(shm_t *self, outbound_t *out, uint64_t *moved) noexcept nogil:
    cdef node_t *node = out.staged
    cdef shm_stage *stage = &out.segment.stage
    cdef uint32_t length, before = out.cells
    cdef uint32_t theirs = peer_cells(out)
    cdef bint reading = node.opcode == WR_READ
    if reading and (theirs - out.cells > SHM_CELLS or theirs > node.chunks):
        return FABRIC_LOST
    if not reading and theirs > out.cells:
        return FABRIC_LOST
    while out.staged_at < node.length and out.cells - before < SHM_CELLS:
        length = smaller(node.length - out.staged_at, SHM_CELL)
        if reading:
            if out.cells == theirs:
                break
            if not node.unwanted:
                memcpy(<uint8_t *> node.local + out.staged_at,
                       cell(out.segment, out.bulk, out.cells), length)
        else:
            if out.cells - theirs == SHM_CELLS:
                break
            memcpy(cell(out.segment, out.bulk, out.cells),
                   <uint8_t *> node.local + out.staged_at, length)
        out.staged_at += length
        out.cells += 1
        moved[0] += length
    if out.cells != before:
        publish64(&stage.producer_cells, <uint64_t> out.serial << 32 | out.cells)
        self.counters.cells += out.cells - before
        self.base.carried += out.cells - before
        wake_consumer(self, out)
    elif observe32(&stage.refused) == out.serial:
        return FABRIC_INVALID
    if reading:
        return FABRIC_OK if out.staged_at == node.length else FABRIC_AGAIN
    return FABRIC_OK if theirs == node.chunks else FABRIC_AGAIN


cdef bint stage_ready(outbound_t *out) noexcept nogil:
    cdef uint32_t theirs = peer_cells(out)
    if observe32(&out.segment.stage.refused) == out.serial:
        return True
    if out.staged.opcode == WR_READ:
        return theirs != out.cells
    if theirs == out.staged.chunks:
        return True
    return out.staged_at < out.staged.length and out.cells - theirs < SHM_CELLS


cdef inline bint allowed(const shm_t *self, const inbound_t *into) noexcept nogil:  # T2
    return granted(self, into.key, into.address, into.remaining,
                   ACCESS_REMOTE_READ if into.to_producer else ACCESS_REMOTE_WRITE)


cdef void take_up(inbound_t *into, uint32_t serial) noexcept nogil:
    cdef shm_stage *stage = &into.segment.stage
    into.served = serial
    into.serving = 1
    into.to_producer = glance32(&stage.to_producer)
    into.address = glance64(&stage.consumer_address)
    into.key = glance64(&stage.key)
    into.remaining = glance64(&stage.length)
    into.cells = 0


cdef int stage_serve(shm_t *self, inbound_t *into) noexcept nogil:
    cdef shm_stage *stage = &into.segment.stage
    cdef uint32_t serial = observe32(&stage.serial)
    cdef uint32_t theirs = 0, length, before
    cdef uint64_t word
    cdef int moved = 0
    if serial != into.served:
        take_up(into, serial)
    if not into.serving:
        return 0
    if not allowed(self, into):
        into.serving = 0
        publish32(&stage.refused, serial)
        wake_producer(self, into)
        return 0
    word = observe64(&stage.producer_cells)
    if word >> 32 == serial:
        theirs = <uint32_t> word
    if into.to_producer and theirs > into.cells:
        return -1
    if not into.to_producer and theirs - into.cells > SHM_CELLS:
        return -1
    before = into.cells
    while into.remaining and into.cells - before < SHM_CELLS:
        length = smaller(into.remaining, SHM_CELL)
        if into.to_producer:
            if into.cells - theirs == SHM_CELLS:
                break
            memcpy(cell(into.segment, into.bulk, into.cells), <void *> into.address, length)
        else:
            if into.cells == theirs:
                break
            memcpy(<void *> into.address, cell(into.segment, into.bulk, into.cells), length)
        into.address += length
        into.remaining -= length
        into.cells += 1
        moved += length
    if into.cells != before:
        publish64(&stage.consumer_cells, <uint64_t> serial << 32 | into.cells)
        self.counters.cells += into.cells - before
        self.base.carried += into.cells - before
        wake_producer(self, into)
    if into.remaining == 0:
        into.serving = 0
    return moved


cdef bint serve_ready(inbound_t *into) noexcept nogil:
    cdef shm_stage *stage = &into.segment.stage
    cdef uint64_t word = observe64(&stage.producer_cells)
    cdef uint32_t theirs = <uint32_t> word if word >> 32 == into.served else 0
    if observe32(&stage.serial) != into.served:
        return True
    if not into.serving:
        return False
    if into.to_producer:
        return into.cells - theirs != SHM_CELLS
    return into.cells != theirs
