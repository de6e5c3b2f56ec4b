"""What nobody holds any more goes in any order, when it stands in a cycle (R3)."""

import gc

import numpy as np
import pytest

from pyrdv.api.communicator import Comm
from pyrdv.engine.engine import Engine


def probed(comm):
    """A message that a matched probe took."""
    comm.isend("object", dest=0, tag=4)
    return comm.improbe(source=0, tag=4)


KINDS = {
    "receive": lambda comm: comm.Irecv(np.zeros(10), source=0, tag=5),
    "send": lambda comm: comm.Issend(np.zeros(100_000), dest=0, tag=6),
    "object received": lambda comm: comm.irecv(source=0, tag=7),
    "object sent": lambda comm: comm.issend({"n": np.zeros(100_000)}, dest=0, tag=8),
    "message": probed,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_and_its_engine_in_one_cycle(kind):
    """The collector meets the engine first, then the request, which gives back its operation."""
    gc.collect()
    gc.disable()
    try:
        comm = Comm.of(Engine(0, 1, []))
        cycle = [KINDS[kind](comm)]
        assert cycle[0] is not None
        cycle.append(cycle)
        del comm, cycle
        assert gc.collect() > 0
    finally:
        gc.enable()
