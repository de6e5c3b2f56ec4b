"""A bare fabric between two ranks of a job, beside the job's own: for measurements without engine.

Both ranks call `open_pair` at the same point.  Either both get a pair, or both get an error.
"""

import os
import sys

from pyrdv import config
from pyrdv.calibration.pair import Pair as BarePair, touched
from pyrdv.fabrics import verbs
from pyrdv.fabrics.shm.fabric import ShmFabric

__all__ = ["KINDS", "Pair", "Unavailable", "open_pair", "pair_of", "touched"]

KINDS = ("shm", "verbs")


class Unavailable(Exception):
    """There can be no such fabric between the two; the text says why, on whose side."""


class Pair(BarePair):
    """One of the two ranks, its fabric, and the loops on it.

    Attributes
    ----------
    name : str
        What the fabric goes over: ``shm`` or ``verbs DEVICE``.
    meter : Meter
        Joined; rank 0 is the active one.
    """

    def __init__(self, comm, fabric, name):
        self.other = 1 - comm.Get_rank()
        super().__init__(fabric, self.other, comm.Get_rank() == 0)
        self.comm = comm
        self.name = name

    def exchange(self, thing):
        """What the other rank gave."""
        return self.comm.allgather(thing)[self.other]

    def close(self):
        """Part in good order; both ranks call it."""
        self.exchange(None)
        self.fabric.close()


def open_pair(comm, kind, settings=None):
    """Open a fabric between ranks 0 and 1 of `comm`, which has just these.

    Parameters
    ----------
    comm : Intracomm
    kind : {'shm', 'verbs'}
    settings : Config, optional
        Default: those of the environment.

    Returns
    -------
    Pair

    Raises
    ------
    Unavailable
        On both ranks, if either has no such fabric or they do not come together.
    """
    rank = comm.Get_rank()
    settings = settings or config.load(os.environ, warn=lambda text: None)
    token = comm.bcast(os.urandom(32), root=0)
    fabric, why = None, ""
    try:
        if kind == "verbs":
            fabric = verbs.make(rank, 2, token, settings)
        else:
            fabric = ShmFabric(rank, 2, token, settings.single_copy)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    reasons, addresses = zip(*comm.allgather((why, fabric.address if fabric else b"")), strict=True)
    _agree(fabric, reasons)
    fabric.set_peers(addresses)
    pair = Pair(comm, fabric, "shm" if kind == "shm" else f"verbs {fabric.device}")
    why = ""
    try:
        pair.meter.join()
    except OSError as error:
        why = str(error)
    _agree(fabric, comm.allgather(why))
    return pair


def pair_of(comm, kind, command):
    """`open_pair` for a command line: rank 0 prints why there is none, and both get None.

    Parameters
    ----------
    comm : Intracomm
    kind : {'auto', 'shm', 'verbs'}
        ``auto`` is what joins the two ranks in their job.
    command : str
        The command, for what is printed.
    """
    from pyrdv import MPI

    if comm.Get_size() != 2:
        told = f"this job has {comm.Get_size()} ranks but two measure; start it with 2"
    else:
        if kind == "auto":
            kind = comm.bcast(MPI.fabrics()[1 - comm.Get_rank()].partition(" ")[0], root=0)
        try:
            return open_pair(comm, kind)
        except Unavailable as error:
            told = f"no {kind} between two ranks: {error}"
    if comm.Get_rank() == 0:
        print(f"{command}: {told}", file=sys.stderr)
    return None


def _agree(fabric, reasons):
    """Raise on both ranks if either has a reason not to go on."""
    if not any(reasons):
        return
    if fabric is not None:
        fabric.close()
    if reasons[0] == reasons[1]:
        raise Unavailable(reasons[0])
    raise Unavailable("; ".join(f"rank {rank}: {why}" for rank, why in enumerate(reasons) if why))
