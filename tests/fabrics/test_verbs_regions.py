"""Registered memory and send slots on a device (M4, V6a)."""

import pytest

from pyrdv.fabrics.probe import OK, PACKET
from tests.fabrics.test_verbs_links import connect, until

pytestmark = pytest.mark.verbs

# contract.pxd
LOCAL, REMOTE_READ, REMOTE_WRITE, KEPT = 1, 2, 4, 8


def registered(probe):
    counters = probe.fabric.counters
    return (counters["registrations"], counters["deregistrations"], counters["shared_regions"])


def test_one_buffer_in_use_twice_is_registered_once(fabrics):
    """M4: a region is shared while somebody uses it, and never taken up after that."""
    probe = fabrics(2)[0]
    buffer = bytearray(8192)
    first, second = (probe.register(buffer, REMOTE_READ) for _ in range(2))
    assert registered(probe) == (1, 0, 1)
    assert first.key == second.key
    first.deregister()
    probe.maintain()
    assert registered(probe) == (1, 0, 1)
    third = probe.register(buffer, REMOTE_READ)
    assert registered(probe) == (1, 0, 2)
    second.deregister()
    third.deregister()
    again = probe.register(buffer, REMOTE_READ)
    assert registered(probe) == (2, 0, 2)
    again.deregister()
    probe.maintain()
    assert registered(probe) == (2, 2, 2)


def test_what_differs_is_registered_apart(fabrics):
    """M4: other rights, another length; and never what a peer may write into."""
    probe = fabrics(2)[0]
    buffer = bytearray(8192)
    kept = [probe.register(buffer, REMOTE_READ), probe.register(buffer, REMOTE_READ | LOCAL),
            probe.register(memoryview(buffer)[:4096], REMOTE_READ | LOCAL),
            probe.register(memoryview(buffer)[4096:], REMOTE_READ | LOCAL),
            probe.register(buffer, REMOTE_WRITE), probe.register(buffer, REMOTE_WRITE)]
    assert registered(probe) == (6, 0, 0)
    assert len({region.key for region in kept}) == 6
    for region in kept:
        region.deregister()
    probe.maintain()
    assert registered(probe) == (6, 6, 0)


def test_what_outlives_its_operation_is_not_shared(fabrics):
    """M4: it is in use when nobody keeps the memory, and other memory may have its address."""
    probe = fabrics(2)[0]
    buffer = bytearray(8192)
    kept = [probe.register(buffer, REMOTE_READ | KEPT), probe.register(buffer, REMOTE_READ),
            probe.register(buffer, REMOTE_READ | KEPT)]
    assert registered(probe) == (3, 0, 0)
    for region in kept:
        region.deregister()
    probe.maintain()
    assert registered(probe) == (3, 3, 0)


def test_what_is_given_back_leaves_the_device_later(fabrics):
    """M2: not with the next registration, but before it is much."""
    probe = fabrics(2)[0]
    for number in range(16):
        assert registered(probe) == (number, 0, 0)
        probe.register(bytearray(4096), REMOTE_READ).deregister()
    probe.register(bytearray(4096), REMOTE_READ).deregister()
    assert registered(probe) == (17, 16, 0)
    probe.maintain()
    assert registered(probe) == (17, 17, 0)
    probe.register(bytearray(16 << 20), REMOTE_READ).deregister()
    probe.register(bytearray(4096), REMOTE_READ).deregister()
    assert registered(probe) == (19, 18, 0)


def test_what_a_peer_may_write_into_leaves_the_device_at_once(fabrics):
    """M2: with the next registration, however little it is."""
    probe = fabrics(2)[0]
    for number in range(3):
        probe.register(bytearray(4096), REMOTE_WRITE).deregister()
        assert registered(probe) == (number + 1, number, 0)


def test_a_long_send_gives_its_slot_back_by_itself_on_siw(fabrics, rdma_device):
    """V6a: there it is signaled; elsewhere it waits for the next one that is."""
    probes = fabrics(2, peer_timeout=600.0)     # the probe of a silent peer is signaled, too
    connect(probes)

    def used():
        return probes[0].fabric.links[0]["slots_used"]

    before = used()   # HELLO has one where it is too long to be inline
    for number, length in enumerate((4000, 8192), start=1):
        assert probes[0].send(1, b"", bytes(length)) == OK
        got = []
        until(lambda got=got: got or got.extend(probes[1].poll()), [probes[0]])
        assert [(event[0], len(event[2])) for event in got] == [(PACKET, length)]
        if number == 2 and rdma_device.iwarp:
            until(lambda: used() == 0, probes)
        else:
            assert used() == before + number
