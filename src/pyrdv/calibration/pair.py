"""One of two ranks that measure over a bare fabric, which nothing else uses meanwhile."""

import mmap
import struct

from pyrdv.calibration.meter import Meter
from pyrdv.calibration.region import LOCAL, REMOTE_READ, REMOTE_WRITE, region_of


class Pair:
    """One of the two, its fabric, and the loops on it.

    Parameters
    ----------
    fabric : Fabric
    peer : int
        Rank of the other one in the fabric.
    active : bool
        Whether this rank asks and decides; the other one's is the opposite.
    timeout : float
        Seconds without any event after which the other one is given up.

    Attributes
    ----------
    fabric : Fabric
    meter : Meter
        To be joined before all else.
    """

    def __init__(self, fabric, peer, active, timeout=30.0):
        self.fabric = fabric
        self.meter = Meter(fabric, peer, active, timeout)

    def agree(self, value):
        """The active rank's number; both give theirs, and neither returns before the other came."""
        own, = struct.unpack("<Q", struct.pack("<d", value))
        theirs, _ = self.meter.swap(own)
        return value if self.meter.active else struct.unpack("<d", struct.pack("<Q", theirs))[0]

    def window(self, nbytes):
        """Memory of `nbytes` whose pages exist, registered on both sides.

        Returns
        -------
        memory : mmap.mmap
        region : Region
            To be given back with ``deregister``.
        remote : tuple of int
            Address and key of that of the other rank.
        """
        memory = touched(nbytes)
        region = region_of(self.fabric, memory, LOCAL | REMOTE_READ | REMOTE_WRITE)
        return memory, region, self.meter.swap(region.address, region.key)


def touched(nbytes):
    """A private anonymous mapping of `nbytes` whose pages were written once."""
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, nbytes, mmap.PAGESIZE):
        memory[at] = 1
    return memory
