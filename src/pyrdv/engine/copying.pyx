# cython: language_level=3
# distutils: sources = csrc/copy.c
"""Copies between bounce buffers and the user's memory, by the kernel that suits the processor.

What is copied once and not read soon, a large message on its way to the user, goes past the
caches from a half of the last one on: it would only drive out what the program works with.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t


cdef extern from "copy.h" nogil:
    void copy_prepare()
    int copy_usable(int kernel)
    int copy_best()
    void c_copy "copy_bytes"(int kernel, void *to, const void *origin, size_t length,
                             int streaming)
    uint32_t c_copy_crc "copy_crc"(int kernel, void *to, const void *origin, size_t length,
                                   uint32_t crc, int streaming)

cdef extern from "<unistd.h>" nogil:
    int _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE
    long sysconf(int name)


KERNELS = ("plain", "sse42", "avx2", "avx512")

cdef enum:
    CACHE_UNKNOWN = 8 << 20

cdef struct processor_t:
    int kernel                  # the best one
    size_t past_caches          # from so many bytes on


# Filled once, at import.
cdef processor_t table


cdef int look() except -1:
    cdef long cache = sysconf(_SC_LEVEL3_CACHE_SIZE)
    if cache <= 0:
        cache = sysconf(_SC_LEVEL2_CACHE_SIZE)
    if cache <= 0:
        cache = CACHE_UNKNOWN
    table.past_caches = <size_t> cache // 2
    copy_prepare()
    table.kernel = copy_best()
    return 0


look()


cdef void copy_plain(void *to, const void *origin, size_t length, bint streaming) noexcept nogil:
    c_copy(table.kernel, to, origin, length, streaming)


cdef uint32_t copy_checked(void *to, const void *origin, size_t length, uint32_t crc,
                           bint streaming) noexcept nogil:
    return c_copy_crc(table.kernel, to, origin, length, crc, streaming)


cdef bint copy_past_caches(size_t length) noexcept nogil:
    return length >= table.past_caches


cdef int number(kernel) except -1:
    if kernel not in KERNELS or not copy_usable(KERNELS.index(kernel)):
        raise ValueError(f"kernel {kernel!r} is not one of {', '.join(usable())}")
    return KERNELS.index(kernel)


def usable():
    """Names of the kernels that this processor can run.

    Returns
    -------
    list of str
    """
    return [name for i, name in enumerate(KERNELS) if copy_usable(i)]


def best():
    """Name of the kernel that is used."""
    return KERNELS[table.kernel]


cdef uint32_t run(int kernel, to, origin, uint32_t crc, bint streaming, bint checked) except? 0:
    cdef Py_buffer into
    cdef Py_buffer out
    PyObject_GetBuffer(to, &into, PyBUF_WRITABLE)
    try:
        PyObject_GetBuffer(origin, &out, PyBUF_SIMPLE)
    except BaseException:
        PyBuffer_Release(&into)
        raise
    try:
        if into.len != out.len:
            raise ValueError(f"{out.len} bytes do not fill a buffer of {into.len}")
        with nogil:
            if checked:
                crc = c_copy_crc(kernel, into.buf, out.buf, <size_t> out.len, crc, streaming)
            else:
                c_copy(kernel, into.buf, out.buf, <size_t> out.len, streaming)
    finally:
        PyBuffer_Release(&out)
        PyBuffer_Release(&into)
    return crc


def copy(kernel, to, origin, bint streaming=False):
    """Copy the bytes of `origin` into `to`; for tests and benchmarks.

    Parameters
    ----------
    kernel : str
        One of `usable`.
    to, origin : contiguous buffers of one length
        They must not overlap.
    streaming : bool
        Past the caches, where the kernel can.
    """
    run(number(kernel), to, origin, 0, streaming, False)


def copy_crc(kernel, to, origin, uint32_t crc=0, bint streaming=False):
    """Copy like `copy`; returns the CRC32C of the bytes, carried on from `crc`."""
    return run(number(kernel), to, origin, crc, streaming, True)
