"""Receives of the engine under test, watched for what a broken peer may do to them."""

import numpy as np

from pyrdv.errors import Error, PeerLostError, TruncationError

GUARD = 64


class Receive:
    """A receive of rank 0 from rank 1, its place in the FIFO of its tag, and its guards."""

    def __init__(self, comm, tag, size, place):
        self.size, self.tag, self.place = size, tag, place
        self.room = np.full(size + 2 * GUARD, 0x42, np.uint8)
        self.request = comm.Irecv(self.room[GUARD:GUARD + size], source=1, tag=tag)
        self.error = None

    def ended(self):
        try:
            return self.request.Test()
        except Error as error:
            self.error = error
            return True

    def check(self, expected):
        """`expected`: bytes of the message, None if it never came, ... if nobody knows."""
        assert (self.room[:GUARD] == 0x42).all() and (self.room[GUARD + self.size:] == 0x42).all()
        if isinstance(self.error, PeerLostError) or "could not be read" in str(self.error):
            return  # the data of a message that must be read can be lost with its sender
        assert expected is not None, f"a receive without a message ended with {self.error}"
        if expected is ...:
            return
        assert isinstance(self.error, TruncationError) == (len(expected) > self.size), self.error
        fits = min(self.size, len(expected))
        assert self.room[GUARD:GUARD + fits].tobytes() == expected[:fits]
