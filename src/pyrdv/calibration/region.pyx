# cython: language_level=3
"""A buffer that is registered with a fabric, for what drives one without an engine."""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t, uintptr_t

from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, FABRIC_OK, Fabric)

#: What memory is registered for, as the contract has it.
LOCAL = ACCESS_LOCAL
REMOTE_READ = ACCESS_REMOTE_READ
REMOTE_WRITE = ACCESS_REMOTE_WRITE


@cython.no_gc_clear     # the collector would take the view away before it is released
cdef class Region:
    """A registered buffer; holds the buffer until ``deregister``."""

    @property
    def key(self):
        """Key of the region."""
        return self.which.key

    @property
    def address(self):
        """Address of its first byte."""
        return <uintptr_t> self.which.address

    @property
    def length(self):
        """Length in bytes."""
        return self.which.length

    def deregister(self):
        """Give the key back and let the buffer go."""
        if self.held:
            self.fabric.handle.ops.deregister(self.fabric.handle, &self.which)
            PyBuffer_Release(&self.view)
            self.held = False

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


def region_of(Fabric fabric not None, buffer, int access):
    """Register a buffer; a `Region`.

    Parameters
    ----------
    fabric : Fabric
    buffer : buffer
        Writable if `access` has others write.
    access : int
        Access flags of the contract.

    Raises
    ------
    ValueError
        The fabric refuses.
    """
    cdef Region made = Region()
    cdef int writable = PyBUF_WRITABLE if access & ACCESS_REMOTE_WRITE else PyBUF_SIMPLE
    cdef int status
    PyObject_GetBuffer(buffer, &made.view, writable)
    made.held = True
    made.fabric = fabric
    status = fabric.handle.ops.register_memory(
        fabric.handle, made.view.buf, <uint64_t> made.view.len, access, &made.which)
    if status != FABRIC_OK:
        raise ValueError(f"the fabric refused a region of {made.view.len} bytes: {status}")
    return made
