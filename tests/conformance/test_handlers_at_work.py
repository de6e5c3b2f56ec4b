"""Random programs while handlers interrupt them ten thousand times a second (parasite.pyx).

Real timers of all ranks interrupt the one thread that makes all calls, anywhere in Python and in
the library.  HANDLER_SECONDS says how long: a second by default, minutes under the sanitizers by
``HANDLER_SECONDS=600 make sanitize ARGS=tests/conformance/test_handlers_at_work.py``.
"""

import os
import random
import time

import numpy as np
import pytest

from pyrdv.progress.parasite import Parasite

from .oracle import ANY
from .test_programs import BASES, RANKS, Runner
from .worlds import KINDS, MPI, pattern

#: A handler would come into the middle of the simulated network, which has no lock of its own.
WITHOUT = tuple(kind for kind in KINDS if kind.startswith(("sim", "chaos")))

SECONDS = float(os.environ.get("HANDLER_SECONDS", "1"))


@pytest.fixture(params=("timer", "event"))
def trigger(request):
    """What interrupts."""
    return request.param


class Signals:
    """Handlers of all engines of a world, as often as 10 kHz allows, until the block ends."""

    def __init__(self, world, trigger):
        self.modes = [Parasite(engine, phase=100, period=100, decay=1, turn_limit=1 << 30,
                               share=50, trigger=trigger) for engine in world.engines]
        self.engines = world.engines

    def __enter__(self):
        for mode, engine in zip(self.modes, self.engines, strict=True):
            mode.begin(engine)
        return self

    def __exit__(self, *_):
        for mode in self.modes:
            mode.end()

    def count(self):
        """(signals that came, of them those that found a call at work)."""
        facts = [mode.facts() for mode in self.modes]
        return sum(one["signals"] for one in facts), sum(one["barred"] for one in facts)


def compute(rng):
    """What a program does between its calls."""
    np.sort(np.arange(rng.choice((10, 3000, 30_000)))[::-1])


def program(w, rng):
    """A hundred operations of all kinds, judged in the end."""
    runner = Runner(w, settled=False)
    for _ in range(100):
        kind = rng.choice(("send", "send", "ssend", "recv", "recv", "probe", "improbe", "cancel"))
        rank, tag, context = rng.randrange(RANKS), rng.randrange(3), rng.randrange(2)
        if "send" in kind:
            runner.do((kind, rank, rng.randrange(RANKS), tag, rng.choice(BASES), context))
        elif kind == "cancel":
            runner.do((kind, rng.randrange(100)))
        else:
            source = ANY if rng.random() < 0.5 else rng.randrange(RANKS)
            runner.do((kind, rank, source, rng.choice((tag, ANY)), context))
        if rng.random() < 0.2:
            compute(rng)
    runner.finish()


def transfers(w, rng):
    """Large messages that need steps by themselves, from anybody, while everyone computes."""
    rooms, requests = [], []
    for number in range(6):
        source, dest = rng.sample(range(RANKS), 2)
        size = rng.choice((70_000, 1_500_000))
        rooms.append((np.zeros(size, np.uint8), pattern(size, number)))
        calls = [lambda r=rooms[-1], d=dest, n=number: w.comms[d].Irecv(r[0], MPI.ANY_SOURCE, n),
                 lambda r=rooms[-1], s=source, d=dest, n=number: w.comms[s].Isend(r[1], d, n)]
        for call in rng.sample(calls, 2):
            requests.append(call())
            compute(rng)
    rng.shuffle(requests)
    w.run(*requests)
    assert all((room == data).all() for room, data in rooms)


def test_random_programs(world, trigger):
    """R3 to R6 hold; many signals come, some into the middle of calls, and data moves by them."""
    rng, end = random.Random(7), time.monotonic() + SECONDS
    signals = barred = moved = rounds = 0
    while time.monotonic() < end or not moved:
        with world(RANKS, seed=rounds) as w, Signals(w, trigger) as handlers:
            rng.choice((program, transfers))(w, rng)
            came = handlers.count()
            moved += sum(engine.counters()["flow_hits"] for engine in w.engines)
        signals, barred, rounds = signals + came[0], barred + came[1], rounds + 1
        assert time.monotonic() < end + 60, "no handler has moved anything"
    assert signals > 0
    print(f"{rounds} programs, {signals} signals, {barred} of them into calls, {moved} moved data")
