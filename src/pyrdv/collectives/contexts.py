"""Agreement on the number of a new communicator.

All members take the lowest number that is free on each of them.  A second
round confirms it: if another thread took the number in between, on any
member, all members try again.  Numbers of freed communicators are used again.
"""

from weakref import WeakKeyDictionary

import numpy as np

from pyrdv.api.ops import BAND, LAND
from pyrdv.collectives import simple
from pyrdv.errors import CommunicatorError

#: Communicators that may exist at one time in one process.
LIMIT = 65536
#: Numbers of COMM_WORLD and COMM_SELF.
RESERVED = 2

_masks = WeakKeyDictionary()


def _free_numbers(engine):
    """One bit per number, set while it is free in this process."""
    mask = _masks.get(engine)
    if mask is None:
        mask = np.full(LIMIT // 8, 0xFF, np.uint8)
        mask[0] ^= (1 << RESERVED) - 1
        _masks[engine] = mask
    return mask


def _claim(mask, number):
    """Take `number` unless another thread has it; one bytecode step at a time under the GIL."""
    bit = 1 << (number & 7)
    if not mask[number >> 3] & bit:
        return False
    mask[number >> 3] ^= bit
    return True


def agree(comm):
    """Choose a number for a new communicator; all members of `comm` call it.

    Returns
    -------
    int

    Raises
    ------
    CommunicatorError
        On all members, if no number is free on all of them.
    """
    mask = _free_numbers(comm.engine)
    common = np.empty_like(mask)
    while True:
        simple.allreduce_buffer(comm, mask, common, BAND)
        free = np.flatnonzero(common)
        if not len(free):
            raise CommunicatorError(
                f"no communicator number is left: {LIMIT - RESERVED} communicators exist; "
                "Free() those that are not needed any more")
        byte = int(free[0])
        value = int(common[byte])
        number = 8 * byte + (value & -value).bit_length() - 1
        mine = _claim(mask, number)
        if simple.allreduce_object(comm, mine, LAND):
            return number
        if mine:
            release(comm.engine, number)


def release(engine, number):
    """Give a number back in this process."""
    _free_numbers(engine)[number >> 3] |= 1 << (number & 7)
