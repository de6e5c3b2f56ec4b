# cython: language_level=3
"""Messages of one block per rank. Contract: as buffers.pxd."""

from pyrdv.api.datatypes cimport Datatype


cdef class VectorMessage:           # one block of a buffer per rank
    cdef char *address              # of the whole buffer
    cdef size_t nbytes              # of the whole buffer
    cdef object keeper
    cdef Datatype datatype
    cdef list counts                # elements of each block, one int per rank
    cdef list displs                # its start, in elements; every block lies inside the buffer


# [data, counts, displs, type] and its shorter forms, for `blocks` ranks.
cdef VectorMessage vector_message(object spec, bint writable, Py_ssize_t blocks)
