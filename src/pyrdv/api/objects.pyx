# cython: language_level=3, nonecheck=True
"""Python objects as messages: pickle 5 whose large buffers travel beside the pickle, uncopied.

What must hold:

1. An object without large buffers is its plain pickle, nothing added: `parts` is empty.
2. Parts come in the order in which the pickle asks for them (its NEXT_BUFFER opcodes), and each is
   received into an allocation of its own, so that a small one never keeps a large one alive.
3. What was writable arrives writable, what was read-only read-only; bytes and bytearray come back
   as themselves. None of them is copied on the receiving side.
4. A head from a peer is checked in full before any of its numbers is used (R8).

`pyrdv.api.object_parts` decides what stays in the stream and what becomes a part.

A framed head, little-endian::

    0   8 bytes   magic, begins with a zero byte, which no pickle does
    8   u64       cookie: names the parts between the two peers
    16  u64       number of parts
    24  u64       bytes of the pickle
    32  number x (u64 bytes of the part, u64 kind)
    ..  pickle
"""

import inspect
import pickle as _pickle
import struct

import numpy as np

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcmp, memcpy

cimport numpy as cnp

from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.object_parts cimport Collector, collect, number

from pyrdv.errors import ArgumentError

cnp.import_array()

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_LIMIT "PY_SSIZE_T_MAX"
    object make_bytes "PyBytes_FromStringAndSize"(const char *, Py_ssize_t)
    int PyByteArray_Resize(object, Py_ssize_t) except -1

#: Buffers of at least this many bytes travel as parts.
THRESHOLD = 64 * 1024

cdef bytes MAGIC = b"\0PRDV1\r\n"
cdef object FIXED = struct.Struct("<8sQQQ")
cdef object ENTRY = struct.Struct("<QQ")
cdef object COOKIE = struct.Struct("<Q")

# Types whose objects have nothing to put out of band: one call of pickle, no pickler of our own.
cdef frozenset SCALARS = frozenset((int, float, complex, bool, str, type(None)))
cdef object _pickle_dumps = _pickle.dumps


# --- pickling -------------------------------------------------------------------------------


cdef bytearray frame(object stream, list parts, list kinds):
    """The head of an object with parts, its cookie still 0."""
    head = bytearray(FIXED.pack(MAGIC, 0, len(parts), len(stream)))
    for part, kind in zip(parts, kinds):
        head += ENTRY.pack(len(part), kind)
    head += stream
    return head


def _takes(function, name):
    """Whether `function` has a parameter called `name`."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _lets_buffers_out(dumps):
    """Whether the protocol that `dumps` chooses by itself (pickle's: 4) knows of buffers."""
    try:
        dumps(None, None, buffer_callback=id)
    except ValueError:
        return False
    return True


cdef class Pickle:
    """How objects become bytes; ``MPI.pickle`` is the instance that all communicators use.

    Parameters
    ----------
    dumps, loads : callable, optional
        Replacements for ``pickle.dumps`` and ``pickle.loads``, such as those of cloudpickle. Called
        as ``dumps(obj)``, or ``dumps(obj, protocol)`` if a protocol is given, and ``loads(data)``.
        If they know ``buffer_callback`` and ``buffers``, large buffers travel out of band.
    protocol : int, optional
        Pickle protocol. Below 5 nothing travels out of band.
    threshold : int, optional
        Smallest buffer in bytes that travels out of band; 64 KiB by default.

    Call ``MPI.pickle.__init__(...)`` to change the instance in place; every rank must do the same.
    """

    cdef object custom_dumps
    cdef object custom_loads
    cdef bint direct                # pickle itself, protocol 5, both ways
    cdef bint out_of_band
    cdef object protocol
    cdef Py_ssize_t threshold

    def __init__(self, dumps=None, loads=None, protocol=None, threshold=None):
        self.custom_dumps = dumps
        self.custom_loads = loads
        self.out_of_band = dumps is None or _takes(dumps, "buffer_callback")
        self.out_of_band = self.out_of_band and (loads is None or _takes(loads, "buffers"))
        if protocol is None and dumps is not None and self.out_of_band:
            self.out_of_band = _lets_buffers_out(dumps)
        self.PROTOCOL = 5 if protocol is None and dumps is None else protocol
        self.THRESHOLD = threshold

    @property
    def PROTOCOL(self):
        """Pickle protocol; None leaves it to the replaced ``dumps``."""
        return self.protocol

    @PROTOCOL.setter
    def PROTOCOL(self, value):
        if value is None and self.custom_dumps is None:
            value = 5
        if value is not None and value < 0:
            value = _pickle.HIGHEST_PROTOCOL
        self.protocol = value
        self.direct = self.custom_dumps is None and self.out_of_band and self.protocol == 5

    @property
    def THRESHOLD(self):
        """Smallest buffer, in bytes, that travels out of band."""
        return self.threshold

    @THRESHOLD.setter
    def THRESHOLD(self, value):
        size = THRESHOLD if value is None else int(value)
        if size < 0:
            raise ArgumentError(f"the pickle threshold is {value} bytes; it cannot be negative")
        self.threshold = size

    cdef tuple encode(self, object obj):
        """Return ``(head, parts)``."""
        if self.direct:
            stream, parts, kinds = collect(obj, self.threshold)
            return (stream, []) if parts is None else (frame(stream, parts, kinds), parts)
        cdef Collector mine = Collector()
        mine.threshold = self.threshold
        if self.out_of_band and (self.protocol is None or self.protocol >= 5):
            stream = self.custom_dumps(obj, self.protocol, buffer_callback=mine.take)
        else:
            stream = self.dumps(obj)
        if type(stream) is not bytes:
            stream = bytes(stream)      # whose memory that is only its maker knows
        if mine.parts is None and not is_framed(stream):
            return stream, []
        return frame(stream, mine.parts or [], mine.kinds or []), mine.parts or []

    cdef object decode(self, object stream, object buffers):
        if self.custom_loads is None:
            return _pickle.loads(stream, buffers=buffers)
        if buffers is None:
            return self.custom_loads(stream)
        return self.custom_loads(stream, buffers=buffers)

    def dumps(self, obj):
        """Return the pickle of `obj` as bytes, nothing out of band."""
        if self.custom_dumps is None:
            return _pickle.dumps(obj, self.protocol)
        if self.protocol is None:
            return self.custom_dumps(obj)
        return self.custom_dumps(obj, self.protocol)

    def loads(self, data):
        """Return the object of a pickle that `dumps` made."""
        return self.decode(data, None)

    def dumps_oob(self, obj):
        """Return ``(bytes, buffers)``: the pickle and what it leaves out, for `loads_oob`.

        Only what the object's own reduction offers as ``PickleBuffer`` is left out.
        """
        cdef Collector mine = Collector()
        mine.threshold = self.threshold
        if not self.out_of_band or (self.protocol is not None and self.protocol < 5):
            return self.dumps(obj), []
        if self.custom_dumps is None:
            stream = _pickle.dumps(obj, self.protocol, buffer_callback=mine.take)
        else:
            stream = self.custom_dumps(obj, self.protocol, buffer_callback=mine.take)
        return stream, mine.parts or []

    def loads_oob(self, data, buffers):
        """Return the object of a pickle and its buffers, in order."""
        return self.decode(data, buffers)


pickle = Pickle()

cdef Pickle current = pickle


# --- messages -------------------------------------------------------------------------------


cpdef tuple dumps(object obj):
    """Return ``(head, parts)`` of an object.

    Parameters
    ----------
    obj : object
        Anything that pickles.

    Returns
    -------
    head : bytes or bytearray
        The plain pickle if `parts` is empty, else a bytearray for `set_cookie`.
    parts : list
        Flat memoryviews and bytes, in order; the user's own memory, not copies.
    """
    if current.direct and type(obj) in SCALARS:
        return _pickle_dumps(obj, 5), []
    return current.encode(obj)


cdef list snapshots(list parts):
    cdef span at
    cdef void *copied
    cdef size_t nbytes
    cdef list made = []
    for part in parts:
        if type(part) is not bytes:
            keeper = acquire(part, False, &at)
            part = np.empty(at.nbytes, np.uint8)
            copied = cnp.PyArray_DATA(<cnp.ndarray>part)
            nbytes = at.nbytes
            with nogil:
                memcpy(copied, at.address, nbytes)
            del keeper
        made.append(part)
    return made


cdef bint framed(const char *head, size_t nbytes) noexcept:
    return nbytes >= MAGIC_BYTES and memcmp(head, PyBytes_AS_STRING(MAGIC), MAGIC_BYTES) == 0


cdef bint plausible(object data) except -1:
    cdef span at
    _keeper = acquire(data, False, &at)
    if current.custom_loads is not None:
        return True
    # From protocol 2 on a pickle begins with PROTO and ends with STOP.
    return at.nbytes > 2 and (<unsigned char *>at.address)[0] == 0x80 \
        and (<char *>at.address)[at.nbytes - 1] == c"."


cdef bint is_framed(object stream) except -1:
    cdef span at
    keeper = acquire(stream, False, &at)
    return keeper is not None and framed(at.address, at.nbytes)


cpdef int set_cookie(bytearray head, unsigned long long cookie) except -1:
    """Write the cookie of a framed head.

    Raises
    ------
    ArgumentError
        If `head` is the plain pickle of an object without parts.
    """
    if not is_framed(head):
        raise ArgumentError("only the head of an object with parts has a cookie")
    COOKIE.pack_into(head, HEAD_COOKIE, cookie)
    return 0


cpdef tuple parse_head(object head):
    """Read a received head.

    Parameters
    ----------
    head : bytes-like
        Contiguous bytes, as received.

    Returns
    -------
    pickled : memoryview
        The pickle; a part of `head`, not a copy.
    cookie : int
        0 without parts.
    sizes, kinds : list of int
        Bytes and kind of each part, for `allocate`.

    Raises
    ------
    ArgumentError
        If any field is out of bounds or the lengths do not add up.
    """
    cdef span at
    _keeper = acquire(head, False, &at)
    view = memoryview(head).cast("B")
    if not framed(at.address, at.nbytes):
        return view, 0, [], []
    if at.nbytes < HEAD_BYTES:
        raise malformed(f"{at.nbytes} bytes are shorter than its fixed part of {HEAD_BYTES}")
    cdef const unsigned char *base = <const unsigned char *>at.address
    cdef size_t count = number(base + HEAD_COUNT, 8)
    cdef size_t stream = number(base + 24, 8)
    cdef size_t rest = at.nbytes - HEAD_BYTES
    if count > rest // PART_ENTRY_BYTES:
        raise malformed(f"it announces {count} parts in {at.nbytes} bytes")
    if stream != rest - count * PART_ENTRY_BYTES:
        raise malformed(
            f"it announces a pickle of {stream} bytes where "
            f"{rest - count * PART_ENTRY_BYTES} follow"
        )
    cdef list sizes = []
    cdef list kinds = []
    cdef size_t total = 0
    cdef size_t i
    cdef size_t size
    cdef size_t kind
    for i in range(count):
        size = number(base + HEAD_BYTES + i * PART_ENTRY_BYTES, 8)
        kind = number(base + HEAD_BYTES + i * PART_ENTRY_BYTES + 8, 8)
        if size > <size_t>PY_SSIZE_T_LIMIT - total:
            raise malformed(f"part {i} of {size} bytes goes beyond the address space")
        if kind > PART_BYTEARRAY:
            raise malformed(f"part {i} is of the unknown kind {kind}")
        total += size
        sizes.append(size)
        kinds.append(<int>kind)
    return view[HEAD_BYTES + count * PART_ENTRY_BYTES:], number(base + HEAD_COOKIE, 8), sizes, kinds


cdef object malformed(str what):
    return ArgumentError(
        f"the head of a received object is malformed: {what}; both ranks must run the same version"
    )


cdef object allocate(size_t nbytes, int kind, char **address):
    if nbytes > <size_t>PY_SSIZE_T_LIMIT:
        raise MemoryError(f"a part of {nbytes} bytes goes beyond the address space")
    # Without zeroing: the message fills all of it, or loads() is never called.
    if kind == PART_BYTES:
        made = make_bytes(NULL, <Py_ssize_t>nbytes)
        address[0] = PyBytes_AS_STRING(made)
    elif kind == PART_BYTEARRAY:
        # Not PyByteArray_FromStringAndSize: without memory CPython lets go of half an object there.
        made = bytearray()
        PyByteArray_Resize(made, <Py_ssize_t>nbytes)
        address[0] = PyByteArray_AS_STRING(made)
    else:
        made = np.empty(nbytes, np.uint8)
        address[0] = <char *>cnp.PyArray_DATA(<cnp.ndarray>made)
    return made


cpdef object loads(object pickled, list buffers):
    """Return the object of a pickle and its parts.

    Parameters
    ----------
    pickled : bytes-like
        What `parse_head` gave, or a head without parts.
    buffers : list
        What `allocate` made, filled, in order. The object refers to them; it holds no copies.
    """
    return current.decode(pickled, buffers if buffers else None)


def copy(head, parts):
    """Return the object that a receiver would get from ``dumps``; shares no memory with `parts`."""
    cdef span at
    cdef char *address = NULL
    cdef list buffers = []
    pickled, _, sizes, kinds = parse_head(head)
    if len(parts) != len(sizes):
        raise malformed(f"it announces {len(sizes)} parts where there are {len(parts)}")
    for part, size, kind in zip(parts, sizes, kinds):
        keeper = acquire(part, False, &at)
        if at.nbytes != <size_t>size:
            raise malformed(f"it announces a part of {size} bytes where there are {at.nbytes}")
        buffers.append(allocate(at.nbytes, kind, &address))
        memcpy(address, at.address, at.nbytes)
        del keeper
    return loads(pickled, buffers)
