# cython: language_level=3
"""Objects that a receive of a buffer has met: what came beside them is thrown away.

Contract: needs the GIL; never waits.
"""
from pyrdv.api.core cimport CommBase
from pyrdv.engine.state cimport op_t


# Have the sends of the parts of the object end that `op`, a complete receive which was not for
# objects, has met.  Nothing happens if it met a buffer, or an object without parts.
cdef int drop_parts(CommBase comm, const op_t *op) except -1
