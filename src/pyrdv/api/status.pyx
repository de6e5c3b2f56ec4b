# cython: language_level=3, nonecheck=True
"""What is known of a message that was received or probed."""
from libc.stdint cimport uint64_t

from pyrdv.api.datatypes cimport Datatype
from pyrdv.api.naming cimport name_missing
from pyrdv.api.datatypes import BYTE
from pyrdv.api.constants import ANY_SOURCE, ANY_TAG, UNDEFINED
from pyrdv.errors import InternalError


cdef class Status:
    """Source, tag and size of a message.

    Parameters
    ----------
    status : Status, optional
        Another one to copy.

    Attributes
    ----------
    source : int
        Rank of the sender in the communicator, or `ANY_SOURCE`.
    tag : int
        Tag of the message, or `ANY_TAG`.
    error : int
        MPI error class of the operation; `SUCCESS` is 0.
    """

    def __cinit__(self, Status status=None):
        if status is None:
            self.source = ANY_SOURCE
            self.tag = ANY_TAG
        else:
            self.set(status.source, status.tag, status.nbytes, status.error)
            self.was_cancelled = status.was_cancelled

    cdef void set(self, int source, int tag, uint64_t nbytes, int error) noexcept:
        self.source = source
        self.tag = tag
        self.nbytes = nbytes
        self.error = error
        self.was_cancelled = False

    def __eq__(self, other):
        if not isinstance(other, Status):
            return NotImplemented
        return self.__reduce__() == other.__reduce__()

    def __reduce__(self):
        return _rebuild, (self.source, self.tag, self.nbytes, self.error, self.was_cancelled)

    def __repr__(self):
        return (f"Status(source={self.source}, tag={self.tag}, nbytes={self.nbytes}, "
                f"error={self.error}, cancelled={self.was_cancelled})")

    def Get_source(self):
        """Rank of the sender in the communicator."""
        return self.source

    def Set_source(self, int source):
        """Overwrite the source."""
        self.source = source

    def Get_tag(self):
        """Tag of the message."""
        return self.tag

    def Set_tag(self, int tag):
        """Overwrite the tag."""
        self.tag = tag

    def Get_error(self):
        """MPI error class of the operation."""
        return self.error

    def Set_error(self, int error):
        """Overwrite the error class."""
        self.error = error

    def Get_count(self, Datatype datatype=None):
        """Number of elements in the message.

        Parameters
        ----------
        datatype : Datatype, optional
            Type of the elements; bytes when not given.

        Returns
        -------
        int
            `UNDEFINED` if the message does not hold whole elements.
        """
        cdef uint64_t size = 1 if datatype is None else datatype.size
        if size == 0:
            return 0 if self.nbytes == 0 else UNDEFINED
        return self.nbytes // size if self.nbytes % size == 0 else UNDEFINED

    def Get_elements(self, Datatype datatype not None):
        """The same as `Get_count`: all datatypes are basic."""
        return self.Get_count(datatype)

    def Set_elements(self, Datatype datatype not None, count):
        """Overwrite the size of the message: `count` elements of `datatype`."""
        self.nbytes = datatype.size * <uint64_t> count

    def Is_cancelled(self):
        """Whether the operation was cancelled."""
        return bool(self.was_cancelled)

    def Set_cancelled(self, bint flag):
        """Overwrite the mark of cancellation."""
        self.was_cancelled = flag

    def tomemory(self):
        """Its source, tag and error as a memoryview of three ints, which may be written to."""
        cdef Words words = Words.__new__(Words)
        if &self.tag != &self.source + 1 or &self.error != &self.source + 2:
            raise InternalError("the fields of a Status do not lie side by side")
        words.status = self
        return memoryview(words)

    @property
    def count(self):
        """Size of the message in bytes."""
        return self.nbytes

    @count.setter
    def count(self, value):
        self.Set_elements(BYTE, value)

    @property
    def cancelled(self):
        """Whether the operation was cancelled."""
        return bool(self.was_cancelled)

    @cancelled.setter
    def cancelled(self, bint flag):
        self.was_cancelled = flag


cdef class Words:
    """The memory of a status: source, tag and error, as three ints."""

    cdef Status status
    cdef Py_ssize_t length
    cdef Py_ssize_t stride

    def __getbuffer__(self, Py_buffer *view, int flags):
        self.length, self.stride = 3, sizeof(int)
        view.obj = self
        view.buf = &self.status.source
        view.len = 3 * sizeof(int)
        view.itemsize = sizeof(int)
        view.readonly = False
        view.ndim = 1
        view.format = b"i"
        view.shape = &self.length
        view.strides = &self.stride
        view.suboffsets = NULL
        view.internal = NULL


def _rebuild(source, tag, nbytes, error, cancelled):
    status = Status()
    status.source = source
    status.tag = tag
    status.error = error
    status.count = nbytes
    status.cancelled = cancelled
    return status


name_missing(Status)
