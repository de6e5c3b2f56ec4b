"""Buffered sends: how much of an attached buffer they use.

The data itself is copied to memory of its own; the attached buffer only
bounds how much may be outstanding, as MPI has it.  Without an attached
buffer there is no bound.  A communicator may have a buffer of its own; the
others share that of the process.
"""

from weakref import WeakKeyDictionary

from pyrdv.api.buffers import span_of
from pyrdv.api.constants import BSEND_OVERHEAD
from pyrdv.api.raw import BUFFER_AUTOMATIC
from pyrdv.errors import InvalidBufferError


class Pool:
    """An attached buffer and the sends that use it.

    Attributes
    ----------
    attached : bool
        Whether there is a buffer; without one sends are only remembered.
    """

    def __init__(self):
        self.attached = False
        self._buffer = None
        self._room = None
        self._sends = []

    def attach(self, buffer):
        """Bound sends by the size of `buffer`, or not, if it is BUFFER_AUTOMATIC or None.

        Raises
        ------
        InvalidBufferError
            Another one is attached.
        """
        if self.attached:
            raise InvalidBufferError(
                f"{self._what()} is attached already; Detach_buffer() it first")
        if buffer is None or buffer is BUFFER_AUTOMATIC:
            self._room = None
        else:
            self._room = span_of(buffer, writable=True)[1]
        self._buffer = BUFFER_AUTOMATIC if buffer is None else buffer
        self.attached = True

    def detach(self):
        """Let go of the buffer and return it; None if there was none."""
        buffer, self._buffer, self._room, self.attached = self._buffer, None, None, False
        return buffer

    def requests(self):
        """The sends that are under way."""
        return [request for request, _ in self._sends]

    def flush(self):
        """Wait until no send is under way."""
        sends, self._sends = self._sends, []
        for request, _ in sends:
            request.Wait()

    def _what(self):
        return "a buffer" if self._room is None else f"a buffer of {self._room} bytes"

    def _used(self):
        self._sends = [(r, n) for r, n in self._sends if not r.is_complete()]
        return sum(n + BSEND_OVERHEAD for _, n in self._sends)

    def reserve(self, nbytes):
        """Check that `nbytes` more fit.

        Raises
        ------
        InvalidBufferError
        """
        used = self._used()
        if self._room is not None and used + nbytes + BSEND_OVERHEAD > self._room:
            raise InvalidBufferError(
                f"the attached buffer of {self._room} bytes has no room for {nbytes} bytes plus "
                f"BSEND_OVERHEAD ({BSEND_OVERHEAD}) beside {used} bytes in use; attach a larger "
                "one")

    def note(self, request, nbytes):
        """Keep `request` in the account until it is complete."""
        if not request.is_complete():
            self._sends.append((request, nbytes))


_pools = WeakKeyDictionary()


def pool_of(owner):
    """The pool of an engine (the process's), or of a communicator's identity."""
    found = _pools.get(owner)
    if found is None:
        found = _pools.setdefault(owner, Pool())
    return found


def pool_for(comm):
    """The pool that buffered sends of `comm` use."""
    own = pool_of(comm.identity)
    return own if own.attached else pool_of(comm.engine)
