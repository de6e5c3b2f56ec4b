"""A call that does not block and cannot start on one rank: nobody waits for that rank."""

import random

import numpy as np
import pytest

from pyrdv.api.ops import Op
from pyrdv.errors import CollectiveError, CountError
from tests.collectives.oracles import CALLS
from tests.collectives.test_nonblocking import WORLDS, comms_of, go_on, play
from tests.conformance.worlds import KINDS, PATIENCE

#: Calls that a rank can refuse, each with arguments that it does.
REFUSED = {
    "bcast": lambda comm, count: comm.Ibcast(object(), 0),
    "gather": lambda comm, count: comm.Igather(object(), object(), 0),
    "gatherv": lambda comm, count: comm.Igatherv(np.zeros(count), np.zeros(count), 99),
    "scatter": lambda comm, count: comm.Iscatter(object(), object(), 0),
    "allgather": lambda comm, count: comm.Iallgather(np.zeros(count), b"read-only"),
    "allgatherv": lambda comm, count: comm.Iallgatherv(np.zeros(count), [np.zeros(3), (1, 2)]),
    "alltoall": lambda comm, count: comm.Ialltoall(np.zeros(1), np.zeros(1)),
    "alltoallv": lambda comm, count: comm.Ialltoallv(None, object()),
    "reduce": lambda comm, count: comm.Ireduce(np.zeros(count), np.zeros(count), "sum", 0),
    "allreduce": lambda comm, count: comm.Iallreduce(np.zeros(count), np.zeros(count + 1)),
    "reduce_scatter": lambda comm, count: comm.Ireduce_scatter(np.zeros(3), np.zeros(3), [-1, 4]),
    "reduce_scatter_block": lambda comm, count: comm.Ireduce_scatter_block(None, None, 0),
    "scan": lambda comm, count: comm.Iscan(np.zeros(1), np.zeros(2)),
    "exscan": lambda comm, count: comm.Iexscan(object(), np.zeros(2)),
}
#: Those that nobody can end without each other member.
OF_ALL = ("allgather", "allgatherv", "alltoall", "alltoallv", "allreduce", "reduce_scatter",
          "reduce_scatter_block")


@pytest.fixture(params=WORLDS)
def world(request):
    return KINDS[request.param]


def begin(w, comms, rng, name, count, bad):
    """Start a call on all ranks in any order, refused by `bad`; requests by rank."""
    requests = {}
    starts, _check = CALLS[name](rng, w.size, count)
    for rank in rng.sample(range(w.size), w.size):
        if rank == bad:
            with pytest.raises((TypeError, ValueError, BufferError)):
                REFUSED[name](comms[rank], count)
        else:
            requests[rank] = starts[rank](comms[rank])
        for _ in range(rng.choice((0, 1, 3))):
            w.step()
    return requests


def end(w, requests, bad):
    """Look at all until each has ended; those that were told of a failure."""
    told, idle, left = set(), 0, dict(requests)
    while left and idle < PATIENCE:
        idle += not w.step()
        for rank, request in list(left.items()):
            try:
                if not request.Test():
                    continue
            except CollectiveError as error:
                assert error.rank == bad and f"failed on rank {bad}" in str(error)
                told.add(rank)
            del left[rank]
    assert not left
    return told


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("count", (3, 30_011))
def test_the_others_are_told(world, name, count):
    """Each ends its call, in order or with `CollectiveError`; the next calls are whole."""
    rng = random.Random(f"{name} {count} refused")
    heard = 0
    for size in (2, 3, 5):
        for bad in (0, size - 1):
            with world(size, seed=bad) as w:
                comms = comms_of(w)
                play(w, rng, [CALLS["allreduce"](rng, size, count)], comms)
                told = end(w, begin(w, comms, rng, name, count, bad), bad)
                assert name not in OF_ALL or len(told) == size - 1
                heard += len(told)
                go_on(w, rng, comms, name)
    assert heard


def test_several_under_way(world):
    """Of one kind, and others: only the call that was refused fails."""
    rng = random.Random(3)
    for bad in range(3):
        with world(3, seed=bad) as w:
            comms = comms_of(w)
            calls = [CALLS["allreduce"](rng, 3, 1001) for _ in range(4)]
            before = [starts[rank](comms[rank]) for starts, _ in calls[:2] for rank in range(3)]
            requests = begin(w, comms, rng, "allreduce", 30_011, bad)
            after = [starts[rank](comms[rank]) for starts, _ in calls[2:] for rank in range(3)]
            assert len(end(w, requests, bad)) == 2
            w.run(*after, *before)
            for _, check in calls:
                check()
            go_on(w, rng, comms)


def test_buffers_are_free_when_the_request_has_failed(world):
    """Nothing comes into them afterwards, whatever the others had sent."""
    for seed in range(6):
        rng = random.Random(seed)
        with world(4, seed=seed) as w:
            comms = comms_of(w)
            rooms = [np.zeros(40_000, np.int64) for _ in range(4)]
            data = [np.full(10_000, rank + 1) for rank in range(4)]
            requests = {rank: comms[rank].Iallgather(data[rank], rooms[rank]) for rank in range(3)}
            for _ in range(rng.randrange(30)):
                w.step()
            with pytest.raises(TypeError):
                comms[3].Iallgather(object(), object())
            left = dict(requests)
            while left:
                w.step()
                for rank, request in list(left.items()):
                    try:
                        assert not request.Test()
                    except CollectiveError:
                        del left[rank]
                        rooms[rank][:] = -7
            w.settle()
            go_on(w, rng, comms)
            assert all((room == -7).all() for room in rooms[:3])


def test_refused_by_all(world):
    """On all ranks alike: each has its own error, and the next call is not out of step."""
    with world(2, seed=8) as w:
        comms = comms_of(w)
        for comm in comms:
            with pytest.raises(ValueError, match="root 2"):
                comm.Ibcast(np.zeros(3), 2)
            with pytest.raises(TypeError):
                comm.Iallreduce(np.zeros(3), np.zeros(3), None)
            with pytest.raises(CountError):
                comm.Iallreduce(np.zeros(3), np.zeros(4))
        go_on(w, random.Random(8), comms, "bcast", "allreduce")


def test_an_operation_that_is_no_operation():
    """What is refused inside the start, too: the exception is the caller's own."""
    with KINDS["sim"](2, seed=1) as w:
        comms = comms_of(w)
        request = comms[0].Iallreduce(np.ones(3), np.zeros(3), Op.Create(lambda a, b, t: None))
        with pytest.raises(TypeError):
            comms[1].Iallreduce(np.ones(3), np.zeros(3), max)
        with pytest.raises(CollectiveError, match="Iallreduce in MPI_COMM_WORLD failed on rank 1"):
            w.run(request)
        go_on(w, random.Random(1), comms)


def test_one_that_begins_later(world):
    """It has been told already: its call can be made, and fails where it ends."""
    with world(2, seed=4) as w:
        comms = comms_of(w)
        with pytest.raises(TypeError):
            comms[1].Iallreduce(object(), object())
        for _ in range(50):
            w.step()
            comms[0].Iprobe(0, 0)
        request = comms[0].Iallreduce(np.ones(3), np.zeros(3))
        assert request
        with pytest.raises(CollectiveError, match="failed on rank 1"):
            w.run(request)
        assert not request
        go_on(w, random.Random(4), comms)
