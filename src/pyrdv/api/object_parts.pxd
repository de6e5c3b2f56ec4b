# cython: language_level=3
"""Pickling with large buffers left out of the stream.

Contract: needs the GIL; runs the pickling code of users' classes, so any Python code, calls into
this library included.
"""


cdef class Collector:
    """The file and buffer callback of one pickler; used by one `dumps` at a time."""
    cdef bytes first                # the stream as written: one piece, as a rule,
    cdef list pieces                # or all of them; None while there is at most one
    cdef list parts                 # None while there are none
    cdef list kinds
    cdef Py_ssize_t threshold
    cdef object dump
    cdef object forget

    cdef bint divert(self, object data)
    cdef void add(self, object part, int kind)


# (stream, parts, kinds) of `obj` by pickle itself; parts and kinds are None when there are none.
# Such a stream never looks like a framed head.
cdef tuple collect(object obj, Py_ssize_t threshold)


cdef inline size_t number(const unsigned char *at, int width) noexcept:
    """A little-endian number of `width` bytes."""
    cdef size_t value = 0
    cdef int i
    for i in range(width):
        value |= <size_t>at[i] << (8 * i)
    return value
