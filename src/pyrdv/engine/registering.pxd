# cython: language_level=3
"""Registered memory for operations, and who owns their buffers.  Under the engine's lock; step-safe
unless marked *call*."""
from pyrdv.engine.state cimport OP_REGISTERED, call_t, engine_t, op_t
from pyrdv.fabrics.contract cimport CAP_FREE_SINK, fabric_t, region
from pyrdv.memory.mappings cimport cache_name, cache_t, owner_t

# Name the owner of the buffer of `op`; NULL: not known.  Until op_complete.
cdef inline void op_own(op_t *op, owner_t *owner) noexcept nogil:
    if owner != NULL:           # small messages have none, and pay no call for it
        cache_name(owner)
    op.owner = owner
cdef void disown(engine_t *e, op_t *op) noexcept nogil
# The buffer of `op` is used no more by READs and WRITEs, and its owner is let go.
cdef inline void op_disown(engine_t *e, op_t *op) noexcept nogil:
    if op.flags & OP_REGISTERED or op.owner != NULL:    # those of small messages are neither
        disown(e, op)
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
