"""What every fabric promises to the engine (F1-F9), without an engine."""


import pytest

from pyrdv.instruments.fabric import (
    AGAIN,
    BEHIND,
    CLOSED,
    FAILED,
    FENCE,
    INVALID,
    LOCAL,
    LOST,
    OK,
    PACKET,
    PEER_LOST,
    READ,
    REMOTE_READ,
    REMOTE_WRITE,
    WRITE,
)
from tests.support.ready import readable

from .worlds import pattern

LIMIT = 20_000


class Ends:
    """Two or more drivers with what they have received so far."""

    def __init__(self, kind, size=2, **parameters):
        self.world, self.drivers = kind.bare(size, **parameters)
        self.rng = self.world.rng
        self.events = [[] for _ in self.drivers]

    def poll(self, rank, release=True):
        self.world.turn()
        events = self.drivers[rank].poll(release=release)
        self.events[rank] += events
        return events

    def post(self, rank, peer, *requests):
        """Post, polling everybody while there is no room."""
        for _ in range(LIMIT):
            status = self.drivers[rank].post(peer, *requests)
            if status != AGAIN:
                return status
            for other in range(len(self.drivers)):
                self.poll(other)
        raise AssertionError("no room for a chain, for ever")

    def until(self, condition):
        for _ in range(LIMIT):
            if condition():
                return
            for rank, driver in enumerate(self.drivers):
                self.poll(rank)
                driver.maintain()
        raise AssertionError(f"not reached; events so far: {self.events}")

    def packets(self, rank, peer=None):
        return [event[2] for event in self.events[rank]
                if event[0] == PACKET and peer in (None, event[1])]


def source_and_sink(ends, size, seed=0):
    source = bytearray(pattern(size, seed).tobytes())
    sink = bytearray(size)
    return (source, ends.drivers[1].register(source, REMOTE_READ), sink,
            ends.drivers[0].register(sink, LOCAL))


@pytest.mark.parametrize("seed", range(8))
def test_packets_keep_the_order_of_posting(world, seed):
    """F1, F3: sizes of every kind of slot; the payload may change after the post."""
    ends = Ends(world, seed=seed)
    sent = []
    for i in range(300):
        size = ends.rng.choice((0, 1, 40, 64, 100, 1000, 3000))
        header, payload = i.to_bytes(4, "little"), bytearray(pattern(size, i).tobytes())
        sent.append(header + bytes(payload))
        assert ends.post(0, 1, ends.drivers[0].send_request(header, payload)) == OK
        payload[:] = bytes(size)
        if ends.rng.random() < 0.3:
            ends.poll(1)
    ends.until(lambda: len(ends.packets(1)) == len(sent))
    assert ends.packets(1) == sent


def mixed_traffic(ends):
    """READs with fenced SENDs, plain SENDs between them and the other way.

    Returns
    -------
    fenced, plain, back : list of bytes
        Packets to rank 1 behind a READ, others to rank 1, and those to rank 0.
    """
    fenced, plain, back, kept = [], [], [], {}
    for i in range(25):
        driver, packet = ends.drivers[0], bytes([i])
        if ends.rng.random() < 0.4:
            size = ends.rng.choice((500, 5000, 70_000, 200_000, 1 << 20))
            kept[packet] = source_and_sink(ends, size, i)
            _, remote, _, local = kept[packet]
            read = driver.read_request(local, 0, remote.address, remote.key, size, i)
            assert ends.post(0, 1, read, driver.send_request(packet, flags=FENCE)) == OK
            fenced.append(packet)
        else:
            packet += bytes(ends.rng.choice((1, 50, 1000, 3000)))
            assert ends.post(0, 1, driver.send_request(b"", packet)) == OK
            plain.append(packet)
        if ends.rng.random() < 0.5:
            back.append(packet)
            assert ends.post(1, 0, ends.drivers[1].send_request(b"", packet)) == OK
        for _ in range(ends.rng.randrange(3)):
            ends.poll(ends.rng.randrange(2))
        for arrived in ends.packets(1):
            if arrived in kept:
                source, _, sink, _ = kept[arrived]
                assert source == sink
    ends.until(lambda: len(ends.packets(1)) == len(fenced) + len(plain)
               and len(ends.events[0]) == len(back) + len(fenced))
    assert all(event[3] == OK for event in ends.events[0] if event[0] == READ)
    assert all(source == sink for source, _, sink, _ in kept.values())
    return fenced, plain, back


@pytest.mark.parametrize("seed", range(20))
def test_sends_among_reads_keep_their_order(world, seed):
    """F1, F5: plain SENDs keep their order; a fenced one never comes before its READ."""
    ends = Ends(world, seed=seed)
    fenced, plain, back = mixed_traffic(ends)
    assert [packet for packet in ends.packets(1) if packet in plain] == plain
    assert ends.packets(0) == back
    assert sorted(packet for packet in ends.packets(1) if packet in fenced) == fenced


@pytest.mark.parametrize("seed", range(20))
def test_open_fence_is_not_overtaken(world, seed):
    """F1: what is posted after the READ's completion was polled comes after the fenced SEND."""
    ends = Ends(world, seed=seed)
    expected = []
    for i in range(6):
        size = ends.rng.choice((500, 70_000, 1 << 20))
        _, remote, _, local = source_and_sink(ends, size, i)
        ends.post(0, 1, ends.drivers[0].read_request(local, 0, remote.address, remote.key, size, i),
                  ends.drivers[0].send_request(bytes([2 * i]), flags=FENCE))
        ends.until(lambda i=i: (READ, 1, i, OK) in ends.events[0])
        assert ends.post(0, 1, ends.drivers[0].send_request(bytes([2 * i + 1]))) == OK
        expected += [bytes([2 * i]), bytes([2 * i + 1])]
    ends.until(lambda: len(ends.packets(1)) == 12)
    assert ends.packets(1) == expected


@pytest.mark.parametrize("size", [1, 4096, 100_000, 1 << 20])
def test_fenced_send_finds_the_bytes_in_place(world, size):
    """F5: when the fenced SEND arrives, the READ before it has moved everything."""
    ends = Ends(world, seed=size)
    source, remote, sink, local = source_and_sink(ends, size)
    ends.post(0, 1, ends.drivers[0].read_request(local, 0, remote.address, remote.key, size, 1),
              ends.drivers[0].send_request(b"done", flags=FENCE))
    ends.until(lambda: ends.packets(1))
    assert sink == source


@pytest.mark.parametrize("size", [1, 4096, 100_000, 1 << 20])
def test_write_then_fenced_send(world, size):
    """F5, V5: the SEND behind a WRITE says that the bytes are placed."""
    ends = Ends(world, seed=size)
    source = bytearray(pattern(size).tobytes())
    sink = bytearray(size)
    local = ends.drivers[0].register(source, LOCAL)
    remote = ends.drivers[1].register(sink, REMOTE_WRITE)
    ends.post(0, 1, ends.drivers[0].write_request(local, 0, remote.address, remote.key, size, 7),
              ends.drivers[0].send_request(b"fin", flags=FENCE))
    ends.until(lambda: ends.packets(1))
    assert sink == source
    ends.until(lambda: (WRITE, 1, 7, OK) in ends.events[0])


@pytest.mark.parametrize("seed", range(8))
def test_behind_writes(world, seed):
    """F9, F1: SENDs behind WRITEs come after their bytes, and in the order of posting with all
    others.  Where none may be behind, a fence keeps the first promise."""
    ends = Ends(world, seed=seed)
    driver = ends.drivers[0]
    kept, sent = {}, []
    flag = BEHIND if driver.able_behind else FENCE
    for i in range(20):
        packet = bytes([i])
        if ends.rng.random() < 0.6:
            size = ends.rng.choice((1, 4097, 16_384, 200_000))
            source, sink = bytearray(pattern(size, i).tobytes()), bytearray(size)
            local = driver.register(source, LOCAL)
            remote = ends.drivers[1].register(sink, REMOTE_WRITE)
            kept[packet] = source, sink, local, remote
            assert ends.post(0, 1, driver.write_request(local, 0, remote.address, remote.key, size,
                                                       i),
                             driver.send_request(packet, flags=flag)) == OK
        else:
            assert ends.post(0, 1, driver.send_request(packet)) == OK
        sent.append(packet)
        for _ in range(ends.rng.randrange(4)):
            ends.poll(ends.rng.randrange(2))
            for arrived in ends.packets(1):
                if arrived in kept:
                    assert kept[arrived][0] == kept[arrived][1]
    ends.until(lambda: len(ends.packets(1)) == len(sent) and len(ends.events[0]) == len(kept))
    assert all(source == sink for source, sink, *_ in kept.values())
    assert sorted(event[2:] for event in ends.events[0]) == [
        (packet[0], OK) for packet in sorted(kept)]
    assert ends.packets(1) == sent or not driver.able_behind and sorted(ends.packets(1)) == sent


def test_chain_is_whole_or_nothing(world):
    """F2: chains of several packets, until there is no room; no part of one is lost."""
    ends = Ends(world, slots=8)
    posted = 0
    requests = [ends.drivers[0].send_request(bytes([i]), bytes(1000)) for i in range(5)]
    while (status := ends.drivers[0].post(1, *requests)) == OK and posted < 1000:
        posted += 1
        ends.world.turn()
    assert status == AGAIN
    ends.until(lambda: len(ends.packets(1)) == 5 * posted)
    assert [packet[0] for packet in ends.packets(1)] == list(range(5)) * posted


def test_unreleased_packets_come_again(world):
    """F6: the same packets, in the same order, until released one by one."""
    ends = Ends(world)
    for i in range(5):
        assert ends.post(0, 1, ends.drivers[0].send_request(bytes([i]))) == OK
    driver = ends.drivers[1]

    def look():
        ends.world.turn()
        return [event[2] for event in driver.poll(release=False) if event[0] == PACKET]

    for _ in range(LIMIT):
        if len(look()) == 5:
            break
    for left in range(5, 0, -1):
        assert look() == [bytes([i]) for i in range(5 - left, 5)]
        driver.release(0, 1)
    assert look() == []


def bad_reads(world, remote):
    """Addresses and keys that a READ of 100 000 bytes must not succeed with."""
    cases = [(4096, remote.key), (2**64 - 50_000, remote.key)]
    if world.checks_keys:
        cases += [(remote.address + 1, remote.key), (remote.address, remote.key ^ 1 << 40),
                  (remote.address - 1, remote.key)]
    return cases


def test_read_of_what_is_not_there_is_refused(world):
    """R5, R8: the status of the READ says so and no byte has moved.

    The connection lives where the fabric checks by itself; a device ends it.
    """
    ends = Ends(world)
    _, remote, sink, local = source_and_sink(ends, 100_000)
    for at, key in bad_reads(world, remote):
        before = len(ends.events[0])
        ends.post(0, 1, ends.drivers[0].read_request(local, 0, at, key, 100_000, 3))
        ends.until(lambda ends=ends, before=before: len(ends.events[0]) > before)
        kind, peer, ident, status = ends.events[0][before]
        assert (kind, peer, ident) == (READ, 1, 3)
        assert status in ((INVALID, FAILED) if world.survives_bad_keys else (INVALID, FAILED, LOST))
        assert not any(sink)
        if not world.survives_bad_keys:
            ends.until(lambda ends=ends: ends.events[0][-1][:2] == (PEER_LOST, 1))
            ends = Ends(world)
            _, remote, sink, local = source_and_sink(ends, 100_000)
    assert ends.post(0, 1, ends.drivers[0].send_request(b"still here")) == OK
    ends.until(lambda: ends.packets(1) == [b"still here"])


@pytest.mark.parametrize("size", (1, 5000, 300_000))
def test_read_into_a_sink_without_a_region(world, size):
    """CAP_FREE_SINK: where the fabric has it, the sink may have been registered or not."""
    ends = Ends(world, seed=size)
    source, remote, sink, local = source_and_sink(ends, size)
    driver = ends.drivers[0]
    request = driver.read_request(local, 0, remote.address, remote.key, size, 7)
    if driver.free_sinks:
        local.deregister()
    assert ends.post(0, 1, request) == OK
    ends.until(lambda: ends.events[0])
    assert ends.events[0] == [(READ, 1, 7, OK)]
    assert sink == source


@pytest.mark.parametrize("polls", [0, 1, 3, 10])
def test_discarded_read_touches_nothing(world, polls):
    """F4, F5: its completion comes, and what is fenced behind it goes."""
    ends = Ends(world, seed=polls)
    source, remote, sink, local = source_and_sink(ends, 3_000_000)
    driver = ends.drivers[0]
    assert ends.post(0, 1, driver.read_request(local, 0, remote.address, remote.key, len(sink), 7),
                     driver.send_request(b"done", flags=FENCE)) == OK
    for _poll in range(polls):
        for rank in range(2):
            ends.poll(rank)
    left = driver.discard(1, 7)
    if left:
        local.deregister()
        sink[:] = bytes([7]) * len(sink)
    ends.until(lambda: ends.events[0] and ends.packets(1))
    assert ends.events[0] == [(READ, 1, 7, OK)] and ends.packets(1) == [b"done"]
    assert sink == (bytes([7]) * len(sink) if left else source)
    # Of what has ended nothing is touched either; a device can discard nothing.
    assert driver.discard(1, 7) or not left


def test_goodbye_comes_last(world):
    """F7: everything that was posted is delivered before EVENT_CLOSED."""
    ends = Ends(world, seed=2)
    for i in range(5):
        assert ends.post(0, 1, ends.drivers[0].send_request(bytes([i]), bytes(500))) == OK
    ends.drivers[0].disconnect(1)
    ends.drivers[0].disconnect(1)
    ends.until(lambda: (CLOSED, 0) in ends.events[1])
    assert [packet[0] for packet in ends.packets(1)] == list(range(5))
    assert ends.events[1][-1] == (CLOSED, 0)
    for _ in range(50):
        assert ends.poll(1) == []


def test_end_of_read_is_not_told_before_its_fenced_send(world):
    """F1: with no room for the fenced SEND, the READ's completion waits as well."""
    ends = Ends(world, slots=4)
    _, remote, _, local = source_and_sink(ends, 300_000)
    assert ends.post(0, 1, ends.drivers[0].read_request(local, 0, remote.address, remote.key,
                                                       300_000, 7),
                     ends.drivers[0].send_request(b"fenced", flags=FENCE)) == OK
    while ends.drivers[0].post(1, ends.drivers[0].send_request(b"plain")) == OK:
        pass
    for _ in range(200):
        ends.poll(0)
        ends.drivers[1].poll(limit=0)
    told_early = (READ, 1, 7, OK) in ends.events[0]
    ends.until(lambda: (READ, 1, 7, OK) in ends.events[0])
    assert ends.post(0, 1, ends.drivers[0].send_request(b"after")) == OK
    ends.until(lambda: b"after" in ends.packets(1))
    packets = ends.packets(1)
    assert packets.index(b"fenced") < packets.index(b"after")
    # Who keeps room for it may tell at once: it is posted, behind what was posted before.
    assert world.keeps_room_for_fenced or not told_early or (
        packets.index(b"fenced") < packets.count(b"plain"))


def test_goodbye_waits_for_transfers(world):
    """F7: the READ that is under way ends before the goodbye of its target is told."""
    ends = Ends(world, seed=6)
    source, remote, sink, local = source_and_sink(ends, 2 << 20)
    ends.post(0, 1, ends.drivers[0].read_request(local, 0, remote.address, remote.key, 2 << 20, 5))
    ends.drivers[1].disconnect(0)
    ends.until(lambda: (CLOSED, 1) in ends.events[0])
    assert [event[0] for event in ends.events[0]] == [READ, CLOSED]
    status = ends.events[0][0][3]
    assert status == LOST or (status == OK and sink == source)


def test_loss_comes_last_and_ends_transfers(world):
    """F7: a READ from a dead peer completes, then EVENT_LOST, then posts fail."""
    ends = Ends(world, seed=3)
    size = 4 << 20
    source, remote, sink, local = source_and_sink(ends, size)
    for i in range(3):
        ends.post(1, 0, ends.drivers[1].send_request(bytes([i])))
    ends.until(lambda: len(ends.packets(0)) == 3)
    ends.post(0, 1, ends.drivers[0].read_request(local, 0, remote.address, remote.key, size, 5))
    ends.world.kill(1)
    for _ in range(LIMIT):
        ends.poll(0)
        ends.drivers[0].maintain()
        if (PEER_LOST, 1) in ends.events[0]:
            break
    kinds = [event[0] for event in ends.events[0]]
    assert kinds == [PACKET] * 3 + [READ, PEER_LOST]
    status = ends.events[0][3][3]
    assert status == LOST or (status == OK and sink == source)
    assert ends.drivers[0].post(1, ends.drivers[0].send_request(b"x")) == LOST


def test_armed_end_wakes(world):
    """F8: after arm, a packet makes the descriptor readable; disarm makes it quiet."""
    ends = Ends(world, seed=4)
    driver = ends.drivers[1]

    def called(timeout):
        ends.world.turn()
        return readable(driver.wake_fd, timeout)

    for i in range(5):
        for _ in range(LIMIT):
            ends.poll(1)
            driver.maintain()
            if driver.arm() == OK:
                break
        assert not called(0)
        assert ends.drivers[0].send(1, bytes([i])) == OK
        assert any(called(0.01) for _ in range(300))
        driver.disarm()
        ends.until(lambda i=i: len(ends.packets(1)) == i + 1)
