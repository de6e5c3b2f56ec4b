# cython: language_level=3
"""Memory of objects that offer only the DLPack protocol.

Contract: needs the GIL; calls into the producer, so it may run any Python code. The producer's
memory is borrowed: it stays valid while the `Tensor` lives, whose end calls the producer's deleter.
"""

from pyrdv.api.datatypes cimport Datatype


cdef class Tensor:
    cdef object capsule             # some producers free the structure with it, so it goes last
    cdef void *managed              # what the capsule held; NULL until it is ours
    cdef bint versioned             # which of the two structures it is
    cdef char *address
    cdef size_t nbytes
    cdef Py_ssize_t count
    cdef Py_ssize_t itemsize
    cdef Datatype datatype


# Whether `obj` offers both methods of the protocol.
cdef bint offers(object obj)

# Take a capsule from `obj`. InvalidBufferError for memory that the CPU cannot reach, that is not
# contiguous, or (with `writable`) that is read-only or a copy; DatatypeError for odd elements.
cdef Tensor borrow(object obj, bint writable)
