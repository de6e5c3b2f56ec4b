# cython: language_level=3
"""Operations and unexpected messages: pools, and completion exactly once (R3).

The step may not allocate (R1).  So pools are filled by calls; when the step
finds one empty it leaves the packet with the fabric, whose credits then run
dry (back-pressure), and notes what it missed in ``engine.starved``.
Slabs are kept until the engine ends; how much they can grow is bounded by the
eager credits that peers hold (``peer.pyx``).
"""
from libc.errno cimport EFAULT
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from pyrdv.engine.calling cimport call_proven
from pyrdv.engine.event cimport TRACE_COMPLETE, TRACE_REGISTER
from pyrdv.engine.lost cimport op_fails
from pyrdv.engine.protocols.lanes cimport passing_ends
from pyrdv.engine.state cimport (
    DATA_CLASSES, MESSAGES_LOW, OFFERS_LOW, OPS_PER_SLAB, OP_COMPLETE, OP_FREE, OP_NOT_REGISTERED,
    OP_NO_MEMORY, OP_PEER_LOST, OP_RECV, OP_REGISTERED, OP_SEND, PROMISE_NONE, PROTOCOL_EAGER,
    PROTOCOL_NONE, PROTOCOL_PIPELINE, REASON_NONE, call_t, engine_t, message_t, offer_t, op_t)
from pyrdv.engine.choice.waiting cimport waiting_never
from pyrdv.engine.trace cimport trace_got, trace_op
from pyrdv.engine.wire cimport WIRE_HEADER
from pyrdv.fabrics.contract cimport (
    ACCESS_KEPT, ACCESS_LOCAL, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, CAP_OPEN_SINK, CAP_PINS,
    FABRIC_FAILED, FABRIC_OK, fabric_t, region)
from pyrdv.memory.mappings cimport (
    CACHE_LACKS, CACHE_OFF, CACHE_OK, CACHE_REFUSED, CACHE_TRUST, cache_give,
    cache_shed, cache_t, cache_take, cache_unname, device_t)


cdef extern from "order.h" nogil:
    void adjust32(uint32_t *where, int32_t amount)

cdef enum:
    MESSAGES_PER_SLAB = 128
    OFFERS_PER_SLAB = 64
    DATA_SLAB = 1 << 16
    STARVED_MESSAGES = 31


cdef bint ops_grow(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef op_t *slab
    cdef op_t **wider
    cdef uint32_t i
    cdef uint32_t first = e.op_slab_count * OPS_PER_SLAB
    call_proven(call)
    if e.op_slab_count == e.op_slab_room:
        wider = <op_t **> realloc(e.op_slabs, (e.op_slab_room * 2 + 8) * sizeof(op_t *))
        if wider == NULL:
            return False
        e.op_slabs = wider
        e.op_slab_room = e.op_slab_room * 2 + 8
    slab = <op_t *> calloc(OPS_PER_SLAB, sizeof(op_t))
    if slab == NULL:
        return False
    e.op_slabs[e.op_slab_count] = slab
    e.op_slab_count += 1
    for i in range(OPS_PER_SLAB):
        slab[i].index = first + i
        slab[i].generation = 1
        slab[i].next = e.op_free
        e.op_free = &slab[i]
    return True


cdef bint ops_reserve(call_t *call, uint32_t count) noexcept nogil:
    cdef engine_t *e = &call.engine
    while e.op_slab_count * OPS_PER_SLAB - e.ops_in_use < count:
        if not ops_grow(call):
            return False
    return True


cdef op_t *op_new(call_t *call, int kind, uint32_t peer, uint32_t context, int32_t tag,
                  void *buffer, uint64_t length) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef op_t *op
    if e.op_free == NULL and not ops_grow(call):
        return NULL
    op = e.op_free
    e.op_free = op.next
    e.ops_in_use += 1
    e.stirred = 1               # it may post something
    op.next = NULL
    op.kind = <uint8_t> kind
    op.flags = 0
    op.pairing = 0
    op.halts = 0
    op.error = 0
    op.peer = peer
    op.context = context
    op.tag = tag
    op.buffer = <char *> buffer
    op.length = length
    op.source = peer
    op.source_tag = tag
    op.total = 0
    op.moved = 0
    op.waits = 0
    op.content = 0
    op.promised = PROMISE_NONE
    op.protocol = PROTOCOL_NONE
    op.reason = REASON_NONE
    op.cost = op.instead = 0
    op.born = op.since = op.late = 0
    op.line = e.trace.line
    op.told = 0
    op.message = NULL
    memset(&op.own[0], 0, sizeof(op.own))
    op.owner = NULL
    op.mapping = NULL
    return op


cdef uint64_t op_cookie(const op_t *op) noexcept nogil:
    return (<uint64_t> op.generation << 32) | op.index


cdef op_t *op_lookup(engine_t *e, uint64_t cookie) noexcept nogil:
    cdef uint32_t index = <uint32_t> cookie
    cdef op_t *op
    if index >= e.op_slab_count * OPS_PER_SLAB:
        return NULL
    op = &e.op_slabs[index // OPS_PER_SLAB][index % OPS_PER_SLAB]
    if op.state == OP_FREE or op.generation != <uint32_t> (cookie >> 32):
        return NULL
    return op


cdef void unregister(engine_t *e, op_t *op) noexcept nogil:
    if not op.flags & OP_REGISTERED:
        return
    if op.mapping != NULL:
        cache_give(e.cache, op.mapping)
        op.mapping = NULL
    else:
        op.local_fabric.ops.deregister(op.local_fabric, &op.local)
    op.flags &= <uint8_t> ~OP_REGISTERED
    e.regions_in_use -= 1


cdef void disown(engine_t *e, op_t *op) noexcept nogil:
    unregister(e, op)
    if op.owner != NULL:
        cache_unname(e.cache, op.owner)
        op.owner = NULL


cdef void op_matched(engine_t *e, op_t *op, uint32_t source, int32_t tag, uint64_t total,
                     int content, uint32_t number) noexcept nogil:
    op.source = source
    op.source_tag = tag
    op.total = total
    op.content = <uint8_t> content
    trace_got(e, op, number)
    if content and op.kind == OP_RECV and op.length < sizeof(op.peek) <= total:
        op_disown(e, op)
        op.buffer = &op.peek[0]
        op.length = sizeof(op.peek)


cdef void op_complete(engine_t *e, op_t *op, int error) noexcept nogil:
    op_disown(e, op)
    if op.protocol == PROTOCOL_PIPELINE:
        passing_ends(op)
    if op.born:
        waiting_never(e, op)
    if error == OP_PEER_LOST:
        op_fails(e, op)
    op.error = error
    if error or op.protocol != PROTOCOL_EAGER:
        trace_op(e, TRACE_COMPLETE, op, op.length if op.kind == OP_SEND else op_wanted(op), 0,
                 error)
    op.state = OP_COMPLETE
    adjust32(&e.epoch, 1)


cdef void op_release(engine_t *e, op_t *op) noexcept nogil:
    op.state = OP_FREE
    op.generation += 1
    if op.generation == 0:
        op.generation = 1       # 0 would make a cookie that says "none"
    op.next = e.op_free
    e.op_free = op
    e.ops_in_use -= 1


cdef int region_new(fabric_t *fabric, void *address, uint64_t length, int access,
                    uint64_t *key) noexcept nogil:
    cdef region made
    cdef int status = fabric.ops.register_memory(fabric, address, length, access, &made)
    if status == FABRIC_OK:
        key[0] = made.key
        return CACHE_OK
    # Memory that is not there, or not to be written to, is not there with less registered either.
    return CACHE_LACKS if status == FABRIC_FAILED and fabric.error != EFAULT else CACHE_REFUSED


cdef int device_register(void *handle, void *address, uint64_t length, int access,
                         uint64_t *key) noexcept nogil:
    return region_new(<fabric_t *> handle, address, length, access | ACCESS_KEPT, key)


cdef void device_deregister(void *handle, uint64_t key, void *address,
                            uint64_t length) noexcept nogil:
    cdef fabric_t *fabric = <fabric_t *> handle
    cdef region made
    made.key = key
    made.address = address
    made.length = length
    fabric.ops.deregister(fabric, &made)


cdef void device_flush(void *handle) noexcept nogil:
    cdef fabric_t *fabric = <fabric_t *> handle
    if fabric.ops.flush != NULL:
        fabric.ops.flush(fabric)


cdef void cache_open(engine_t *e, cache_t *cache, bint everywhere) noexcept nogil:
    cdef device_t *device
    cdef fabric_t *fabric
    cdef uint64_t eager
    cdef int i
    e.cache = cache
    cache.lock = &e.lock
    cache.device_count = e.fabric_count
    for i in range(e.fabric_count):
        fabric = e.fabrics[i]
        device = &cache.devices[i]
        device.handle = fabric
        device.register_memory = device_register
        device.deregister = device_deregister
        device.flush = device_flush
        device.rights = ACCESS_LOCAL | ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE
        device.sources = ACCESS_REMOTE_READ
        device.keeps = cache.mode != CACHE_OFF and (
            everywhere or fabric.capabilities & CAP_PINS != 0)
        if cache.mode != CACHE_TRUST:
            device.exposed = ACCESS_REMOTE_WRITE
            if fabric.capabilities & CAP_OPEN_SINK:
                device.exposed |= ACCESS_LOCAL
        if device.keeps:
            # Smaller messages go eager, but for a lack of credits.
            eager = e.eager_max if e.eager_max else fabric.eager_max
            eager = min(eager, <uint64_t> fabric.packet_max - WIRE_HEADER)
            cache.least = min(cache.least, eager)


cdef inline int device_of(const engine_t *e, const fabric_t *fabric) noexcept nogil:
    cdef int i = 0
    while e.fabrics[i] != fabric:
        i += 1
    return i


cdef bint region_register(call_t *call, fabric_t *fabric, int access, region *which) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int status
    call_proven(call)
    while True:
        status = region_new(fabric, which.address, which.length, access, &which.key)
        if status == CACHE_OK:
            return True
        if status != CACHE_LACKS or not cache_shed(e.cache, which.length):
            e.counters.registrations_refused += 1
            return False


cdef int op_register(call_t *call, op_t *op, fabric_t *fabric, int access) noexcept nogil:
    cdef engine_t *e = &call.engine
    if op.flags & OP_REGISTERED and op.local_fabric == fabric and not access & ~op.access:
        return 0
    unregister(e, op)
    if op.owner != NULL:
        op.mapping = cache_take(e.cache, op.owner, device_of(e, fabric), op.buffer, op.length,
                                access)
    op.local.address = op.buffer
    op.local.length = op.length
    if op.mapping != NULL:
        op.local.key = op.mapping.key
    elif not region_register(call, fabric, access, &op.local):
        trace_op(e, TRACE_REGISTER, op, op.length, 0, OP_NOT_REGISTERED)
        return OP_NOT_REGISTERED
    trace_op(e, TRACE_REGISTER, op, op.length, 0, 0)
    op.local_fabric = fabric
    op.access = <uint8_t> access
    op.flags |= OP_REGISTERED
    e.regions_in_use += 1
    return 0


cdef void *memory_new(call_t *call, size_t nbytes) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef void **wider
    cdef void *slab
    call_proven(call)
    if e.slab_count == e.slab_room:
        wider = <void **> realloc(e.slabs, (e.slab_room * 2 + 16) * sizeof(void *))
        if wider == NULL:
            return NULL
        e.slabs = wider
        e.slab_room = e.slab_room * 2 + 16
    slab = malloc(nbytes)
    if slab != NULL:
        e.slabs[e.slab_count] = slab
        e.slab_count += 1
        e.slab_bytes += nbytes
    return slab


cdef message_t *message_new(engine_t *e, uint64_t length) noexcept nogil:
    cdef message_t *m = e.message_free
    cdef int c = 0
    cdef void **block
    if m == NULL:
        e.starved |= <uint32_t> 1 << STARVED_MESSAGES
    if length:
        c = class_of(length)
        block = <void **> e.data_free[c]
        if block == NULL:
            # Both are noted, so that one refill is enough.
            e.starved |= <uint32_t> 1 << c
            return NULL
    if m == NULL:
        return NULL
    if length:
        e.data_free[c] = block[0]
        m.data = block
    else:
        m.data = NULL
    m.data_class = <uint8_t> c
    e.message_free = m.next
    e.message_free_count -= 1
    e.messages_in_use += 1
    m.next = NULL
    m.queued = 0
    m.flags = 0
    m.sender = NULL
    return m


cdef void message_hold(engine_t *e, op_t *op, message_t *m) noexcept nogil:
    op_matched(e, op, m.peer, m.tag, m.length, m.content, m.number)
    op.message = m
    op_complete(e, op, 0)


cdef void message_release(engine_t *e, message_t *m) noexcept nogil:
    cdef void **block
    if m.data != NULL:
        block = <void **> m.data
        block[0] = e.data_free[m.data_class]
        e.data_free[m.data_class] = block
        m.data = NULL
    m.next = e.message_free
    e.message_free = m
    e.message_free_count += 1
    e.messages_in_use -= 1


cdef bint messages_grow(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef uint32_t i
    cdef message_t *slab = <message_t *> memory_new(call, MESSAGES_PER_SLAB * sizeof(message_t))
    if slab == NULL:
        return False
    memset(slab, 0, MESSAGES_PER_SLAB * sizeof(message_t))
    for i in range(MESSAGES_PER_SLAB):
        slab[i].next = e.message_free
        e.message_free = &slab[i]
    e.message_free_count += MESSAGES_PER_SLAB
    return True


cdef bint messages_reserve(call_t *call, uint32_t count) noexcept nogil:
    cdef engine_t *e = &call.engine
    while e.message_free_count < count:
        if not messages_grow(call):
            return False
    return True


cdef bint data_grow(call_t *call, int c) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef size_t block = <size_t> 64 << c
    cdef size_t total = DATA_SLAB if block < DATA_SLAB else block
    cdef char *slab = <char *> memory_new(call, total)
    cdef size_t at = 0
    if slab == NULL:
        return False
    while at < total:
        (<void **> (slab + at))[0] = e.data_free[c]
        e.data_free[c] = slab + at
        at += block
    return True


cdef bint data_reserve(call_t *call, int c, uint32_t count) noexcept nogil:
    cdef void **block = <void **> call.engine.data_free[c]
    while count and block != NULL:
        block = <void **> block[0]
        count -= 1
    while count and data_grow(call, c):
        count -= min(count, <uint32_t> (DATA_SLAB // (<size_t> 64 << c) or 1))
    return count == 0


cdef bint offers_grow(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef uint32_t i
    cdef offer_t *slab = <offer_t *> memory_new(call, OFFERS_PER_SLAB * sizeof(offer_t))
    if slab == NULL:
        return False
    for i in range(OFFERS_PER_SLAB):
        slab[i].next = e.offer_free
        e.offer_free = &slab[i]
    e.offer_free_count += OFFERS_PER_SLAB
    return True


cdef int pools_reserve(call_t *call) noexcept nogil:
    cdef engine_t *e = &call.engine
    cdef int c
    cdef bint well = True
    if e.policy.offers and e.offer_free_count < OFFERS_LOW:
        # Without offers there are only fewer speculative transfers.
        offers_grow(call)
    if e.message_free_count < MESSAGES_LOW:
        well = messages_grow(call)
    if e.starved:
        for c in range(DATA_CLASSES):
            if e.starved >> c & 1:
                well = data_grow(call, c) and well
        e.starved = 0
    return 0 if well else OP_NO_MEMORY


cdef void pools_free(engine_t *e) noexcept nogil:
    cdef uint32_t i
    for i in range(e.op_slab_count):
        free(e.op_slabs[i])
    for i in range(e.slab_count):
        free(e.slabs[i])
    free(e.op_slabs)
    free(e.slabs)
    e.op_slabs = NULL
    e.slabs = NULL
    e.op_slab_count = 0
    e.slab_count = 0
