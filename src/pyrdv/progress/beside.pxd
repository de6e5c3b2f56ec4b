# cython: language_level=3
"""What somebody who waits does beside.  With the GIL, without the engine's lock."""
from libc.stdint cimport uint32_t

from pyrdv.engine.engine cimport Engine
from pyrdv.engine.state cimport op_t

# If nobody is left who could send what `op` receives, from anybody, it ends as lost.  `waits`: the
# caller does, so an orderly end counts as well as a death.
cdef int end_hopeless(Engine engine, op_t *op, uint32_t generation, bint waits) except -1
# Whether nobody is left in the communicator of `context` but this process.
cdef bint alone(Engine engine, uint32_t context) except -1
# Let what is under way in `engine.pending` go on: receives of objects, whose next step needs
# the GIL.  Without `fully`, many of them are only looked at now and then.
cdef int help_pending(Engine engine, bint fully) except -1
# Run signal handlers and notices, and raise what they raise, or that the engine has ended.
cdef int look_around(Engine engine) except -1
