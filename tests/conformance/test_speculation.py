"""Receives that come first offer their buffers; which message each of them meets (R3-R6).

In each test the receive is posted, and what it offers has arrived, before the send.
"""

import mmap

import numpy as np
import pytest

from .worlds import MPI, pattern

LARGE = 300_000


@pytest.fixture
def w(world):
    """Two ranks that have talked, so that connections are up."""
    with world(2) as w:
        for a, b in ((0, 1), (1, 0)):
            w.run(w.comms[a].Isend(pattern(8), dest=b),
                  w.comms[b].Irecv(np.zeros(8, np.uint8), source=a))
        w.settle()
        yield w


def counted(w, name):
    return sum(engine.counters()[name] for engine in w.engines)


FATES = ("used", "stale", "unused", "refused", "revoked", "flagged")


def expect(w, sent, classic=None, **others):
    """RTRs sent, and what became of them; `classic`: what differs with that pairing."""
    wanted = {"rtrs_sent": sent, **others}
    if w.speculation == "classic":
        wanted.update(classic or {})
    found = {name: counted(w, name) for name in wanted}
    assert found == {name: value if w.offers else 0
                     for name, value in wanted.items()}
    w.settle()
    assert counted(w, "rtrs_received") == counted(w, "rtrs_sent")
    assert sum(counted(w, f"rtrs_{fate}") for fate in FATES) == counted(w, "rtrs_received")


def receive(w, size, tag=3, source=0):
    room = np.zeros(size, np.uint8)
    request = w.comms[1].Irecv(room, source=source, tag=tag)
    w.settle()
    return room, request


def check(room, size, seed=0):
    assert np.array_equal(room[:size], pattern(size, seed))
    assert not room[size:].any()


def test_the_sender_writes(w):
    room, request = receive(w, LARGE)
    w.run(w.comms[0].Isend(pattern(LARGE), dest=1, tag=3), request)
    check(room, LARGE)
    expect(w, 1, rtrs_used=1)
    assert counted(w, "reads") == (not w.offers and w.protocol != "pipeline")


def test_a_shorter_message(w):
    room, request = receive(w, 2 * LARGE)
    status = MPI.Status()
    w.run(w.comms[0].Isend(pattern(LARGE), dest=1, tag=3))
    w.until(lambda: request.Test(status))
    assert status.Get_count(MPI.BYTE) == LARGE
    check(room, LARGE)
    expect(w, 1, rtrs_used=1)


def test_a_longer_message_is_truncated(w):
    """R6: too long for the offer: it is announced and read, and the next one is not harmed."""
    room, request = receive(w, LARGE)
    send = w.comms[0].Isend(pattern(LARGE + 1), dest=1, tag=3)
    with pytest.raises(MPI.Exception) as caught:
        w.run(request)
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
    w.run(send)
    check(room, LARGE)
    room, request = receive(w, LARGE)
    w.run(w.comms[0].Isend(pattern(LARGE), dest=1, tag=3), request)
    check(room, LARGE)
    expect(w, 2, rtrs_used=1, rtrs_unused=1)


@pytest.mark.parametrize("size", [0, 10])
def test_a_small_message_takes_the_offer_away(w, size):
    """X4: it goes eager; the RTR of its receive is not left for another message."""
    small, first = receive(w, LARGE)
    large, second = receive(w, LARGE)
    w.run(w.comms[0].Isend(pattern(size, 1), dest=1, tag=3),
          w.comms[0].Isend(pattern(LARGE, 2), dest=1, tag=3), first, second)
    check(small, size, 1)
    check(large, LARGE, 2)
    expect(w, 2, rtrs_used=1, rtrs_unused=1, rtrs_flagged=0,
           classic={"rtrs_used": 0, "rtrs_flagged": 1})


def test_envelopes_in_any_order(w):
    rooms = [receive(w, LARGE, tag) for tag in (3, 4, 3, 5)]
    sends = [w.comms[0].Isend(pattern(LARGE, seed), dest=1, tag=tag)
             for seed, tag in enumerate((5, 3, 4, 3))]
    w.run(*sends, *[request for _, request in rooms])
    for (room, _), seed in zip(rooms, (1, 2, 3, 0), strict=True):
        check(room, LARGE, seed)
    expect(w, 4, rtrs_used=4)


@pytest.mark.parametrize("source, tag", [(0, MPI.ANY_TAG), (MPI.ANY_SOURCE, 3),
                                         (MPI.ANY_SOURCE, MPI.ANY_TAG)])
def test_nothing_is_offered_behind_a_wildcard(w, source, tag):
    """X2: the wildcard may take the message that the receive behind it would be given."""
    wild, first = receive(w, LARGE, tag, source)
    exact, second = receive(w, LARGE)
    w.run(w.comms[0].Isend(pattern(LARGE, 1), dest=1, tag=3),
          w.comms[0].Isend(pattern(LARGE, 2), dest=1, tag=3), first, second)
    check(wild, LARGE, 1)
    check(exact, LARGE, 2)
    expect(w, 0, rtrs_used=0)


def test_a_wildcard_behind_an_offer(w):
    exact, first = receive(w, LARGE)
    wild, second = receive(w, LARGE, MPI.ANY_TAG, MPI.ANY_SOURCE)
    w.run(w.comms[0].Isend(pattern(LARGE, 1), dest=1, tag=3),
          w.comms[0].Isend(pattern(LARGE, 2), dest=1, tag=3), first, second)
    check(exact, LARGE, 1)
    check(wild, LARGE, 2)
    expect(w, 1, rtrs_used=1)


def test_a_synchronous_send_takes_the_offer(w):
    room, request = receive(w, LARGE)
    w.run(w.comms[0].Issend(pattern(LARGE), dest=1, tag=3), request)
    check(room, LARGE)
    expect(w, 1, rtrs_used=1)


def test_probes_do_not_see_what_a_receive_has(w):
    room, request = receive(w, LARGE)
    send = w.comms[0].Isend(pattern(LARGE), dest=1, tag=3)
    for _ in range(50):
        assert not w.comms[1].Iprobe(source=0, tag=3)
        w.step()
    w.run(send, request)
    check(room, LARGE)


def test_cancel_takes_the_offer_back(w):
    """W1: the receive ends as cancelled, and its buffer stays as it is whatever is sent."""
    room, request = receive(w, LARGE)
    request.Cancel()
    status = MPI.Status()
    w.until(lambda: request.Test(status))
    assert status.Is_cancelled()
    other, second = receive(w, LARGE)
    w.run(w.comms[0].Isend(pattern(LARGE), dest=1, tag=3), second)
    check(other, LARGE)
    assert not room.any()
    expect(w, 2, rtrs_used=1, rtrs_revoked=1)


def test_cancel_between_offers(w):
    """X3: those that stand behind it are offered anew, with one less before them."""
    rooms = [receive(w, LARGE) for _ in range(3)]
    rooms[1][1].Cancel()
    w.until(rooms[1][1].is_complete)
    w.settle()
    w.run(*[w.comms[0].Isend(pattern(LARGE, seed), dest=1, tag=3) for seed in (1, 2)],
          rooms[0][1], rooms[2][1])
    check(rooms[0][0], LARGE, 1)
    check(rooms[2][0], LARGE, 2)
    assert not rooms[1][0].any()
    expect(w, 5, rtrs_used=2, rtrs_revoked=3)


def test_cancel_of_a_small_receive_before_an_offer(w):
    """X3: it offered nothing itself, but the one behind it counts on it."""
    _, small = receive(w, 10)
    room, request = receive(w, LARGE)
    small.Cancel()
    w.until(small.is_complete)
    w.settle()
    w.run(w.comms[0].Isend(pattern(LARGE), dest=1, tag=3), request)
    check(room, LARGE)
    expect(w, 2, rtrs_used=1, rtrs_revoked=1, rtrs_barred=0,
           classic={"rtrs_sent": 0, "rtrs_used": 0, "rtrs_revoked": 0, "rtrs_barred": 1})


def test_more_offers_than_are_kept(w):
    """X5: those that find no room cost nothing but the speculation."""
    rooms = [receive(w, LARGE, tag) for tag in range(80)]
    sends = [w.comms[0].Isend(pattern(LARGE, tag), dest=1, tag=tag) for tag in range(80)]
    w.run(*sends, *[request for _, request in rooms])
    for tag, (room, _) in enumerate(rooms):
        check(room, LARGE, tag)
    assert counted(w, "rtrs_used") == (0 if not w.offers else 32)


def test_an_old_offer(w):
    """X5: announcements since then fill the log."""
    data = [w.comms[0].Isend(pattern(4), dest=1, tag=8) for _ in range(100)]
    room = np.zeros(LARGE, np.uint8)
    request = w.comms[1].Irecv(room, source=0, tag=3)
    w.run(*data, w.comms[0].Isend(pattern(LARGE), dest=1, tag=3), request)
    for _ in range(100):
        w.run(w.comms[1].Irecv(np.zeros(4, np.uint8), source=0, tag=8))
    check(room, LARGE)


def test_both_at_once(w):
    """RTR and RTS cross, in both directions, again and again."""
    for seed in range(20):
        rooms = [np.zeros(LARGE, np.uint8) for _ in range(2)]
        requests = [w.comms[me].Irecv(rooms[me], source=1 - me, tag=3) for me in range(2)]
        requests += [w.comms[me].Isend(pattern(LARGE, seed), dest=1 - me, tag=3)
                     for me in range(2)]
        w.run(*requests)
        for room in rooms:
            check(room, LARGE, seed)


def test_read_only_memory(w, tmp_path):
    """The source of a WRITE asks for no right to write."""
    path = tmp_path / "data"
    path.write_bytes(pattern(LARGE).tobytes())
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        room, request = receive(w, LARGE)
        w.run(w.comms[0].Isend(data, dest=1, tag=3), request)
    check(room, LARGE)
    expect(w, 1, rtrs_used=1)


@pytest.mark.parametrize("turn", [True, False])
def test_the_initial_turn_finds_an_announcement_that_is_here(world, turn):
    """Without it the packet stays with the fabric until the next call."""
    with world(2, initial_turn=turn) as w:
        for a, b in ((0, 1), (1, 0)):
            w.run(w.comms[a].Isend(pattern(8), dest=b),
                  w.comms[b].Irecv(np.zeros(8, np.uint8), source=a))
        w.settle()
        send = w.comms[0].Isend(pattern(LARGE), dest=1, tag=3)
        for _ in range(100):
            w.turn()
            w.engines[0].turn()
        room = np.zeros(LARGE, np.uint8)
        request = w.comms[1].Irecv(room, source=0, tag=3)
        assert counted(w, "reads") == (turn and w.protocol != "pipeline")
        assert counted(w, "rtrs_sent") == (not turn and w.offers)
        w.run(send, request)
        check(room, LARGE)
        assert counted(w, "reads") == (w.protocol != "pipeline")
