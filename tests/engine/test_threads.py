"""Several threads of one rank in the library at once: everything arrives, once, with its own data.

`make sanitize` runs this under ThreadSanitizer as well. Ranks are engines of this process, joined
by shared memory; the simulated network is driven by one thread at a time, so over it threads of
a rank send to themselves.
"""

import queue
import threading

import numpy as np
import pytest

from pyrdv.errors import Error
from tests.conformance import names as MPI
from tests.conformance.worlds import (
    PipelineShmWorld,
    ShmWorld,
    SimWorld,
    StagedWorld,
    UnspeculativeShmWorld,
    pattern,
)

ROUNDS = 12
SIZES = (1, 3000, 40_000, 300_000)
#: Waiters of this engine sleep at once, and of the other not for long.
ASLEEP, AWAKE = {"spin_ns": 0, "yield_ns": 0}, {}

shared = pytest.mark.parametrize(
    "kind", [ShmWorld, StagedWorld, PipelineShmWorld, UnspeculativeShmWorld],
    ids=lambda kind: kind.kind)
patience = pytest.mark.parametrize("waiting", [ASLEEP, AWAKE], ids=["asleep", "awake"])


def at_once(*calls):
    """Run each call in a thread of its own; the first error of any is raised."""
    failed = queue.SimpleQueue()

    def guarded(call):
        try:
            call()
        except BaseException as error:
            failed.put(error)

    threads = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if not failed.empty():
        raise failed.get()
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"


def seed(rank, tag, number):
    return 100 * tag + 10 * number + rank


def exchange(comm, tag, requests):
    """Messages of all sizes with the other rank, blocking (one sends first) or by requests."""
    other = 1 - comm.rank

    def turn():
        for number in range(ROUNDS):
            size = SIZES[(tag + number) % len(SIZES)]
            out, into = pattern(size, seed(comm.rank, tag, number)), np.zeros(size, np.uint8)
            if requests:
                pair = [comm.Irecv(into, other, tag), comm.Isend(out, other, tag)]
                MPI.Request.Waitall(pair)
            elif comm.rank == number % 2:
                comm.Send(out, other, tag)
                comm.Recv(into, other, tag)
            else:
                comm.Recv(into, other, tag)
                comm.Ssend(out, other, tag)
            assert (into == pattern(size, seed(other, tag, number))).all()
    return turn


def probing(comm, tag):
    """Matched probes of one rank, objects of the other; each thread takes its own."""
    def turn():
        for number in range(ROUNDS):
            if comm.rank == 0:
                comm.send({"number": number, "tag": tag, "fill": bytes(10_000 * (number % 3))}, 1,
                          tag)
            elif number % 2:
                assert comm.mprobe(0, tag).recv()["number"] == number
            else:
                assert comm.probe(0, tag)
                assert comm.recv(None, 0, tag)["number"] == number
    return turn


def objects(comm, tag):
    """Requests of objects, large and small: their second half is received by whoever waits."""
    other = 1 - comm.rank

    def turn():
        for number in range(ROUNDS):
            mine = [comm.rank, number, bytes(SIZES[number % 4])]
            pair = [comm.irecv(None, other, tag), comm.isend(mine, other, tag)]
            assert MPI.Request.waitall(pair)[0] == [other, number, mine[2]]
    return turn


def looking(comm, done):
    """What a thread may ask at any time, without a lock of its own."""
    def turn():
        never = comm.Irecv(bytearray(8), 1 - comm.rank, 999)
        while not done.is_set():
            comm.Iprobe(MPI.ANY_SOURCE, 998)
            assert not never.Test()
            comm.engine.counters()
            assert comm.engine.epoch >= 0 and len(comm.engine.peer_states()) == 2
        never.Cancel()
        never.Wait()
    return turn


def ending(done, count, turn):
    """`turn`, and the last of `count` such sets `done`."""
    def both():
        try:
            turn()
        finally:
            count.append(1)
            if len(count) == count[0]:
                done.set()
    return both


@shared
@patience
def test_every_thread_gets_its_own(kind, waiting):
    with kind(2, **waiting) as w:
        done = threading.Event()
        work = [each for comm in w.comms for each in (
            exchange(comm, 1, True), exchange(comm, 2, False), exchange(comm, 3, True),
            probing(comm, 4), objects(comm, 5), objects(comm, 6))]
        count = [len(work) + 1]
        at_once(*[ending(done, count, each) for each in work],
                *[looking(comm, done) for comm in w.comms])
        w.settle()


@patience
def test_messages_to_oneself(waiting):
    with SimWorld(1, **waiting) as w:
        comm, = w.comms

        def turn(tag):
            for number in range(ROUNDS):
                into = np.zeros(SIZES[number % 3], np.uint8)
                out = pattern(into.size, seed(0, tag, number))
                request = comm.Irecv(into, 0, tag)
                comm.Ssend(out, 0, tag)
                request.Wait()
                assert (into == out).all()

        at_once(*[lambda tag=tag: turn(tag) for tag in range(4)])


@shared
@patience
def test_one_thread_completes_what_others_wait_for(kind, waiting):
    """The waiters sleep; whoever makes the progress must wake each of them."""
    with kind(2, **waiting) as w:
        first, second = w.comms
        rooms = [np.zeros(50_000, np.uint8) for _ in range(4)]

        def feed():
            for tag in (2, 0, 3, 1):
                second.Send(pattern(50_000, tag), 0, tag)

        at_once(*[lambda tag=tag: first.Recv(rooms[tag], 1, tag) for tag in range(4)], feed)
        assert all((rooms[tag] == pattern(50_000, tag)).all() for tag in range(4))


@patience
def test_a_peer_that_ends_ends_every_wait(waiting):
    """Also those of probes, which look at the peer's state without the lock."""
    w = ShmWorld(2, **waiting)
    first, second = w.comms
    at_once(lambda: second.Send(b"up", 0, 0), lambda: first.Recv(bytearray(2), 1, 0))
    told = []

    def wait(call):
        try:
            call()
        except Error as error:
            told.append(error)

    started = threading.Barrier(4)

    def end():
        started.wait(30)
        w.kill(1)

    calls = [lambda: first.Recv(bytearray(9), 1, 1), lambda: first.Probe(1, 2),
             lambda: first.Recv(bytearray(9), MPI.ANY_SOURCE, 3)]
    at_once(end, *[lambda call=call: (started.wait(30), wait(call)) for call in calls])
    assert len(told) == 3
    w.engines[0].close()
