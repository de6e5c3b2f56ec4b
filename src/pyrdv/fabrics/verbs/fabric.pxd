# cython: language_level=3
"""Python owner of one verbs fabric."""
from pyrdv.fabrics.contract cimport Fabric
from pyrdv.fabrics.verbs.joining cimport routes_t
from pyrdv.fabrics.verbs.state cimport verbs_t


cdef class VerbsFabric(Fabric):
    cdef verbs_t state
    cdef bint open
    cdef object choice
    cdef list own           # candidates with a listener
    cdef dict ports         # candidate -> port, 2 bytes in network order
    cdef dict texts         # rank -> its addresses, or why none fits
    cdef _reserve(self)
    cdef _derive(self, bytes token)
    cdef _listen(self)
    cdef _end(self)
    cdef _limits(self)
    cdef routes_t *_routes(self, rank, list pairs, dict ports) except NULL
