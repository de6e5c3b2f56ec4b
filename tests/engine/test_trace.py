"""The trace: which events an engine records of each protocol, and in which order."""

import time

import numpy as np

from pyrdv import recorded
from pyrdv.engine.listener import Listener

SMALL, LARGE = np.arange(100, dtype=np.uint8), np.arange(1 << 16, dtype=np.uint64)


def test_nothing_happened(pair):
    assert pair().engines[0].events() == []


def test_eager_to_a_posted_receive(pair):
    """One event of the send, and a slot of the receive: small messages have no time for more."""
    two = pair()
    two.exchange(SMALL, "receive", between=50)
    assert two.kinds(0) == ["announce"]
    assert two.kinds(1) == ["post", "match"]
    sent, got = two.one(0, "announce"), two.one(1, "match")
    assert (sent.peer, sent.tag, sent.nbytes, sent.protocol, sent.reason, sent.side) \
        == (1, 5, 100, "eager", "small", "")
    assert (got.peer, got.tag, got.nbytes, got.protocol, got.side) == (0, 5, 100, "eager",
                                                                        "receive")
    assert sent.context == got.context and sent.number == got.number


def test_eager_before_its_receive(pair):
    two = pair()
    two.exchange(SMALL, between=50)
    assert two.kinds(1) == ["unexpected", "post", "match"]
    assert two.one(1, "unexpected").number == two.one(1, "match").number


def test_synchronous_eager(pair):
    two = pair()
    two.exchange(SMALL, sync=True, between=50)
    assert two.kinds(0) == ["post", "choose", "announce"]


def test_rendezvous_by_read(pair):
    two = pair(protocol="get")
    two.exchange(LARGE, between=50)
    assert two.kinds(0) == ["post", "register", "choose", "announce", "complete"]
    assert two.kinds(1) == ["unexpected", "post", "match", "register", "choose",
                            "transfer begin", "transfer end", "complete"]
    chosen = two.one(0, "choose")
    assert (chosen.protocol, chosen.reason, chosen.side) == ("get", "PYRDV_PROTOCOL", "send")
    operations = {event.operation for event in two.engines[1].events()} - {None}
    assert len(operations) == 1, "all events of one receive name it"
    assert two.one(0, "announce").number == two.one(1, "match").number
    assert two.one(1, "transfer end").nbytes == LARGE.nbytes


def test_rendezvous_by_write(pair):
    two = pair(speculation="indexed")
    two.exchange(LARGE, "receive", between=50)
    assert two.kinds(0) == ["post", "register", "choose", "choose", "transfer begin", "offer used",
                            "announce", "transfer end", "complete"]
    assert two.kinds(1) == ["post", "register", "offer sent", "match", "complete"]
    assert two.one(1, "match").protocol == two.one(0, "announce").protocol == "put"


def test_an_offer_that_is_of_no_use(pair):
    two = pair(speculation="indexed")
    room = np.zeros_like(LARGE)
    receive = two.ends[1].receive(0, 5, room)
    two.turn()
    two.ends[0].send(1, 5, SMALL)
    two.turn()
    assert receive.ended()
    receive.release()
    assert two.kinds(0) == ["offer dropped", "announce"]
    assert two.one(0, "offer dropped").tag == 5


def test_superpipeline(pair):
    two = pair(protocol="pipeline", standing=0)
    two.exchange(LARGE, between=50)
    kinds = two.kinds(0)
    assert kinds[:3] == ["post", "choose", "announce"] and kinds[-1] == "complete"
    assert kinds.count("transfer begin") == kinds.count("transfer end") \
        == two.engines[0].counters()["chunks_sent"] > 1
    moved = sum(event.nbytes for event in two.engines[0].events()
                if event.kind == "transfer begin")
    assert moved == LARGE.nbytes
    assert two.one(1, "match").protocol == "pipeline"


def test_placed(pair):
    two = pair(protocol="pipeline")
    data = LARGE[:4096]
    for _ in range(8):
        two.exchange(data, between=50)
    sent = [event for event in two.engines[0].events() if event.kind == "announce"]
    got = [event for event in two.engines[1].events() if event.kind == "match"]
    assert sent[-1].protocol == got[-1].protocol == "placed"
    assert [event.number for event in sent] == [event.number for event in got] == list(range(8))


def test_credit(pair):
    """A small message that its receiver has no credit for is announced another way."""
    two = pair(unexpected_max=1)
    sends = [two.ends[0].send(1, 5, SMALL) for _ in range(2000)]
    two.turn()
    kinds = two.kinds(0)
    assert "credit wait" in kinds
    waiting = next(event for event in two.engines[0].events() if event.kind == "credit wait")
    assert waiting.protocol == "get" and waiting.nbytes == 100
    for _ in sends:
        two.ends[1].receive(0, 5, np.zeros_like(SMALL))
        two.turn(2)


def test_to_oneself(pair):
    two = pair()
    room = np.zeros_like(LARGE)
    send = two.ends[0].send(0, 5, LARGE, sync=True)
    receive = two.ends[0].receive(0, 5, room)
    assert send.ended() and receive.ended()
    assert two.kinds(0) == ["post", "unexpected", "post", "match", "complete", "complete"]
    assert two.one(0, "match").protocol == "loopback"


def test_sleep_is_one_event(pair):
    """However many slices it has."""
    engine = pair().engines[0]
    listener = Listener(engine)
    for _ in range(3):
        assert listener.arm(engine.epoch)
        listener.disarm()
    assert [event.kind for event in engine.events()] == ["sleep", "wake"]


def test_a_peer_that_is_lost(pair):
    two = pair()
    two.exchange(SMALL, between=50)
    receive = two.ends[1].receive(0, 6, np.zeros_like(SMALL))
    two.engines[1].peer_gone(0, False, "it died")
    assert receive.ended()
    assert two.one(1, "peer lost").peer == 0
    ended = two.one(1, "complete")
    assert ended.error == 2 and ended.tag == 6


def test_the_ring_keeps_the_last(pair):
    two = pair()
    for number in range(2000):
        two.exchange(SMALL, "receive" if number % 2 else "send", between=50)
    events = two.engines[1].events()
    # Half of them came early: three events of two slots, and two events of one.
    assert len(events) in range(3400, 3430)
    assert events[-1].kind == "match" and events[-1].number == 1999
    numbers = [event.number for event in events if event.kind == "match"]
    assert numbers == list(range(numbers[0], 2000))


def test_times(pair):
    """In order, on the system's clock."""
    before = time.monotonic()
    two = pair(protocol="get")
    two.exchange(LARGE, between=50)
    after = time.monotonic()
    times = [event.time for event in two.engines[1].events()]
    assert times == sorted(times)
    assert before - 1e-3 <= times[0] and times[-1] <= after + 1e-3


def test_every_kind_has_a_name():
    assert sorted(recorded.KINDS) == list(range(1, 1 + len(recorded.KINDS)))
    assert len(set(recorded.KINDS.values())) == len(recorded.KINDS)
