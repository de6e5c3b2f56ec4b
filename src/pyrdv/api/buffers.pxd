# cython: language_level=3
"""What a user passes as a message, turned into an address and a size.

Contract for all of it: needs the GIL; never blocks; raises before anything is kept. The memory is
the user's. It stays valid and in place while the returned keeper lives, so whoever hands the
address to the engine holds the keeper until the operation has completed (R3). Dropping the keeper
releases the buffer export, DLPack capsule or reference; it may be dropped by any thread that has
the GIL.
"""

from pyrdv.api.datatypes cimport Datatype


cdef struct span:
    char *address                   # NULL only if nbytes is 0
    size_t nbytes
    Py_ssize_t count                # elements; count * itemsize == nbytes
    Py_ssize_t itemsize             # bytes per element, as the buffer or the named type says


cdef class Export:                  # a held PEP 3118 export
    cdef Py_buffer view
    cdef bint held


cdef class Elements:                 # a message whose element type matters
    cdef span at
    cdef object keeper
    cdef Datatype datatype


# The hot path. Fill `out`, return the keeper. `spec` is any of the forms in buffers.pyx.
# Exact, contiguous ndarrays of a plain dtype, and bytes, cost no allocation.
cdef object acquire(object spec, bint writable, span *out)

# The same of such an array, without an exception; False: `spec` is none that can be used so.
cdef bint simple(object spec, bint writable, span *out) noexcept

# The same with the datatype, for reductions and collectives.
cdef Elements elements(object spec, bint writable)

# A memoryview (format "B") of memory that the caller keeps valid for the view's whole life.
cdef object view(char *address, size_t nbytes, bint writable)

# The same of memory that `keeper` keeps valid: the view holds it.
cdef object held_view(char *address, size_t nbytes, bint writable, object keeper)

# Shared with vectors.pyx: the parts of reading a message.
cdef bint names_type(object item)
cdef tuple split_simple(object spec)
cdef object bad_list(Py_ssize_t items)
cdef Py_ssize_t integer(object value, str what) except? -1
cdef object acquire_buffer(object buf, bint writable, span *out)
cdef Datatype own_type(object keeper)
