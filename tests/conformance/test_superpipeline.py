"""Messages through bounce buffers (Q1-Q5, B1-B5): right bytes, few buffers, memory that cannot be
registered, peers that end.

`chaos` and `sim` let a test choose the order of bytes and how much may be registered.
"""

import mmap

import numpy as np
import pytest

from .worlds import KINDS, MPI, pattern

CHAOS, SIM = KINDS["chaos"], KINDS["sim"]
#: Few and small buffers, in blocks that are smaller still.
SMALL = {"protocol": "pipeline", "eager_max": 4096, "lane_bytes": 4096, "lanes": 1,
         "lane_block": 256, "chunk_first": 1000}
#: Chunks that move in many pieces, and several blocks to each.
PIECES = {"protocol": "pipeline", "eager_max": 4096, "lane_bytes": 32768, "lanes": 1,
          "lane_block": 1024, "chunk_first": 16384}
SIZES = (5000, 20_000, 12_288, 100_000, 8 * 4064 + 1, 300_001)


def counted(w, name):
    return sum(engine.counters()[name] for engine in w.engines)


def exchange(w, sizes, pairs=((0, 1),), seed=0):
    """Messages of `sizes` between each of `pairs`, all at once; checks the bytes."""
    waiting, expected = [], []
    for tag, size in enumerate(sizes):
        for a, b in pairs:
            data, room = pattern(size, seed + tag + 7 * a), np.zeros(size + 8, np.uint8)
            for sending in (True, False) if (a + tag) % 2 else (False, True):
                waiting.append(w.comms[a].Isend(data, dest=b, tag=tag) if sending else
                               w.comms[b].Irecv(room[:size], source=a, tag=tag))
            expected.append((room, data))
    w.run(*waiting)
    for room, data in expected:
        assert np.array_equal(room[:-8], data) and not room[-8:].any()


@pytest.mark.parametrize("arrival", ["notice", "flags"])
@pytest.mark.parametrize("first", ["send", "receive"])
def test_sizes(world, arrival, first):
    """Q1-Q4: around blocks, chunks and buffers; whoever comes first."""
    tuning = {"protocol": "pipeline", "arrival": arrival, "lane_bytes": 16384, "eager_max": 4096,
              "lane_block": 4096, "chunk_first": 12288, "lanes": 4}
    with world(2, **tuning) as w:
        for size in (4097, 17_000, 4088 * 5, 4088 * 5 + 1, 65_536, 16384 * 9, 1_000_003):
            data, room = pattern(size, size), np.zeros(size, np.uint8)
            if first == "receive":
                request = w.comms[1].Irecv(room, source=0)
                w.settle()
                w.run(w.comms[0].Isend(data, dest=1), request)
            else:
                request = w.comms[0].Isend(data, dest=1)
                w.settle()
                w.run(w.comms[1].Irecv(room, source=0), request)
            assert np.array_equal(room, data)
        assert counted(w, "sends_piped") == 7 and counted(w, "chunks_sent") > 7 * 4
        assert counted(w, "reads") == counted(w, "rtrs_sent") == 0


def test_get_is_get(world):
    """The knob: nothing goes through buffers."""
    with world(2, protocol="get", speculation="off") as w:
        exchange(w, (100_000, 300_000))
        assert counted(w, "sends_piped") == 0 and counted(w, "reads") > 1


@pytest.mark.parametrize("arrival", ["notice", "flags"])
def test_few_buffers_both_ways(world, arrival):
    """B2: every rank sends to every other at once, with one lane of each direction."""
    with world(3, **SMALL, arrival=arrival) as w:
        pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
        exchange(w, SIZES, pairs)
        exchange(w, SIZES, pairs, seed=99)
        assert counted(w, "sends_piped") == 2 * len(SIZES) * len(pairs)
        assert counted(w, "lanes_waited") > 0


def test_a_rank_that_computes_keeps_nobody_waiting(world):
    """B3: rank 1 was granted and makes no turn; rank 2's message to the same rank arrives."""
    with world(3, **SMALL) as w:
        slow = w.comms[1].Isend(pattern(50_000), dest=0)
        room, other = np.zeros(50_000, np.uint8), np.zeros(50_000, np.uint8)
        taken = w.comms[0].Irecv(room, source=1)
        for _ in range(3):
            w.engines[0].turn()
        w.dead.add(1)       # it computes
        w.run(w.comms[2].Isend(pattern(50_000, 2), dest=0), w.comms[0].Irecv(other, source=2))
        assert np.array_equal(other, pattern(50_000, 2))
        w.dead.remove(1)
        w.run(slow, taken)
        assert np.array_equal(room, pattern(50_000))


def test_truncated(world):
    """R6: what fits arrives, the sender is well, and so is the next message."""
    with world(2, **SMALL) as w:
        room, after = np.zeros(20_000, np.uint8), np.zeros(50_000, np.uint8)
        sends = [w.comms[0].Isend(pattern(50_000, seed), dest=1) for seed in (1, 2)]
        short = w.comms[1].Irecv(room[:17_777], source=0)
        with pytest.raises(MPI.Exception):
            w.run(short)
        w.run(*sends, w.comms[1].Irecv(after, source=0))
        assert np.array_equal(room[:17_777], pattern(50_000, 1)[:17_777])
        assert not room[17_777:].any()
        assert np.array_equal(after, pattern(50_000, 2))


def test_a_synchronous_send_and_read_only_memory(world, tmp_path):
    """What can be read can be sent, mapped without the right to write or not."""
    path = tmp_path / "data"
    path.write_bytes(pattern(100_000).tobytes())
    with world(2, **SMALL) as w, open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        room = np.zeros(100_000, np.uint8)
        request = w.comms[0].Issend(data, dest=1)
        w.settle()
        assert not request.Test()
        w.run(request, w.comms[1].Irecv(room, source=0))
        assert np.array_equal(room, pattern(100_000))
        del request
        w.settle()


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("turns", [1, 2, 4, 8, 16])
def test_a_peer_that_dies(world, victim, turns):
    """R3: the survivor's operation ends, its buffers serve others."""
    with world(3, **SMALL) as w:
        exchange(w, (5,), [(0, 1), (1, 2), (2, 0)])
        room = np.zeros(90_000, np.uint8)
        requests = [w.comms[0].Isend(pattern(90_000), dest=1),
                    w.comms[1].Irecv(room, source=0)]
        waits = [w.comms[1 - victim].Irecv(np.zeros(90_000, np.uint8), source=victim, tag=9),
                 w.comms[1 - victim].Isend(pattern(90_000), dest=victim, tag=9)]
        for _ in range(turns):
            w.step()
        w.kill(victim)
        for request in (requests[1 - victim], *waits):
            try:
                w.run(request)
            except MPI.Exception:
                continue
            assert np.array_equal(room, pattern(90_000))    # it was through already
        exchange(w, (50_000,), [(1 - victim, 2), (2, 1 - victim)])


# What only the simulated network can do -----------------------------------------

@pytest.mark.parametrize("seed", range(12))
def test_torn_and_stale_blocks(seed):
    """Q3, V8: flags that come before their data, and those of earlier messages, deceive nobody."""
    with CHAOS(2, seed=seed, **PIECES, arrival="flags") as w:
        w.network.scramble()
        for round in range(3):
            exchange(w, (200_000, 5000, 34_567), [(0, 1), (1, 0)], seed=10 * round)


def test_torn_blocks_were_seen():
    """The test above has something to catch: many blocks are found torn, and many right."""
    torn = early = 0
    for seed in range(12):
        with CHAOS(2, seed=seed, **PIECES, arrival="flags") as w:
            w.network.scramble()
            exchange(w, (200_000, 5000, 34_567), [(0, 1), (1, 0)])
            torn += counted(w, "blocks_torn")
            early += counted(w, "blocks_early")
    assert torn > 20 and early > 20


class OrderedWorld(CHAOS):
    """Any order of events, but the bytes of a WRITE come in theirs."""

    kind = "ordered"

    def build(self, size, seed, slots):
        from pyrdv.instruments.sim.network import Network

        self.network = Network(size, seed=seed, slots=8, transfers=4, chunk=1000, ordered=True)
        return [self.network.fabric(rank) for rank in range(size)]


@pytest.mark.parametrize("seed", range(6))
def test_flags_alone_where_bytes_come_in_order(seed):
    """V8: no CRC is needed, and blocks are taken as they land; old ones are told apart."""
    with OrderedWorld(2, seed=seed, **PIECES) as w:
        for round in range(3):
            exchange(w, (200_000, 5000, 34_567), [(0, 1), (1, 0)], seed=10 * round)
            # Data that looks like flags: small numbers of 64 bits.
            numbers = np.arange(4000, dtype=np.uint64) % 40
            room = np.zeros(4000, np.uint64)
            w.run(w.comms[0].Isend(numbers, dest=1), w.comms[1].Irecv(room, source=0))
            assert np.array_equal(numbers, room)
        assert counted(w, "blocks_early") and not counted(w, "blocks_torn")


def test_a_false_promise_is_noticed():
    """The tests of torn blocks can fail: without CRCs such a network corrupts data."""
    for seed in range(20):
        w = OrderedWorld(2, seed=seed, **PIECES)
        w.network.scramble()
        try:
            exchange(w, (200_000, 100_000))
        except AssertionError:
            return
        finally:
            w.close(check=False)
    raise AssertionError("blocks that were torn were never taken")


class SoftWorld(SIM):
    """A network whose packets are dear, as those of a device in software."""

    kind = "soft"

    def build(self, size, seed, slots):
        from pyrdv.instruments.sim.network import Network

        self.network = Network(size, seed=seed, auto=True, soft=True)
        return [self.network.fabric(rank) for rank in range(size)]


@pytest.mark.parametrize("soft", [False, True])
def test_the_first_chunk_is_as_long_as_a_packet_is_dear(soft):
    """C0 hides behind RTS and GRANT; a device in software gets few packets per message."""
    with (SoftWorld if soft else SIM)(2, protocol="pipeline") as w:
        exchange(w, (64 << 10,))
        assert counted(w, "chunks_sent") == (1 if soft else 4)
        exchange(w, (256 << 10,))
        assert counted(w, "chunks_sent") == (1 + 1 if soft else 4 + 6)


@pytest.mark.parametrize("arrival", ["notice", "flags"])
def test_one_packet_tells_of_two_buffers(arrival):
    """Q1: the sender has a third one meanwhile, and needs none for the last chunks."""
    with SIM(2, **SMALL, arrival=arrival) as w:
        exchange(w, (100_000, 300_001), [(0, 1), (1, 0)])
        assert 0 < counted(w, "takens_sent") <= counted(w, "chunks_sent") // 2


@pytest.mark.parametrize("limited", [(0,), (1,), (0, 1)])
def test_memory_that_cannot_be_registered(limited):
    """A message never fails for want of registered memory: it goes through the lane."""
    with SIM(2, lane_bytes=16384, speculation="indexed") as w:
        exchange(w, (100,))
        for rank in limited:
            w.network.limit(rank, 2 * 3 * 16384 + 4096)
        exchange(w, (100_000, 500_000, 6000), [(0, 1), (1, 0)])
        exchange(w, (100_000, 500_000), [(0, 1), (1, 0)], seed=5)
        assert counted(w, "sends_piped") and counted(w, "registrations_refused")
        w.network.limit(0, 0)
        w.network.limit(1, 0)
        before = counted(w, "sends_piped")
        exchange(w, (100_000,))
        assert counted(w, "sends_piped") == before


@pytest.mark.parametrize("limited", [0, 1])
def test_not_even_a_lane(limited):
    """Where nothing at all can be registered, both sides are told; later messages go on."""
    with SIM(2, lane_bytes=16384, protocol="pipeline") as w:
        exchange(w, (100,))
        w.network.limit(limited, 1)
        room = np.zeros(100_000, np.uint8)
        with pytest.raises(MPI.Exception):
            send = w.comms[0].Isend(pattern(100_000), dest=1)
            receive = w.comms[1].Irecv(room, source=0)
            try:
                w.run(send)
            finally:
                if limited == 1:
                    with pytest.raises(MPI.Exception):
                        w.run(receive)
        if limited == 0:
            receive = w.comms[1].Irecv(room, source=0)
            receive.Cancel()
            w.run(receive)
        w.network.limit(limited, 0)
        exchange(w, (100_000,))


def test_lanes_of_other_peers_are_registered_anew():
    """B4: the keys that a peer was given are dead before another peer's data comes."""
    with SIM(4, **SMALL) as w:
        for source in (1, 2, 3, 1):
            exchange(w, (20_000,), [(source, 0)])
        assert w.engines[0].counters()["lanes_bound"] == 3


def test_a_send_that_nobody_asked_for_gives_its_lane_up():
    """B2: sends without receives keep no lane from one that was granted."""
    with SIM(2, **SMALL) as w:
        early = [w.comms[0].Isend(pattern(20_000, tag), dest=1, tag=tag) for tag in range(5)]
        w.settle()
        exchange(w, (20_000,), [(1, 0)])
        rooms = [np.zeros(20_000, np.uint8) for _ in range(5)]
        for tag in reversed(range(5)):
            w.run(w.comms[1].Irecv(rooms[tag], source=0, tag=tag))
        w.run(*early)
        for tag in range(5):
            assert np.array_equal(rooms[tag], pattern(20_000, tag))
