"""Who sleeps is called when there is something to do, whatever other threads of the rank did (R7).

Each rank has an event loop that makes a turn only when it is called.  The tests play the other
threads, which post something, make a few turns and leave.  Nothing else drives the engines and no
time limit wakes the loops, so a lost wake-up (sleeping.pyx, S1, S6, S7) leaves something undone.
"""

import random

import numpy as np
import pytest

from pyrdv.engine.listener import Listener
from pyrdv.instruments.engine import Driver
from tests.support.ready import readable

from .worlds import pattern

RANKS = 3
SIZES = (0, 8, 3000, 70_000, 1_500_000)
#: Turns of the network in a row without anything that mean that nothing comes any more.
QUIET = 50


class Sleeper:
    """An event loop of one rank."""

    def __init__(self, engine):
        self.engine = engine
        self.listener = Listener(engine)
        self.sleep()

    def sleep(self):
        while not self.listener.arm(self.engine.epoch):
            self.engine.turn()

    def answer(self):
        """Make a turn if it was called; whether it was."""
        called = readable(list(self.listener.fds), 0)
        if called:
            self.listener.disarm()
            self.engine.turn()
            self.sleep()
        return called


def rest(world, sleepers):
    """Only those who are called do something, until nobody is."""
    quiet = 0
    while quiet < QUIET:
        answered = [sleeper.answer() for sleeper in sleepers]
        quiet = 0 if world.turn() or any(answered) else quiet + 1


def finished(world, requests):
    """Whether all were complete without the turns that `Test` makes."""
    return not any(engine.turn() for engine in world.engines) and all(r.Test() for r in requests)


@pytest.mark.parametrize("alone", (False, True), ids=("turns", "steps"))
@pytest.mark.parametrize("seed", range(12))
def test_sleepers_do_what_others_leave(world, seed, alone):
    """S6, S7, S8: threads post, now and then make turns, or are interrupted by a signal whose
    handler makes a step by itself, and leave; the sleepers finish it."""
    rng = random.Random(seed)
    with world(RANKS, seed=seed, slots=rng.choice((2, 8, None)), spin_ns=0, yield_ns=0) as w:
        sleepers = [Sleeper(engine) for engine in w.engines]
        others = [Driver(engine).step if alone else engine.turn for engine in w.engines]
        posts, requests, rooms = [], [], []
        for number in range(rng.choice((3, 60))):
            source, dest = rng.sample(range(RANKS), 2)
            size = rng.choice(SIZES[:-1] if number % 8 else SIZES)
            room = np.zeros(size, np.uint8)
            rooms.append((room, pattern(size, number)))
            posts.append((source, w.comms[source].Isend, (rooms[-1][1], dest, number)))
            posts.append((dest, w.comms[dest].Irecv, (room, source, number)))
        rng.shuffle(posts)
        for rank, post, arguments in posts:
            requests.append(post(*arguments))
            for _ in range(rng.choice((0, 0, 1, 4))):
                others[rank]()
            if rng.random() < 0.2:
                rest(w, sleepers)
        rest(w, sleepers)
        assert finished(w, requests)
        assert all((room == data).all() for room, data in rooms)
        del sleepers


def test_nobody_sleeps_while_there_is_room(world):
    """S7: a turn posts so many messages at most; before the rest is out nobody falls asleep."""
    with world(2) as w:
        w.run(w.comms[0].Isend(b"", dest=1), w.comms[1].Irecv(bytearray(), source=0))
        w.settle()
        sends = [w.comms[0].Isend(bytes(8), dest=1, tag=1) for _ in range(400)]
        sleepers = [Sleeper(engine) for engine in w.engines]
        rest(w, sleepers)
        receives = [w.comms[1].Irecv(bytearray(8), source=0, tag=1) for _ in sends]
        rest(w, sleepers)
        assert finished(w, sends + receives)
        del sleepers


def test_a_step_by_itself_calls_all_who_sleep(world):
    """S8: a handler takes what two loops sleep for.  The first who wakes up takes the arming back
    and finds nothing any more, so it would not call the other."""
    with world(2) as w:
        w.run(w.comms[0].Isend(b"", dest=1), w.comms[1].Irecv(bytearray(), source=0))
        w.settle()
        handler = Driver(w.engines[1])
        receive = w.comms[1].Irecv(bytearray(8), source=0, tag=1)
        sleepers = [Sleeper(w.engines[1]) for _ in range(2)]
        send = w.comms[0].Isend(bytes(8), dest=1, tag=1)
        while not handler.step():
            w.turn()
        w.comms[1].Iprobe(source=0, tag=9)      # a third thread finds nothing more
        assert [sleeper.answer() for sleeper in sleepers] == [True, True]
        assert finished(w, [send, receive])
        del sleepers
