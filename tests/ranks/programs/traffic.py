"""Traffic among any number of ranks."""

import random
import zlib

import numpy as np

from pyrdv import MPI
from tests.support.cases import run


def case_ring(comm):
    """A token of every size goes around the ring."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for size in (0, 1, 8, 1000, 5000, 70_000, 1_000_000):
        data = np.full(size, comm.rank, np.uint8)
        room = np.empty(size, np.uint8)
        for hop in range(1, comm.size + 1):
            comm.Sendrecv(data, right, 1, room, left, 1)
            assert (room == (comm.rank - hop) % comm.size).all()
            data, room = room, data


def case_random_traffic(comm):
    """Each pair exchanges random messages, buffers and objects mixed; all arrive in order."""
    def messages(source, target):
        draw = random.Random(source * 100 + target)
        for number in range(40):
            size = draw.choice((0, 3, 60, 700, 4000, 9000, 66_000, 250_000))
            yield number, draw.randrange(3), size, draw.randrange(2), draw.randbytes(size)

    draw = random.Random(comm.rank)
    queues = {rank: list(messages(comm.rank, rank)) for rank in range(comm.size)}
    requests = []
    while queues:
        target = draw.choice(list(queues))
        number, tag, _, kind, data = queues[target].pop(0)
        if not queues[target]:
            del queues[target]
        body = bytes([number]) + data
        requests.append(comm.isend(body, target, 10 + tag) if kind
                        else comm.Isend(body, target, 20 + tag))
    expected = {rank: list(messages(rank, comm.rank)) for rank in range(comm.size)}
    last = {}
    for _ in range(40 * comm.size):
        status = MPI.Status()
        message = comm.Mprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        if status.tag < 20:
            got = message.recv()
        else:
            got = bytearray(status.Get_count())
            message.Recv(got)
        number, tag, size, _, data = expected[status.source][got[0]]
        assert status.tag % 10 == tag and len(got) == size + 1
        assert zlib.crc32(memoryview(got)[1:]) == zlib.crc32(data)
        # Messages of one pair and tag come in the order of their sends.
        assert last.get((status.source, status.tag), -1) < number
        last[status.source, status.tag] = number
    MPI.Request.Waitall(requests)


def case_barriers_and_ping_pongs(comm):
    """R7, F02, shrunk: 200 barriers and 200 ping-pongs per pair; more ranks than cores."""
    for _ in range(200):
        comm.Barrier()
    data = np.zeros(8)
    partner = comm.rank ^ 1
    if partner < comm.size:
        for _ in range(200):
            if comm.rank < partner:
                comm.Send(data, partner)
                comm.Recv(data, partner)
            else:
                comm.Recv(data, partner)
                comm.Send(data, partner)


def case_collectives(comm):
    """Barrier, bcast, allreduce, of objects and buffers, with every rank as root."""
    for root in range(comm.size):
        for size in (0, 5, 100_000):
            obj = {"root": root, "data": np.full(size, root, float)} if comm.rank == root else None
            got = comm.bcast(obj, root)
            assert got["root"] == root and (got["data"] == root).all()
            room = np.full(size, float(root) if comm.rank == root else -1.0)
            comm.Bcast(room, root)
            assert (room == root).all()
    mine = np.arange(1000.0) * (comm.rank + 1)
    total = np.empty_like(mine)
    comm.Allreduce(mine, total)
    assert (total == np.arange(1000.0) * sum(range(1, comm.size + 1))).all()
    comm.Allreduce(MPI.IN_PLACE, mine, MPI.MAX)
    assert (mine == np.arange(1000.0) * comm.size).all()
    assert comm.allreduce(str(comm.rank)) == "".join(map(str, range(comm.size)))


class Counted:
    """Counts how often it is pickled."""

    def __init__(self):
        self.pickled = 0
        self.data = np.arange(50_000)

    def __reduce__(self):
        self.pickled += 1
        return rebuild, (self.data,)


def rebuild(data):
    """What a `Counted` becomes."""
    return data


def case_broadcast_pickles_once(comm):
    """F06: bcast pickles its object once, whatever the number of ranks."""
    obj = Counted()
    got = comm.bcast(obj if comm.rank == 0 else None, 0)
    if comm.rank == 0:
        assert obj.pickled == (1 if comm.size > 1 else obj.pickled)
    else:
        assert (got == np.arange(50_000)).all()


run(globals())
