# cython: language_level=3, nonecheck=True
"""Objects that a receive of a buffer has met: what came beside them is thrown away.

The sender of an object with large buffers waits until each of them was received.  The receiver
has the head in its buffer, or, where that is too short, its first bytes: enough to receive the
parts into no memory at all.  Their sends end, and only the receiver learns of the mistake.
"""
from libc.stdint cimport int32_t

from pyrdv.api.collector cimport number
from pyrdv.api.core cimport CONTEXT_PARTS, CommBase
from pyrdv.api.objects cimport HEAD_COOKIE, HEAD_COUNT, PART_ENTRY_BYTES, framed
from pyrdv.engine.calls cimport engine_recv_late
from pyrdv.engine.engine cimport adopt
from pyrdv.engine.state cimport OP_NO_MEMORY, op_t
from pyrdv.engine.wire cimport CONTENT_OBJECT


cdef int drop_parts(CommBase comm, const op_t *op) except -1:
    cdef const char *head = op.buffer
    cdef const unsigned char *fields
    cdef op_t *part = NULL
    cdef size_t count
    cdef size_t _i
    if op.length < sizeof(op.peek):
        head = &op.peek[0]
    fields = <const unsigned char *> head
    if op.content != CONTENT_OBJECT or op.total < sizeof(op.peek) \
            or not framed(head, sizeof(op.peek)):
        return 0
    count = number(fields + HEAD_COUNT, 8)
    if count > op.total // PART_ENTRY_BYTES:
        return 0                        # malformed: there are not so many
    for _i in range(count):
        if engine_recv_late(comm.engine.c, op.source, comm.context + CONTEXT_PARTS,
                            <int32_t> (number(fields + HEAD_COOKIE, 8) & 0x7FFFFFFF), NULL, 0, NULL,
                            &part):
            raise comm.failure(OP_NO_MEMORY, comm.from_world(op.source), op.tag, 0, 0)
        adopt(comm.engine, part, None)
    return 0
