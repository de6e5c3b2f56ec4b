# cython: language_level=3
"""Whether a wait cannot end because this process lacks something: a descriptor, memory, a right."""
from libc.stdint cimport uint32_t

from pyrdv.engine.engine cimport Engine
from pyrdv.engine.state cimport engine_t, op_t

# call, takes the lock.  Whether `op` waits for a connection for which this process still lacks
# something, now that everything was tried once more.  `peer` gets the world rank of the other side.
cdef bint engine_lacking(engine_t *e, op_t *op, uint32_t generation, uint32_t *peer) noexcept nogil
# The same for a message of `source`, or of anybody (ANY_PEER).
cdef bint engine_source_lacking(engine_t *e, uint32_t source, uint32_t *peer) noexcept nogil
# Raise ResourceError if `op`, or a message from `source`, cannot come for that reason.  Quick when
# nothing is lacking.
cdef int complain(Engine engine, op_t *op, uint32_t generation) except -1
cdef int complain_source(Engine engine, uint32_t source) except -1
# The ResourceError for the connection to world rank `peer`; and why the connection to it ended, in
# words, empty if nothing is known.
cdef object lack(Engine engine, uint32_t peer)
cdef str reason(Engine engine, uint32_t peer)
