"""Two ranks open many connections at once: PAIRS fresh pairs of ends, one end per process.

The job's own world only tells the addresses and the moments.
"""

import os
import sys
import time

import numpy as np

from pyrdv import MPI
from pyrdv.api.communicator import Comm
from pyrdv.engine.engine import Engine
from pyrdv.fabrics.verbs.fabric import VerbsFabric

world = MPI.COMM_WORLD
rank, other = world.rank, 1 - world.rank
device, _, port = os.environ["PYRDV_RDMA_DEVICE"].partition(":")
for number in range(int(sys.argv[1])):
    fabric = VerbsFabric(rank, 2, b"pair %d" % number, device=device, port=int(port or 1))
    theirs = world.sendrecv(fabric.address, other, 1, None, other, 1)
    fabric.set_peers([theirs if peer == other else None for peer in range(2)])
    engine = Engine(rank, 2, [fabric])
    comm = Comm.of(engine)
    # Both go off at a moment of the common clock; then one is a little late, then the other.
    moment = world.bcast(time.time() + 0.01, 0)
    moment += (number % 7 - 3) * 0.0003 * rank
    while time.time() < moment:
        pass
    room = np.empty(10, int)
    requests = [comm.Isend(np.full(10, rank * 1000 + number), other, 2),
                comm.Irecv(room, other, 2)]
    MPI.Request.Waitall(requests)
    assert (room == other * 1000 + number).all()
    assert fabric.counters["links"] == 1, fabric.counters
    world.Barrier()
    while not engine.finish():
        engine.turn()
    engine.disconnect()
    engine.close()
print(f"{sys.argv[1]} pairs met")
