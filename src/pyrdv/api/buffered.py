"""Buffered sends: how much of an attached buffer they use.

The data itself is copied to memory of its own; the attached buffer only
bounds how much may be outstanding, as MPI has it.  Without an attached
buffer there is no bound.
"""

from weakref import WeakKeyDictionary

from pyrdv.api.constants import BSEND_OVERHEAD
from pyrdv.errors import InvalidBufferError


class _Pool:
    """One engine's attached buffer and the sends that use it."""

    def __init__(self):
        self.buffer = None
        self.room = None
        self.sends = []

    def used(self):
        self.sends = [(r, n) for r, n in self.sends if not r.is_complete()]
        return sum(n + BSEND_OVERHEAD for _, n in self.sends)


_pools = WeakKeyDictionary()


def _pool(engine):
    return _pools.setdefault(engine, _Pool())


def attach(engine, buffer):
    """Bound buffered sends by the size of `buffer`.

    Raises
    ------
    InvalidBufferError
        Another one is attached.
    """
    pool = _pool(engine)
    if pool.room is not None:
        raise InvalidBufferError(
            f"a buffer of {pool.room} bytes is attached already; Detach_buffer() it first")
    pool.buffer = buffer
    pool.room = memoryview(buffer).nbytes


def detach(engine, wait):
    """Wait for all buffered sends with `wait(request)`; returns the attached buffer."""
    pool = _pool(engine)
    for request, _ in pool.sends:
        wait(request)
    pool.sends = []
    buffer, pool.buffer, pool.room = pool.buffer, None, None
    return buffer


def reserve(engine, nbytes):
    """Check that `nbytes` more fit.

    Raises
    ------
    InvalidBufferError
    """
    pool = _pool(engine)
    used = pool.used()
    if pool.room is not None and used + nbytes + BSEND_OVERHEAD > pool.room:
        raise InvalidBufferError(
            f"the attached buffer of {pool.room} bytes has no room for {nbytes} bytes plus "
            f"BSEND_OVERHEAD ({BSEND_OVERHEAD}) beside {used} bytes in use; attach a larger one")


def note(engine, request, nbytes):
    """Keep `request` in the account until it is complete."""
    if not request.is_complete():
        _pool(engine).sends.append((request, nbytes))
