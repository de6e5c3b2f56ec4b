# cython: language_level=3, nonecheck=True
"""What a user passes as a message, turned into an address and a size.

A message is written as in mpi4py::

    buf                                 everything in it, of its own type
    [buf, type]  [buf, count]  [buf, count, type]  [buf, (count, displ), type]
    [buf, count, displ, type]           displ in elements of type

`buf` is a NumPy array, any contiguous buffer (bytes, bytearray, memoryview, array.array, mmap…),
an object with ``__dlpack__`` or ``__cuda_array_interface__`` whose memory the CPU can reach, or
None or ``BOTTOM``, which hold no bytes. A tuple does for a list, None for a count means "all of
it", and a type is a `Datatype`, a type code or a ``numpy.dtype``.

What must hold:

1. An address leaves this module only together with its keeper (see buffers.pxd).
2. ``address .. address + nbytes`` lies inside the memory that the user passed.
3. Each export that was taken is released exactly once, also when a later check refuses the message.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_FORMAT, PyBUF_FULL_RO, PyBUF_READ, PyBUF_WRITABLE, PyBUF_WRITE,
    PyBuffer_IsContiguous, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport strchr

cimport numpy as cnp

from pyrdv.api cimport cuda_arrays, dlpack
from pyrdv.api.datatypes cimport Datatype, from_dtype, from_format, from_spec

from pyrdv.api.datatypes import PREDEFINED
from pyrdv.errors import CountError, DatatypeError, InvalidBufferError

cnp.import_array()

# Missing from Cython's declarations of NumPy: the last of its own type numbers.
cdef enum:
    HALF = 23

cdef Datatype BYTE = PREDEFINED["BYTE"]
cdef Datatype UNSIGNED_CHAR = PREDEFINED["UNSIGNED_CHAR"]


@cython.embedsignature(False)
class BottomType(int):
    """The type of ``BOTTOM``: a message without memory."""

    def __new__(cls):
        return super().__new__(cls, 0)

    def __repr__(self):
        return "BOTTOM"

    def __reduce__(self):
        return "BOTTOM"


@cython.embedsignature(False)
class InPlaceType(int):
    """The type of ``IN_PLACE``: the receive buffer of a collective already holds the input."""

    def __new__(cls):
        return super().__new__(cls, -1)

    def __repr__(self):
        return "IN_PLACE"

    def __reduce__(self):
        return "IN_PLACE"


BOTTOM = BottomType()
IN_PLACE = InPlaceType()

cdef object NOTHING = BOTTOM


@cython.freelist(64)
@cython.no_gc
cdef class Export:
    """A held buffer export, released when this object dies.

    Outside the garbage collector on purpose: a collector that cleared `view` before the end would
    leave the exporter locked for good.
    """

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef class Elements:
    """A message with its datatype, and what keeps the memory alive."""


cdef object acquire(object spec, bint writable, span *out):
    if cnp.PyArray_CheckExact(spec) and plain(<cnp.ndarray>spec, writable):
        from_array(<cnp.ndarray>spec, out)
        return spec
    if PyBytes_CheckExact(spec) and not writable:
        out.address = PyBytes_AS_STRING(spec)
        out.nbytes = <size_t>PyBytes_GET_SIZE(spec)
        out.count = PyBytes_GET_SIZE(spec)
        out.itemsize = 1
        return spec
    if isinstance(spec, (list, tuple)):
        return acquire_parts(spec, writable, out)
    return whole(spec, writable, out)


cdef bint simple(object spec, bint writable, span *out) noexcept:
    if not cnp.PyArray_CheckExact(spec) or not plain(<cnp.ndarray>spec, writable):
        return False
    from_array(<cnp.ndarray>spec, out)
    return True


cdef object acquire_parts(object spec, bint writable, span *out):
    cdef Elements made = elements(spec, writable)
    out[0] = made.at
    return made.keeper


cdef inline bint plain(cnp.ndarray array, bint writable) noexcept:
    """Whether an array needs no further look: numbers in native order, in one writable block."""
    cdef int flags = cnp.PyArray_FLAGS(array)
    cdef int number = cnp.PyArray_TYPE(array)
    if not flags & (cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_F_CONTIGUOUS):
        return False
    if writable and not flags & cnp.NPY_ARRAY_WRITEABLE:
        return False
    if number >= cnp.NPY_OBJECT and (number < cnp.NPY_DATETIME or number > HALF):
        return False
    return cnp.PyArray_ISNOTSWAPPED(array)


cdef inline void from_array(cnp.ndarray array, span *out) noexcept:
    out.address = <char *>cnp.PyArray_DATA(array)
    out.itemsize = cnp.PyArray_ITEMSIZE(array)
    out.count = cnp.PyArray_SIZE(array)
    out.nbytes = <size_t>out.count * <size_t>out.itemsize


cdef object whole(object obj, bint writable, span *out):
    """Acquire all of one object, whatever it is; `out` counts the object's own elements."""
    if isinstance(obj, cnp.ndarray):
        return whole_array(<cnp.ndarray>obj, writable, out)
    if obj is None or obj is NOTHING:
        out.address = NULL
        out.nbytes = 0
        out.count = 0
        out.itemsize = 1
        return NOTHING
    if PyObject_CheckBuffer(obj):
        return whole_export(obj, writable, out)
    if dlpack.offers(obj):
        return whole_tensor(obj, writable, out)
    array = cuda_arrays.host_array(obj)
    if array is not None:
        return whole_array(<cnp.ndarray>array, writable, out)
    hint = (
        "; encode text first, or use the lower-case methods" if isinstance(obj, str)
        else "; for Python objects use the lower-case methods (send, recv, bcast)"
    )
    raise DatatypeError(
        f"a message must be a buffer, or a list [buffer, count, type], not {type(obj).__name__}"
        + hint
    )


cdef object whole_array(cnp.ndarray array, bint writable, span *out):
    if not plain(array, writable):
        from_dtype(array.dtype)     # refuses references
        if not array.flags.forc:
            raise not_contiguous(array, (<object>array).shape, (<object>array).strides, array.dtype)
        if writable and not array.flags.writeable:
            raise read_only(array, f" of dtype {array.dtype}", "receive into a copy (a.copy())")
    from_array(array, out)
    return array


cdef object whole_export(object obj, bint writable, span *out):
    cdef Export made = Export.__new__(Export)
    cdef int flags = PyBUF_ANY_CONTIGUOUS | PyBUF_FORMAT | (PyBUF_WRITABLE if writable else 0)
    try:
        PyObject_GetBuffer(obj, &made.view, flags)
    except BufferError as error:
        raise diagnose(obj, writable, error) from None
    made.held = True
    if made.view.format is not NULL and strchr(made.view.format, c"O") is not NULL:
        type_of_export(made)        # refuses references
    out.address = <char *>made.view.buf
    out.nbytes = <size_t>made.view.len
    out.itemsize = made.view.itemsize
    if out.itemsize <= 0 or made.view.len % out.itemsize:
        out.itemsize = 1
    out.count = made.view.len // out.itemsize
    return made


cdef object whole_tensor(object obj, bint writable, span *out):
    cdef dlpack.Tensor made = dlpack.borrow(obj, writable)
    out.address = made.address
    out.nbytes = made.nbytes
    out.count = made.count
    out.itemsize = made.itemsize
    return made


# --- errors ---------------------------------------------------------------------------------


cdef object read_only(object obj, str detail, str remedy):
    return InvalidBufferError(
        f"{type(obj).__name__}{detail} is read-only, but a receive needs a writable buffer; "
        f"{remedy}"
    )


cdef object not_contiguous(object obj, object shape, object strides, object dtype):
    return InvalidBufferError(
        f"{type(obj).__name__} is not contiguous (shape {shape}, strides {strides} bytes, "
        f"{dtype}); send numpy.ascontiguousarray(a), or receive into a new array and copy from it"
    )


cdef object diagnose(object obj, bint writable, object error):
    """The exception for an exporter that refused: say which demand it could not meet."""
    cdef Export made = Export.__new__(Export)
    try:
        PyObject_GetBuffer(obj, &made.view, PyBUF_FULL_RO)
    except BufferError:
        return InvalidBufferError(f"{type(obj).__name__} gives no access to its memory: {error}")
    made.held = True
    fmt = "B" if made.view.format is NULL else made.view.format.decode("utf-8", "replace")
    if writable and made.view.readonly:
        return read_only(obj, f" of format {fmt!r}", "receive into a bytearray or a numpy array")
    if not PyBuffer_IsContiguous(&made.view, c"A") and made.view.ndim > 0:
        shape = tuple(made.view.shape[i] for i in range(made.view.ndim))
        strides = tuple(made.view.strides[i] for i in range(made.view.ndim))
        return not_contiguous(obj, shape, strides, f"format {fmt!r}")
    return InvalidBufferError(f"{type(obj).__name__} gives no access to its memory: {error}")


# --- lists ----------------------------------------------------------------------------------


cdef Datatype type_of_export(Export made):
    if made.view.format is NULL:
        return from_format("B", made.view.itemsize)
    return from_format(made.view.format.decode("utf-8", "replace"), made.view.itemsize)


cdef Datatype own_type(object keeper):
    """The datatype of what `whole` acquired."""
    if isinstance(keeper, cnp.ndarray):
        return from_dtype((<cnp.ndarray>keeper).dtype)
    if isinstance(keeper, Export):
        return type_of_export(<Export>keeper)
    if isinstance(keeper, dlpack.Tensor):
        return (<dlpack.Tensor>keeper).datatype
    return UNSIGNED_CHAR if isinstance(keeper, bytes) else BYTE


cdef bint names_type(object item):
    return isinstance(item, (Datatype, str, cnp.dtype, type))


cdef object bad_list(Py_ssize_t items):
    return CountError(
        f"a message list has 2 to 4 items, [buffer, count, displacement, type], not {items}"
    )


cdef object too_small(object buf, size_t nbytes, object count, object start, Datatype datatype):
    behind = f" behind a displacement of {start}" if start else ""
    return CountError(
        f"{count} elements of {datatype.name} ({datatype.size} bytes each){behind} need "
        f"{(count + start) * datatype.size} bytes, but {type(buf).__name__} holds {nbytes}"
    )


cdef Py_ssize_t integer(object value, str what) except? -1:
    """A count or displacement as an integer of any kind (NumPy's included); floats are refused."""
    try:
        return value
    except TypeError:
        raise DatatypeError(
            f"the {what} of a message must be an integer, not {type(value).__name__} {value!r}"
        ) from None
    except OverflowError:
        raise CountError(f"the {what} of a message is {value}, beyond the address space") from None


cdef Elements elements(object spec, bint writable):
    cdef Elements made = Elements.__new__(Elements)
    count = displ = datatype = None
    buf = spec
    if isinstance(spec, (list, tuple)):
        buf, count, displ, datatype = split_simple(spec)
    made.keeper = acquire_buffer(buf, writable, &made.at)
    made.datatype = own_type(made.keeper) if datatype is None else from_spec(datatype)
    narrow(made, buf, count, displ)
    return made


cdef object acquire_buffer(object buf, bint writable, span *out):
    if isinstance(buf, (list, tuple)):
        return whole(buf, writable, out)    # a list inside a list: refused by name
    return acquire(buf, writable, out)


cdef tuple split_simple(object spec):
    """``(buf, count, displ, type)`` of a list for one block; None for what is not given."""
    cdef Py_ssize_t items = len(spec)
    count = displ = datatype = None
    if items == 2:
        if names_type(spec[1]):
            datatype = spec[1]
        else:
            count = spec[1]
    elif items == 3:
        count, datatype = spec[1], spec[2]
    elif items == 4:
        count, displ, datatype = spec[1], spec[2], spec[3]
    else:
        raise bad_list(items)
    if isinstance(count, (tuple, list)):
        if displ is not None or len(count) != 2:
            raise CountError(
                f"the count of a message must be an integer or a pair (count, displacement), "
                f"not {count!r}"
            )
        count, displ = count
    return spec[0], count, displ, datatype


cdef int narrow(Elements made, object buf, object count, object displ) except -1:
    """Cut what was acquired to `count` elements behind `displ` elements, inside the buffer."""
    cdef Py_ssize_t size = made.datatype.size
    cdef Py_ssize_t available = <Py_ssize_t>made.at.nbytes
    cdef Py_ssize_t start = 0 if displ is None else integer(displ, "displacement")
    cdef Py_ssize_t wanted = 0 if count is None else integer(count, "count")
    if start < 0:
        raise CountError(f"the displacement of a message is {start}; it cannot be negative")
    if wanted < 0:
        raise CountError(f"the count of a message is {wanted}; it cannot be negative")
    if start > available // size or wanted > available // size - start:
        raise too_small(buf, made.at.nbytes, wanted, start, made.datatype)
    if count is None:
        wanted = available - start * size
        if wanted % size:
            raise CountError(
                f"{type(buf).__name__} has {wanted} bytes{' left' if start else ''}, not a "
                f"multiple of the {size} bytes of {made.datatype.name}; give the count"
            )
        wanted //= size
    if start:
        made.at.address += start * size
    made.at.count = wanted
    made.at.itemsize = size
    made.at.nbytes = <size_t>wanted * <size_t>size
    return 0


# --- views ----------------------------------------------------------------------------------


cdef object view(char *address, size_t nbytes, bint writable):
    if nbytes == 0:
        return memoryview(bytearray()) if writable else memoryview(b"")
    cdef int access = PyBUF_WRITE if writable else PyBUF_READ
    return PyMemoryView_FromMemory(address, <Py_ssize_t>nbytes, access)


cdef object held_view(char *address, size_t nbytes, bint writable, object keeper):
    cdef cnp.npy_intp size = <cnp.npy_intp>nbytes
    if size == 0:
        return view(NULL, 0, writable)
    held = cnp.PyArray_SimpleNewFromData(1, &size, cnp.NPY_UINT8, address)
    held.flags.writeable = writable
    cnp.set_array_base(held, keeper)
    return memoryview(held)


def parse(spec, *, writable=False):
    """Read a message as the communicator's methods do; for tools and tests.

    Parameters
    ----------
    spec : object
        Any form that the module describes.
    writable : bool
        Whether it is to be received into.

    Returns
    -------
    tuple
        ``(address, bytes, count, datatype, keeper)``. The address is valid while `keeper` lives.

    Raises
    ------
    InvalidBufferError
        Read-only for a receive, not contiguous, or out of the CPU's reach.
    CountError
        A count or displacement that is negative or does not fit the buffer.
    DatatypeError
        Not a buffer, or elements that hold references.
    """
    cdef Elements made = elements(spec, writable)
    return <size_t>made.at.address, made.at.nbytes, made.at.count, made.datatype, made.keeper


def parse_views(spec, *, writable=False):
    """Read a message as bytes in place.

    Parameters
    ----------
    spec, writable
        As for `parse`.

    Returns
    -------
    view : memoryview
        The message's bytes, format ``"B"``; it keeps the memory alive.
    datatype : Datatype
    """
    cdef Elements made = elements(spec, writable)
    return held_view(made.at.address, made.at.nbytes, writable, made.keeper), made.datatype


def span_of(spec, *, writable=False):
    """Acquire a message without its datatype; for tools and tests.

    Returns
    -------
    tuple
        ``(address, bytes, count, bytes per element, keeper)``; errors as `parse`.
    """
    cdef span at
    keeper = acquire(spec, writable, &at)
    return <size_t>at.address, at.nbytes, at.count, at.itemsize, keeper
