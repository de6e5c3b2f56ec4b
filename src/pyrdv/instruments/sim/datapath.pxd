# cython: language_level=3
"""The contract's operations over the simulated network."""
from libc.stdint cimport uint32_t

from pyrdv.fabrics.contract cimport fabric_ops
from pyrdv.instruments.sim.core cimport sim_net

cdef const fabric_ops *sim_operations() noexcept nogil
cdef void sim_drain(sim_net *net, uint32_t rank) noexcept nogil
cdef void fabric_close(sim_net *net, uint32_t rank) noexcept nogil
