# cython: language_level=3
"""The predefined datatypes.

Contract: every function here needs the GIL, never blocks, and returns shared immutable objects.
A `Datatype` describes one element of a message: `size` bytes, which is also its extent (there are
no derived types, so no holes). Predefined objects live as long as the interpreter.
"""

cdef class Datatype:
    cdef readonly Py_ssize_t size   # bytes per element; 0 only for DATATYPE_NULL
    cdef readonly str name          # MPI's own name: "MPI_DOUBLE"
    cdef readonly str group         # what reductions ask: see `datatypes.GROUPS`
    cdef str code                   # what tocode() answers; "" where there is none
    cdef str key                    # name in this module, for pickling
    cdef object spelling            # argument of numpy.dtype; None where numpy has no such type
    cdef object cached              # the numpy.dtype, made on first use


# The type of an array's elements. BYTE for what NumPy calls plain but MPI has no name for
# (S, U, V, structured, foreign byte order). DatatypeError for dtypes that hold references.
cpdef Datatype from_dtype(object dtype)

# The same for a PEP 3118 format and item size. `fmt` may be None (then: BYTE).
cpdef Datatype from_format(object fmt, Py_ssize_t itemsize)

# The same for what a user wrote in a buffer spec: a Datatype (itself), a type code, a numpy.dtype.
cdef Datatype from_spec(object spec)
