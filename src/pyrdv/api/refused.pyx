# cython: language_level=3, nonecheck=True
"""Messages that nobody will get: their senders are let go.

The sender of an object with large buffers waits until each of them was received.  Its receiver may
have met it with a receive of a buffer, may have no memory for it, or may have dropped the request.
What must hold:

1. A message that is matched is taken, and so are the parts that its head announces: into no memory
   at all, for nobody wants them.  So their sends end, and only the receiver learns of a mistake.
2. Of the head its first bytes are enough.  Where the buffer is too short for them the engine has
   kept them in the operation (`op_matched`).
3. What has to wait, for a message on its way or for memory, stays with the engine: every wait and
   every look in this process goes on with it (`help_pending`), and so does Finalize.
"""
cimport cython
from libc.stdint cimport int32_t, uint32_t, uint64_t

from pyrdv.api.core cimport CONTEXT_PARTS, CommBase
from pyrdv.api.object_parts cimport number
from pyrdv.api.objects cimport HEAD_COOKIE, HEAD_COUNT, PART_ENTRY_BYTES, framed
from pyrdv.engine.calls cimport (
    engine_recv_matched, engine_recv_promised, engine_release, engine_under_way)
from pyrdv.engine.engine cimport adopt, own_process
from pyrdv.engine.state cimport OP_COMPLETE, OP_RECV, OP_TRUNCATED, message_t, op_t
from pyrdv.engine.wire cimport CONTENT_OBJECT

from weakref import ref


cdef uint64_t parts_of(const op_t *op, uint64_t *cookie) noexcept:
    """How many parts came beside the object that complete receive `op` has met, if it did."""
    cdef const unsigned char *fields = <const unsigned char *> op.buffer
    cdef uint64_t count
    if op.kind != OP_RECV or op.content != CONTENT_OBJECT or op.error not in (0, OP_TRUNCATED) \
            or op.total < sizeof(op.peek) or op.buffer == NULL \
            or not framed(op.buffer, sizeof(op.peek)):
        return 0
    count = number(fields + HEAD_COUNT, 8)
    cookie[0] = number(fields + HEAD_COOKIE, 8)
    # A malformed head announces more than it could describe.
    return count if count <= op.total // PART_ENTRY_BYTES else 0


cdef uint64_t drop_parts(CommBase comm, uint32_t source, uint64_t cookie,
                         uint64_t count) noexcept:
    cdef op_t *op = NULL
    while count and engine_recv_promised(comm.engine.c, source, comm.context + CONTEXT_PARTS,
                                         <int32_t> (cookie & 0x7FFFFFFF), NULL, 0, NULL, &op) == 0:
        count -= 1
        if op.state == OP_COMPLETE:
            engine_release(comm.engine.c, op)
        else:
            adopt_quietly(comm, op)
    return count


cdef int adopt_quietly(CommBase comm, op_t *op) noexcept:
    """Without memory for an orphan the operation goes on all the same, and ends with the engine."""
    try:
        adopt(comm.engine, op, None)
    except MemoryError:
        pass
    return 0


@cython.no_gc_clear
cdef class Refusal:
    """What is still to be done until the senders of a message and its parts are let go."""

    def __dealloc__(self):
        # The engine ends with it under way: its buffer must outlive that.
        if self.comm is not None and self.op != NULL and own_process(
                self.comm.engine) and engine_under_way(
                self.comm.engine.c, self.op, self.generation):
            adopt(self.comm.engine, self.op, self.keeper)

    cdef int begin(self) except -1:
        # First what can fail.
        self.comm.engine.pending[<size_t> <void *> self] = ref(self)
        self.comm.engine.forsaken.add(self)
        self.help()
        return 0

    def help(self):
        """Take the steps that are possible."""
        if self.busy:
            return              # a step of its own looks after all that wait
        self.busy = True
        over = not usable(self.comm.engine) or self.go_on()
        self.busy = False
        if over:
            self.comm.engine.pending.pop(<size_t> <void *> self, None)
            self.comm.engine.forsaken.discard(self)

    cdef bint go_on(self) noexcept:
        if self.m != NULL:
            if engine_recv_matched(self.comm.engine.c, self.m, NULL, 0, NULL, &self.op):
                return False
            self.m = NULL
            self.generation = self.op.generation
        if self.op != NULL:
            if engine_under_way(self.comm.engine.c, self.op, self.generation):
                return False
            if self.op.generation == self.generation:
                self.source = self.op.source
                self.left = parts_of(self.op, &self.cookie)
                engine_release(self.comm.engine.c, self.op)
            self.op = NULL
            self.keeper = None
        self.left = drop_parts(self.comm, self.source, self.cookie, self.left)
        return self.left == 0


cdef Refusal refusal(CommBase comm):
    cdef Refusal made = Refusal.__new__(Refusal)
    made.comm = comm
    return made


cdef int refuse_object(CommBase comm, const op_t *op) except -1:
    cdef uint64_t cookie = 0
    cdef uint64_t count = parts_of(op, &cookie)
    cdef Refusal made
    if count:
        made = refusal(comm)
        made.source, made.cookie, made.left = op.source, cookie, count
        made.begin()
    return 0


cdef int forsake(CommBase comm, op_t *op, object keeper) except -1:
    cdef Refusal made
    if op.kind != OP_RECV or not usable(comm.engine):
        return adopt(comm.engine, op, keeper)
    made = refusal(comm)
    made.op, made.generation, made.keeper = op, op.generation, keeper
    made.begin()
    return 0


cdef int refuse_message(CommBase comm, message_t *m) except -1:
    cdef Refusal made
    if not usable(comm.engine):
        return 0
    made = refusal(comm)
    made.m = m
    made.begin()
    return 0
