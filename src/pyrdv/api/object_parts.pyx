# cython: language_level=3, nonecheck=True
"""Pickling with large buffers left out of the stream.

Pickle by itself takes only ``PickleBuffer`` out of band; large bytes and bytearray stay in the
stream. But it hands their payload to the file's ``write`` by itself, right behind the opcode that
announces it (documented as the framing of protocol 4: large payloads are not framed).
`Collector.write` replaces opcode and payload by NEXT_BUFFER, which the unpickler answers with the
very object that `allocate` made. Where the pieces do not look exactly so, the payload stays in the
stream, which is always right.
"""

import pickle as _pickle

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.object cimport PyObject

from pyrdv.api.objects cimport PART_BYTEARRAY, PART_BYTES, PART_READONLY, PART_WRITABLE

cdef extern from "Python.h":
    ctypedef struct exported "Py_buffer":       # Cython's own declaration counts references
        PyObject *obj
        Py_ssize_t len
        int readonly
    const exported *PyPickleBuffer_GetBuffer(object) except NULL

cdef enum:
    POOLED = 8                      # idle picklers that are kept,
    KEPT_STREAM = 4096              # if their last pickle was at most so long, in bytes

# Opcodes of pickle that carry a payload, by which `write` knows it: opcode, bytes of its length.
cdef bytes NEXT_BUFFER = b"\x97"
cdef enum:
    OP_BINBYTES = 0x42
    OP_BINBYTES8 = 0x8e
    OP_BYTEARRAY8 = 0x96
    OP_FRAME = 0x95


cdef class Collector:
    """The file and buffer callback of one pickler; used by one `dumps` at a time."""

    def __init__(self):
        pickler = _pickle.Pickler(self, 5, buffer_callback=self.take)
        self.dump = pickler.dump
        self.forget = pickler.clear_memo

    def write(self, data):
        """Take one piece of the stream, or a large payload, which becomes a part."""
        if self.first is None:
            self.first = <bytes?>data       # begins with the protocol, so is no payload
            return
        if self.pieces is None:
            self.pieces = [self.first]
        if isinstance(data, _pickle.PickleBuffer):
            data = bytes(data.raw())        # what take() left in the stream
        if len(data) < self.threshold or not self.divert(data):
            self.pieces.append(data if PyBytes_CheckExact(data) else bytes(data))

    cdef bint divert(self, object data):
        """Make `data` a part if it is the payload that the last piece announces."""
        cdef bytes last = <bytes>self.pieces[len(self.pieces) - 1]
        cdef Py_ssize_t size = len(data)
        cdef int kind = PART_BYTEARRAY
        cdef Py_ssize_t header = 9
        if type(data) is bytearray:
            if not announces(last, OP_BYTEARRAY8, 8, size):
                return False
        elif type(data) is bytes and not looks_framed(<bytes>data):
            kind = PART_BYTES
            if announces(last, OP_BINBYTES8, 8, size):
                header = 9
            elif announces(last, OP_BINBYTES, 4, size):
                header = 5
            else:
                return False
        else:
            return False
        self.pieces[len(self.pieces) - 1] = last[:len(last) - header] + NEXT_BUFFER
        self.add(data if kind == PART_BYTES else memoryview(data), kind)
        return True

    cdef void add(self, object part, int kind):
        if self.parts is None:
            self.parts = []
            self.kinds = []
        self.parts.append(part)
        self.kinds.append(kind)

    def take(self, buffer):
        """Decide on one PickleBuffer: True leaves it in the stream."""
        cdef const exported *seen = PyPickleBuffer_GetBuffer(buffer)
        if seen.len < self.threshold:
            return True
        owner = <object>seen.obj if seen.obj is not NULL else None
        if type(owner) is bytes and len(owner) == seen.len:
            self.add(owner, PART_BYTES)
        elif type(owner) is bytearray and len(owner) == seen.len:
            self.add(buffer.raw(), PART_BYTEARRAY)
        else:
            self.add(buffer.raw(), PART_READONLY if seen.readonly else PART_WRITABLE)
        return False


cdef bint announces(bytes piece, int opcode, int width, Py_ssize_t size) noexcept:
    """Whether `piece` ends with `opcode` and a length of `width` bytes that is `size`."""
    cdef const unsigned char *end = <const unsigned char *>PyBytes_AS_STRING(piece)
    end += PyBytes_GET_SIZE(piece)
    if PyBytes_GET_SIZE(piece) < width + 1 or (end - width - 1)[0] != opcode:
        return False
    return number(end - width, width) == <size_t>size


cdef bint looks_framed(bytes data) noexcept:
    """Whether `data` may be a frame that the pickler wrote, alone or with an opcode behind it.

    A payload that happens to look so stays in the stream, which costs a copy and nothing else.
    """
    cdef const unsigned char *at = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef size_t size = <size_t>PyBytes_GET_SIZE(data)
    if size < 9 or at[0] != OP_FRAME:
        return False
    return number(at + 1, 8) <= size - 9 and size - 9 - number(at + 1, 8) <= 9


# Idle collectors. An object whose pickling calls dumps() again finds the pool one short, and
# an exception drops its collector, so none is ever used twice at a time or after a failure.
cdef list idle = []


cdef tuple collect(object obj, Py_ssize_t threshold):
    """``(stream, parts, kinds)`` by pickle itself."""
    cdef Collector mine = <Collector>idle.pop() if idle else Collector()
    cdef tuple made
    mine.threshold = threshold
    mine.dump(obj)
    cdef bytes stream = mine.first if mine.pieces is None else b"".join(mine.pieces)
    made = (stream, mine.parts, mine.kinds)
    mine.first = mine.pieces = mine.parts = mine.kinds = None
    # A pickler's memo never shrinks, and clearing it costs its size: keep only small ones.
    if PyBytes_GET_SIZE(stream) <= KEPT_STREAM and len(idle) < POOLED:
        mine.forget()
        idle.append(mine)
    return made
