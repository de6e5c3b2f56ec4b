# cython: language_level=3
"""Pages for the room of a receive, made while its caller waits."""
from libc.stdint cimport uint32_t

from pyrdv.engine.state cimport engine_t, op_t
from pyrdv.progress.pausing cimport patience_t

# Have the kernel make some pages of the room of receive `op`, if it has none there yet; whether
# there was something to do.
cdef bint prepare_room(engine_t *e, op_t *op, uint32_t generation, patience_t *p) noexcept nogil
