# cython: language_level=3
"""Python owner of one shm fabric."""
from pyrdv.fabrics.contract cimport Fabric
from pyrdv.fabrics.shm.channel cimport shm_t
from pyrdv.fabrics.shm.segment cimport address_t


cdef class ShmFabric(Fabric):
    cdef shm_t state
    cdef bint open
    cdef _reserve(self)
    cdef _listen(self)
    cdef address_t *_parse(self, rank, bytes text) except NULL
