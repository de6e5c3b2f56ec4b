# cython: language_level=3
"""Faults that a test puts into the simulated network."""
from libc.stdint cimport uint32_t

from pyrdv.instruments.sim.core cimport sim_net

cdef void fault_kill(sim_net *net, uint32_t rank, bint flush) noexcept nogil
cdef void fault_drop(sim_net *net, uint32_t a, uint32_t b, bint flush) noexcept nogil
cdef int fault_inject(sim_net *net, uint32_t src, uint32_t dst, const char *data,
                      uint32_t length) noexcept nogil
