# cython: language_level=3
"""Registered memory for operations: what the cache keeps, or a registration for one alone.

A registration that is refused for want of room costs the cache what it keeps unused, and is tried
again.  Where memory can be registered cheaply nothing is kept.
"""
from libc.errno cimport EFAULT
from libc.stdint cimport uint8_t, uint64_t

from pyrdv.engine.calling cimport call_proven
from pyrdv.engine.event cimport TRACE_REGISTER
from pyrdv.engine.state cimport OP_NOT_REGISTERED, OP_REGISTERED, call_t, engine_t, op_t
from pyrdv.engine.trace cimport trace_op
from pyrdv.engine.wire cimport WIRE_HEADER
from pyrdv.fabrics.contract cimport (
    ACCESS_KEPT, ACCESS_LOCAL, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, CAP_OPEN_SINK, CAP_PINS,
    FABRIC_FAILED, FABRIC_OK, fabric_t, region)
from pyrdv.memory.mappings cimport (
    CACHE_LACKS, CACHE_OFF, CACHE_OK, CACHE_REFUSED, CACHE_TRUST, cache_give, cache_shed, cache_t,
    cache_take, cache_unname, device_t)


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
