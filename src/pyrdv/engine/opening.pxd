# cython: language_level=3
"""What a new engine is given: fabrics, credits, a descriptor to sleep on.  With the GIL."""
from libc.stdint cimport uint64_t

from pyrdv.engine.state cimport engine_t

# Its fabrics, and by `routes` which of them serves whom.
cdef int add_fabrics(engine_t *e, fabrics, routes) except -1
# What each peer may have outstanding of `unexpected_max` bytes.
# Indexes, pools, and what the protocols keep per peer (its block is that of the first peer).
# MemoryError.
cdef int add_pools(engine_t *e) except -1
cdef void set_allowance(engine_t *e, uint64_t unexpected_max) noexcept
# The descriptors that sleepers wait on.
cdef int open_wait(engine_t *e) except -1
