"""Agreement on the number of a new communicator.

What must hold:

1. All members take the lowest number that is free on each of them.  A second round confirms it:
   if another thread took the number in between, on any member, all members try again.
2. Disjoint communicators may have one number: no process is in two of them.
3. A number is free again only where nothing is left that could match: `Free` brings every message
   in before it looks (see `leave`), and what is left then keeps the number from being used again
   until it is gone.  A receive of the old communicator cannot meet a message of a new one.
"""

from weakref import WeakKeyDictionary

import numpy as np

from pyrdv.api.core import contexts_of
from pyrdv.api.datatypes import PREDEFINED
from pyrdv.api.ops import BAND
from pyrdv.collectives import aftermath, kinds, led, simple
from pyrdv.collectives.calls import run
from pyrdv.errors import CommunicatorError

#: Communicators that may exist at one time in one process.
LIMIT = 65536
#: Numbers of COMM_WORLD and COMM_SELF.
RESERVED = 2

_TOKEN = b""
_BYTE = PREDEFINED["BYTE"]


class _Numbers:
    """Which numbers one process has free."""

    def __init__(self):
        # One bit per number, set while it is free.
        self.mask = np.full(LIMIT // 8, 0xFF, np.uint8)
        self.mask[0] ^= (1 << RESERVED) - 1
        # Freed, but something is left in them.
        self.waiting = []

    def claim(self, number):
        """Take `number` unless another thread has it; one bytecode step at a time under the GIL."""
        bit = 1 << (number & 7)
        if not self.mask[number >> 3] & bit:
            return False
        self.mask[number >> 3] ^= bit
        return True

    def free(self, number):
        self.mask[number >> 3] |= 1 << (number & 7)


_numbers = WeakKeyDictionary()


def _numbers_of(engine):
    """The numbers of this process; those that have come to rest are free again."""
    found = _numbers.get(engine)
    if found is None:
        found = _numbers.setdefault(engine, _Numbers())
    if found.waiting:
        waiting, found.waiting = found.waiting, []
        for number in waiting:
            release(engine, number)
    return found


def _lowest(common):
    """The lowest number whose bit is set in `common`."""
    free = np.flatnonzero(common)
    if not len(free):
        raise CommunicatorError(
            f"no communicator number is left: {LIMIT - RESERVED} communicators exist; "
            "Free() those that are not needed any more")
    byte = int(free[0])
    value = int(common[byte])
    return 8 * byte + (value & -value).bit_length() - 1


def agree(comm, check=None):
    """Choose a number for a new communicator; all members of `comm` call it.

    Parameters
    ----------
    comm : Comm
    check : callable, optional
        Raises if this member cannot go on: then no member does.

    Returns
    -------
    int

    Raises
    ------
    CommunicatorError
        On all members, if no number is free on all of them.
    """
    return run(_agree, comm, kinds.MAKE, check)


def _agree(call, check):
    if check is not None:
        check()

    def fold(mask):
        return np.frombuffer(simple.all_agree(call, mask, _BYTE, BAND), np.uint8)

    def all_of(mine):
        return simple.all_agree(call, bytes([mine]), _BYTE, BAND) == b"\1"

    return _settle(call.view.engine, fold, all_of)


def agree_among(view, tag):
    """The same for the members of `view` only, by messages under `tag`.

    `view` is of `Comm.gathering`.  Calls for overlapping groups at the same time need
    different tags, as in MPI.
    """
    def fold(mask):
        return np.frombuffer(led.fold(view, mask.tobytes(), tag, _and), np.uint8)

    def all_of(mine):
        return led.fold(view, bytes([mine]), tag, _and) == b"\1"

    return _settle(view.engine, fold, all_of)


def _settle(engine, fold, all_of):
    while True:
        numbers = _numbers_of(engine)
        number = _lowest(fold(numbers.mask))
        mine = numbers.claim(number)
        try:
            agreed = all_of(mine)
        except BaseException:
            if mine:
                numbers.free(number)
            raise
        if agreed:
            return number
        if mine:
            numbers.free(number)


def _and(values):
    return np.bitwise_and.reduce([np.frombuffer(value, np.uint8) for value in values]).tobytes()


def leave(comm):
    """Wait until all members are here, and what each of them sent in `comm` has arrived.

    Messages of one rank come in order, so a token from each member follows all it sent; and with
    it what calls that failed have left.
    """
    run(_leave, comm, kinds.FREE)


def _leave(call):
    others = [rank for rank in range(call.size) if rank != call.rank]
    state = aftermath.of(call.view)
    state.closing = True
    try:
        for rank in others:
            call.isend(_TOKEN, rank)
        for rank in others:
            call.collect(None, rank)
        call.finish()
        aftermath.sweep(call.view)
    finally:
        state.closing = False


def release(engine, number):
    """Give a number back in this process, once nothing is left that could match in it."""
    numbers = _numbers_of(engine) if engine not in _numbers else _numbers[engine]
    if engine.uses(*contexts_of(number)):
        numbers.waiting.append(number)
    else:
        numbers.free(number)
