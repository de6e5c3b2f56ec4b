"""The shm fabric between two ends in one process: F1-F6, D1-D3, J1-J5, T1-T3."""

import itertools
import os
import random

import pytest

from pyrdv.fabrics.shm import ShmFabric
from pyrdv.instruments.fabric import (
    AGAIN,
    CLOSED,
    FAILED,
    FENCE,
    INVALID,
    LOCAL,
    LOST,
    OK,
    READ,
    REMOTE_READ,
    WRITE,
    Driver,
)

from .shmtools import TOKEN, fabrics, open_files, pair, payloads, until

KIB = 1024


def test_packets_arrive_in_order_through_many_laps():
    a, b = pair()
    sizes = random.Random(1)
    sent, got = [], []
    while len(got) < 3000:
        data = bytes([len(sent) & 255]) * sizes.choice([0, 1, 79, 80, 81, 500, 4000])
        if len(sent) < 3000 and a.send(1, b"h" * 40, data) == OK:
            sent.append(b"h" * 40 + data)
            continue
        got += payloads(b.poll(limit=sizes.randint(1, 40)))
    assert got == sent


@pytest.mark.parametrize("size", [0, 1, 119, 120, 121, 16383, 16384, 65536, 65600])
def test_sizes_around_the_limits(size):
    a, b = pair()
    for round_ in range(20):  # all places in the bulk area
        header, payload = os.urandom(min(size, 64)), os.urandom(max(size - 64, 0))
        assert a.send(1, header, payload) == OK, round_
        assert payloads(b.poll()) == [header + payload]


def test_too_large_is_refused():
    a, b = pair()
    assert a.send(1, b"", bytes(a.packet_max)) == OK
    assert a.send(1, b"", bytes(a.packet_max + 1)) == INVALID
    assert a.send(1, bytes(65)) == INVALID
    assert a.post(1) == INVALID
    assert len(b.poll()) == 1


def test_a_full_ring_says_again_and_recovers():
    a, b = pair()
    sent = 0
    while a.send(1, b"%4d" % sent) == OK:
        sent += 1
    assert sent == 128
    assert payloads(b.poll(limit=3)) == [b"   0", b"   1", b"   2"]
    assert [a.send(1, b"more") for _ in range(4)] == [OK, OK, OK, AGAIN]
    rest = payloads(b.poll()) + payloads(b.poll())
    assert rest == [b"%4d" % i for i in range(3, 128)] + [b"more"] * 3


def test_full_bulk_area_does_not_stop_small_packets():
    a, b = pair()
    while a.send(1, b"", bytes(16000)) == OK:
        pass
    assert a.send(1, b"small") == OK
    assert payloads(b.poll())[-1] == b"small"
    assert a.send(1, b"", bytes(16000)) == OK


def test_unreleased_packets_come_again():
    a, b = pair()
    for i in range(5):
        a.send(1, b"", bytes([i]) * 300)
    first = b.poll(release=False)
    assert b.poll(release=False) == first
    b.release(0, 2)
    assert payloads(b.poll(limit=2, release=False)) == payloads(first)[2:4]
    b.release(0, 99)  # more than were returned: those only
    assert payloads(b.poll()) == payloads(first)[4:]
    b.release(0, 1)  # nothing to release
    a.send(1, b"", b"x")
    assert payloads(b.poll()) == [b"x"]


def test_a_chain_is_taken_whole_or_not_at_all():
    a, b = pair()
    for _ in range(125):
        assert a.send(1, b"x") == OK
    chain = [Driver.send_request(b"%d" % i) for i in range(4)]
    assert a.post(1, *chain) == AGAIN
    assert a.post(1, *chain[:3]) == OK
    assert payloads(b.poll())[125:] == [b"0", b"1", b"2"]
    big = [Driver.send_request(b"", bytes(a.packet_max)) for _ in range(4)]
    assert a.post(1, *big) == INVALID  # would never fit
    assert b.poll() == []


def test_post_before_connect_says_again():
    a, b = (Driver(one) for one in fabrics())
    assert a.send(1, b"x") == AGAIN
    assert a.send(2, b"x") == INVALID
    assert a.connect(0) == FAILED  # itself
    assert a.connect(1) == OK
    assert a.connect(1) == OK
    assert a.send(1, b"x") == OK  # b did nothing yet
    b.maintain()
    assert payloads(b.poll()) == [b"x"]


@pytest.fixture(params=["auto", "off"])
def two(request):
    return pair(request.param)


@pytest.mark.parametrize("size", [0, 1, 8191, 8192, 8193, 32 * KIB, 65537, 300 * KIB, 3000001])
def test_read_and_write_move_the_bytes(two, size):
    a, b = two
    theirs, mine = bytearray(os.urandom(size + 16)), bytearray(size + 16)
    source, sink = b.register(theirs), a.register(mine)
    assert a.read(1, sink, source.address + 8, source.key, size, ident=5, offset=8) == OK
    events, _ = until(lambda ea, eb: ea, a, b)
    assert events == [(READ, 1, 5, OK)]
    assert mine[8:-8] == theirs[8 : size + 8]
    assert not any(mine[:8]) and not any(mine[-8:])
    back = bytearray(os.urandom(size + 16))
    out = a.register(back)
    assert a.write(1, out, source.address + 8, source.key, size, ident=6, offset=8) == OK
    events, _ = until(lambda ea, eb: ea, a, b)
    assert events == [(WRITE, 1, 6, OK)]
    assert theirs[8:-8] == back[8 : size + 8]


def test_a_fenced_send_waits_for_the_read(two):
    a, b = two
    theirs, mine = bytearray(os.urandom(400 * KIB)), bytearray(400 * KIB)
    source, sink = b.register(theirs), a.register(mine)
    chain = [
        Driver.send_request(b"START"),
        Driver.read_request(sink, 0, source.address, source.key, len(mine), ident=1),
        Driver.send_request(b"DONE", b"fenced", flags=FENCE),
        Driver.send_request(b"LAST"),
    ]
    assert a.post(1, *chain) == OK
    assert payloads(b.poll()) == [b"START"]
    seen = []
    while len(seen) < 2:
        a.poll()
        seen += payloads(b.poll())
        if seen:
            assert mine == theirs
    assert seen == [b"DONEfenced", b"LAST"]


def test_a_send_behind_a_write_is_not_seen_before_the_data(two):
    a, b = two
    theirs, mine = bytearray(400 * KIB), bytearray(os.urandom(400 * KIB))
    target, source = b.register(theirs), a.register(mine)
    assert a.post(1, Driver.write_request(source, 0, target.address, target.key, len(mine)),
                  Driver.send_request(b"FIN")) == OK
    _, events = until(lambda ea, eb: payloads(eb), a, b)
    assert payloads(events) == [b"FIN"]
    assert theirs == mine


def test_many_transfers_at_once_complete_exactly_once(two):
    a, b = two
    count, size = 300, 33 * KIB
    theirs, mine = bytearray(os.urandom(count * size)), bytearray(count * size)
    source, sink = b.register(theirs), a.register(mine)
    ended, posted = [], 0
    while len(ended) < count:
        while posted < count and a.read(1, sink, source.address + posted * size, source.key, size,
                                        ident=posted, offset=posted * size) == OK:
            posted += 1
        ended += [event[2] for event in a.poll(limit=7)]
        b.poll()
    assert sorted(ended) == list(range(count))
    assert mine == theirs


def test_posting_more_transfers_than_nodes_says_again():
    a, b = pair()
    sink = a.register(bytearray(64 * KIB))
    source = b.register(bytearray(64 * KIB))
    posted = 0
    while a.read(1, sink, source.address, source.key, 64 * KIB, ident=posted) == OK:
        posted += 1
    assert posted == 512
    got = []
    while len(got) < posted:
        got += a.poll()
    assert sorted(event[2] for event in got) == list(range(posted))
    assert a.read(1, sink, source.address, source.key, 8) == OK


def test_hundreds_of_megabytes():
    a, b = pair()
    size = 300 << 20
    theirs, mine = bytearray(size), bytearray(size)
    for place in range(0, size, 9973 * KIB):
        theirs[place] = 1 + place % 255
    source, sink = b.register(theirs), a.register(mine)
    a.read(1, sink, source.address, source.key, size)
    until(lambda ea, eb: ea, a, b)
    assert mine == theirs
    assert a.fabric.counters["chunks"] + b.fabric.counters["chunks_helped"] == size // (256 * KIB)


@pytest.mark.parametrize("turns", list(itertools.product("ab", repeat=6)))
def test_chunks_are_moved_once_whoever_takes_them(turns):
    # J1, J3: two jobs of 3 and 1 chunks in every order of the two ends' turns.
    a, b = pair()
    sizes = [180 * KIB, 40 * KIB]
    theirs = [bytearray(os.urandom(size)) for size in sizes]
    mine = [bytearray(size) for size in sizes]
    sources = [b.register(one) for one in theirs]
    sinks = [a.register(one) for one in mine]
    for i in range(2):
        assert a.read(1, sinks[i], sources[i].address, sources[i].key, sizes[i], ident=i) == OK
    events = []
    for turn in turns:
        events += a.poll() if turn == "a" else b.poll()
        for _, _, ident, status in events:
            assert status == OK and mine[ident] == theirs[ident]
    while len(events) < 2:
        events += a.poll()
    assert mine == theirs
    assert sorted(event[2] for event in events) == [0, 1]
    assert a.fabric.counters["chunks"] + b.fabric.counters["chunks_helped"] == 4


def test_the_peer_alone_can_move_everything():
    a, b = pair()
    theirs, mine = bytearray(os.urandom(1 << 20)), bytearray(1 << 20)
    source, sink = b.register(theirs), a.register(mine)
    a.read(1, sink, source.address, source.key, len(mine))
    for _ in range(8):
        b.poll()
    assert mine == theirs
    assert a.poll() == [(READ, 1, 0, OK)]
    assert a.fabric.counters["chunks"] == 0


def test_one_poll_does_one_chunk_of_work(two):
    a, b = two  # R1
    theirs, mine = bytearray(b"x" * (4 << 20)), bytearray(4 << 20)
    source, sink = b.register(theirs), a.register(mine)
    a.read(1, sink, source.address, source.key, len(mine))
    before = 0
    for _ in range(6):
        a.poll()
        now = mine.count(b"x")
        assert now - before <= 256 * KIB
        b.poll()
        before = mine.count(b"x")
        assert before - now <= 256 * KIB
    assert before > 0


def test_transfer_from_memory_that_is_not_there():
    a, b = pair()
    sink = a.register(bytearray(300 * KIB))
    chain = [Driver.read_request(sink, 0, 4096, 0, 300 * KIB, ident=3),
             Driver.send_request(b"DONE", flags=FENCE)]
    assert a.post(1, *chain) == OK
    events, others = until(lambda ea, eb: ea, a, b)
    for _ in range(5):
        events += a.poll()
        others += b.poll()
    assert events == [(READ, 1, 3, INVALID)]
    assert others == []  # J5
    assert a.send(1, b"fine") == OK
    assert payloads(b.poll()) == [b"fine"]


def test_staged_transfers_are_checked_by_the_target():
    a, b = pair("off")  # R8, T2
    theirs, mine = bytearray(64 * KIB), bytearray(os.urandom(128 * KIB))
    sink = a.register(mine)
    read_only = b.register(theirs, LOCAL | REMOTE_READ)
    gone = b.register(bytearray(64 * KIB))
    address, key = gone.address, gone.key
    gone.deregister()

    def status(method, address, key, length):
        assert method(1, sink, address, key, length) == OK
        return until(lambda ea, eb: ea, a, b)[0][0][3]

    assert status(a.write, read_only.address, read_only.key, 100) == INVALID
    assert status(a.read, read_only.address + 1, read_only.key, 64 * KIB) == INVALID
    assert status(a.read, read_only.address - 1, read_only.key, 8) == INVALID
    assert status(a.read, (1 << 64) - 8, read_only.key, 64) == INVALID
    assert status(a.read, read_only.address, 12345, 8) == INVALID
    assert status(a.read, address, key, 8) == INVALID
    assert theirs == bytes(64 * KIB)
    assert status(a.read, read_only.address, read_only.key, 64 * KIB) == OK


def test_discarded_reads_of_cells():
    """T4: of the one under way nothing more is copied out, those that wait move nothing."""
    a, b = pair("off")
    theirs, mine = bytearray(os.urandom(1 << 20)), bytearray(1 << 20)
    source, sink = b.register(theirs), a.register(mine)
    for ident in range(3):
        assert a.read(1, sink, source.address, source.key, len(mine), ident=ident) == OK
    while not any(mine):
        assert b.poll() == a.poll() == []
    assert mine != theirs
    assert all(a.discard(1, ident) for ident in range(3))
    sink.deregister()
    mine[:] = bytes([7]) * len(mine)
    events, _ = until(lambda ea, eb: len(ea) == 3, a, b)
    assert sorted(events) == [(READ, 1, ident, OK) for ident in range(3)]
    assert mine == bytes([7]) * len(mine)
    assert a.fabric.counters["staged_jobs"] == 1


def test_a_read_by_single_copy_is_waited_for():
    """J3: the peer may be writing a chunk."""
    a, b = pair()
    theirs, mine = bytearray(os.urandom(1 << 20)), bytearray(1 << 20)
    source, sink = b.register(theirs), a.register(mine)
    assert a.read(1, sink, source.address, source.key, len(mine), ident=5) == OK
    assert not a.discard(1, 5)
    until(lambda ea: ea, a)
    assert a.discard(1, 5) and mine == theirs


def test_goodbye_comes_after_everything(two):
    a, b = two
    theirs, mine = bytearray(os.urandom(1 << 20)), bytearray(1 << 20)
    source, sink = b.register(theirs), a.register(mine)
    a.post(1, Driver.read_request(sink, 0, source.address, source.key, 1 << 20, flags=0),
           Driver.send_request(b"DONE", flags=FENCE))
    a.disconnect(1)
    a.disconnect(1)
    assert a.send(1, b"no more") == INVALID
    _, events = until(lambda ea, eb: len(eb) == 2, a, b)
    assert (payloads(events), events[-1]) == ([b"DONE"], (CLOSED, 0))
    assert b.send(0, b"still heard") == OK
    assert payloads(a.poll()) == [b"still heard"]
    a.fabric.close()
    for _ in range(3):
        b.maintain()
        assert b.poll() == []  # the event came already
    assert b.send(0, b"x") == LOST


def test_goodbye_of_a_side_that_never_connected():
    a, b = (Driver(one) for one in fabrics())
    assert b.connect(0) == OK
    b.send(0, b"hello")
    a.disconnect(1)
    heard, events = until(lambda ea, eb: ea and eb, a, b)
    assert (payloads(heard), events) == ([b"hello"], [(CLOSED, 0)])


def test_wrong_arguments():
    for rank, size in ((-1, 2), (2, 2), (0, 0)):
        with pytest.raises(ValueError, match=f"rank {rank}"):
            ShmFabric(rank, size, TOKEN)
    with pytest.raises(ValueError, match="'maybe'"):
        ShmFabric(0, 1, TOKEN, "maybe")
    one = ShmFabric(0, 2, TOKEN)
    with pytest.raises(ValueError, match="1 addresses for 2 ranks"):
        one.set_peers([None])
    with pytest.raises(ValueError, match="rank 1 has 5 bytes"):
        one.set_peers([None, b"12345"])
    with pytest.raises(ValueError, match="layout 9"):
        one.set_peers([None, one.address[:8] + b"\x09" + one.address[9:]])
    one.set_peers([None, None])
    assert Driver(one).connect(1) == FAILED  # not on this host


def test_nothing_stays_open_and_close_is_idempotent():
    before = open_files()
    for _ in range(3):
        a, b = pair()
        assert len(open_files()) - len(before) <= 2 * 5
        assert not any("memfd" in name for name in open_files().values())
        a.fabric.close()
        a.fabric.close()
        b.fabric.close()
        assert open_files() == before
    pair()
    assert open_files() == before


@pytest.mark.parametrize(("ranks", "limit"), [(2, 640 * KIB), (4, 320 * KIB), (5, 128 * KIB)])
def test_memory_per_peer(ranks, limit):
    """Small jobs get a large bulk area; from five ranks on a further peer costs 128 KiB at most."""
    with open("/proc/self/smaps") as file:
        before = file.read().count("memfd:pyrdv")
    a, b = (Driver(one) for one in fabrics(ranks)[:2])
    assert (a.connect(1), b.connect(0)) == (OK, OK)
    a.maintain()
    b.maintain()
    sizes = []
    with open("/proc/self/maps") as file:
        for line in file:
            if "memfd:pyrdv" in line:
                low, high = line.split()[0].split("-")
                sizes.append(int(high, 16) - int(low, 16))
    assert len(sizes) - before == 4  # two channels, each mapped at both ends
    assert sum(sizes[-2:]) <= limit
