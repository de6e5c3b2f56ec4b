"""Probes: what they show is what is received (M03-M05)."""

import numpy as np

from .worlds import MPI, pattern

ANY = {"source": -1, "tag": -1}
SIZES = [0, 1, 80, 3000, 5000, 70_000, 1 << 20]


def test_first_sight_has_the_final_count(world):
    """R4, case M05: an announcement carries the whole length."""
    with world(2) as w:
        for i, size in enumerate(SIZES):
            s = w.comms[0].Isend(pattern(size), dest=1, tag=i)
            status = MPI.Status()
            w.until(lambda status=status: w.comms[1].Iprobe(
                source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status))
            assert status.Get_count(MPI.BYTE) == size
            assert (status.Get_source(), status.Get_tag()) == (0, i)
            room = np.zeros(size, np.uint8)
            w.run(s, w.comms[1].Irecv(room, source=0, tag=i))
            assert np.array_equal(room, pattern(size))


def test_probe_takes_nothing(world):
    """R6: any number of probes shows the same message, the oldest that matches."""
    with world(2) as w:
        sends = [w.comms[0].Isend(pattern(size), dest=1, tag=2) for size in (10, 6000)]
        w.settle()
        for _ in range(3):
            status = MPI.Status()
            assert w.comms[1].Iprobe(source=0, tag=2, status=status)
            assert status.Get_count(MPI.BYTE) == 10
        assert not w.comms[1].Iprobe(source=0, tag=3)
        rooms = [np.zeros(10, np.uint8), np.zeros(6000, np.uint8)]
        w.run(*sends, *(w.comms[1].Irecv(room, source=0, tag=2) for room in rooms))


def test_matched_probe_takes_the_message_out(world):
    """R6, case M04: nobody else sees a message that was taken by a matched probe."""
    with world(2) as w:
        for size in SIZES:
            s = w.comms[0].Isend(pattern(size), dest=1, tag=1)
            message = w.until(lambda: w.comms[1].Improbe(source=MPI.ANY_SOURCE, tag=1))
            assert not w.comms[1].Iprobe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
            assert w.comms[1].Improbe(source=0, tag=1) is None
            stolen = np.zeros(size, np.uint8)
            thief = w.comms[1].Irecv(stolen, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
            w.settle()
            assert not thief.Test()
            room = np.zeros(size, np.uint8)
            w.run(s, message.Irecv(room))
            assert np.array_equal(room, pattern(size))
            thief.Cancel()
            w.run(thief)


def test_matched_probes_keep_order(world):
    """R4: matched probes and receives share one order."""
    with world(2, seed=1) as w:
        sizes = [8, 100_000, 16, 9000, 0, 24]
        sends = [w.comms[0].Isend(pattern(size, i), dest=1, tag=1)
                 for i, size in enumerate(sizes)]
        taken = []
        for i, size in enumerate(sizes):
            room = np.zeros(size, np.uint8)
            if i % 2:
                taken.append((room, w.comms[1].Irecv(room, source=0, tag=1)))
            else:
                message = w.until(lambda: w.comms[1].Improbe(source=0, tag=1))
                taken.append((room, message.Irecv(room)))
        w.run(*sends, *(r for _, r in taken))
        for i, (room, _) in enumerate(taken):
            assert np.array_equal(room, pattern(sizes[i], i))


def test_probed_then_received(world):
    """Case M03: an exact receive after a wildcard probe gets the probed message."""
    with world(3, seed=2) as w:
        sends, received = [], {1: 0, 2: 0}
        for i in range(100):
            for rank in (1, 2):
                size = w.rng.choice((0, 10, 500, 7000))
                sends.append(w.comms[rank].Isend(pattern(size, i), dest=0, tag=i))
        for _ in range(200):
            status = MPI.Status()
            w.until(lambda status=status: w.comms[0].Iprobe(
                source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status))
            source, tag = status.Get_source(), status.Get_tag()
            assert tag == received[source]
            received[source] += 1
            room = np.zeros(status.Get_count(MPI.BYTE), np.uint8)
            w.run(w.comms[0].Irecv(room, source=source, tag=tag))
            assert np.array_equal(room, pattern(room.size, tag))
        w.run(*sends)
        assert received == {1: 100, 2: 100}


def test_synchronous_send_completes_with_the_matched_receive(world):
    """Case M16: matched by a probe alone, a synchronous send may not lose its data."""
    with world(2) as w:
        for size in (8, 5000, 300_000):
            s = w.comms[0].Issend(pattern(size), dest=1)
            message = w.until(lambda: w.comms[1].Improbe(source=0))
            w.settle()
            room = np.zeros(size, np.uint8)
            w.run(s, message.Irecv(room))
            assert np.array_equal(room, pattern(size))
