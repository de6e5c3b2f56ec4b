"""The table of algorithms (`pyrdv.algorithms`), and each algorithm against NumPy.

The rules are those of ``algorithms.py``.
"""

import itertools
import random

import numpy as np
import pytest

from pyrdv import algorithms
from pyrdv.api.ops import Op
from pyrdv.collectives.plans import chosen
from tests.collectives.oracles import CALLS, values
from tests.collectives.test_nonblocking import comms_of, finish, matrices, play
from tests.conformance.worlds import KINDS

WAYS = sorted({(way.kind, way.name) for way in algorithms.TABLE})
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
        for count in (24, 4000):
            starts, check = CALLS[kind](rng, 8, count)
            requests = [starts[rank](comm) for rank, comm in enumerate(comms)]
            assert any(f": {kind} {name} (PYRDV_COLLECTIVES), " in repr(request)
                       for request in requests)
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
    """Rule 2; and each row has a function, and each function a row."""
    for kind, size, near, ordered in itertools.product(
            algorithms.MEASURES, (1, 2, 3, 7, 8, 9, 64), (False, True), (False, True)):
        for nbytes in (None, 0, 1, 8, 4096, 1 << 16, 1 << 20, 1 << 30):
            choice = algorithms.choose(kind, size, nbytes, near, ordered)
            assert choice.way.kind == kind and not choice.way.asked and choice.why
            assert choice.way.ordered or not ordered
            assert choice.way.uneven or nbytes is not None
            assert not choice.way.whole or nbytes >= size
    assert set(chosen.BUILDERS) == {" ".join(way) for way in WAYS} == set(algorithms.WORDS.values())


@pytest.mark.parametrize("size", (2, 7, 8, 64))
@pytest.mark.parametrize("kind,name", WAYS)
def test_a_row_that_is_asked_for(kind, name, size):
    """It is taken wherever it can be, and the reason is the knob; else the table has its say."""
    for near, nbytes in itertools.product((False, True), (None, 0, 8, 1 << 20)):
        usual = algorithms.choose(kind, size, nbytes, near)
        choice = algorithms.choose(kind, size, nbytes, near, preferred={kind: name})
        way = next(way for way in algorithms.TABLE if (way.kind, way.name) == (kind, name))
        able = way.can(size, False, nbytes is None) and (not way.whole or (nbytes or 0) >= size)
        assert choice.way.name == (name if able else usual.way.name)
        assert (choice.why == "PYRDV_COLLECTIVES") == able


def test_bytes_decide_only_what_is_noticed():
    """Rule 3: of which kinds members with other lengths may take other rows, and between which."""
    found = {}
    for kind, size, near in itertools.product(algorithms.MEASURES, (3, 4, 8, 64), (False, True)):
        names = {algorithms.choose(kind, size, 1 << bits, near).way.name for bits in range(31)}
        mixed = {algorithms.choose(kind, size, 1 << bits, near).mixed for bits in range(31)}
        assert mixed == {len(names) > 1}
        if len(names) > 1:
            found.setdefault(kind, set()).update(names)
    assert found == {"bcast": {"binomial", "scatter"}, "allgather": {"bruck", "ring"},
                     "allreduce": {"doubling", "halving"}}


def test_numbers_have_words():
    """Those of the trace do not meet protocols and reasons of messages, and fit into a byte."""
    assert set(algorithms.REASONS) <= set(range(64, 256)) > set(algorithms.WORDS)
    for kind, nbytes in itertools.product(algorithms.MEASURES, (None, 8, 1 << 20)):
        choice = algorithms.choose(kind, 4, nbytes)
        assert algorithms.WORDS[choice.number] == f"{kind} {choice.way.name}"


@pytest.mark.parametrize("near", (False, True))
def test_hosts_decide_alike_on_all_ranks(near):
    """A broadcast of 1 MiB goes another way where not all ranks share memory."""
    with KINDS["sim"](8, seed=2) as w:
        for rank, engine in enumerate(w.engines):
            engine.neighbours = range(8) if near else [rank, rank ^ 1]
        comms = comms_of(w)
        rooms = [np.full(1 << 20, 7 * (rank == 3), np.uint8) for rank in range(8)]
        requests = [comm.Ibcast(rooms[rank], 3) for rank, comm in enumerate(comms)]
        assert f"bcast {'binomial' if near else 'scatter'} (" in repr(requests[0])
        w.run(*requests)
        assert all((room == 7).all() for room in rooms)
