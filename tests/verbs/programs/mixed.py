"""Two ranks on each of two nodes: shared memory within, verbs between, in one job."""

import numpy as np

from pyrdv import MPI
from tests.support.cases import run


def verbs():
    """The verbs fabric of this rank."""
    fabric, = (one for one in MPI._world.engine.fabrics if type(one).__name__ == "VerbsFabric")
    return fabric


def case_who_is_where(comm):
    """Each peer is reached as it should."""
    near = comm.rank ^ 1
    device = f"verbs {verbs().device}"
    wanted = {rank: "self" if rank == comm.rank else "shm" if rank == near else device
              for rank in range(4)}
    assert MPI.fabrics() == wanted, MPI.fabrics()


def case_near_traffic_is_not_sent(comm):
    """What goes to the near rank makes no packet of verbs."""
    near = comm.rank ^ 1
    comm.Barrier()
    before = verbs().counters
    for size in (8, 20_000, 1 << 20):
        data, room = np.full(size, comm.rank, np.uint8), np.empty(size, np.uint8)
        for _ in range(20):
            comm.Sendrecv(data, near, 0, room, near, 0)
            assert (room == near).all()
    after = verbs().counters
    # Meanwhile the others may end the barrier.
    assert after["packets"] - before["packets"] <= 4, after
    assert all(after[name] == before[name] for name in ("reads", "writes")), after
    comm.Barrier()


def case_far_traffic_is(comm):
    """What goes to the far ranks does."""
    comm.Barrier()
    before = verbs().counters
    for far in ((comm.rank + 2) % 4, (comm.rank ^ 1) + 2 & 3):
        for size in (8, 20_000, 1 << 20):
            data, room = np.full(size, comm.rank, np.uint8), np.empty(size, np.uint8)
            for _ in range(10):
                comm.Sendrecv(data, far, 0, room, far, 0)
                assert (room == far).all()
    after = verbs().counters
    assert after["packets"] - before["packets"] >= 60, after
    # Each is read by its receiver or written by its sender, whoever comes second.
    moved = sum(after[name] - before[name] for name in ("reads", "writes"))
    assert comm.allreduce(moved) >= 40 * comm.size, after
    comm.Barrier()


def case_any_source_over_both(comm):
    """A wildcard receive takes from both fabrics; each sender's order holds, none is starved."""
    if comm.rank:
        for number in range(600):
            comm.Send(np.array([number]), 0, 1)
        return
    last = dict.fromkeys((1, 2, 3), -1)
    room = np.empty(1, int)
    for _ in range(1800):
        status = MPI.Status()
        comm.Recv(room, MPI.ANY_SOURCE, 1, status)
        assert room[0] == last[status.source] + 1
        last[status.source] += 1


def case_waiting_on_both(comm):
    """A sleeper is woken by either fabric."""
    for turn in range(20):
        source = 1 + turn % 3
        if comm.rank == 0:
            assert comm.recv(None, source, 2) == turn
            comm.send(turn, source, 3)
        elif comm.rank == source:
            comm.send(turn, 0, 2)
            assert comm.recv(None, 0, 3) == turn


def case_collectives(comm):
    """Collectives over both."""
    for root in range(4):
        for size in (5, 100_000):
            room = np.full(size, float(root) if comm.rank == root else -1.0)
            comm.Bcast(room, root)
            assert (room == root).all()
    total = np.empty(50_000)
    comm.Allreduce(np.full(50_000, comm.rank + 1.0), total)
    assert (total == 10).all()


run(globals())
