# cython: language_level=3
"""What is known of a message that was received or probed."""
from libc.stdint cimport uint64_t


cdef class Status:
    cdef public int source          # rank in the communicator, or ANY_SOURCE
    cdef public int tag
    cdef public int error           # MPI error class
    cdef uint64_t nbytes
    cdef bint was_cancelled
    cdef void set(self, int source, int tag, uint64_t nbytes, int error) noexcept
