# cython: language_level=3, nonecheck=True
"""Probes, and buffered sends."""
from libc.stdint cimport uint8_t, uint32_t

from pyrdv.api.core cimport ANY_SOURCE_, ANY_TAG_NUMBER, PROC_NULL_
from pyrdv.api.buffers cimport acquire, span
from pyrdv.api.p2p cimport BufferMessages
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport engine_deaths, engine_peer_died, engine_probe, envelope_t
from pyrdv.engine.state cimport (
    ANY_PEER, OP_FINALIZED, OP_PEER_LOST, PEER_CLOSED, PEER_LOST, message_t)
from pyrdv.progress.polling cimport (
    alone, help_pending, patience_looks, patience_reset, patience_t, wait_turn)

from pyrdv.api import buffered
from pyrdv.errors import from_status


cdef extern from "order.h" nogil:
    uint8_t glance8(const uint8_t *where)
    uint32_t glance32(const uint32_t *where)


cdef class ProbedMessages(BufferMessages):
    """Looking for messages without receiving them."""

    cdef bint no_process(self, long long source, long long tag, Status status) except -1:
        """Check the arguments; whether `source` is PROC_NULL, with `status` filled."""
        self.check_receive(source, tag)
        if source != PROC_NULL_:
            return False
        if status is not None:
            status.set(PROC_NULL_, ANY_TAG_NUMBER, 0, 0)
        return True

    cdef int wait_for(self, long long source, long long tag, Status status,
                      message_t **taken) except -1:
        cdef patience_t patience
        patience_reset(&patience)
        while True:
            patience_looks(self.engine.c, &patience)
            if self.look(source, tag, status, taken):
                return 0
            self.expect(source)
            wait_turn(self.engine, &patience)

    cdef int expect(self, long long source) except -1:
        """Raise if nothing can come from `source` any more."""
        cdef uint8_t state
        if self.engine.ending:
            raise from_status(OP_FINALIZED, what="a probe")
        if source >= 0:
            state = glance8(&self.engine.c.peers[self.members.to_world(<int> source)].state)
            if state == PEER_CLOSED or state == PEER_LOST:
                raise self.failure(OP_PEER_LOST, <int> source, 0, 0, 0)
        elif self.members.size > 1 and alone(self.engine, self.context):
            raise self.failure(OP_PEER_LOST, -1, 0, 0, 0)
        return 0

    cdef bint glance(self, long long source, long long tag, Status status,
                     message_t **taken) except -1:
        """Look without waiting: a loop of such looks must not go on after a death for ever."""
        if self.look(source, tag, status, taken):
            return True
        if engine_deaths(self.engine.c) and (source < 0 or engine_peer_died(
                self.engine.c, self.members.to_world(<int> source))):
            self.expect(source)
        return False

    def Iprobe(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
               Status status=None):
        """Whether a message has arrived; makes progress, does not wait.

        Its size in `status` is final.  Arguments are those of `Irecv`.
        """
        if self.no_process(source, tag, status):
            return True
        return self.glance(source, tag, status, NULL)

    def Probe(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
              Status status=None):
        """Wait until a message has arrived; returns True."""
        if not self.no_process(source, tag, status):
            self.wait_for(source, tag, status, NULL)
        return True

    def Improbe(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
                Status status=None):
        """Take a message out of the queue if one has arrived; a `Message`, or None."""
        cdef message_t *m = NULL
        if self.no_process(source, tag, status):
            return self.matched(NULL)
        return self.matched(m) if self.glance(source, tag, status, &m) else None

    def Mprobe(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
               Status status=None):
        """Wait for a message and take it out of the queue; returns a `Message`.

        Only the holder of the `Message` can receive it, so threads do not
        take each other's messages.
        """
        cdef message_t *m = NULL
        if self.no_process(source, tag, status):
            return self.matched(NULL)
        self.wait_for(source, tag, status, &m)
        return self.matched(m)

    def take(self, long long source, long long tag):
        """As `Improbe`, but no error where nobody is left, or something is lacking: for messages of
        the package's own."""
        cdef message_t *m = NULL
        cdef envelope_t envelope
        if engine_probe(self.engine.c,
                        ANY_PEER if source < 0 else self.members.to_world(<int> source),
                        self.context, <int> tag, &envelope, &m):
            return self.matched(m)
        help_pending(self.engine, False)
        return None

    # Lower-case names look for objects in the same queues.
    iprobe = Iprobe
    probe = Probe
    improbe = Improbe
    mprobe = Mprobe

    # --- buffered sends

    def Ibsend(self, buf, long long dest, long long tag=0):
        """Start a send from a copy of `buf`, which may be changed at once.

        The copy counts against the buffer that is attached to this communicator, or else against
        the process's (`MPI.Attach_buffer`), if there is one.

        Raises
        ------
        InvalidBufferError
            The attached buffer has no room for it.
        """
        return self.post_buffered(buf, dest, tag, 0)

    cdef Request post_buffered(self, object buf, long long dest, long long tag, int how):
        cdef span at
        cdef Request done
        self.check_send(dest, tag)
        acquire(buf, False, &at)
        if dest == PROC_NULL_:
            return self.post_send(None, dest, tag, 0)
        pool = buffered.pool_for(self)
        pool.reserve(at.nbytes)
        cdef Request request = self.post_send((<char *> at.address)[:at.nbytes], dest, tag, how)
        pool.note(request, at.nbytes)
        done = Request.__new__(Request)
        done.start(self, NULL, None, False)
        return done

    def Bsend(self, buf, long long dest, long long tag=0):
        """Send a copy of `buf`; returns at once."""
        self.Ibsend(buf, dest, tag)

    def Attach_buffer(self, buf):
        """Bound buffered sends of this communicator by the size of `buf`.

        Parameters
        ----------
        buf : buffer, BUFFER_AUTOMATIC or None
            Without a size (the last two) there is no bound.

        Raises
        ------
        InvalidBufferError
            Another one is attached.
        """
        self.ready()
        buffered.pool_of(self.identity).attach(buf)

    def Detach_buffer(self):
        """Wait for buffered sends; returns what was attached."""
        self.Flush_buffer()
        return buffered.pool_of(self.identity).detach()

    def Flush_buffer(self):
        """Wait for the buffered sends of this communicator."""
        self.ready()
        buffered.pool_of(self.identity).flush()
