"""Further connections among the same ranks with other settings (`World.beside`)."""

import numpy as np

from pyrdv import MPI, world
from pyrdv.errors import ConfigError
from tests.support.cases import run

LARGE = 300_000
SETTINGS = ({"speculation": "off", "initial_turn": False}, {"speculation": "indexed"})


def ring(comm, mark):
    """Everybody sends to the right, and receives what the left one sent."""
    size, rank = comm.Get_size(), comm.Get_rank()
    room = np.zeros(LARGE, np.uint8)
    request = comm.Irecv(room, (rank - 1) % size, 3)
    comm.Barrier()
    comm.Send(np.full(LARGE, mark + rank, np.uint8), (rank + 1) % size, 3)
    request.Wait()
    assert (room == mark + (rank - 1) % size).all()


def case_in_turns(comm):
    """Each has messages and counters of its own, and COMM_WORLD's go on."""
    this = world.init()
    sides = [this.beside(**settings) for settings in SETTINGS]
    before = MPI.counters()
    for turn in range(3):
        for number, side in enumerate(sides):
            ring(side, 50 * turn + 10 * number)
    off, indexed = (side.engine.counters() for side in sides)
    assert off["rtrs_sent"] == 0 and indexed["rtrs_sent"] == 3
    assert off["sends_rendezvous"] == indexed["sends_rendezvous"] == 3
    assert MPI.counters()["sends_rendezvous"] == before["sends_rendezvous"]
    ring(comm, 100)
    for side in sides:
        assert not side.engine.closed
        this.leave(side)
        assert side.engine.closed
    ring(comm, 200)


def case_settings_must_agree(comm):
    """As when a job starts: all ranks are told, and the world goes on."""
    this = world.init()
    try:
        this.beside(speculation="off" if comm.rank else "indexed")
    except ConfigError as error:
        assert "PYRDV_SPECULATION" in str(error)
    else:
        raise AssertionError("ranks with different settings were let through")
    ring(comm, 1)


run(globals())

# One that nobody leaves ends with the world.
world.init().beside(speculation="off").Barrier()
