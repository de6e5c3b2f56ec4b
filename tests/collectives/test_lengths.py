"""Members that give other lengths than the rest, by mistake: nobody waits for good, and nobody gets
a wrong result in silence.

That is rule 3 of ``pyrdv/algorithms.py``, and L4, L5 and L9 of ``engine/schedule/schedule.pyx``.
"""

import itertools
import random

import numpy as np
import pytest

from pyrdv.errors import CollectiveError, CountError, TruncationError
from tests.collectives.test_nonblocking import comms_of, go_on, groups
from tests.conformance.worlds import KINDS, PATIENCE

REFUSALS = (CountError, TruncationError, CollectiveError)
SIZES = (2, 3, 4, 5, 8, 9)
#: Of what each member may give: within a row of the table, and of two; and such that a part of the
#: longer is as long as the shorter.
LENGTHS = {
    "bcast": ((3, 5), (1 << 10, 8 << 10), (64 << 10, 512 << 10), (1 << 10, 1 << 20),
              (128 << 10, 1 << 20)),
    "gather": ((1, 2), (512, 2048), (8, 30_000)),
    "scatter": ((1, 2), (512, 2048), (8, 30_000)),
    "allgather": ((0, 1), (4, 5), (8 << 10, 16 << 10), (16 << 10, 32 << 10), (8, 100_000)),
    "alltoall": ((0, 1), (8, 16), (64, 256), (128, 40_000)),
    "allreduce": ((8, 16), (16, 64), (16 << 10, 32 << 10), (64 << 10, 64 << 10 | 8)),
    "reduce_scatter": ((0, 8), (8, 16), (512, 2048), (8, 40_000)),
}
#: Asked for, beside those of the table.
ASKED = {
    "bcast": ("scatter", "chain"), "gather": ("binomial",), "scatter": ("binomial",),
    "allgather": ("bruck", "doubling", "ring"), "alltoall": ("bruck", "pairwise"),
    "allreduce": ("ring", "halving"), "reduce_scatter": ("halving",),
}
CASES = [(kind, name) for kind, names in ASKED.items() for name in ("", *names)]


def some(rng, size):
    """Ranks that are wrong together: one, two, every second, one half."""
    every = sorted(groups(size), key=sorted)
    fixed = [frozenset(range(0, size, 2)), frozenset(range(size // 2)),
             frozenset(range(size - size // 2, size))]
    return {*rng.sample(every, min(len(every), 5)), *(one for one in fixed if one)}


def start(kind, comm, nbytes, root):
    """Start a call with so many bytes as its kind counts them; the request, and a function that
    says whether what was received is right if all give as many."""
    size, rank, top = comm.size, comm.rank, comm.rank == root
    if kind == "bcast":
        room = np.arange(nbytes, dtype=np.uint8) if top else np.zeros(nbytes, np.uint8)
        return comm.Ibcast(room, root), lambda: (room == np.arange(nbytes, dtype=np.uint8)).all()
    if kind == "gather":
        room = np.zeros((size, nbytes), np.uint8)
        request = comm.Igather(np.full(nbytes, rank + 1, np.uint8), room if top else None, root)
        return request, lambda: not top or (room == np.arange(1, size + 1)[:, None]).all()
    if kind == "scatter":
        room = np.zeros(nbytes, np.uint8)
        data = np.repeat(np.arange(1, size + 1, dtype=np.uint8), nbytes) if top else None
        return comm.Iscatter(data, room, root), lambda: (room == rank + 1).all()
    if kind in ("allgather", "alltoall"):
        room = np.zeros((size, nbytes), np.uint8)
        data = np.full(nbytes if kind == "allgather" else (size, nbytes), rank + 1, np.uint8)
        request = (comm.Iallgather if kind == "allgather" else comm.Ialltoall)(data, room)
        return request, lambda: (room == np.arange(1, size + 1)[:, None]).all()
    count = nbytes // 8
    room = np.zeros(count, np.int64)
    if kind == "allreduce":
        request = comm.Iallreduce(np.full(count, rank, np.int64), room)
    else:
        request = comm.Ireduce_scatter_block(np.full((size, count), rank, np.int64), room)
    return request, lambda: (room == size * (size - 1) // 2).all()


def needs(kind, comm, root):
    """Of whom the result of a member is made."""
    if kind in ("bcast", "scatter"):
        return {comm.rank, root}
    if kind == "gather":
        return set(range(comm.size)) if comm.rank == root else {comm.rank}
    return set(range(comm.size))


def ended(w, left):
    """Look at requests until all have ended; what each has raised, or None."""
    found, idle = {}, 0
    while left and idle < PATIENCE:
        idle += not w.step()
        for rank, request in list(left.items()):
            try:
                if not request.Test():
                    continue
                found[rank] = None
            except REFUSALS as error:
                found[rank] = error
            del left[rank]
    assert not left, f"{sorted(left)} wait for good\n{w.describe()}"
    return found


def play_wrong(w, kind, lengths, root, seed):
    """Make a call in which each member gives its own length."""
    rng = random.Random(seed)
    comms = comms_of(w)
    calls = {}
    for rank in rng.sample(range(w.size), w.size):
        calls[rank] = start(kind, comms[rank], lengths[rank], root)
        for _ in range(rng.choice((0, 0, 2))):
            w.step()
    found = ended(w, {rank: request for rank, (request, _) in calls.items()})
    for rank, error in found.items():
        alike = len({lengths[other] for other in needs(kind, comms[rank], root)}) == 1
        assert error is not None or alike and calls[rank][1](), \
            f"rank {rank} of {lengths} has got what is wrong"
    assert any(isinstance(error, CountError | TruncationError) for error in found.values())
    go_on(w, rng, comms)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind,name", CASES)
def test_other_lengths_are_an_error(kind, name, size):
    """Within a host and across hosts; by the table, and by what PYRDV_COLLECTIVES asks for."""
    rng = random.Random(f"{kind} {name} {size}")
    for pair, bad in itertools.product(LENGTHS[kind], some(rng, size)):
        lengths = [pair[rank in bad] for rank in range(size)]
        if rng.random() < 0.5:
            lengths = [pair[rank not in bad] for rank in range(size)]
        seed, root = rng.randrange(1000), rng.randrange(size)
        with KINDS["sim"](size, seed=seed) as w:
            near = rng.random() < 0.5
            for engine in w.engines:
                engine.preferred = {kind: name} if name else None
                engine.neighbours = range(size) if near else None
            play_wrong(w, kind, lengths, root, seed)


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("fabric", ("chaos", "chaos-pipeline", "shm"))
def test_other_lengths_over_other_fabrics(fabric, kind):
    """Whatever the order of events, and whoever moves the data."""
    rng = random.Random(f"{fabric} {kind}")
    for pair, size in itertools.product(LENGTHS[kind], (3, 4, 8)):
        bad = rng.choice(sorted(some(rng, size), key=sorted))
        with KINDS[fabric](size, seed=size) as w:
            play_wrong(w, kind, [pair[rank in bad] for rank in range(size)], size - 1, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind,name", CASES)
def test_three_lengths(kind, name, size):
    """Each member its own of three: mistakes of several kinds at once."""
    rng = random.Random(f"{kind} {name} {size} three")
    choices = sorted({*itertools.chain(*LENGTHS[kind])})
    for seed in range(6):
        three = rng.sample(choices, 3)
        lengths = [rng.choice(three) for _ in range(size)]
        root = rng.randrange(size)
        if len(set(lengths)) == 1:
            continue
        with KINDS["sim"](size, seed=seed) as w:
            for engine in w.engines:
                engine.preferred = {kind: name} if name else None
            play_wrong(w, kind, lengths, root, seed)


def allgatherv(comm, counts):
    rank = comm.rank
    room = np.zeros(sum(counts), np.uint8)
    return comm.Iallgatherv(np.full(counts[rank], rank + 1, np.uint8), [room, counts]), \
        lambda: (room == np.repeat(np.arange(1, comm.size + 1), counts)).all()


def reduce_scatter(comm, counts):
    room = np.zeros(counts[comm.rank], np.int64)
    data = np.full(sum(counts), comm.rank, np.int64)
    return comm.Ireduce_scatter(data, room, counts), \
        lambda: (room == comm.size * (comm.size - 1) // 2).all()


def gatherv(comm, counts):
    rank, size = comm.rank, comm.size
    room = np.zeros(sum(counts), np.uint8)
    mine = np.full(counts[rank], rank + 1, np.uint8)
    return comm.Igatherv(mine, [room, counts] if rank == size - 1 else None, size - 1), \
        lambda: rank != size - 1 or (room == np.repeat(np.arange(1, size + 1), counts)).all()


def scatterv(comm, counts):
    rank, size = comm.rank, comm.size
    room = np.zeros(counts[rank], np.uint8)
    data = [np.repeat(np.arange(1, size + 1, dtype=np.uint8), counts), counts]
    return comm.Iscatterv(data if rank == 0 else None, room, 0), lambda: (room == rank + 1).all()


def alltoallv(comm, counts):
    """Each sends as many to all as `counts` says of itself."""
    rank, size = comm.rank, comm.size
    room = np.zeros(sum(counts), np.uint8)
    data = np.full(size * counts[rank], rank + 1, np.uint8)
    return comm.Ialltoallv([data, [counts[rank]] * size], [room, counts]), \
        lambda: (room == np.repeat(np.arange(1, size + 1), counts)).all()


@pytest.mark.parametrize("name", ("", "bruck", "doubling", "halving", "binomial", "pairwise"))
@pytest.mark.parametrize("size", (3, 4, 8))
@pytest.mark.parametrize("call", (allgatherv, reduce_scatter, gatherv, scatterv, alltoallv))
def test_other_counts_of_blocks(call, size, name):
    """One member's list says otherwise of one member: of itself, or of another."""
    rng = random.Random(f"{call.__name__} {size} {name}")
    for wrong, of in itertools.product(range(size), rng.sample(range(size), 2)):
        good = [rng.choice((1, 3, 40)) for _ in range(size)]
        bad = list(good)
        bad[of] = rng.choice((1 << 18, bad[of] + 1))
        with KINDS["sim"](size, seed=of) as w:
            comms = comms_of(w)
            for engine in w.engines:
                engine.preferred = dict.fromkeys(ASKED, name) if name else None
            calls = {rank: call(comm, bad if rank == wrong else good)
                     for rank, comm in enumerate(comms)}
            found = ended(w, {rank: request for rank, (request, _) in calls.items()})
            for rank, error in found.items():
                assert error is not None or calls[rank][1](), (rank, wrong, of)
            go_on(w, rng, comms)


@pytest.mark.parametrize("size", (3, 4, 8, 9))
@pytest.mark.parametrize("nbytes", (0, 1, 64, 40_000))
@pytest.mark.parametrize("kind", ("gather", "scatter", "allgather", "alltoall"))
def test_both_forms_of_a_call(kind, nbytes, size):
    """Some members call the form with counts, which MPI does not allow: a right result, or an
    error, and nobody waits for good."""
    rng = random.Random(f"{kind} {nbytes} {size}")
    form = {"gather": gatherv, "scatter": scatterv, "allgather": allgatherv,
            "alltoall": alltoallv}[kind]
    root = {"gather": size - 1}.get(kind, 0)
    for bad in some(rng, size):
        with KINDS["sim"](size, seed=len(bad)) as w:
            comms = comms_of(w)
            calls = {rank: form(comm, [nbytes] * size) if rank in bad
                     else start(kind, comm, nbytes, root) for rank, comm in enumerate(comms)}
            found = ended(w, {rank: request for rank, (request, _) in calls.items()})
            for rank, error in found.items():
                assert error is not None or calls[rank][1]()
            go_on(w, rng, comms)
