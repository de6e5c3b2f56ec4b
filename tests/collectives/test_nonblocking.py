"""Collective calls that do not block, in worlds of one process, against NumPy.

The rules are those of ``engine/schedule/schedule.pyx`` (L1 to L9).
"""

import gc
import itertools
import random

import numpy as np
import pytest

from pyrdv.api.datatypes import PREDEFINED
from pyrdv.api.ops import SUM, Op
from pyrdv.collectives.intracomm import Intracomm
from pyrdv.engine import traced
from pyrdv.errors import CollectiveError, CountError, PeerLostError, TruncationError
from pyrdv.instruments.engine import Driver
from tests.collectives.oracles import CALLS, allreduce, alltoall, bcast, values
from tests.conformance.worlds import KINDS, PATIENCE, Stuck, pattern

#: Of each kind of fabric one, and those on which a step finds less than a call.
WORLDS = ("sim", "chaos", "chaos-cached", "chaos-pipeline", "shm", "shm-staged")
COUNTS = (1, 3, 17, 1001, 30_011)


@pytest.fixture(params=WORLDS)
def world(request):
    return KINDS[request.param]


def comms_of(w):
    return [Intracomm.of(engine) for engine in w.engines]


def finish(w, requests, limit=PATIENCE):
    """Look at all of them, as their ranks would, until they are complete."""
    idle = 0
    while left := [request for request in requests if not request.Test()]:
        moved = w.step() or len(left) < len(requests)
        requests = left
        idle = 0 if moved else idle + 1
        if idle > limit:
            raise Stuck(f"{len(left)} requests are not complete\n{w.describe()}")


def play(w, rng, made, comms=None):
    """Start all calls, in their order on each rank, ranks in any order; wait in any order."""
    comms = comms or comms_of(w)
    left = [[starts[rank] for starts, _ in made] for rank in range(w.size)]
    requests = []
    while any(left):
        rank = rng.choice([rank for rank in range(w.size) if left[rank]])
        requests.append(left[rank].pop(0)(comms[rank]))
        for _ in range(rng.choice((0, 0, 1, 3))):
            rng.choice(w.engines).turn()
            w.turn()
    rng.shuffle(requests)
    finish(w, requests)
    for _, check in made:
        check()


def go_on(w, rng, comms, *names):
    """Make whole calls until nothing is left of those that failed."""
    calls = 0
    while any(comm.collective().identity.aftermath for comm in comms) or calls < 3:
        assert calls < 40
        play(w, rng, [CALLS[name](rng, w.size, 3) for name in ("barrier", *names)], comms)
        calls += 1


@pytest.mark.parametrize("size", range(1, 10))
@pytest.mark.parametrize("name", CALLS)
def test_each_call(world, name, size):
    """L2: every operation on 1 to 9 ranks, small and large, odd counts, in any order of events."""
    rng = random.Random(f"{name} {size}")
    with world(size, seed=size) as w:
        for count in COUNTS if size < 6 else COUNTS[:4]:
            play(w, rng, [CALLS[name](rng, size, count)])


@pytest.mark.parametrize("size", range(2, 10))
def test_a_barrier_waits_for_everyone(world, size):
    """Whoever is missing, nobody passes."""
    with world(size, seed=size) as w:
        comms = comms_of(w)
        for last in range(size):
            requests = [comm.Ibarrier() for rank, comm in enumerate(comms) if rank != last]
            w.settle()
            assert not any(request.Test() for request in requests)
            w.run(*requests, comms[last].Ibarrier())


@pytest.mark.parametrize("seed", range(8))
def test_many_at_a_time(world, seed):
    """Several on one communicator, in any order of completion, beside each other."""
    rng = random.Random(seed)
    size = rng.choice((2, 3, 4, 5))
    with world(size, seed=seed, slots=rng.choice((2, 8, None))) as w:
        names = [rng.choice(list(CALLS)) for _ in range(12)]
        play(w, rng, [CALLS[name](rng, size, rng.choice(COUNTS[:4])) for name in names])


def unattended(w):
    """The drivers of its engines, each pair of which has spoken; calls reserve from now on."""
    rng = random.Random(0)
    for _ in range(2):
        play(w, rng, [alltoall(rng, w.size, 3)])
    w.settle()
    drivers = [Driver(engine) for engine in w.engines]
    for driver in drivers:
        driver.unattended = True
    return drivers


def under_way(w):
    return any(operation.side == "schedule" for engine in w.engines
               for operation in traced.operations(engine))


def needs_python(starts):
    """Whether the data are of a type without a loop in C, which waits for a call."""
    given = [cell.cell_contents for start in starts for cell in start.__closure__ or ()]
    arrays = [one for each in given for one in (each if isinstance(each, list) else [each])]
    return any(getattr(one, "dtype", None) == np.float16 for one in arrays)


@pytest.mark.parametrize("size", (2, 3, 5))
@pytest.mark.parametrize("name", CALLS)
def test_steps_finish_what_calls_started(world, name, size):
    """L1: after the start no call is made; steps by themselves, as of a signal, end it."""
    rng = random.Random(f"{name} {size} alone")
    with world(size, seed=size) as w:
        drivers = unattended(w)
        comms = comms_of(w)
        for count in (3, 1001, 30_011):
            starts, check = CALLS[name](rng, size, count)
            while needs_python(starts):
                starts, check = CALLS[name](rng, size, count)
            requests = []
            for rank in rng.sample(range(size), size):
                requests.append(starts[rank](comms[rank]))
                for _ in range(rng.choice((0, 5))):
                    rng.choice(drivers).step()
                    w.turn()
            idle = 0
            while under_way(w):
                moved = sum(driver.step() for driver in drivers) + w.turn()
                idle = 0 if moved else idle + 1
                if idle > PATIENCE:
                    raise Stuck(w.describe())
            w.run(*requests)
            check()


def matrices(inbuf, inoutbuf, datatype):
    """Products of 2 x 2 matrices of integers: the order counts."""
    left = np.frombuffer(inbuf, np.int64).reshape(-1, 2, 2)
    right = np.frombuffer(inoutbuf, np.int64).reshape(-1, 2, 2)
    right[:] = left @ right


@pytest.mark.parametrize("size", range(1, 8))
def test_functions_of_python_fold_in_rank_order(world, size):
    """What only Python can compute is done by calls, and in the order of ranks."""
    rng = random.Random(size)
    op = Op.Create(matrices)
    data = [values(rng, 12) % 3 for _ in range(size)]
    expected = data[0].reshape(-1, 2, 2)
    for one in data[1:]:
        expected = expected @ one.reshape(-1, 2, 2)
    with world(size, seed=size) as w:
        comms = comms_of(w)
        rooms = [np.zeros(12, np.int64) for _ in range(size)]
        finish(w, [comm.Iallreduce(data[rank], rooms[rank], op) for rank, comm in enumerate(comms)])
        assert all((room == expected.ravel()).all() for room in rooms)
        for root in range(size):
            room = np.zeros(12, np.int64)
            finish(w, [comm.Ireduce(data[rank], room if rank == root else None, op, root)
                    for rank, comm in enumerate(comms)])
            assert (room == expected.ravel()).all()
        upto = list(itertools.accumulate((one.reshape(-1, 2, 2) for one in data), np.matmul))
        finish(w, [comm.Iscan(data[rank], rooms[rank], op) for rank, comm in enumerate(comms)])
        assert all((room == one.ravel()).all() for room, one in zip(rooms, upto, strict=True))
        finish(w, [comm.Iexscan(data[rank], rooms[rank], op) for rank, comm in enumerate(comms)])
        assert all((room == one.ravel()).all()
                   for room, one in zip(rooms[1:], upto[:-1], strict=True))
        parts = [12 if rank == size // 2 else 0 for rank in range(size)]
        finish(w, [comm.Ireduce_scatter(data[rank], rooms[rank][:parts[rank]], parts, op)
                   for rank, comm in enumerate(comms)])
        assert (rooms[size // 2] == expected.ravel()).all()
        assert not any(engine.pending for engine in w.engines)


def test_what_a_function_raises_is_raised(world):
    """On the rank where it did; the others come to their end."""
    def refuse(inbuf, inoutbuf, datatype):
        raise ZeroDivisionError("no")

    with world(2, seed=3) as w:
        comms = comms_of(w)
        good = Op.Create(matrices)
        rooms = [np.zeros(4, np.int64) for _ in range(2)]
        requests = [comms[0].Iallreduce(np.ones(4, np.int64), rooms[0], good),
                    comms[1].Iallreduce(np.ones(4, np.int64), rooms[1], Op.Create(refuse))]
        w.run(requests[0])
        with pytest.raises(ZeroDivisionError):
            w.run(requests[1])
        go_on(w, random.Random(1), comms)


def groups(size):
    """Ranks that may be wrong together: each one, each two, every second, one half."""
    return {frozenset(group) for group in (
        *itertools.combinations(range(size), 1), *itertools.combinations(range(size), 2),
        range(0, size, 2), range(size // 2)) if 0 < len(group) < size}


# Of the last two, parts of the longer vector are as long as the shorter one.
@pytest.mark.parametrize("sizes", ((3, 30_011), (30_011, 3), (2000, 2001), (3000, 1),
                                   (2048, 4096), (4096, 2048)))
@pytest.mark.parametrize("size", (2, 3, 4, 5, 8))
def test_lengths_that_differ_are_an_error(world, size, sizes):
    """Also where ranks take different algorithms for theirs: all end, and say so."""
    for seed, bad in enumerate(sorted(groups(size), key=sorted)):
        with world(size, seed=seed) as w:
            comms = comms_of(w)
            counts = [sizes[rank in bad] for rank in range(size)]
            left = {rank: comm.Iallreduce(np.ones(counts[rank]), np.zeros(counts[rank]))
                    for rank, comm in enumerate(comms)}
            kinds, idle = set(), 0
            while left and idle < PATIENCE:
                idle += not w.step()
                for rank, request in list(left.items()):
                    try:
                        if not request.Test():
                            continue
                    except (CountError, TruncationError, CollectiveError) as error:
                        kinds.add(type(error))
                        del left[rank]
                    else:
                        raise AssertionError(f"rank {rank} has got a sum of other lengths")
            assert not left and kinds & {CountError, TruncationError}
            go_on(w, random.Random(seed), comms)


@pytest.mark.parametrize("count", (3, 30_011))
@pytest.mark.parametrize("name", ("allreduce", "reduce", "bcast"))
def test_a_failure_spoils_nobodys_data(world, name, count):
    """L4: each other member gets the right data, or learns that there are none."""
    def refuse(inbuf, inoutbuf, datatype):
        raise ZeroDivisionError("no")

    told = 0
    for size in (3, 4, 5, 7, 8):
        for bad in range(size):
            with world(size, seed=size) as w:
                rooms = [np.zeros(count, np.int64) for _ in range(size)]
                if name == "bcast":
                    rooms[0] += 5
                    rooms[bad] = rooms[bad] if bad == 0 else np.zeros(count + 1, np.int64)
                sums = [Op.Create(refuse if rank == bad else add) for rank in range(size)]
                requests = []
                comms = comms_of(w)
                for rank, comm in enumerate(comms):
                    mine, room = np.full(count, rank), rooms[rank]
                    if name == "bcast":
                        requests.append(comm.Ibcast(room, 0))
                    elif name == "reduce":
                        requests.append(comm.Ireduce(mine, room, sums[rank], 0))
                    else:
                        requests.append(comm.Iallreduce(mine, room, sums[rank]))
                right = {"bcast": 5}.get(name, size * (size - 1) // 2)
                told += ended(w, requests, rooms, bad, right, name == "reduce")
                go_on(w, random.Random(size), comms)
    assert told


def add(inbuf, inoutbuf, datatype):
    np.frombuffer(inoutbuf, np.int64)[:] += np.frombuffer(inbuf, np.int64)


def ended(w, requests, rooms, bad, right, at_root):
    """Look at all until each is complete; how many learn of the failure of another rank."""
    told, idle, left = 0, 0, dict(enumerate(requests))
    while left and idle < PATIENCE:
        idle += not w.step()
        for rank, request in list(left.items()):
            try:
                if not request.Test():
                    continue
                assert at_root and rank or (rooms[rank] == right).all()
            except CollectiveError as error:
                assert rank != bad and "failed on rank" in str(error)
                told += 1
            except (ZeroDivisionError, CountError) as error:
                assert rank == bad, error
            del left[rank]
    assert not left
    w.settle()
    assert not under_way(w)
    return told


def test_bits_are_equal_on_all_ranks(world):
    """Sums of floats that depend on the order of their operands."""
    rng = np.random.default_rng(5)
    for size in (3, 5, 6, 7):
        with world(size, seed=size) as w:
            data = [rng.standard_normal(1001) * 10.0 ** rng.integers(-9, 9) for _ in range(size)]
            rooms = [np.zeros(1001) for _ in range(size)]
            w.run(*[comm.Iallreduce(data[rank], rooms[rank])
                    for rank, comm in enumerate(comms_of(w))])
            assert all(room.tobytes() == rooms[0].tobytes() for room in rooms)
            np.testing.assert_allclose(rooms[0], np.sum(data, axis=0), rtol=1e-6)


def test_a_block_of_another_length_is_an_error_there(world):
    """L4: the receiver learns it, everyone else is served."""
    with world(3, seed=4) as w:
        comms = comms_of(w)
        rooms = [np.arange(10, dtype=np.int32), np.zeros(12, np.int32), np.zeros(8, np.int32)]
        requests = [comm.Ibcast(rooms[rank], 0) for rank, comm in enumerate(comms)]
        w.run(requests[0])
        with pytest.raises(CountError, match="40 bytes where this rank expects 48"):
            w.run(requests[1])
        with pytest.raises(TruncationError, match="40 bytes"):
            w.run(requests[2])
        go_on(w, random.Random(1), comms, "allreduce")


@pytest.mark.parametrize("size", [100, 300_000])
def test_buffers_stay_when_the_collector_takes_the_request(world, size):
    """A request in a cycle that nobody names: its call ends all the same, in held memory."""
    with world(2, seed=6) as w:
        comms = comms_of(w)
        room = bytearray(size)
        cycle = [comms[1].Ibcast(room, 0)]
        cycle.append(cycle)
        w.settle()
        del cycle
        gc.collect()
        with pytest.raises(BufferError):
            room.append(1)
        w.run(comms[0].Ibcast(pattern(size), 0))
        w.settle()
        assert room == pattern(size).tobytes()
        comms[1].engine.reap()
        room.append(1)


def lost_while(w, rng, name, count):
    """A member dies while a call is under way; checks what the others see of it."""
    size = w.size
    play(w, rng, [alltoall(rng, size, 3)])
    comms = comms_of(w)
    starts, _ = CALLS[name](rng, size, count)
    dead = rng.randrange(size)
    requests = {rank: starts[rank](comms[rank]) for rank in range(size) if rank != dead}
    for _ in range(5):
        w.step()
    left = {rank: request for rank, request in requests.items() if not request.Test()}
    w.kill(dead)
    w.until(lambda: all(w.engines[rank].peer_states()[dead] == "lost" for rank in requests))
    lost = 0
    for request in left.values():
        try:
            w.run(request)
        except PeerLostError as error:
            assert error.peer == dead
            lost += 1
    if name.startswith(("barrier", "all")):
        assert lost == size - 1     # which need something of each member
    for rank in requests:
        with pytest.raises(PeerLostError, match=f"rank {dead}"):
            w.run(comms[rank].Ibarrier())
    w.settle()
    for rank in requests:
        w.engines[rank].reap()
        under = traced.operations(w.engines[rank])
        # Announced to a member that takes nothing any more (L5); all else is given back.
        assert {(one.side, one.state) for one in under} <= {("send", "announced")}
        assert w.engines[rank].counters()["ops_in_use"] == len(under)
        assert w.engines[rank].counters()["regions_in_use"] <= len(under)
    return lost


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("count", (3, 30_011))
def test_a_lost_member_ends_it_on_all(world, name, count):
    """L5: whoever exchanges messages with it or not, and whatever comes later."""
    rng = random.Random(f"{name} {count} lost")
    w = world(5, seed=count)
    try:
        lost_while(w, rng, name, count)
    finally:
        w.close(check=False)


def test_losses_meet_calls_under_way(world):
    """The test above does see calls with a root end by a loss, too."""
    lost = 0
    for seed in range(12):
        w = world(5, seed=seed)
        try:
            lost += lost_while(w, random.Random(seed), "bcast", 30_011)
        finally:
            w.close(check=False)
    assert lost


def test_dropped_requests_go_on(world):
    """Who drops or frees a request still does its part, and its buffers live as long."""
    with world(4, seed=6) as w:
        rng = random.Random(6)
        comms = comms_of(w)
        starts, check = bcast(rng, 4, 30_011)
        kept = [start(comms[rank]) for rank, start in enumerate(starts) if rank % 2 == 0]
        for rank in (1, 3):
            request = starts[rank](comms[rank])
            if rank == 1:
                request.Free()
                assert not request
            del request
        w.run(*kept)
        w.until(lambda: not under_way(w))
        check()


def test_a_cancel_changes_nothing(world):
    """A collective operation cannot be taken back: the others count on it."""
    with world(3, seed=7) as w:
        rng = random.Random(7)
        comms = comms_of(w)
        starts, check = allreduce(rng, 3, 17)
        requests = [start(comms[rank]) for rank, start in enumerate(starts)]
        for request in requests:
            request.Cancel()
        w.run(*requests)
        check()
        assert not any(request.was_cancelled for request in requests)


def test_they_show_in_the_diagnosis(world):
    """What a rank that hangs waits for names the call."""
    from pyrdv import diagnosis

    with world(2, seed=9) as w:
        comms = comms_of(w)
        request = comms[0].Ibarrier()
        text = "\n".join(diagnosis.pending(w.engines[0]))
        assert "Ibarrier (call 0)" in text and "receive from 1" in text
        assert repr(request) == "<CollectiveRequest: under way>"
        w.run(request, comms[1].Ibarrier())


def test_types_are_those_of_the_table():
    """The calls above use both loops in C and Python."""
    from pyrdv.api.reductions import has_loop

    assert has_loop(SUM, PREDEFINED["INT64_T"]) and has_loop(SUM, PREDEFINED["FLOAT"])
    assert not has_loop(SUM, PREDEFINED["LONG_DOUBLE"])


@pytest.mark.parametrize("size", (1, 2, 3, 4, 5))
@pytest.mark.parametrize("count", (1, 3, 5000))
def test_one_array_for_both_buffers(world, size, count):
    """MPI forbids it, and programs do it: the same memory is in place, and halves that meet are
    read before they are written."""
    with world(size, seed=size) as w:
        comms = comms_of(w)
        arrays = [np.arange(count) + rank for rank in range(size)]
        right = sum(arrays)
        w.run(*[comm.Iallreduce(one, one) for comm, one in zip(comms, arrays, strict=True)])
        assert all((one == right).all() for one in arrays)
        whole = [np.arange(count + 1) + rank for rank in range(size)]
        right = sum(one[:-1] for one in whole)
        w.run(*[comm.Iallreduce(one[:-1], one[1:]) for comm, one in zip(comms, whole, strict=True)])
        assert all((one[1:] == right).all() for one in whole)
