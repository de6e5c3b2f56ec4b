"""Ends and faults in the simulated network (F7), waking (F8), and driving it."""


import pytest

from pyrdv.instruments.fabric import (
    AGAIN,
    CLOSED,
    INVALID,
    LOCAL,
    LOST,
    OK,
    PACKET,
    PEER_LOST as GONE,
    READ,
    REMOTE_READ,
    Driver,
)
from pyrdv.instruments.sim.network import Network
from tests.fabrics.simtools import kinds, packets, pair, read_then_send, run, share
from tests.support.ready import readable


def test_close_comes_after_everything_f7():
    network, a, b = pair()
    a.send(1, b"last", b"")
    network.fabric(0).disconnect(1)
    network.fabric(0).disconnect(1)
    assert kinds(network) == ["packet"]
    run(network)
    assert [event[0] for event in b.poll(release=False)] == [PACKET]
    assert [event[0] for event in b.poll()] == [PACKET]
    assert b.poll() == [(CLOSED, 0)]
    assert b.poll() == []
    assert a.send(1, b"x", b"") == INVALID
    assert network.faults == [("posted after disconnect", 0, 1)]
    assert b.send(0, b"still", b"") == OK


def test_kill_ends_transfers_and_is_seen_last_f7():
    network, a, b = pair(chunk=100)
    source, remote = share(b, 300, REMOTE_READ, fill=1)
    sink, local = share(a, 300, LOCAL)
    b.send(0, b"arrived", b"")
    run(network)
    b.send(0, b"in flight", b"")
    a.read(1, local, remote.address, remote.key, 300, 9)
    network.deliver(next(e.id for e in network.pending() if e.kind == "read"))
    network.kill(1)
    assert kinds(network) == ["loss"]
    assert a.send(1, b"nobody", b"") == OK
    assert [event[0] for event in a.poll()] == [PACKET]
    run(network)
    assert a.poll() == [(READ, 1, 9, LOST), (GONE, 1)]
    assert a.poll() == []
    assert a.send(1, b"x", b"") == LOST
    assert a.connect(1) == LOST
    assert b.poll() == []


def test_kill_with_flush_delivers_what_was_in_flight():
    network, a, b = pair()
    b.send(0, b"in flight", b"")
    network.kill(1, flush=True)
    assert kinds(network) == ["packet"]
    run(network)
    assert [event[0] for event in a.poll()] == [PACKET]
    assert [event[0] for event in a.poll()] == [GONE]


def test_dropped_connection_is_seen_by_both():
    network, a, b = pair()
    network.drop(0, 1)
    run(network)
    assert [event[0] for event in a.poll()] == [GONE]
    assert [event[0] for event in b.poll()] == [GONE]


def test_hold_and_inject():
    network, a, b = pair()
    network.hold(0, 1)
    a.send(1, b"late", b"")
    b.send(0, b"early", b"")
    run(network)
    assert packets(a.poll()) == [b"early"]
    assert b.poll() == []
    network.hold(0, 1, False)
    network.inject(0, 1, b"forged")
    run(network)
    assert packets(b.poll()) == [b"late", b"forged"]
    with pytest.raises(ValueError, match="exceed the packet limit"):
        network.inject(0, 1, bytes(1 << 20))


def test_wake_descriptor_f8():
    network, a, b = pair()
    end = network.fabric(1)
    a.send(1, b"1", b"")
    run(network)
    assert b.arm() == AGAIN
    b.poll()
    assert b.arm() == OK
    assert not readable(end.wake_fd, 0)
    a.send(1, b"2", b"")
    assert not readable(end.wake_fd, 0)
    run(network)
    assert readable(end.wake_fd, 0)
    b.disarm()
    assert not readable(end.wake_fd, 0)
    assert packets(b.poll()) == [b"2"]
    a.send(1, b"3", b"")
    run(network)
    assert not readable(end.wake_fd, 0)


def test_wake_descriptor_of_a_read_f8():
    network, a, b = pair()
    _, remote = share(b, 64, REMOTE_READ, fill=1)
    sink, local = share(a, 64, LOCAL)
    a.read(1, local, remote.address, remote.key, 64, 1)
    assert a.arm() == OK
    run(network)
    assert readable(network.fabric(0).wake_fd, 0)
    a.disarm()
    assert len(a.poll()) == 1


def test_auto_delivers_within_poll():
    network, a, b = pair(auto=True)
    source, remote = share(b, 200_000, REMOTE_READ, fill=1)
    sink, local = share(a, 200_000, LOCAL)
    assert b.arm() == OK
    a.send(1, b"x", b"")
    assert readable(network.fabric(1).wake_fd, 0)
    b.disarm()
    assert packets(b.poll()) == [b"x"]
    read_then_send(a, local, remote.address, remote.key, 200_000, 5)
    assert a.poll() == [(READ, 1, 5, OK)]
    assert sink == source
    assert packets(b.poll()) == [b"done"]


def test_earliest_event_first():
    """LogGP: a long message ahead in the same interface delays a short one."""
    network = Network(3, latency=1.0, overhead=0.1, gap=0.0, per_byte=0.01)
    a, b = Driver(network.fabric(0)), Driver(network.fabric(1))
    assert a.connect(2) == b.connect(2) == OK
    a.send(2, b"", bytes(1000))
    b.send(2, b"", bytes(10))
    order = []
    while events := network.pending():
        first = min(events, key=lambda event: event.time)
        network.run_next()
        order.append((first.src, round(network.now, 6)))
    assert order == [(1, 1.2), (0, 11.1)]


def test_same_seed_same_run():
    def program(seed):
        network, a, b = pair(seed=seed)
        trail = []
        for i in range(200):
            a.send(1, bytes([i]), b"")
            b.send(0, bytes([i]), b"")
            network.run_random()
            trail.append(network.fingerprint())
            (a if i % 2 else b).poll(limit=2)
        return trail

    assert program(1) == program(1)
    assert program(1) != program(2)


def test_fingerprint_tells_states_apart():
    network, a, b = pair()
    empty = network.fingerprint()
    a.send(1, b"x", b"")
    posted = network.fingerprint()
    network.run_next()
    arrived = network.fingerprint()
    b.poll()
    assert len({empty, posted, arrived}) == 3
    a.send(1, b"y", b"")
    assert network.fingerprint() != posted
    blank = network.fingerprint(lambda src, dst, packet: b"")
    network.run_next()
    b.poll()
    a.send(1, b"z", b"")
    assert network.fingerprint(lambda src, dst, packet: b"") == blank


def test_event_that_is_not_pending_is_refused():
    network, a, b = pair()
    a.send(1, b"x", b"")
    (event,) = network.pending()
    network.deliver(event.id)
    with pytest.raises(ValueError, match="not pending"):
        network.deliver(event.id)


@pytest.mark.parametrize("arguments", [{"size": 0}, {"size": 2, "slots": 0},
                                       {"size": 2, "packet_max": 10}])
def test_bad_parameters_are_refused(arguments):
    with pytest.raises(ValueError):
        Network(**arguments)


def test_close_lets_everybody_see_it():
    network, a, b = pair()
    a.send(1, b"x", b"")
    network.close()
    assert [event[0] for event in b.poll()] == [PACKET]
    assert [event[0] for event in b.poll()] == [CLOSED]
    assert [event[0] for event in a.poll()] == [CLOSED]


def test_closed_fabric_leaves_the_network():
    network, a, b = pair()
    _, remote = share(b, 64, REMOTE_READ, fill=1)
    sink, local = share(a, 64, LOCAL)
    a.read(1, local, remote.address, remote.key, 64, 1)
    ends = [network.fabric(rank) for rank in range(2)]
    ends[1].close()
    ends[1].close()
    assert network.regions(1) == 0
    run(network)
    assert a.poll() == [(READ, 1, 1, LOST), (GONE, 1)]
    assert b.send(0, b"x", b"") == LOST
    assert not any(sink)
