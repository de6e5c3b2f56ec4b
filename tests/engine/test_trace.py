"""The trace: which events an engine records of each protocol, and in which order."""

import contextlib
import time

import numpy as np
import pytest

from pyrdv import recorded
from pyrdv.engine.engine import Engine
from pyrdv.engine.listener import Listener
from pyrdv.instruments.engine import Driver
from pyrdv.instruments.sim.network import Network
from pyrdv.memory.registration import Registrations

EAGER = 4096
SMALL, LARGE = np.arange(100, dtype=np.uint8), np.arange(1 << 16, dtype=np.uint64)


class Pair:
    """Two ranks in this process; `options` are those of their engines."""

    def __init__(self, **options):
        network = Network(2, auto=True, pins=True)
        self.engines = [Engine(rank, 2, [network.fabric(rank)], eager_max=EAGER,
                               **{"speculation": "off", **options},
                               registrations=Registrations("auto")) for rank in range(2)]
        self.ends = [Driver(engine) for engine in self.engines]

    def turn(self, count=50):
        for _ in range(count):
            for end in self.ends:
                end.turn()

    def message(self, data, first="send", sync=False):
        """Send `data` with tag 5 from rank 0 to rank 1."""
        room = np.zeros_like(data)
        operations = []
        posts = {"send": lambda: self.ends[0].send(1, 5, data, sync=sync),
                 "receive": lambda: self.ends[1].receive(0, 5, room)}
        for name in (first, *(set(posts) - {first})):
            operations.append(posts[name]())
            self.turn()
        self.turn(500)
        assert all(one.ended() for one in operations) and np.array_equal(data, room)
        for one in operations:
            one.release()

    def kinds(self, rank):
        """Kinds of the events of a rank, in order."""
        return [event.kind for event in self.engines[rank].events()]

    def one(self, rank, kind):
        """The only event of a kind."""
        found = [event for event in self.engines[rank].events() if event.kind == kind]
        assert len(found) == 1, (kind, self.kinds(rank))
        return found[0]

    def close(self):
        for engine in self.engines:
            engine.close()


@pytest.fixture
def pair():
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(contextlib.closing(Pair(**options)))


def test_nothing_happened(pair):
    assert pair().engines[0].events() == []


def test_eager_to_a_posted_receive(pair):
    """One event of the send, and a slot of the receive: small messages have no time for more."""
    two = pair()
    two.message(SMALL, "receive")
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
    two.message(SMALL)
    assert two.kinds(1) == ["unexpected", "post", "match"]
    assert two.one(1, "unexpected").number == two.one(1, "match").number


def test_synchronous_eager(pair):
    two = pair()
    two.message(SMALL, sync=True)
    assert two.kinds(0) == ["post", "choose", "announce"]


def test_rendezvous_by_read(pair):
    two = pair(protocol="get")
    two.message(LARGE)
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
    two.message(LARGE, "receive")
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
    two.message(LARGE)
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
        two.message(data)
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
    two.message(SMALL)
    receive = two.ends[1].receive(0, 6, np.zeros_like(SMALL))
    two.engines[1].peer_gone(0, False, "it died")
    assert receive.ended()
    assert two.one(1, "peer lost").peer == 0
    ended = two.one(1, "complete")
    assert ended.error == 2 and ended.tag == 6


def test_the_ring_keeps_the_last(pair):
    two = pair()
    for number in range(2000):
        two.message(SMALL, "receive" if number % 2 else "send")
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
    two.message(LARGE)
    after = time.monotonic()
    times = [event.time for event in two.engines[1].events()]
    assert times == sorted(times)
    assert before - 1e-3 <= times[0] and times[-1] <= after + 1e-3


def test_every_kind_has_a_name():
    assert sorted(recorded.KINDS) == list(range(1, 1 + len(recorded.KINDS)))
    assert len(set(recorded.KINDS.values())) == len(recorded.KINDS)
