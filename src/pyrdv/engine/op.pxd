# cython: language_level=3
"""Operations: their pool, and completion exactly once (R3).

Under the engine's lock; step-safe unless marked *call*.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.engine.state cimport OP_TRUNCATED, call_t, engine_t, message_t, op_t

# call.  A fresh operation, or NULL when memory is exhausted.
cdef op_t *op_new(call_t *call, int kind, uint32_t peer, uint32_t context, int32_t tag,
                  void *buffer, uint64_t length) noexcept nogil
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
# The error that a matched receive ends with when nothing went wrong on the way.
cdef inline int op_fit(const op_t *op) noexcept nogil:
    # Of an object whose beginning went to `peek` the room held nothing.
    return OP_TRUNCATED if op.total > op.length or op.buffer == &op.peek[0] else 0
# End `op`: the library does not touch its buffer afterwards (R3).
cdef void op_complete(engine_t *e, op_t *op, int error) noexcept nogil
# The caller has read the results; the op goes back to the pool.
cdef void op_release(engine_t *e, op_t *op) noexcept nogil
# Give held message `m` to the OP_MATCH operation that waited for it.
cdef void message_hold(engine_t *e, op_t *op, message_t *m) noexcept nogil
# All memory of operations is given back: the engine ends.
cdef void ops_free(engine_t *e) noexcept nogil
