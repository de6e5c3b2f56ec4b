# cython: language_level=3, nonecheck=True
"""Requests of objects: heads and parts on their way.

An object is one message (its *head*: the pickle), so matching, order, probes
and wildcards are those of any message.  Large buffers inside it travel beside
it as *parts*, uncopied, in a context of their own and under a cookie that the
head carries: they can never meet another receive (field cases M08, M16).
The receiver learns the size when it has matched the head; no size is guessed.
If it has no memory for the head or for a part, it takes what was announced and throws it away: its
own call raises MemoryError, and the sender's request completes.  So does the request of a sender
whose receiver has dropped or freed the request (`refused`).  All that a sender needs for the parts
is taken before the head leaves, so the parts follow it.

A message of a buffer that a receive of an object meets may hold a pickle that the user made; so
it is taken for one if it looks so, and is an error if that fails.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint64_t

from pyrdv.api cimport objects
from pyrdv.api.core cimport CONTEXT_PARTS, MET_BUFFER, PROC_NULL_, CommBase
from pyrdv.api.object_parts cimport number
from pyrdv.api.refused cimport drop_parts, refuse_message, usable
from pyrdv.api.request cimport Request
from pyrdv.engine.calls cimport (
    engine_cancel, engine_recv_matched, engine_recv_promised, engine_release, engine_under_way)
from pyrdv.engine.state cimport (
    OP_CANCELLED, OP_COMPLETE, OP_INVALID, OP_NO_MEMORY, message_t, op_t)
from pyrdv.engine.wire cimport CONTENT_OBJECT
from pyrdv.progress.waiting cimport wait

from weakref import ref


cdef enum:
    STAGE_MATCH = 0             # waiting for a message
    STAGE_HEAD = 1              # its head is being received
    STAGE_PARTS = 2             # its parts are
    STAGE_DONE = 3


@cython.no_gc_clear
cdef class ObjectSend(Request):
    """A head and its parts on their way; complete when all are."""

    cdef bint poll(self) except -1:
        cdef Request part
        if not Request.poll(self):
            return False
        self.give_up()
        for part in self.others:
            if not part.poll():
                return False
            self.learn(part)
        return True

    cdef int give_up(self) except -1:
        """Who could not take the head never asks for the parts: the engine keeps their memory."""
        if self.error and self.error != OP_CANCELLED:
            self.others = []
        return 0

    cdef int learn(self, Request part) except -1:
        """The first part that failed says what happened."""
        if part.error and not self.error:
            self.error = part.error
            self.source = part.source
            self.total = part.total
            self.room = part.room
        return 0

    cdef int block(self) except -1:
        cdef Request part
        Request.block(self)
        self.give_up()
        for part in self.others:
            part.block()
            self.learn(part)
        return 0

    def Cancel(self):
        """Take back a send that did not leave: its parts stand behind it, so none has left."""
        cdef Request part
        if self.op != NULL and not self.comm.engine.closed \
                and engine_cancel(self.comm.engine.c, self.op):
            for part in self.others:
                part.Cancel()

    cancel = Cancel

    def Free(self):
        """Forget the request; the object goes on, its memory stays alive."""
        self.others = []
        Request.Free(self)


@cython.no_gc_clear
cdef class ObjectRecv(Request):
    """A receive of unknown size: match, then head, then parts, then the object."""

    def __dealloc__(self):
        # Nobody can get the object any more: withdraw the receive, or take
        # the message and throw it away, for its sender may be waiting.
        cdef message_t *m
        if self.comm is not None:
            self.comm.engine.pending.pop(<size_t> <void *> self, None)
        if self.stage != STAGE_MATCH or self.op == NULL \
                or self.op.generation != self.generation or not usable(self.comm.engine):
            return
        engine_cancel(self.comm.engine.c, self.op)
        if self.op.state == OP_COMPLETE and self.op.error == 0:
            m = self.op.message
            engine_release(self.comm.engine.c, self.op)
            self.op = NULL
            refuse_message(self.comm, m)

    cdef int register(self) except -1:
        if self.stage != STAGE_DONE or self.left:
            self.comm.engine.pending[<size_t> <void *> self] = ref(self)
        return 0

    def help(self):
        """Take the steps that are possible; what fails is raised to the owner later."""
        if self.busy:
            return
        if self.op != NULL and engine_under_way(self.comm.engine.c, self.op, self.generation):
            return
        self.busy = True        # a step of its own looks after all that wait
        try:
            self.advance()
        except Exception as error:
            self.failed = error
            self.let_go()
        finally:
            self.busy = False

    cdef int take(self, message_t *m) except -1:
        """Receive the head of matched message `m`."""
        cdef op_t *op = NULL
        cdef uint64_t wanted = m.length
        self.active = not self.forgotten
        self.source = self.comm.from_world(m.peer)
        self.tag = m.tag
        try:
            head = PyBytes_FromStringAndSize(NULL, wanted)
        except MemoryError:
            head = None
        if head is None or engine_recv_matched(self.comm.engine.c, m, PyBytes_AS_STRING(head),
                                               m.length, NULL, &op):
            refuse_message(self.comm, m)
            return self.no_room(wanted)
        self.head = head
        self.stage = STAGE_HEAD
        self.start(self.comm, op, head, True)
        self.active = not self.forgotten
        if engine_under_way(self.comm.engine.c, op, self.generation):
            self.hold()
        return 0

    cdef int no_room(self, uint64_t wanted) except -1:
        """The message is taken and thrown away; `report` will raise MemoryError."""
        self.error = OP_NO_MEMORY
        self.room = wanted
        self.head = self.buffers = self.parts = None
        self.stage = STAGE_DONE
        return 0

    cdef int take_message(self, message_t *m) except -1:
        self.take(m)
        return 0 if self.stage == STAGE_DONE else self.hold()

    def Free(self):
        """Forget the request; its message is taken when it comes, and thrown away."""
        if self.active and self.stage != STAGE_DONE:
            self.forgotten = True
            self.comm.engine.forsaken.add(self)
            self.register()
        self.retire()

    cdef int let_go(self) except -1:
        self.stage = STAGE_DONE
        if self.left and usable(self.comm.engine):
            self.left = drop_parts(self.comm, self.comm.members.to_world(self.source),
                                   self.cookie, self.left)
            if self.left:
                return self.hold()
        self.comm.engine.pending.pop(<size_t> <void *> self, None)
        self.comm.engine.matched.discard(self)
        self.comm.engine.forsaken.discard(self)
        return 0

    cdef int hold(self) except -1:
        """Matched: it goes on to its end even if its owner drops it, for the sender waits."""
        self.comm.engine.matched.add(self)
        return self.register()

    cdef int open_head(self) except -1:
        """The head is here: start on its parts, or make the object."""
        cdef bytes head = self.head
        if self.error or self.foreign or not objects.framed(PyBytes_AS_STRING(head), len(head)):
            self.stage = STAGE_DONE
            return 0
        self.posted = 0
        try:
            self.take_parts(head)
        except MemoryError:
            self.refuse_parts(head)
        except BaseException:
            self.let_go()
            raise
        return 0

    cdef int take_parts(self, bytes head) except -1:
        self.stage = STAGE_PARTS
        self.hold()
        pickled, cookie, sizes, self.kinds = objects.parse_head(head)
        self.head = pickled
        self.buffers = []
        self.parts = []
        for size, kind in zip(sizes, self.kinds, strict=True):
            self.add_part(size, kind, cookie)
        return 0

    cdef int add_part(self, uint64_t size, int kind, uint64_t cookie) except -1:
        cdef char *address = NULL
        cdef op_t *op = NULL
        cdef Request part = Request.__new__(Request)
        room = objects.allocate(size, kind, &address)
        if self.post_part(address, size, cookie, &op):
            raise self.comm.failure(OP_NO_MEMORY, self.source, self.tag, size, size)
        part.start(self.comm, op, room, True)
        self.buffers.append(room)
        self.parts.append(part)
        return 0

    cdef int post_part(self, char *address, uint64_t size, uint64_t cookie,
                       op_t **op) except -1:
        # The sender announced its parts right behind the head.
        cdef int error = engine_recv_promised(
            self.comm.engine.c, self.comm.members.to_world(self.source),
            self.comm.context + CONTEXT_PARTS, <int32_t> (cookie & 0x7FFFFFFF), address, size, NULL,
            op)
        if error == 0:
            self.posted += 1
        return error != 0

    cdef int refuse_parts(self, bytes head) except -1:
        """No memory for all parts: throw away those that come; those posted land, and nobody looks.

        It reads the head anew, without any object, for there may be no memory for one."""
        cdef const unsigned char *base = <const unsigned char *> PyBytes_AS_STRING(head)
        cdef uint64_t count, i, wanted = 0
        if len(head) < objects.HEAD_BYTES:
            return self.no_room(0)
        count = min(<uint64_t> number(base + objects.HEAD_COUNT, 8),
                    <uint64_t> (len(head) - objects.HEAD_BYTES) // objects.PART_ENTRY_BYTES)
        for i in range(count):
            wanted += number(base + objects.HEAD_BYTES + i * objects.PART_ENTRY_BYTES, 8)
        self.cookie = number(base + objects.HEAD_COOKIE, 8)
        self.left = count - min(self.posted, count)
        return self.no_room(wanted)

    cdef bint advance(self) except -1:
        cdef Request part
        # A match takes the request to STAGE_HEAD (settle); still here: it failed.
        if self.stage == STAGE_MATCH and Request.poll(self) and self.stage == STAGE_MATCH:
            self.stage = STAGE_DONE
        if self.stage == STAGE_HEAD and Request.poll(self):
            self.open_head()
        if self.stage == STAGE_PARTS:
            for part in self.parts:
                if not part.poll():
                    return False
                # A short part would show what the memory held before (R8).
                self.error = self.error or part.error or (
                    OP_INVALID if part.total != part.room else 0)
            self.stage = STAGE_DONE
        if self.stage != STAGE_DONE:
            return False
        if self.comm is not None:       # MESSAGE_NO_PROC belongs to no communicator
            self.let_go()
        return True

    cdef int settle(self) except -1:
        """A matched probe hands its message on; everything else is as usual."""
        cdef message_t *m = NULL
        cdef bint foreign = False
        if self.op != NULL and self.op.generation == self.generation and self.op.error == 0:
            if self.stage == STAGE_MATCH:
                m = self.op.message
            else:
                foreign = self.op.content != CONTENT_OBJECT and self.op.total
        Request.settle(self)
        if foreign and objects.plausible(self.head):
            self.foreign = True
        elif foreign:
            self.error = MET_BUFFER
        if m != NULL:
            self.take(m)
        return 0

    cdef bint poll(self) except -1:
        return self.forgotten or self.advance()

    cdef int block(self) except -1:
        cdef Request part
        while not self.poll():
            if self.op != NULL:
                wait(self.comm.engine, self.op, self.generation)
            elif self.stage == STAGE_PARTS:
                for part in self.parts:
                    part.block()
        return 0

    cdef object result(self):
        head, buffers = self.head, self.buffers
        self.head = self.buffers = self.parts = None
        if self.failed is not None:
            raise self.failed
        # An empty message is no pickle; like mpi4py, say None.
        if head is None or self.error or len(head) == 0:
            return None
        if not self.foreign:
            return objects.loads(head, buffers or [])
        try:
            return objects.loads(head, [])
        except Exception as error:
            raise self.comm.failure(MET_BUFFER, self.source, self.tag, self.total,
                                    self.room) from error

    cdef tuple pieces(self):
        head, buffers = self.head, self.buffers
        self.head = self.buffers = self.parts = None
        if self.failed is not None:
            raise self.failed
        # With parts, `head` is the part behind their table: the whole is what it shows.
        return (head, []) if buffers is None else (head.obj, buffers)


cdef ObjectRecv receive_object(CommBase comm, op_t *op):
    cdef ObjectRecv request = ObjectRecv.__new__(ObjectRecv)
    request.wanted = CONTENT_OBJECT
    request.start(comm, op, None, True)
    if op == NULL:
        request.source = PROC_NULL_
        request.stage = STAGE_DONE
    return request


cdef ObjectRecv receive_head(CommBase comm, message_t *m):
    cdef ObjectRecv request = ObjectRecv.__new__(ObjectRecv)
    request.wanted = CONTENT_OBJECT
    request.comm = comm
    request.receives = True
    request.take_message(m)
    return request
