"""SENDs behind WRITEs on the simulated network (F9), in any order of events."""

import random

import pytest

from pyrdv.instruments.fabric import (
    FENCE,
    INVALID,
    LOCAL,
    OK,
    READ,
    REMOTE_READ,
    REMOTE_WRITE,
    WRITE,
    Driver,
)
from pyrdv.instruments.sim.network import Network
from tests.fabrics.simtools import (
    kinds,
    packets,
    pair,
    read_then_send,
    run,
    share,
    write_behind,
)


def deliver(network, kind):
    """The first pending event of that kind happens."""
    network.deliver(next(event.id for event in network.pending() if event.kind == kind))


@pytest.mark.parametrize("overtaking", [False, True])
def test_it_comes_after_the_bytes_and_nothing_passes_it(overtaking):
    """F9, F1: no packet is ready before all pieces are there, neither it nor a later one."""
    network, a, b = pair(chunk=100, overtaking=overtaking)
    sink, remote = share(b, 300, REMOTE_WRITE)
    source, local = share(a, 300, LOCAL, fill=1)
    assert write_behind(a, local, remote, 300, b"behind") == OK
    assert a.send(1, b"later") == OK
    while sink != source:
        assert "packet" not in kinds(network)
        deliver(network, "write")
    assert "packet" in kinds(network)
    run(network)
    assert packets(b.poll()) == [b"behind", b"later"]
    assert a.poll() == [(WRITE, 1, 0, OK)]
    assert network.in_flight() == (0, 0)


def test_the_completion_of_the_write_may_come_first():
    """V5, F9: that the source is free does not say that the bytes are there."""
    network, a, b = pair()
    sink, remote = share(b, 100, REMOTE_WRITE)
    source, local = share(a, 100, LOCAL, fill=1)
    expected = bytes(source)
    write_behind(a, local, remote, 100, b"behind")
    deliver(network, "write")
    deliver(network, "completion")
    assert a.poll() == [(WRITE, 1, 0, OK)] and not any(sink)
    source[:] = bytes(100)
    assert "packet" not in kinds(network)
    run(network)
    assert packets(b.poll()) == [b"behind"] and sink == expected


def test_with_a_closed_fence_before_it():
    """F1, F9: what is behind passes a closed fence, once its bytes are there; nothing passes it."""
    network, a, b = pair(chunk=100, overtaking=True)
    readable, far = share(b, 300, REMOTE_READ, fill=1)
    room, near = share(a, 300, LOCAL)
    sink, remote = share(b, 300, REMOTE_WRITE)
    source, local = share(a, 300, LOCAL, fill=2)
    read_then_send(a, near, far.address, far.key, 300, 1)
    write_behind(a, local, remote, 300, b"behind", 2)
    a.send(1, b"later")
    while sink != source:
        assert "packet" not in kinds(network)
        deliver(network, "write")
    deliver(network, "packet")
    assert packets(b.poll()) == [b"behind"] and room != readable
    deliver(network, "packet")
    assert packets(b.poll()) == [b"later"]
    run(network)
    assert packets(b.poll()) == [b"done"] and room == readable


def test_without_overtaking_a_closed_fence_holds_it_up():
    """F1: the order of posting, though the bytes are there."""
    network, a, b = pair(chunk=100)
    _, far = share(b, 300, REMOTE_READ, fill=1)
    _, near = share(a, 300, LOCAL)
    sink, remote = share(b, 300, REMOTE_WRITE)
    source, local = share(a, 300, LOCAL, fill=2)
    read_then_send(a, near, far.address, far.key, 300, 1)
    write_behind(a, local, remote, 300, b"behind", 2)
    while sink != source:
        deliver(network, "write")
    assert "packet" not in kinds(network)
    run(network)
    assert packets(b.poll()) == [b"done", b"behind"]


def test_other_channels_go_on():
    """F9 holds up its own channel: neither the way back nor what goes to others."""
    network = Network(3, chunk=100)
    a, b, c = (Driver(network.fabric(rank)) for rank in range(3))
    assert a.connect(1) == a.connect(2) == OK
    sink, remote = share(b, 300, REMOTE_WRITE)
    source, local = share(a, 300, LOCAL, fill=1)
    write_behind(a, local, remote, 300, b"behind")
    a.send(2, b"to another")
    b.send(0, b"back")
    deliver(network, "packet")
    deliver(network, "packet")
    assert packets(c.poll()) == [b"to another"] and packets(a.poll()) == [b"back"]
    assert packets(b.poll()) == [] and not any(sink)
    run(network)
    assert packets(b.poll()) == [b"behind"] and sink == source


@pytest.mark.parametrize("overtaking", [False, True])
def test_a_failed_write_discards_what_is_behind_it(overtaking):
    """Its chain ends there; other chains are delivered."""
    network, a, b = pair(overtaking=overtaking)
    sink, remote = share(b, 64, REMOTE_WRITE)
    _, local = share(a, 64, LOCAL, fill=1)
    a.send(1, b"before")
    remote.deregister()
    write_behind(a, local, remote, 64, b"behind", 5)
    a.send(1, b"later")
    run(network)
    assert a.poll() == [(WRITE, 1, 5, INVALID)]
    assert packets(b.poll()) == [b"before", b"later"] and not any(sink)
    assert network.in_flight() == (0, 0)


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_events(seed):
    """F1, F9: plain packets and those behind keep their order among each other; fenced ones may
    be passed.  Whatever arrives finds its bytes."""
    rng = random.Random(seed)
    network, a, b = pair(chunk=rng.choice((50, 1000)), seed=seed, slots=64, transfers=32,
                         overtaking=rng.random() < 0.7, single_copy=rng.random() < 0.7)
    network.scramble(rng.random() < 0.5)
    kept, plain, fenced, seen = {}, [], [], []

    def look():
        for packet in packets(b.poll()):
            seen.append(packet)
            if packet in kept:
                assert kept[packet][0] == kept[packet][1]

    for i in range(30):
        text, size = bytes([i]), rng.choice((1, 40, 120, 300))
        kind = rng.choice(("plain", "behind", "behind", "fenced"))
        if kind == "behind":
            source, local = share(a, size, LOCAL, fill=i)
            sink, remote = share(b, size, REMOTE_WRITE, fill=100)
            kept[text] = source, sink, local, remote
            assert write_behind(a, local, remote, size, text, i) == OK
        elif kind == "fenced":
            source, remote = share(b, size, REMOTE_READ, fill=i)
            sink, local = share(a, size, LOCAL, fill=100)
            kept[text] = source, sink, local, remote
            assert a.post(1, a.read_request(local, 0, remote.address, remote.key, size, i),
                          a.send_request(text, flags=FENCE)) == OK
        else:
            assert a.send(1, text) == OK
        (fenced if kind == "fenced" else plain).append(text)
        for _ in range(rng.randrange(4)):
            network.run_random(rng)
            look()
    for _ in range(1000):
        network.run_random(rng)
        look()
    assert [text for text in seen if text in plain] == plain
    assert sorted(text for text in seen if text in fenced) == fenced
    ended = a.poll()
    assert len(ended) == len(kept) and all(
        kind in (READ, WRITE) and status == OK for kind, _, _, status in ended)
    assert network.in_flight() == (0, 0)
