# cython: language_level=3
"""The Python face of the simulated network."""
from pyrdv.fabrics.contract cimport Fabric
from pyrdv.instruments.sim.core cimport sim_net, sim_pending


cdef class Network:
    cdef sim_net net
    cdef sim_pending *events
    cdef int event_limit
    cdef tuple descriptors
    cdef object random
    cdef int refresh(self) except -1
    cdef int fire(self, int index) except -1
    cdef int check(self, rank) except -1
    cdef object describe(self, sim_pending *event)


cdef class SimFabric(Fabric):
    cdef readonly Network network
