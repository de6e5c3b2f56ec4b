# cython: language_level=3
"""What it takes a fabric to register memory, and to deregister it."""
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.errno cimport EINVAL
from libc.stdint cimport int64_t, uint64_t

from pyrdv.fabrics.contract cimport FABRIC_FAILED, FABRIC_OK, Fabric, fabric_t, region

import os


cdef extern from "ticks.h" nogil:
    int64_t ticks_clock_ns()


def registrations(Fabric fabric not None, memory, int access, int turns, int samples):
    """Times of registering and of deregistering each of `turns` equal parts of `memory`.

    Parameters
    ----------
    fabric : Fabric
    memory : writable buffer
    access : int
        Access flags of the contract.
    turns, samples : int

    Returns
    -------
    list of tuple of float
        Per sample, mean seconds of a registration, and of a deregistration with all that it puts
        off.

    Raises
    ------
    OSError
        The system refuses, for one because more memory is locked than RLIMIT_MEMLOCK allows.
    """
    cdef Py_buffer view
    cdef region *made = <region *> PyMem_Malloc(turns * sizeof(region))
    if made == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE)
        try:
            return [timed_parts(fabric.handle, <char *> view.buf, view.len // turns, access, made,
                                turns) for _ in range(samples)]
        finally:
            PyBuffer_Release(&view)
    finally:
        PyMem_Free(made)


cdef tuple timed_parts(fabric_t *f, char *memory, uint64_t share, int access, region *made,
                       int turns):
    cdef int64_t start, middle, end
    cdef int status = FABRIC_OK
    cdef int i
    cdef int count = 0
    with nogil:
        start = ticks_clock_ns()
        while count < turns and status == FABRIC_OK:
            status = f.ops.register_memory(f, memory + count * share, share, access, &made[count])
            count += status == FABRIC_OK
        middle = ticks_clock_ns()
        for i in range(count):
            f.ops.deregister(f, &made[i])
        f.ops.maintain(f)
        end = ticks_clock_ns()
    if status != FABRIC_OK:
        code = f.error if status == FABRIC_FAILED else EINVAL
        raise OSError(code, f"{share} bytes cannot be registered: {os.strerror(code)}")
    PyErr_CheckSignals()
    return (middle - start) * 1e-9 / turns, (end - middle) * 1e-9 / turns
