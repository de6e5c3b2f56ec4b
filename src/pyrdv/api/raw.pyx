# cython: language_level=3, nonecheck=True
"""Memory as mpi4py's ``MPI.buffer``: plain bytes with an address."""
cimport cython
from cpython.buffer cimport (
    PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer)
from cpython.memoryview cimport PyMemoryView_FromMemory

from pyrdv.errors import CountError


@cython.embedsignature(False)
class BufferAutomaticType(int):
    """The type of ``BUFFER_AUTOMATIC``: buffered sends are not bounded."""

    def __new__(cls):
        return super().__new__(cls, 0)

    def __repr__(self):
        return "BUFFER_AUTOMATIC"

    def __reduce__(self):
        return "BUFFER_AUTOMATIC"


BUFFER_AUTOMATIC = BufferAutomaticType()


cdef class buffer:
    """Plain bytes somewhere in memory.

    Parameters
    ----------
    buf : buffer
        What to look at; a contiguous one.
    """

    cdef object seen                # a memoryview of bytes, or None after release()

    def __cinit__(self, buf):
        self.seen = memoryview(buf).cast("B")

    @staticmethod
    def allocate(nbytes, clear=False):
        """New memory, all zero.

        Parameters
        ----------
        nbytes : int
        clear : bool
            There for mpi4py's sake.
        """
        if nbytes < 0:
            raise CountError(f"memory of {nbytes} bytes; the size cannot be negative")
        return buffer(bytearray(nbytes))

    @staticmethod
    def frombuffer(buf, readonly=False):
        """The memory of a contiguous buffer, which stays alive."""
        return buffer(memoryview(buf).toreadonly() if readonly else buf)

    @staticmethod
    def fromaddress(address, nbytes, readonly=False):
        """`nbytes` bytes at `address`, which must stay valid as long as they are used."""
        cdef size_t at = address
        if nbytes < 0 or at == 0 and nbytes:
            raise CountError(f"{nbytes} bytes at address {address}: there is no such memory")
        if nbytes == 0:
            return buffer(b"" if readonly else bytearray())
        return buffer(PyMemoryView_FromMemory(<char *> at, nbytes,
                                              PyBUF_READ if readonly else PyBUF_WRITE))

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyObject_GetBuffer(self.view(), view, flags)

    cdef object view(self):
        return memoryview(b"") if self.seen is None else self.seen

    @property
    def address(self):
        """Where the memory begins, as an int."""
        cdef Py_buffer view
        PyObject_GetBuffer(self.view(), &view, PyBUF_SIMPLE)
        at = <size_t> view.buf
        PyBuffer_Release(&view)
        return at

    @property
    def obj(self):
        """What owns the memory."""
        return self.view().obj

    @property
    def nbytes(self):
        """Size in bytes."""
        return self.view().nbytes

    @property
    def readonly(self):
        """Whether it must not be written to."""
        return self.view().readonly

    @property
    def format(self):
        """``"B"``: the elements are bytes."""
        return "B"

    @property
    def itemsize(self):
        """1: the elements are bytes."""
        return 1

    def cast(self, format, *shape):
        """A memoryview of the same memory, with elements of another format."""
        return self.view().cast(format, *shape)

    def tobytes(self, order=None):
        """A copy as bytes."""
        return self.view().tobytes(order)

    def toreadonly(self):
        """The same memory, not to be written to."""
        return buffer(self.view().toreadonly())

    def release(self):
        """Let go of the memory; the buffer is empty then."""
        self.seen = None

    def __len__(self):
        return self.view().nbytes

    def __getitem__(self, item):
        part = self.view()[item]
        return buffer(part) if isinstance(item, slice) else part

    def __setitem__(self, item, value):
        self.view()[item] = value
