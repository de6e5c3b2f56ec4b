"""The shm fabric against peers that break the protocol: R8, L2, G2, G4, J1, J7."""

import os
import socket
import struct

import pytest

from pyrdv.fabrics.shm import ShmFabric
from pyrdv.instruments.fabric import INVALID, LOST, OK, PEER_LOST, READ, Driver

from .shmtools import (
    CONSUMER_CELLS,
    CREDIT,
    HELP,
    IN_BULK,
    INLINE,
    JOBS,
    PLAIN,
    PRODUCER_CELLS,
    PRODUCER_WAITING,
    STAGE_SERIAL,
    STAGED,
    TOKEN,
    VERSION,
    RawPeer,
    open_files,
    payloads,
    until,
)


@pytest.fixture
def end():
    """The end under test: rank 0 of 3."""
    one = Driver(ShmFabric(0, 3, TOKEN))
    yield one
    one.fabric.close()


@pytest.fixture
def peer():
    one = RawPeer()
    yield one
    one.close()


def test_a_well_behaved_hand_made_peer_is_accepted(end, peer):
    peer.connect(end.fabric.address)
    peer.put(0, INLINE | 5, b"hello")
    peer.put(1, IN_BULK | 200)
    end.maintain()
    assert payloads(end.poll()) == [b"hello", bytes(200)]
    assert end.fabric.counters["refused"] == 0


GARBAGE = {
    "no bytes": lambda peer: b"",
    "one byte": lambda peer: b"x",
    "short": lambda peer: peer.hello()[:-1],
    "long": lambda peer: peer.hello() + b"x",
    "very long": lambda peer: os.urandom(65536),
    "noise": lambda peer: os.urandom(72),
    "magic": lambda peer: peer.hello(magic=1),
    "version": lambda peer: peer.hello(version=VERSION + 1),
    "token": lambda peer: peer.hello(digest=bytes(32)),
    "from nobody": lambda peer: peer.hello(from_rank=3),
    "from far beyond": lambda peer: peer.hello(from_rank=2**32 - 1),
    "to another": lambda peer: peer.hello(to_rank=2),
    "layout": lambda peer: peer.hello(staged=2),
    "other size": lambda peer: peer.hello(staged=1),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_bad_hello_is_refused(end, peer, kind):
    before = open_files()
    fd = peer.segment()
    socket.send_fds(peer.dial(end.fabric.address), [GARBAGE[kind](peer)], [fd])
    os.close(fd)
    end.maintain()
    assert end.fabric.counters["refused"] == 1
    assert end.poll() == []
    peer.hide()
    assert open_files() == before
    good = RawPeer()
    good.connect(end.fabric.address)  # the place is not taken
    good.put(0, INLINE | 2, b"ok")
    end.maintain()
    assert payloads(end.poll()) == [b"ok"]
    good.close()


BAD_MEMORY = {
    "not sealed": {"seals": False},
    "small": {"size": 4096},
    "large": {"size": STAGED},
    "magic": {"magic": 0},
    "version": {"version": 7},
    "bytes": {"bytes": 5},
    "from": {"from_rank": 2},
    "to": {"to_rank": 1},
}


@pytest.mark.parametrize("kind", BAD_MEMORY)
def test_bad_memory_is_refused(end, peer, kind):
    fd = peer.segment(**BAD_MEMORY[kind])
    socket.send_fds(peer.dial(end.fabric.address), [peer.hello()], [fd])
    os.close(fd)
    end.maintain()
    assert end.fabric.counters["refused"] == 1
    peer.hide()
    assert not any("memfd" in name for name in open_files().values())


def test_other_numbers_of_descriptors_are_refused(end, peer):
    for count in (0, 2, 5):
        before = open_files()
        fd = peer.segment()
        socket.send_fds(peer.dial(end.fabric.address), [peer.hello()], [fd] * count)
        os.close(fd)
        end.maintain()
        peer.hide()
        assert open_files() == before
    read, write = os.pipe()
    socket.send_fds(peer.dial(end.fabric.address), [peer.hello()], [read])
    end.maintain()
    os.close(read)
    os.close(write)
    assert end.fabric.counters["refused"] == 4


def test_silent_connections_are_bounded(end, peer):
    before = len(open_files())
    silent = [RawPeer() for _ in range(50)]
    for one in silent:
        one.dial(end.fabric.address)
        end.maintain()
    assert len(open_files()) - before - 2 * 50 <= 16
    peer.connect(end.fabric.address)
    peer.put(0, INLINE | 2, b"ok")
    assert payloads(until(payloads, end)[0]) == [b"ok"]
    for one in silent:
        one.close()
    until(lambda _: end.fabric.counters["refused"] == 50, end)


def test_the_second_connection_of_a_rank_is_refused(end, peer):
    peer.connect(end.fabric.address)
    end.maintain()
    other = RawPeer()
    other.connect(end.fabric.address)
    other.put(0, INLINE | 5, b"false")
    peer.put(0, INLINE | 4, b"true")
    end.maintain()
    assert payloads(end.poll()) == [b"true"]
    other.close()
    end.maintain()
    assert end.poll() == []


@pytest.mark.parametrize("word", [
    INLINE | 121, INLINE | 0xFFFFFF, IN_BULK | 120, IN_BULK | 65537, IN_BULK | 0xFFFFFF,
    IN_BULK, 0, 8, 3 << 24 | 8, 0xFFFFFFFF,
])
def test_bad_slot_loses_this_peer_only(end, peer, word):
    other = RawPeer(rank=2)
    other.connect(end.fabric.address)
    peer.connect(end.fabric.address)
    end.maintain()
    peer.put(0, INLINE | 4, b"good")
    peer.put(1, word)
    peer.put(2, INLINE | 4, b"late")
    end_events, = until(lambda ev: (PEER_LOST, 1) in ev, end)
    assert end_events == [(1, 1, b"good"), (PEER_LOST, 1)]
    assert end.send(1, b"x") == LOST
    other.put(0, INLINE | 4, b"mine")
    end.maintain()
    assert end.poll() == [(1, 2, b"mine")]
    assert peer.socket.recv(1) == b""  # hung up
    other.close()


def test_lengths_changed_after_poll_shift_nothing(end, peer):
    peer.connect(end.fabric.address)
    end.maintain()
    peer.put(0, IN_BULK | 16384)
    assert len(payloads(end.poll(release=False))[0]) == 16384
    peer.set32(4096 + 4, INLINE | 1)
    end.release(1, 1)
    (credit,) = struct.unpack_from("<Q", peer.memory, CREDIT)
    assert (credit & 0xFFFFFFFF, credit >> 32) == (1, 16384)


def test_stamps_from_the_future_or_past_are_not_taken(end, peer):
    peer.connect(end.fabric.address)
    end.maintain()
    for stamp in (0, 2, 129, 0xFFFFFFFF):
        peer.put(0, INLINE | 1, b"x", stamp=stamp)
        assert end.poll() == []


def test_impossible_credit_loses_the_peer(end, peer):
    end.fabric.set_peers([None, peer.address(), None])
    assert end.connect(1) == OK
    peer.accept()
    struct.pack_into("<Q", peer.into, CREDIT, 500)
    statuses = [end.send(1, b"x") for _ in range(140)]
    assert statuses[:128] == [OK] * 128
    assert set(statuses[128:]) == {LOST}
    assert until(lambda ev: ev, end) == [[(PEER_LOST, 1)]]


def job(memory, index=0):
    """Claim word, consumer's and producer's address, length, chunk of a job."""
    claim, producer, consumer, length, chunk = struct.unpack_from(
        "<QQQQI", memory, JOBS + 64 * index)
    fields = claim >> 36, claim >> 18 & 0x3FFFF, claim & 0x3FFFF
    return fields, producer, consumer, length, chunk


def connected_for_copy(end, peer):
    """`end` believes that it may copy from `peer`, which is this process."""
    word = bytearray(os.urandom(8))
    place = end.register(word)
    driver = int.from_bytes(word, "little")
    end.fabric.set_peers([None, peer.address(place.address, driver), None])
    assert end.connect(1) == OK
    assert peer.accept()[4] == 0
    return place


def test_a_stale_helper_cannot_claim_from_a_reused_job(end, peer):
    keep = connected_for_copy(end, peer)
    data = bytearray(os.urandom(64 << 10))
    source, sink = end.register(data), end.register(bytearray(64 << 10))
    words = []
    for ident in range(3):
        assert end.read(1, sink, source.address, 0, 64 << 10, ident=ident) == OK
        (generation, chunks, next_), *_ = job(peer.into)
        assert (chunks, next_) == (1, 0)
        words.append(generation)
        assert end.poll() == [(READ, 1, ident, OK)]
        assert job(peer.into)[0] == (generation, 1, 1)  # closed until it is published again
    assert len(set(words)) == 3
    assert keep


def test_a_transfer_waits_for_a_claimed_chunk_and_repairs_a_failed_one(end, peer):
    keep = connected_for_copy(end, peer)  # J3, J4
    data, got = bytearray(os.urandom(128 << 10)), bytearray(128 << 10)
    source, sink = end.register(data), end.register(got)
    assert end.read(1, sink, source.address, 0, 128 << 10) == OK
    (claim,) = struct.unpack_from("<Q", peer.into, JOBS)
    struct.pack_into("<Q", peer.into, JOBS, claim + 1)  # a helper claims chunk 0
    for _ in range(5):
        assert end.poll() == []
    assert got[64 << 10 :] == data[64 << 10 :]
    assert got[: 64 << 10] == bytes(64 << 10)
    struct.pack_into("<I", peer.into, JOBS + 44, 1)  # it failed
    done = struct.unpack_from("<I", peer.into, JOBS + 40)[0]
    struct.pack_into("<I", peer.into, JOBS + 40, done + 1)
    assert until(lambda ev: ev, end) == [[(READ, 1, 0, OK)]]
    assert got == data
    assert keep


def test_a_helper_that_dies_with_a_claim_loses_the_transfer(end, peer):
    keep = connected_for_copy(end, peer)
    sink = end.register(bytearray(256 << 10))
    source = end.register(bytearray(256 << 10))
    end.post(1, Driver.read_request(sink, 0, source.address, 0, 256 << 10, ident=9),
             Driver.send_request(b"DONE", flags=2))
    (claim,) = struct.unpack_from("<Q", peer.into, JOBS)
    struct.pack_into("<Q", peer.into, JOBS, claim + 1)
    assert end.poll() + end.poll() == []
    peer.close()
    assert until(lambda ev: len(ev) == 2, end) == [[(READ, 1, 9, LOST), (PEER_LOST, 1)]]
    assert end.poll() == []
    assert keep


def connected_for_help(end, peer):
    """`end` believes that it may help `peer`, which is this process."""
    word = bytearray(os.urandom(8))
    place = end.register(word)
    fd = peer.segment()
    hello = peer.hello(mark_address=place.address, mark=int.from_bytes(word, "little"))
    socket.send_fds(peer.dial(end.fabric.address), [hello], [fd])
    os.close(fd)
    end.maintain()
    return place


def publish(peer, own, theirs, key, size, reading):
    """The first transfer of `peer`, between `own` and `theirs`, addresses."""
    struct.pack_into("<QQQQIIIIQQ", peer.memory, JOBS, 1 << 36 | 2 << 18, own, theirs, size,
                     65536, reading, 0, 0, 0, key)
    peer.set32(HELP, 1)


def test_a_helper_moves_chunks_and_wakes_the_poster(end, peer):
    keep = connected_for_help(end, peer)  # F8: the poster may sleep until the last chunk is done
    source, sink = bytearray(os.urandom(100000)), bytearray(100000)
    theirs, own = end.register(source), end.register(sink)
    peer.socket.setblocking(False)
    publish(peer, own.address, theirs.address, theirs.key, 100000, 1)
    end.poll()
    assert job(peer.memory)[0] == (1, 2, 1)
    assert struct.unpack_from("<I", peer.memory, JOBS + 40)[0] == 1
    assert sink == source[:65536] + bytes(100000 - 65536)
    with pytest.raises(BlockingIOError):
        peer.socket.recv(8)
    peer.set32(PRODUCER_WAITING, 1)
    end.poll()
    assert sink == source
    assert len(peer.socket.recv(8)) == 1
    assert struct.unpack_from("<I", peer.memory, PRODUCER_WAITING)[0] == 0
    assert keep


# Access, change of the address, of the key, of the length.
NOT_GRANTED = {
    "for local use": (1, 0, 0, 0),
    "for the other direction": (None, 0, 0, 0),
    "before its beginning": (7, -1, 0, 0),
    "behind its end": (7, 1, 0, 0),
    "longer": (7, 0, 0, 1),
    "around the end of memory": (7, 2**64, 0, 0),
    "another generation": (7, 0, 1 << 32, 0),
    "a key of nothing": (7, 0, 2**31, 0),
}


@pytest.mark.parametrize("reading", [1, 0])
@pytest.mark.parametrize("kind", NOT_GRANTED)
def test_memory_that_was_not_granted_is_not_helped_with(end, peer, kind, reading):
    """J7, R8: the job is left to the peer that posted it."""
    keep = connected_for_help(end, peer)
    access, at, key, more = NOT_GRANTED[kind]
    around, own = bytearray(os.urandom(200000)), bytearray(os.urandom(200000))
    before = bytes(around), bytes(own)
    theirs = memoryview(around)[4096 : 4096 + 120000]
    place = end.register(theirs, (5 if reading else 3) if access is None else access)
    address = 2**64 - 65536 if at == 2**64 else place.address + at
    publish(peer, end.register(own).address, address, place.key + key, 120000 + more, reading)
    # Only the last chunk of what begins in the region and is too long reaches out of it.
    first = kind in ("behind its end", "longer")
    for _ in range(5):
        end.poll()
    assert end.fabric.counters["chunks_helped"] == first
    assert job(peer.memory)[0] == (1, 2, first)
    assert struct.unpack_from("<II", peer.memory, JOBS + 40) == (first, 0)
    assert first or (around, own) == before
    peer.put(0, INLINE | 2, b"ok")
    assert payloads(end.poll()) == [b"ok"]
    assert keep


@pytest.mark.parametrize("reading", [1, 0])
def test_memory_deregistered_in_between_is_not_touched(end, peer, reading):
    """J7, F4: a broken peer says that its transfer ended, and goes on with it."""
    keep = connected_for_help(end, peer)
    theirs, own = (bytearray(os.urandom(131072)) for _ in range(2))
    source, sink = (theirs, own) if reading else (own, theirs)
    before = bytes(sink)
    place = end.register(theirs)
    publish(peer, end.register(own).address, place.address, place.key, 131072, reading)
    end.poll()
    assert sink == source[:65536] + before[65536:]
    place.deregister()
    after = end.register(theirs)  # the next one at this place in the table has another key
    for _ in range(5):
        end.poll()
    assert sink == source[:65536] + before[65536:]
    assert job(peer.memory)[0] == (1, 2, 1)
    assert end.fabric.counters["chunks_helped"] == 1
    assert keep and after.key != place.key


def test_nonsense_jobs_are_not_helped(end, peer):
    keep = connected_for_help(end, peer)
    victim = bytearray(4096)
    place, source = end.register(victim), end.register(bytearray(os.urandom(1 << 20)))
    for index, (claim, length, chunk) in enumerate([
        (1 << 36 | 5 << 18, 4096, 1 << 31),      # larger than a step may be
        (1 << 36 | 5 << 18 | 4, 4096, 4096),     # chunk behind the end
        (1 << 36 | 1 << 18 | 9, 4096, 4096),     # more claimed than there are
        (1 << 36 | 9 << 18 | 3, 1 << 20, 0),     # no size
    ]):
        struct.pack_into("<QQQQIIIIQQ", peer.memory, JOBS + 64 * index, claim, source.address,
                         place.address, length, chunk, 0, 0, 0, 0, place.key)
    peer.set32(HELP, 1)
    for _ in range(30):
        end.poll()
    assert victim == bytes(4096)
    assert end.fabric.counters["chunks_helped"] == 0
    peer.put(0, INLINE | 2, b"ok")
    assert payloads(end.poll()) == [b"ok"]
    assert keep


def test_staged_counts_that_cannot_be_lose_the_peer(peer):
    end = Driver(ShmFabric(0, 3, TOKEN, "off"))
    end.fabric.set_peers([None, peer.address(), None])
    assert end.connect(1) == OK
    assert peer.accept()[4] == 1
    sink = end.register(bytearray(100000))
    end.read(1, sink, 4096, 0, 100000, ident=4)
    (serial,) = struct.unpack_from("<I", peer.into, STAGE_SERIAL)
    struct.pack_into("<Q", peer.into, CONSUMER_CELLS, serial << 32 | 9)
    events, = until(lambda ev: len(ev) == 2, end)
    assert events == [(READ, 1, 4, LOST), (PEER_LOST, 1)]
    end.fabric.close()


def test_staged_requests_of_a_hostile_peer(peer):
    end = Driver(ShmFabric(0, 3, TOKEN, "off"))
    secret = bytearray(b"secret" * 100)
    own = end.register(secret, 1)  # local use only
    peer.connect(end.fabric.address, STAGED)
    end.maintain()
    struct.pack_into("<QQQ", peer.memory, STAGE_SERIAL + 8, own.address, own.key, 600)
    struct.pack_into("<I", peer.memory, STAGE_SERIAL + 4, 1)
    peer.set32(STAGE_SERIAL, 1)
    peer.set32(HELP, 1)
    end.poll()
    end.poll()
    assert b"secret" not in peer.memory[PLAIN:]
    assert struct.unpack_from("<I", peer.memory, CONSUMER_CELLS + 8)[0] == 1  # refused
    other = end.register(bytearray(100000))
    struct.pack_into("<QQQ", peer.memory, STAGE_SERIAL + 8, other.address, other.key, 100000)
    struct.pack_into("<Q", peer.memory, PRODUCER_CELLS, 2 << 32 | 77)
    peer.set32(STAGE_SERIAL, 2)
    peer.set32(HELP, 2)
    assert until(lambda ev: ev, end) == [[(PEER_LOST, 1)]]
    end.fabric.close()


def test_a_stranger_at_the_address_gets_no_channel(end, peer):
    end.fabric.set_peers([None, peer.address(mark=5), None])
    assert end.connect(1) == OK  # same user: it is sent a hello with a digest only
    fields = peer.accept()
    assert TOKEN not in b"".join(f if isinstance(f, bytes) else b"" for f in fields)
    peer.listener.close()
    end.fabric.set_peers([None, None, peer.address()])
    assert end.connect(2) == LOST
    assert end.post(2, Driver.send_request(b"x")) != INVALID
