"""The simulated network keeps the contract (F1-F6) and its own promises (S1-S6)."""

import pytest

from pyrdv.instruments.fabric import (
    AGAIN,
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
from tests.fabrics.simtools import kinds, packets, pair, read_then_send, run, share

#: Of the contract.
CAP_SINGLE_COPY = 1


def test_packets_arrive_only_when_delivered():
    network, a, b = pair()
    assert a.send(1, b"head", b"body") == OK
    assert b.poll() == []
    (event,) = network.pending()
    assert (event.kind, event.src, event.dst) == ("packet", 0, 1)
    network.deliver(event.id)
    assert packets(b.poll()) == [b"headbody"]
    assert network.in_flight() == (0, 0)


def test_order_within_a_channel_f1():
    network, a, b = pair(seed=3)
    for i in range(20):
        assert a.send(1, bytes([i]), b"") == OK
        assert b.send(0, bytes([100 + i]), b"") == OK
    while network.run_random():
        pass
    assert packets(b.poll(64)) == [bytes([i]) for i in range(20)]
    assert packets(a.poll(64)) == [bytes([100 + i]) for i in range(20)]


def test_channels_may_overtake_each_other():
    network = Network(3)
    a, b, c = (Driver(network.fabric(rank)) for rank in range(3))
    assert a.connect(2) == b.connect(2) == OK
    a.send(2, b"a", b"")
    b.send(2, b"b", b"")
    later = next(event for event in network.pending() if event.src == 1)
    network.deliver(later.id)
    assert packets(c.poll()) == [b"b"]
    run(network)
    assert packets(c.poll()) == [b"a"]


def test_no_slot_is_again_until_released():
    network, a, b = pair(slots=2)
    assert [a.send(1, bytes([i]), b"") for i in range(3)] == [OK, OK, AGAIN]
    run(network)
    assert a.send(1, b"x", b"") == AGAIN
    assert len(b.poll(release=False)) == 2
    assert a.send(1, b"x", b"") == AGAIN
    assert len(b.poll(limit=1)) == 1
    assert [a.send(1, b"y", b""), a.send(1, b"z", b"")] == [OK, AGAIN]


def test_unconnected_is_again():
    network = Network(2)
    a = Driver(network.fabric(0))
    assert a.send(1, b"x", b"") == AGAIN
    assert a.connect(1) == OK
    assert a.send(1, b"x", b"") == OK


def test_lazy_connection_is_an_event():
    network = Network(2, lazy=True)
    a, b = Driver(network.fabric(0)), Driver(network.fabric(1))
    assert a.connect(1) == AGAIN
    assert a.send(1, b"x", b"") == AGAIN
    assert kinds(network) == ["connect"]
    network.run_next()
    assert b.maintain() == 1
    assert b.maintain() == 0
    assert a.connect(1) == OK
    assert [a.send(1, b"x", b""), b.send(0, b"y", b"")] == [OK, OK]


def test_send_copies_at_once_f3():
    network, a, b = pair()
    payload = bytearray(b"before")
    a.send(1, b"", payload)
    payload[:] = b"after!"
    run(network)
    assert packets(b.poll()) == [b"before"]


def test_unreleased_packets_come_again_f6():
    network, a, b = pair()
    for i in range(3):
        a.send(1, bytes([i]), b"")
    run(network)
    first = packets(b.poll(release=False))
    assert first == packets(b.poll(release=False)) == [b"\0", b"\1", b"\2"]
    assert packets(b.poll(limit=2)) == [b"\0", b"\1"]
    assert packets(b.poll()) == [b"\2"]
    assert b.poll() == []


def test_no_peer_fills_the_whole_array():
    network = Network(3)
    a, b, c = (Driver(network.fabric(rank)) for rank in range(3))
    assert a.connect(2) == b.connect(2) == OK
    for i in range(8):
        a.send(2, bytes([i]), b"")
        b.send(2, bytes([i]), b"")
    run(network)
    events = c.poll(limit=8)
    assert sorted(event[1] for event in events) == [0] * 4 + [1] * 4


@pytest.mark.parametrize("length", [1, 4095, 4096, 4097, 100_000])
def test_read_moves_the_bytes(length):
    network, a, b = pair(chunk=4096)
    source, remote = share(b, length, REMOTE_READ, fill=7)
    sink, local = share(a, length, LOCAL)
    assert a.read(1, local, remote.address, remote.key, length, 42) == OK
    assert not any(sink)
    run(network)
    assert sink == source
    assert a.poll() == [(READ, 1, 42, OK)]
    assert network.in_flight() == (0, 0)


@pytest.mark.parametrize("length", [1, 4096, 4097, 100_000])
def test_write_moves_the_bytes(length):
    network, a, b = pair(chunk=10_000)
    sink, remote = share(b, length, REMOTE_WRITE)
    source, local = share(a, length, LOCAL, fill=3)
    assert a.write(1, local, remote.address, remote.key, length, 43) == OK
    run(network)
    assert sink == source
    assert a.poll() == [(WRITE, 1, 43, OK)]
    assert network.in_flight() == (0, 0)


def test_write_may_complete_before_it_is_placed():
    """V5: the completion says that the source is free, not that the bytes are there."""
    network, a, b = pair()
    sink, remote = share(b, 100, REMOTE_WRITE)
    source, local = share(a, 100, LOCAL, fill=1)
    expected = bytes(source)
    a.write(1, local, remote.address, remote.key, 100, 1)
    network.run_next()
    completion = next(event for event in network.pending() if event.kind == "completion")
    network.deliver(completion.id)
    assert a.poll() == [(WRITE, 1, 1, OK)]
    assert not any(sink)
    source[:] = bytes(100)
    run(network)
    assert sink == expected
    assert network.in_flight() == (0, 0)
    assert network.faults == []


def test_buffer_reused_too_early_shows_as_torn():
    network, a, b = pair(chunk=100)
    source, remote = share(b, 300, REMOTE_READ, fill=1)
    sink, local = share(a, 300, LOCAL)
    a.read(1, local, remote.address, remote.key, 300, 1)
    network.run_next()
    source[:] = b"\xff" * 300
    run(network)
    assert sink[:100] != sink[100:200] == b"\xff" * 100


def test_fenced_send_waits_for_the_read_f5():
    network, a, b = pair(chunk=100)
    source, remote = share(b, 300, REMOTE_READ, fill=1)
    sink, local = share(a, 300, LOCAL)
    assert read_then_send(a, local, remote.address, remote.key, 300, 1) == OK
    assert a.send(1, b"later", b"") == OK
    for _ in range(3):
        assert "packet" not in kinds(network)
        network.deliver(next(e.id for e in network.pending() if e.kind == "read"))
    assert "packet" in kinds(network)
    assert sink == source
    run(network)
    assert packets(b.poll()) == [b"done", b"later"]


def test_overtaking_lets_unfenced_sends_pass():
    network, a, b = pair(chunk=100, overtaking=True)
    source, remote = share(b, 300, REMOTE_READ, fill=1)
    sink, local = share(a, 300, LOCAL)
    read_then_send(a, local, remote.address, remote.key, 300, 1)
    for packet in (b"1", b"2"):
        a.send(1, packet)
    network.deliver(next(e.id for e in network.pending() if e.kind == "packet"))
    assert packets(b.poll()) == [b"1"]
    while any(event.kind == "read" for event in network.pending()):
        network.deliver(next(e.id for e in network.pending() if e.kind == "read"))
    run(network)
    assert sorted(packets(b.poll())) == [b"2", b"done"]
    assert a.poll() == [(READ, 1, 1, OK)]
    assert sink == source
    assert network.in_flight() == (0, 0)


def test_failed_read_discards_what_is_fenced_behind_it():
    network, a, b = pair()
    sink, local = share(a, 300, LOCAL)
    a.send(1, b"before", b"")
    read_then_send(a, local, 4096, 99, 300, 1)
    a.send(1, b"later", b"")
    a.send(1, b"last", b"")
    run(network)
    assert a.poll() == [(READ, 1, 1, INVALID)]
    assert packets(b.poll(release=False)) == [b"before", b"later", b"last"]
    assert packets(b.poll(limit=2)) == [b"before", b"later"]
    assert packets(b.poll()) == [b"last"]
    assert network.in_flight() == (0, 0)
    assert network.faults == [
        ("read or wrote remote memory that is not registered for it", 0, 1)]


def remote_cases(address, key):
    return [
        ("wrong key", address, key + 1, 64),
        ("stale generation", address, key + (1 << 32), 64),
        ("below", address - 1, key, 64),
        ("above", address + 1, key, 64),
        ("too long", address, key, 65),
        ("wraps around", 2**64 - 32, key, 64),
        ("zero key", address, 0, 64),
    ]


@pytest.mark.parametrize("case", range(7))
def test_remote_memory_is_checked_r8(case):
    network, a, b = pair()
    _, remote = share(b, 64, REMOTE_READ | REMOTE_WRITE, fill=1)
    sink, local = share(a, 256, LOCAL)
    _, address, key, length = remote_cases(remote.address, remote.key)[case]
    assert a.read(1, local, address, key, length, 1) == OK
    assert a.write(1, local, address, key, length, 2) == OK
    run(network)
    assert sorted(event[3] for event in a.poll()) == [INVALID, INVALID]
    assert not any(sink)


def test_access_rights_are_checked():
    network, a, b = pair()
    readable, source = share(b, 64, REMOTE_READ, fill=1)
    writable, target = share(b, 64, REMOTE_WRITE, fill=1)
    sink, local = share(a, 64, LOCAL)
    a.read(1, local, target.address, target.key, 64, 1)
    a.write(1, local, source.address, source.key, 64, 2)
    run(network)
    assert sorted((event[2], event[3]) for event in a.poll()) == [(1, INVALID), (2, INVALID)]
    assert any(readable) and any(writable) and not any(sink)


def test_local_keys_are_checked_at_once():
    network, a, b = pair()
    _, remote = share(b, 64, REMOTE_READ, fill=1)
    _, local = share(a, 32, LOCAL)
    _, foreign = share(a, 64, REMOTE_READ)
    assert a.read(1, local, remote.address, remote.key, 33, 1) == INVALID
    assert a.read(1, local, remote.address, remote.key, 32, 1, offset=1) == INVALID
    assert a.read(1, foreign, remote.address, remote.key, 32, 1) == INVALID
    local.deregister()
    assert a.read(1, local, remote.address, remote.key, 32, 1) == INVALID
    assert network.in_flight() == (0, 0)
    assert len(network.faults) == 4


def test_region_in_use_may_not_be_deregistered():
    network, a, b = pair()
    _, remote = share(b, 64, REMOTE_READ, fill=1)
    _, local = share(a, 64, LOCAL)
    a.read(1, local, remote.address, remote.key, 64, 1)
    local.deregister()
    assert network.faults == [("deregistered a region with a transfer under way", 0, 0)]


def test_releasing_too_much_is_noted():
    network, a, b = pair()
    a.send(1, b"x", b"")
    run(network)
    b.poll()
    b.release(0, 1)
    assert network.faults == [("released more packets than the last poll returned", 1, 0)]


def test_malformed_requests_are_refused():
    network, a, b = pair(slots=4)
    assert a.send(1, bytes(65), b"") == INVALID
    assert a.send(1, b"", bytes(5000)) == INVALID
    assert a.send(7, b"x", b"") == INVALID
    assert a.post(1, *[a.send_request(b"x")] * 5) == INVALID
    assert len(network.faults) == 4


def test_chain_is_accepted_whole_or_not_at_all_f2():
    network, a, b = pair(slots=4)
    assert a.post(1, *[a.send_request(bytes([i])) for i in range(3)]) == OK
    assert a.post(1, *[a.send_request(bytes([i])) for i in range(3, 5)]) == AGAIN
    assert a.send(1, b"x", b"") == OK
    run(network)
    assert packets(b.poll()) == [b"\0", b"\1", b"\2", b"x"]


def test_without_single_copy_the_target_must_take_turns():
    network, a, b = pair(single_copy=False, chunk=100)
    source, remote = share(b, 200, REMOTE_READ, fill=1)
    sink, local = share(a, 200, LOCAL)
    a.read(1, local, remote.address, remote.key, 200, 1)
    assert not network.run_next()
    b.poll()
    assert network.run_next() and not network.run_next()
    b.poll()
    run(network)
    assert sink == source
    assert a.able_behind and not network.fabric(0).capabilities & CAP_SINGLE_COPY
