"""The table of algorithms (`pyrdv.collectives.plans.choosing`), and each algorithm against NumPy.

Rules are those of ``choosing.py``.
"""

import itertools
import random

import numpy as np
import pytest

from pyrdv import config
from pyrdv.api.ops import Op
from pyrdv.collectives.plans import choosing
from pyrdv.errors import CollectiveError, CountError, TruncationError
from tests.collectives.oracles import CALLS, values
from tests.collectives.test_nonblocking import comms_of, finish, go_on, matrices, play
from tests.conformance.worlds import KINDS, PATIENCE

WAYS = sorted({(way.kind, way.name) for way in choosing.TABLE})
#: The calls of a kind.
FORMS = {
    "gather": ("gather", "gatherv"), "scatter": ("scatter",),
    "allgather": ("allgather", "allgatherv"), "alltoall": ("alltoall", "alltoallv"),
    "reduce_scatter": ("reduce_scatter", "reduce_scatter_block"),
}
COUNTS = (0, 1, 3, 17, 1001, 9001)


def forced(w, kind, name):
    """Communicators of a world where a kind of call takes one algorithm."""
    for engine in w.engines:
        engine.preferred = {kind: name}
    return comms_of(w)


@pytest.mark.parametrize("size", range(1, 10))
@pytest.mark.parametrize("kind,name", WAYS)
@pytest.mark.parametrize("fabric", ("sim", "chaos", "shm"))
def test_each_algorithm(fabric, kind, name, size):
    """1 to 9 ranks, odd counts, none at all, and fewer elements than ranks."""
    rng = random.Random(f"{kind} {name} {size}")
    with KINDS[fabric](size, seed=size) as w:
        comms = forced(w, kind, name)
        for form in FORMS.get(kind, (kind,)):
            for count in COUNTS if fabric == "sim" else COUNTS[2:5]:
                play(w, rng, [CALLS[form](rng, size, count)], comms)


@pytest.mark.parametrize("kind,name", WAYS)
def test_what_is_asked_for_is_taken(kind, name):
    """By each call that it can serve, and the request says so while it is under way."""
    with KINDS["sim"](8, seed=1) as w:
        comms = forced(w, kind, name)
        rng = random.Random(1)
        for count in (3, 4000):
            starts, check = CALLS[kind](rng, 8, count)
            requests = [starts[rank](comm) for rank, comm in enumerate(comms)]
            assert any(f"I{kind} by {name}, " in repr(request) for request in requests)
            w.run(*requests)
            check()


@pytest.mark.parametrize("size", range(1, 10))
@pytest.mark.parametrize("kind,name", [way for way in WAYS if way[0] in
                                       ("allreduce", "reduce_scatter")])
def test_order_is_that_of_ranks_where_it_counts(kind, name, size):
    """Whatever is asked for: products of matrices, long enough for any row."""
    rng = random.Random(size)
    op = Op.Create(matrices)
    data = [values(rng, 4 * 9 * 130) % 3 for _ in range(size)]
    expected = list(itertools.accumulate(
        (one.reshape(-1, 2, 2) for one in data), np.matmul))[-1].ravel()
    with KINDS["sim"](size, seed=size) as w:
        comms = forced(w, kind, name)
        if kind == "allreduce":
            rooms = [np.zeros(len(expected), np.int64) for _ in range(size)]
            finish(w, [comm.Iallreduce(data[rank], rooms[rank], op)
                       for rank, comm in enumerate(comms)])
            assert all((room == expected).all() for room in rooms)
            return
        parts = [4 * (rank % 3) for rank in range(size)]
        parts[-1] += len(expected) - sum(parts)
        rooms = [np.zeros(part, np.int64) for part in parts]
        finish(w, [comm.Ireduce_scatter(data[rank], rooms[rank], parts, op)
                   for rank, comm in enumerate(comms)])
        assert (np.concatenate(rooms) == expected).all()


@pytest.mark.parametrize("size", range(2, 10))
@pytest.mark.parametrize("name", ("doubling", "halving", "ring"))
def test_bits_are_equal_on_all_ranks(name, size):
    """Sums of floats that depend on the order of their operands, twice."""
    rng = np.random.default_rng(size)
    data = [rng.standard_normal(1001) * 10.0 ** rng.integers(-9, 9) for _ in range(size)]
    bits = set()
    for seed in range(2):
        with KINDS["sim"](size, seed=seed) as w:
            rooms = [np.zeros(1001) for _ in range(size)]
            w.run(*[comm.Iallreduce(data[rank], rooms[rank])
                    for rank, comm in enumerate(forced(w, "allreduce", name))])
            bits |= {room.tobytes() for room in rooms}
    assert len(bits) == 1


def test_every_call_has_a_row():
    """Rule 2, and names that the knob knows: each of them, and no other."""
    for kind, size, ordered, uneven in itertools.product(
            choosing.MEASURES, (1, 2, 3, 7, 8, 9, 64), (False, True), (False, True)):
        for nbytes in (None,) if uneven else (0, 8, 4096, 1 << 16, 1 << 20, 1 << 30):
            assert choosing.chosen(kind, size, nbytes, ordered)[0].name
    names = {}
    for way in choosing.TABLE:
        if way.name not in names.setdefault(way.kind, []):
            names[way.kind].append(way.name)
    assert {kind: tuple(each) for kind, each in names.items()} == dict(config.ALGORITHMS)


def rows_of(kind, size):
    """Bytes at which the table takes each of its rows for even calls of `size` ranks."""
    found = {}
    for exponent in range(3, 21):
        for nbytes in (1 << exponent, 3 << exponent - 1):
            found.setdefault(choosing.chosen(kind, size, nbytes)[0].name, nbytes)
    return found


#: ``call(comm, bytes, root)`` with a good operation of so many bytes as the table counts.
SIZED = {
    "bcast": lambda comm, n, root: comm.Ibcast(np.zeros(n, np.uint8), root),
    "gather": lambda comm, n, root: comm.Igather(
        np.zeros(n, np.uint8), np.zeros(n * comm.size, np.uint8) if comm.rank == root else None,
        root),
    "scatter": lambda comm, n, root: comm.Iscatter(
        np.zeros(n * comm.size, np.uint8) if comm.rank == root else None, np.zeros(n, np.uint8),
        root),
    "allgather": lambda comm, n, root: comm.Iallgather(
        np.zeros(n // comm.size, np.uint8), np.zeros(n // comm.size * comm.size, np.uint8)),
    "alltoall": lambda comm, n, root: comm.Ialltoall(
        np.zeros(n * comm.size, np.uint8), np.zeros(n * comm.size, np.uint8)),
    "allreduce": lambda comm, n, root: comm.Iallreduce(np.zeros(n, np.uint8),
                                                       np.zeros(n, np.uint8)),
    "reduce_scatter": lambda comm, n, root: comm.Ireduce_scatter_block(
        np.zeros(n // comm.size * comm.size, np.uint8), np.zeros(n // comm.size, np.uint8)),
}


@pytest.mark.parametrize("size", (3, 4, 8, 9))
@pytest.mark.parametrize("kind", SIZED)
def test_one_length_that_takes_another_row_is_an_error(kind, size):
    """Rule 3: all end, at least one by what is wrong, and the next calls are whole."""
    for mine, theirs in itertools.permutations(rows_of(kind, size).values(), 2):
        for bad in range(size):
            with KINDS["sim"](size, seed=bad) as w:
                comms = comms_of(w)
                root = bad % 2
                left = {rank: SIZED[kind](comm, mine if rank == bad else theirs, root)
                        for rank, comm in enumerate(comms)}
                assert ended(w, left) & {CountError, TruncationError}, (mine, theirs, bad)
                go_on(w, random.Random(bad), comms)


def ended(w, left):
    """Look at requests until all have ended; the classes of what they raise."""
    raised, idle = set(), 0
    while left and idle < PATIENCE:
        idle += not w.step()
        for rank, request in list(left.items()):
            try:
                if not request.Test():
                    continue
            except (CountError, TruncationError, CollectiveError) as error:
                raised.add(type(error))
            del left[rank]
    assert not left, left
    return raised
