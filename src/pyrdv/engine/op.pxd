# cython: language_level=3
"""Operations and unexpected messages: pools, and completion exactly once (R3).

Everything here runs under the engine's lock.  ``*_new`` and ``*_reserve``
marked *call* may allocate; the rest is step-safe.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.state cimport OP_REGISTERED, OP_TRUNCATED, call_t, engine_t, message_t, op_t
from pyrdv.fabrics.contract cimport CAP_FREE_SINK, fabric_t, region
from pyrdv.memory.mappings cimport cache_name, cache_t, owner_t

# call.  A fresh operation, or NULL when memory is exhausted.
cdef op_t *op_new(call_t *call, int kind, uint32_t peer, uint32_t context, int32_t tag,
                  void *buffer, uint64_t length) noexcept nogil
# Name the owner of its buffer; NULL: not known.  Until op_complete.
cdef inline void op_own(op_t *op, owner_t *owner) noexcept nogil:
    if owner != NULL:           # small messages have none, and pay no call for it
        cache_name(owner)
    op.owner = owner
# The number that travels in packets; and back, or NULL if it names no live op.
cdef uint64_t op_cookie(const op_t *op) noexcept nogil
cdef op_t *op_lookup(engine_t *e, uint64_t cookie) noexcept nogil
# call.  Have `count` operations free, so that op_new does not fail so often.
cdef bint ops_reserve(call_t *call, uint32_t count) noexcept nogil
# Note the envelope of the message that receive `op` was matched with, and the number of its
# announcement; its protocol is known.  If that is an object and its
# beginning has no room in the buffer, it goes to `op.peek` instead, whichever way the data takes:
# who is to throw the object away looks there for what comes beside it.
cdef void op_matched(engine_t *e, op_t *op, uint32_t source, int32_t tag, uint64_t total,
                     int content, uint32_t number) noexcept nogil
# Bytes of the message that matched receive `op` takes: what fits.
cdef inline uint64_t op_wanted(const op_t *op) noexcept nogil:
    return op.total if op.total < op.length else op.length
cdef void disown(engine_t *e, op_t *op) noexcept nogil
# The buffer of `op` is used no more by READs and WRITEs, and its owner is let go.
cdef inline void op_disown(engine_t *e, op_t *op) noexcept nogil:
    if op.flags & OP_REGISTERED or op.owner != NULL:    # those of small messages are neither
        disown(e, op)
# The error that a matched receive ends with when nothing went wrong on the way.
cdef inline int op_fit(const op_t *op) noexcept nogil:
    # Of an object whose beginning went to `peek` the room held nothing.
    return OP_TRUNCATED if op.total > op.length or op.buffer == &op.peek[0] else 0
# End `op`: the library does not touch its buffer afterwards (R3).
cdef void op_complete(engine_t *e, op_t *op, int error) noexcept nogil
# The caller has read the results; the op goes back to the pool.
cdef void op_release(engine_t *e, op_t *op) noexcept nogil
# call.  Register the memory that `which` names, filling in its key.  If there is no room, what the
# cache of registrations keeps unused is given up.
cdef bint region_register(call_t *call, fabric_t *fabric, int access, region *which) noexcept nogil
# call.  Make op.buffer usable for transfers through `fabric`, by what the cache keeps or for this
# operation alone; 0 or OP_NOT_REGISTERED.
cdef int op_register(call_t *call, op_t *op, fabric_t *fabric, int access) noexcept nogil
# The data of receive `op` can be read into its buffer through `fabric` as it is.
cdef inline bint op_sinks(const op_t *op, const fabric_t *fabric) noexcept nogil:
    return fabric.capabilities & CAP_FREE_SINK or (
        op.flags & OP_REGISTERED and op.local_fabric == fabric)


# Give the engine its cache of registrations, and that its fabrics; once.  `everywhere`: keep them
# also where registering costs nothing.
cdef void cache_open(engine_t *e, cache_t *cache, bint everywhere) noexcept nogil

# A message descriptor with room for `length` bytes, or NULL: then the pool is
# noted as starved and the next call refills it.
cdef message_t *message_new(engine_t *e, uint64_t length) noexcept nogil
# Give held message `m` to the OP_MATCH operation that waited for it.
cdef void message_hold(engine_t *e, op_t *op, message_t *m) noexcept nogil
# call.  Have `count` message descriptors free.
cdef bint messages_reserve(call_t *call, uint32_t count) noexcept nogil
# The class of blocks that hold `length` bytes of unexpected data.
cdef inline int class_of(uint64_t length) noexcept nogil:
    cdef int c = 0
    while (<uint64_t> 64 << c) < length:
        c += 1
    return c
# call.  Have `count` blocks of class `c` free.
cdef bint data_reserve(call_t *call, int c, uint32_t count) noexcept nogil
cdef void message_release(engine_t *e, message_t *m) noexcept nogil
# call.  Memory that lives as long as the engine, or NULL.
cdef void *memory_new(call_t *call, size_t nbytes) noexcept nogil
# call.  Refill whatever ran dry, keep a reserve.  Returns 0 or OP_NO_MEMORY.
cdef int pools_reserve(call_t *call) noexcept nogil
cdef void pools_free(engine_t *e) noexcept nogil
