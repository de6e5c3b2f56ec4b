"""Registered memory and send slots on a device (M4, V6a)."""

import pytest

from pyrdv.instruments.fabric import OK, PACKET
from tests.fabrics.test_verbs_links import connect, until

pytestmark = pytest.mark.verbs

# contract.pxd
LOCAL, REMOTE_READ, REMOTE_WRITE, KEPT = 1, 2, 4, 8


def registered(driver):
    counters = driver.fabric.counters
    return (counters["registrations"], counters["deregistrations"], counters["shared_regions"])


def test_one_buffer_in_use_twice_is_registered_once(fabrics):
    """M4: a region is shared while somebody uses it, and never taken up after that."""
    driver = fabrics(2)[0]
    buffer = bytearray(8192)
    first, second = (driver.register(buffer, REMOTE_READ) for _ in range(2))
    assert registered(driver) == (1, 0, 1)
    assert first.key == second.key
    first.deregister()
    driver.maintain()
    assert registered(driver) == (1, 0, 1)
    third = driver.register(buffer, REMOTE_READ)
    assert registered(driver) == (1, 0, 2)
    second.deregister()
    third.deregister()
    again = driver.register(buffer, REMOTE_READ)
    assert registered(driver) == (2, 0, 2)
    again.deregister()
    driver.maintain()
    assert registered(driver) == (2, 2, 2)


def test_what_differs_is_registered_apart(fabrics):
    """M4: other rights, another length; and never what a peer may write into."""
    driver = fabrics(2)[0]
    buffer = bytearray(8192)
    kept = [driver.register(buffer, REMOTE_READ), driver.register(buffer, REMOTE_READ | LOCAL),
            driver.register(memoryview(buffer)[:4096], REMOTE_READ | LOCAL),
            driver.register(memoryview(buffer)[4096:], REMOTE_READ | LOCAL),
            driver.register(buffer, REMOTE_WRITE), driver.register(buffer, REMOTE_WRITE)]
    assert registered(driver) == (6, 0, 0)
    assert len({region.key for region in kept}) == 6
    for region in kept:
        region.deregister()
    driver.maintain()
    assert registered(driver) == (6, 6, 0)


def test_what_outlives_its_operation_is_not_shared(fabrics):
    """M4: it is in use when nobody keeps the memory, and other memory may have its address."""
    driver = fabrics(2)[0]
    buffer = bytearray(8192)
    kept = [driver.register(buffer, REMOTE_READ | KEPT), driver.register(buffer, REMOTE_READ),
            driver.register(buffer, REMOTE_READ | KEPT)]
    assert registered(driver) == (3, 0, 0)
    for region in kept:
        region.deregister()
    driver.maintain()
    assert registered(driver) == (3, 3, 0)


def test_what_is_given_back_leaves_the_device_later(fabrics):
    """M2: not with the next registration, but before it is much."""
    driver = fabrics(2)[0]
    for number in range(16):
        assert registered(driver) == (number, 0, 0)
        driver.register(bytearray(4096), REMOTE_READ).deregister()
    driver.register(bytearray(4096), REMOTE_READ).deregister()
    assert registered(driver) == (17, 16, 0)
    driver.maintain()
    assert registered(driver) == (17, 17, 0)
    driver.register(bytearray(16 << 20), REMOTE_READ).deregister()
    driver.register(bytearray(4096), REMOTE_READ).deregister()
    assert registered(driver) == (19, 18, 0)


def test_what_a_peer_may_write_into_leaves_the_device_at_once(fabrics):
    """M2: with the next registration, however little it is."""
    driver = fabrics(2)[0]
    for number in range(3):
        driver.register(bytearray(4096), REMOTE_WRITE).deregister()
        assert registered(driver) == (number + 1, number, 0)


def test_a_long_send_gives_its_slot_back_by_itself_on_siw(fabrics, rdma_device):
    """V6a: there it is signaled; elsewhere it waits for the next one that is."""
    drivers = fabrics(2, peer_timeout=600.0)     # the driver of a silent peer is signaled, too
    connect(drivers)

    def used():
        return drivers[0].fabric.links[0]["slots_used"]

    before = used()   # HELLO has one where it is too long to be inline
    for number, length in enumerate((4000, 8192), start=1):
        assert drivers[0].send(1, b"", bytes(length)) == OK
        got = []
        until(lambda got=got: got or got.extend(drivers[1].poll()), [drivers[0]])
        assert [(event[0], len(event[2])) for event in got] == [(PACKET, length)]
        if number == 2 and rdma_device.iwarp:
            until(lambda: used() == 0, drivers)
        else:
            assert used() == before + number
