"""Channels that are calm are looked at now and then: N1 to N4 of pyrdv.fabrics.shm.channels."""

import os
import random
import time

import pytest

from pyrdv.instruments.fabric import AGAIN, CLOSED, LOCAL, OK, REMOTE_READ, Driver

from .shmtools import fabrics, payloads, until

RANKS = 41
REVIEW = 4096       # polls between two reviews (``channels``)


@pytest.fixture
def crowd():
    """Rank 0, to whom all others are connected and said a word; only rank 1 goes on to speak."""
    drivers = [Driver(one) for one in fabrics(RANKS)]
    hub = drivers[0]
    for rank in range(1, RANKS):
        assert drivers[rank].connect(0) == OK
        hub.maintain()
        assert drivers[rank].send(0, b"", b"%d" % rank) == OK
    got = payloads(until(lambda seen: len(seen) == RANKS - 1, hub)[0])
    assert sorted(map(int, got)) == list(range(1, RANKS))
    calm_down(drivers)
    return drivers


def calm_down(drivers):
    for _ in range(3 * REVIEW):
        drivers[1].send(0, b"", b"1")
        drivers[0].poll()


def test_every_calm_channel_is_heard(crowd):
    hub = crowd[0]
    order = list(range(2, RANKS))
    random.Random(2).shuffle(order)
    for rank in order:
        assert crowd[rank].send(0, b"", b"%d" % rank) == OK
        polls = 0
        while not (got := payloads(hub.poll())):
            polls += 1
            assert polls <= RANKS   # two of them are looked at by each poll
        assert got == [b"%d" % rank]


def test_all_at_once_and_each_in_order(crowd):
    hub = crowd[0]
    for number in range(50):
        for rank in range(1, RANKS):
            assert crowd[rank].send(0, b"", b"%d %d" % (rank, number)) == OK
    got = payloads(until(lambda seen: len(seen) == 50 * (RANKS - 1), hub)[0])
    for rank in range(1, RANKS):
        numbers = [int(text.split()[1]) for text in got if int(text.split()[0]) == rank]
        assert numbers == list(range(50))


def test_a_sleeper_that_is_told_finds_it(crowd):
    """`arm` sees a packet in a calm channel; the next poll has it."""
    hub = crowd[0]
    for rank in (7, 23, RANKS - 1):
        assert crowd[rank].send(0, b"", b"x") == OK
        assert hub.arm() == AGAIN
        assert payloads(hub.poll()) == [b"x"]
    assert hub.arm() == OK
    hub.disarm()


def test_a_poll_that_comes_late_looks_at_all(crowd):
    hub = crowd[0]
    for rank in (RANKS - 1, 2, 15):
        assert crowd[rank].send(0, b"", b"x") == OK
        time.sleep(0.005)
        assert payloads(hub.poll()) == [b"x"]


def test_ends_and_transfers_of_calm_ones(crowd):
    hub = crowd[0]
    data = bytearray(os.urandom(100_000))
    source = hub.register(data, REMOTE_READ)
    room = bytearray(len(data))
    reader = crowd[30]
    assert reader.connect(0) == OK
    sink = reader.register(room, LOCAL)
    assert reader.post(0, reader.read_request(sink, 0, source.address, source.key, len(room), 9)) \
        == OK
    until(lambda mine, theirs: any(event[0] != 1 for event in mine), reader, hub)
    assert room == data
    for rank in range(2, RANKS):
        crowd[rank].send(0, b"", b"last")
        crowd[rank].disconnect(0)
    events = until(lambda seen: sum(event[0] == CLOSED for event in seen) == RANKS - 2, hub)[0]
    assert payloads(events) == [b"last"] * (RANKS - 2)
    assert crowd[1].send(0, b"", b"still here") == OK
    assert payloads(until(lambda seen: seen, hub)[0]) == [b"still here"]
