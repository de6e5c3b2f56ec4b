"""A dead peer is an error of the operations with it, and of no others (section 8)."""

import numpy as np
import pytest

from pyrdv.errors import PeerLostError

from .worlds import MPI, pattern


def connect_all(w):
    """One message between each ordered pair, so that every connection is up."""
    requests = []
    for a in range(w.size):
        for b in range(w.size):
            if a != b:
                requests.append(w.comms[a].Isend(pattern(8), dest=b, tag=99))
                requests.append(w.comms[b].Irecv(np.zeros(8, np.uint8), source=a, tag=99))
    w.run(*requests)


def ends_lost(w, request, rank):
    """`request` ends with PeerLostError, naming `rank`."""
    with pytest.raises(PeerLostError, match=str(rank)):
        w.run(request)


def test_pending_operations_end(world):
    """R3: receives, rendezvous and synchronous sends end; other peers go on."""
    with world(3, seed=1) as w:
        connect_all(w)
        room = np.zeros(100, np.uint8)
        lost = [
            w.comms[0].Irecv(room, source=1, tag=1),
            w.comms[0].Irecv(room, source=1, tag=MPI.ANY_TAG),
            w.comms[0].Isend(pattern(300_000), dest=1, tag=1),
            w.comms[0].Issend(pattern(8), dest=1, tag=1),
        ]
        other = np.zeros(300_000, np.uint8)
        any_source = np.zeros(10, np.uint8)
        good = [w.comms[0].Irecv(other, source=2, tag=3)]
        w.settle()
        w.kill(1)
        for request in lost:
            ends_lost(w, request, 1)
        good.append(w.comms[2].Isend(pattern(300_000), dest=0, tag=3))
        good.append(w.comms[0].Irecv(any_source, source=MPI.ANY_SOURCE, tag=4))
        good.append(w.comms[2].Isend(pattern(10), dest=0, tag=4))
        w.run(*good)
        assert np.array_equal(other, pattern(300_000))
        assert np.array_equal(any_source, pattern(10))


def test_new_operations_fail(world):
    """Section 8: what is posted after the loss was noticed ends at once."""
    with world(2, seed=2) as w:
        connect_all(w)
        w.kill(1)
        w.settle()
        w.until(lambda: w.engines[0].peer_states()[1] == "lost")

        def attempt(call):
            with pytest.raises(PeerLostError):
                w.run(call())

        room = np.zeros(100, np.uint8)
        attempt(lambda: w.comms[0].Irecv(room, source=1))
        attempt(lambda: w.comms[0].Isend(pattern(10), dest=1))
        attempt(lambda: w.comms[0].Issend(pattern(300_000), dest=1))


def test_messages_that_arrived_are_still_received(world):
    """F7: what the peer handed over before it died was delivered first."""
    with world(2, seed=3) as w:
        connect_all(w)
        for i in range(5):
            w.run(w.comms[1].Isend(pattern(100, i), dest=0, tag=i))
        w.settle()
        w.kill(1)
        w.settle()
        for i in (3, 0, 4, 1, 2):
            room = np.zeros(100, np.uint8)
            w.run(w.comms[0].Irecv(room, source=1, tag=i))
            assert np.array_equal(room, pattern(100, i))
        ends_lost(w, w.comms[0].Irecv(np.zeros(1, np.uint8), source=1), 1)


def test_death_in_the_middle_of_a_rendezvous(world):
    """R5: announced but not read when its sender died: an error, or the whole data."""
    with world(3, seed=4) as w:
        connect_all(w)
        data = pattern(2 << 20)
        sends = [w.comms[1].Isend(data, dest=0, tag=1)]
        w.settle()
        w.kill(1)
        room = np.zeros(2 << 20, np.uint8)
        try:
            w.run(w.comms[0].Irecv(room, source=1, tag=1))
        except PeerLostError as error:
            assert "1" in str(error)
        else:
            assert np.array_equal(room, data)
        w.run(w.comms[2].Isend(pattern(10), dest=0),
              w.comms[0].Irecv(np.zeros(10, np.uint8), source=2))
        assert sends


def connected(world, **more):
    """Two ranks; rank 0 looks after its peer in every call that does not wait."""
    w = world(2, look_ns=1, **more)
    connect_all(w)
    return w


SENDS = {
    "Isend": lambda comm, data: comm.Isend(data, dest=1),
    "isend": lambda comm, data: comm.isend(1, dest=1),
    "Issend": lambda comm, data: comm.Issend(data, dest=1),
    "persistent": lambda comm, data: comm.Send_init(data, dest=1).Start(),
}


@pytest.mark.parametrize("kind", SENDS)
def test_sends_that_never_wait_are_told(world, kind):
    """Section 8: a rank that only starts small sends gets the error after a few calls."""
    with connected(world, seed=5) as w:
        w.kill(1)
        accepted = []
        with pytest.raises(PeerLostError, match="1"):
            for _ in range(10):
                w.turn()
                accepted.append(SENDS[kind](w.comms[0], pattern(8)))
        assert len(accepted) < 5
        accepted.clear()


def test_test_loop_is_told(world):
    """Section 8: a receive that is only tested ends."""
    with connected(world, seed=6) as w:
        request = w.comms[0].Irecv(np.zeros(8, np.uint8), source=1)
        w.kill(1)
        with pytest.raises(PeerLostError, match="1"):
            for _ in range(10):
                w.turn()
                request.Test()


def test_probe_loop_is_told(world):
    """Section 8: looking for a message of the dead is an error; for anybody's, if none is left."""
    for source in (1, MPI.ANY_SOURCE):
        with connected(world, seed=7) as w:
            w.kill(1)
            with pytest.raises(PeerLostError):
                for _ in range(10):
                    w.turn()
                    w.comms[0].Iprobe(source=source)


def test_anybody_tested_is_told(world):
    """A receive from anybody ends when the last other rank has died."""
    with connected(world, seed=8) as w:
        request = w.comms[0].Irecv(np.zeros(8, np.uint8), source=MPI.ANY_SOURCE)
        w.kill(1)
        with pytest.raises(PeerLostError, match="every possible source"):
            for _ in range(10):
                w.turn()
                request.Test()


def test_no_send_after_an_error(world):
    """E1: once an operation said that the peer is lost, no send to it is accepted."""
    with world(2, seed=9) as w:
        connect_all(w)
        w.kill(1)
        data = pattern(300_000)
        try:
            w.run(w.comms[0].Isend(data, dest=1))
        except PeerLostError:
            pass
        else:
            raise AssertionError("no error")
        for _ in range(3):
            with pytest.raises(PeerLostError):
                w.comms[0].Isend(pattern(8), dest=1)
