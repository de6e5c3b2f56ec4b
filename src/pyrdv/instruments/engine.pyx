# cython: language_level=3
"""Drives an engine from Python, one call at a time, for explorers and tests.

Unlike a request it tells the state of an operation without making progress.
"""
cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint64_t
from posix.unistd cimport usleep

from pyrdv.engine.calls cimport (
    SEND_WAITS, engine_cancel, engine_forsake, engine_lock, engine_lock_try, engine_probe,
    engine_recv, engine_recv_matched, engine_release, engine_send, engine_turn, engine_unlock,
    engine_wanted, envelope_t)
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.sleeping cimport step_alone
from pyrdv.engine.state cimport (
    ANY_PEER, ANY_TAG_, OP_CANCELLED, OP_COMPLETE, OP_RECV, OP_TRUNCATED, engine_t, message_t,
    op_t)
from pyrdv.engine.trace cimport TIME_READ, TIME_TOLD, trace_pair, trace_read
from pyrdv.instruments.fingerprint cimport engine_fingerprint
from pyrdv.memory.mappings cimport owner_t

from pyrdv.engine.choice import rule
from pyrdv.engine.protocols.table import names

ANY = -1
CANCELLED = OP_CANCELLED
TRUNCATED = OP_TRUNCATED

cdef enum:
    CONTEXT = 1 << 20           # beside those of all communicators


@cython.no_gc_clear
cdef class Operation:
    """A send or receive under way; holds its buffer.

    Attributes
    ----------
    result : tuple or None
        Once complete: (error, source, tag, bytes of the message).
    """

    cdef Engine engine
    cdef op_t *op
    cdef Py_buffer view
    cdef bint held
    cdef readonly tuple result

    cdef int hold(self, Engine engine, buffer, bint writable) except -1:
        PyObject_GetBuffer(buffer, &self.view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.held = True
        self.engine = engine
        return 0

    def ended(self):
        """Whether it is complete; makes no progress."""
        cdef op_t *op = self.op
        if op != NULL and op.state == OP_COMPLETE:
            self.result = (op.error, <int32_t> op.source, op.source_tag, op.total)
        return self.result is not None

    @property
    def choice(self):
        """What moves its data, and why; None: it was released.

        Returns
        -------
        tuple of str, str, float, float
            Protocol and reason, by the names of `table` and `rule`; the seconds that the choice
            reckoned with, and those of what it was compared with (0: nothing was compared).
        """
        if self.op == NULL:
            return None
        return (names().get(self.op.protocol), rule.REASONS[self.op.reason], self.op.cost,
                self.op.instead)

    def wanted(self):
        """Whoever has it waits until it is complete."""
        if self.op != NULL:
            engine_wanted(self.engine.c, self.op, self.op.generation)

    def release(self):
        """Give a complete one back to the engine."""
        if self.op != NULL and self.ended():
            engine_release(self.engine.c, self.op)
            self.op = NULL

    def cancel(self):
        """Take it back, if it is not matched or announced."""
        if self.op != NULL:
            engine_cancel(self.engine.c, self.op)

    def forsake(self):
        """Nobody wants its data: whether its buffer is not touched any more."""
        return self.op != NULL and engine_forsake(self.engine.c, self.op)

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef class Taken:
    """A message that a matched probe took; whoever has it must receive it."""

    cdef message_t *m


cdef class Driver:
    """The calls of one engine.

    Parameters
    ----------
    engine : Engine
    """

    cdef readonly Engine engine

    def __cinit__(self, Engine engine not None):
        self.engine = engine

    cdef owner_t *owner_of(self, Operation one, object buffer, bint owned) except? NULL:
        if not owned:
            return NULL
        return self.engine.registrations.owner(buffer, one.view.buf, <uint64_t> one.view.len)

    def send(self, peer, tag, buffer, bint sync=False, bint waits=False, bint owned=False):
        """Start a send; an `Operation`.

        `waits`: as if by a call that returns only when it is complete; `owned`: `buffer` owns its
        memory, which may stay registered.
        """
        cdef Operation one = Operation()
        cdef int status
        one.hold(self.engine, buffer, False)
        status = engine_send(self.engine.c, peer, CONTEXT, tag, one.view.buf,
                             <uint64_t> one.view.len, sync | SEND_WAITS * waits,
                             self.owner_of(one, buffer, owned), &one.op)
        if status == 0:
            one.op = NULL
            one.result = (0, self.engine.rank, tag, one.view.len)
        elif status < 0:
            raise ValueError(f"a send to {peer} was refused with operation error {-status}")
        return one

    def receive(self, peer, tag, buffer, bint waits=False, bint owned=False):
        """Post a receive; `peer` and `tag` may be `ANY`.  An `Operation`."""
        cdef Operation one = Operation()
        cdef int status
        one.hold(self.engine, buffer, True)
        status = engine_recv(self.engine.c, OP_RECV, ANY_PEER if peer == ANY else peer, CONTEXT,
                             ANY_TAG_ if tag == ANY else tag, one.view.buf,
                             <uint64_t> one.view.len, waits, self.owner_of(one, buffer, owned),
                             &one.op)
        if status < 0:
            raise ValueError(f"a receive was refused with operation error {-status}")
        return one

    def look(self, peer, tag, buffer=None):
        """Probe for a message; with a `buffer`, receive it as well.

        Returns
        -------
        tuple or Operation or None
            (source, tag, bytes), the receive, or None if nothing is there.
        """
        cdef envelope_t envelope
        cdef message_t *m = NULL
        cdef Operation one
        if not engine_probe(self.engine.c, ANY_PEER if peer == ANY else peer, CONTEXT,
                            ANY_TAG_ if tag == ANY else tag, &envelope,
                            NULL if buffer is None else &m):
            return None
        if buffer is None:
            return envelope.source, envelope.tag, envelope.length
        one = Operation()
        one.hold(self.engine, buffer, True)
        if engine_recv_matched(self.engine.c, m, one.view.buf, <uint64_t> one.view.len, NULL,
                               &one.op):
            raise MemoryError
        return one

    def take(self, peer, tag):
        """Take a message out of the queue by a matched probe; a `Taken`, or None."""
        cdef envelope_t envelope
        cdef Taken taken = Taken()
        if not engine_probe(self.engine.c, ANY_PEER if peer == ANY else peer, CONTEXT,
                            ANY_TAG_ if tag == ANY else tag, &envelope, &taken.m):
            return None
        return taken

    def receive_taken(self, Taken taken not None, buffer):
        """Receive a message that was taken, once; an `Operation`."""
        cdef Operation one = Operation()
        one.hold(self.engine, buffer, True)
        if engine_recv_matched(self.engine.c, taken.m, one.view.buf, <uint64_t> one.view.len,
                               NULL, &one.op):
            raise MemoryError
        return one

    @property
    def unattended(self):
        """Whether calls take all that steps by themselves will need for what they post."""
        return self.engine.c.unattended

    @unattended.setter
    def unattended(self, bint value):
        self.engine.c.unattended = value

    def step(self):
        """One step by itself, as a signal makes it; returns how many things happened.

        Returns
        -------
        int
            -1: a call holds the lock.
        """
        cdef engine_t *e = self.engine.c
        cdef int happened = -1
        if engine_lock_try(&e.lock):
            happened = step_alone(e)
            engine_unlock(&e.lock)
        return happened

    @property
    def moving(self):
        """READs and WRITEs under way, as the engine counts them."""
        return self.engine.c.moving

    def turn(self):
        """One turn of progress; returns how many things happened."""
        return engine_turn(self.engine.c)

    def hold(self, unsigned int us):
        """Keep the engine's lock for so many microseconds, without the GIL, as a long call does."""
        with nogil:
            engine_lock(&self.engine.c.lock)
            usleep(us)
            engine_unlock(&self.engine.c.lock)

    def distrust_counter(self):
        """Take the system's clock for all events to come, as if the counter were none."""
        cdef engine_t *e = self.engine.c
        e.trace.counter = TIME_READ
        trace_pair(e, &e.trace.ring.first_ns, &e.trace.ring.first_ticks)
        e.trace.ring.ns = e.trace.ring.first_ns
        e.trace.ring.ticks = e.trace.ring.first_ticks
        trace_read(e)

    def tell_time(self, uint64_t ns):
        """From now on only what is told here is the time, and a microsecond for each look at it."""
        self.engine.c.trace.counter = TIME_TOLD
        self.engine.c.trace.told = ns

    def fingerprint(self):
        """A digest of the engine's state."""
        return engine_fingerprint(self.engine.c)
