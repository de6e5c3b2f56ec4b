"""Persistent collective calls: schedules that are made once and started often."""

import random

import numpy as np
import pytest

from pyrdv.api.buffers import IN_PLACE
from pyrdv.api.ops import SUM, Op
from pyrdv.api.persistent import Prequest
from pyrdv.errors import CollectiveError, FinalizedError, RequestError
from tests.collectives.oracles import CALLS, values
from tests.collectives.test_nonblocking import WORLDS, comms_of, finish, matrices, play, under_way
from tests.collectives.test_refused import go_on
from tests.conformance.worlds import KINDS


@pytest.fixture(params=WORLDS)
def world(request):
    return KINDS[request.param]


def started(prequests):
    for request in prequests:
        request.Start()
    return prequests


class Made:
    """Persistent calls in the place of those that do not block: `Iscan` gives `Scan_init`."""

    def __init__(self, comm):
        self.comm = comm

    def __getattr__(self, name):
        def make(*args):
            given = [arg for arg in args if not isinstance(arg, Op)]
            ops = [arg for arg in args if isinstance(arg, Op)]
            # In mpi4py's order.
            roots = [given.pop()] if ops and name == "Ireduce" else []
            return getattr(self.comm, f"{name[1:].capitalize()}_init")(*given, *ops, *roots)
        return make


@pytest.mark.parametrize("size", (1, 2, 3, 4, 5, 8))
@pytest.mark.parametrize("name", CALLS)
def test_each_call_many_times(world, name, size):
    """Started by ranks in any order, with new contents each time; results are those of one call."""
    rng = random.Random(f"{name} {size} kept")
    for count in (3, 30_011) if size < 5 else (17,):
        with world(size, seed=size) as w:
            comms = comms_of(w)
            starts, check = CALLS[name](rng, size, count)
            requests = [start(Made(comm)) for start, comm in zip(starts, comms, strict=True)]
            assert all(isinstance(request, Prequest) and request for request in requests)
            for _ in range(3 if name not in ("reduce_scatter", "reduce_scatter_block") else 1):
                ahead = rng.sample(requests, size)
                for request in ahead:
                    request.Start()
                    for _ in range(rng.choice((0, 0, 2))):
                        rng.choice(w.engines).turn()
                        w.turn()
                finish(w, ahead)
                if not in_place(starts):
                    check()
            for request in requests:
                request.Free()
                assert not request


def in_place(starts):
    """Whether a call adds to its own operands, so that the second start finds others."""
    return any(cell.cell_contents is True for start in starts for cell in start.__closure__ or ())


def test_contents_are_those_of_the_start(world):
    """Also where two buffers share memory, and a copy must be made of one."""
    with world(3, seed=2) as w:
        comms = comms_of(w)
        sends = [np.zeros(3, np.int64) for _ in range(3)]
        rooms = [np.zeros(3, np.int64) for _ in range(3)]
        both = [comm.Alltoall_init(IN_PLACE, rooms[rank]) for rank, comm in enumerate(comms)]
        sums = [comm.Allreduce_init(sends[rank], rooms[rank]) for rank, comm in enumerate(comms)]
        for turn in range(4):
            for rank in range(3):
                rooms[rank][:] = 100 * turn + 10 * rank + np.arange(3)
                sends[rank][:] = turn + rank
            finish(w, started(both))
            for rank in range(3):
                assert list(rooms[rank]) == [100 * turn + 10 * other + rank for other in range(3)]
            finish(w, started(sums))
            assert all((room == 3 * turn + 3).all() for room in rooms)


def test_several_in_any_order(world):
    """They were made in one order on all ranks; that they start in another one does not matter."""
    rng = random.Random(4)
    with world(4, seed=4) as w:
        comms = comms_of(w)
        data = [[values(rng, count) for _ in range(4)] for count in (1, 1001, 20_011)]
        rooms = [[np.zeros_like(one) for one in each] for each in data]
        made = [[comms[rank].Allreduce_init(data[k][rank], rooms[k][rank]) for k in range(3)]
                for rank in range(4)]
        for _ in range(4):
            requests = []
            for rank in range(4):
                requests += started(rng.sample(made[rank], 3))
                others = CALLS["bcast"](rng, 4, 17)
            play(w, rng, [others], comms)
            finish(w, requests)
            for k in range(3):
                assert all((room == np.sum(data[k], axis=0)).all() for room in rooms[k])
                for room in rooms[k]:
                    room[:] = 0


def test_functions_of_python_again(world):
    with world(3, seed=5) as w:
        comms = comms_of(w)
        data = [np.arange(4) + rank for rank in range(3)]
        expected = (data[0].reshape(2, 2) @ data[1].reshape(2, 2) @ data[2].reshape(2, 2)).ravel()
        rooms = [np.zeros(4, np.int64) for _ in range(3)]
        op = Op.Create(matrices)
        made = [comm.Allreduce_init(data[rank], rooms[rank], op) for rank, comm in enumerate(comms)]
        for _ in range(3):
            finish(w, started(made))
            assert all((room == expected).all() for room in rooms)
        assert not any(engine.pending for engine in w.engines)


def test_states(world):
    """Inactive, active, null; and what is refused."""
    with world(2, seed=6) as w:
        comms = comms_of(w)
        room = bytearray(8)
        made = [comms[0].Bcast_init(b"abcdefgh", 0), comms[1].Bcast_init(room, 0)]
        with pytest.raises(BufferError):
            room.append(1)
        assert made[1].Test() and made[1].Wait()        # nothing is under way
        made[1].Start()
        with pytest.raises(RequestError, match="active"):
            made[1].Start()
        Prequest.Startall(made[:1])
        finish(w, made)
        assert room == b"abcdefgh"
        twin = Prequest(made[1])
        made[0].Start()
        twin.Start()
        finish(w, [made[0], twin])
        made[1].Start()
        made[1].Free()                                  # it goes on
        made[0].Start()
        finish(w, made[:1])
        w.until(lambda: not under_way(w))
        for request in (made[1], twin):
            assert not request
            with pytest.raises(RequestError):
                request.Start()
        del made, twin, request
        for engine in w.engines:
            engine.reap()
        room.append(1)


def test_a_failure_is_told_at_each_start(world):
    """An operation that raises once: that start fails, the next is whole."""
    fails = [True]

    def sometimes(inbuf, inoutbuf, datatype):
        if fails[0]:
            raise ZeroDivisionError("no")
        np.frombuffer(inoutbuf, np.int64)[:] += np.frombuffer(inbuf, np.int64)

    with world(3, seed=7) as w:
        comms = comms_of(w)
        rooms = [np.zeros(5, np.int64) for _ in range(3)]
        ops = [Op.Create(sometimes), SUM, SUM]
        made = [comm.Allreduce_init(np.full(5, rank), rooms[rank], ops[rank])
                for rank, comm in enumerate(comms)]
        for request in started(made):
            try:
                w.run(request)
            except (ZeroDivisionError, CollectiveError):
                assert fails[0]
        fails[0] = False
        w.settle()
        finish(w, started(made))
        assert all((room == 3).all() for room in rooms)


def test_refused_by_one(world):
    """Who cannot make it tells the others, whose starts fail."""
    with world(3, seed=8) as w:
        comms = comms_of(w)
        room = np.zeros(3)
        made = [comms[rank].Allreduce_init(np.ones(3), room) for rank in range(2)]
        made[0].Start()
        with pytest.raises(TypeError):
            comms[2].Allreduce_init(np.ones(3), object())
        with pytest.raises(CollectiveError, match="rank 2"):
            w.run(made[0])
        with pytest.raises(CollectiveError, match="rank 2"):
            w.run(*started(made[1:]))
        go_on(w, random.Random(8), comms, "allreduce")


def test_after_the_end_of_the_world():
    with KINDS["sim"](2, seed=9) as w:
        made = [comm.Barrier_init() for comm in comms_of(w)]
        finish(w, started(made))
    for request in made:
        with pytest.raises(FinalizedError):
            request.Start()
