# cython: language_level=3
"""Registered memory of the simulated network's ranks."""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.fabrics.contract cimport fabric_t, region
from pyrdv.instruments.sim.core cimport sim_rank, sim_region

# The live region of `rank` that `key` names, or NULL.
cdef sim_region *sim_own_region(sim_rank *rank, uint64_t key) noexcept nogil
# The contract's register_memory, discard and deregister.
cdef int sim_register(fabric_t *self, void *address, uint64_t length, int access,
                      region *out) noexcept nogil
cdef bint sim_discard(fabric_t *self, uint32_t peer, uint64_t ident) noexcept nogil
cdef void sim_deregister(fabric_t *self, region *which) noexcept nogil
