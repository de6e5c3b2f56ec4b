"""Messages of a rank to itself, in every form (M13)."""

import numpy as np
import pytest

from .worlds import MPI, pattern

SIZES = [0, 8, 5000, 8 << 20]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first", ["send", "receive"])
def test_self(world, size, first):
    """R6: either side first."""
    with world(2) as w:
        comm = w.comms[1]
        room = np.zeros(size, np.uint8)
        data = pattern(size)
        if first == "send":
            s = comm.Isend(data, dest=1, tag=4)
            r = comm.Irecv(room, source=1, tag=4)
        else:
            r = comm.Irecv(room, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
            s = comm.Isend(data, dest=1, tag=4)
        status = MPI.Status()
        w.until(lambda: r.Test(status))
        w.run(s)
        assert (status.Get_source(), status.Get_tag()) == (1, 4)
        assert status.Get_count(MPI.BYTE) == size
        assert np.array_equal(room, data)


@pytest.mark.parametrize("size", SIZES)
def test_self_probe(world, size):
    """Probes see messages of the rank itself."""
    with world(1) as w:
        (comm,) = w.comms
        data = pattern(size)
        s = comm.Isend(data, dest=0, tag=4)
        status = MPI.Status()
        assert comm.Iprobe(source=0, tag=4, status=status)
        assert status.Get_count(MPI.BYTE) == size
        message = comm.Improbe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
        assert not comm.Iprobe(source=0, tag=4)
        room = np.zeros(size, np.uint8)
        w.run(message.Irecv(room), s)
        assert np.array_equal(room, data)


def test_self_synchronous(world):
    """MPI: a synchronous send to oneself waits for the receive."""
    with world(1) as w:
        (comm,) = w.comms
        for size in (0, 8, 100_000):
            s = comm.Issend(pattern(size), dest=0)
            w.settle()
            assert not s.Test()
            room = np.zeros(size, np.uint8)
            w.run(comm.Irecv(room, source=0), s)
            assert np.array_equal(room, pattern(size))


def test_self_truncation_and_cancel(world):
    """R5, R6: the same errors as between two processes."""
    with world(1) as w:
        (comm,) = w.comms
        room = np.full(20, 0x11, np.uint8)
        s = comm.Isend(pattern(100), dest=0)
        r = comm.Irecv(room[:10], source=0)
        with pytest.raises(MPI.Exception, match="100"):
            w.run(r)
        w.run(s)
        assert (room[10:] == 0x11).all()
        r = comm.Irecv(room, source=0)
        r.Cancel()
        w.run(r)
        s = comm.Isend(pattern(5), dest=0)
        room = np.zeros(5, np.uint8)
        w.run(comm.Irecv(room, source=0), s)
        assert np.array_equal(room, pattern(5))


def test_self_among_others(world):
    """R4: any-source receives take own and foreign messages."""
    with world(3, seed=8) as w:
        sends = [w.comms[rank].Isend(pattern(64, rank), dest=0, tag=rank) for rank in range(3)]
        seen = set()
        for _ in range(3):
            room = np.zeros(64, np.uint8)
            status = MPI.Status()
            r = w.comms[0].Irecv(room, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
            w.until(lambda r=r, status=status: r.Test(status))
            assert np.array_equal(room, pattern(64, status.Get_source()))
            seen.add(status.Get_source())
        w.run(*sends)
        assert seen == {0, 1, 2}


@pytest.mark.parametrize("count", range(120, 140))
def test_a_pool_without_descriptors_and_without_data(world, count):
    """R6: the message that finds both lacking is sent all the same."""
    with world(1) as w:
        comm = w.comms[0]
        requests = [comm.Isend(pattern(8, k), dest=0, tag=k) for k in range(count)]
        requests.append(comm.Isend(pattern(9019, count), dest=0, tag=count))
        rooms = [np.zeros(8, np.uint8) for _ in range(count)] + [np.zeros(9019, np.uint8)]
        requests += [comm.Irecv(room, source=0, tag=k) for k, room in enumerate(rooms)]
        w.run(*requests)
        for k, room in enumerate(rooms):
            assert np.array_equal(room, pattern(len(room), k))
