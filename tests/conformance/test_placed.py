"""Messages into standing buffers (Z1-Z5): right bytes and order, nobody waits for a buffer, ends.

On fabrics that cannot order a packet behind a WRITE the same programs run by rendezvous.
"""

import numpy as np
import pytest

from pyrdv.api.communicator import Comm
from pyrdv.engine.engine import Engine
from tests.support.figures import SOFT_ROCE

from .worlds import KINDS, MPI, pattern

CHAOS, SIM = KINDS["chaos"], KINDS["sim"]
#: Of the fabrics' contract.
CAP_BEHIND = 128
ROOM = 16384
PLACING = {"protocol": "pipeline", "eager_max": 4096, "lane_bytes": ROOM, "lanes": 2,
           "lane_block": 1024, "chunk_first": 4096, "standing_after": 1}
SIZES = (4097, 8000, ROOM - 1, ROOM)


def able(w):
    """Whether messages are placed in world `w`."""
    return w.fabrics[0].capabilities & CAP_BEHIND != 0 and w.speculation != "classic"


def count(w, rank, name="sends_placed"):
    return w.engines[rank].counters()[name]


def give(w, source=0, target=1):
    """Let `target` give its buffers to `source`; a message or two go by rendezvous for that."""
    room = np.zeros(5000, np.uint8)
    w.run(w.comms[source].Isend(pattern(5000), dest=target, tag=99),
          w.comms[target].Irecv(room, source=source, tag=99))
    w.settle()
    assert count(w, source) == 0


def placed(w, rank, number):
    """Assert how many messages of `rank` were placed."""
    assert count(w, rank) == (number if able(w) else 0)


@pytest.mark.parametrize("first", ["send", "receive"])
@pytest.mark.parametrize("sync", [False, True])
def test_sizes(world, first, sync):
    """What fits one buffer is placed, whoever comes first; what does not fit is not."""
    with world(2, **PLACING) as w:
        give(w)
        send = w.comms[0].Issend if sync else w.comms[0].Isend
        for i, size in enumerate((*SIZES, ROOM + 1, 3 * ROOM)):
            data, room = pattern(size, i), np.zeros(size + 8, np.uint8)
            if first == "receive":
                request = w.comms[1].Irecv(room[:size], source=0)
                w.settle()
                w.run(send(data, dest=1), request)
            else:
                request = send(data, dest=1)
                w.settle()
                w.run(request, w.comms[1].Irecv(room[:size], source=0))
            w.settle()
            assert np.array_equal(room[:size], data) and not room[size:].any()
        placed(w, 0, len(SIZES))


def test_a_send_waits_for_nobody(world):
    """Z4: it is complete, and its buffer the user's again, before the other side makes a turn."""
    with world(2, **PLACING) as w:
        give(w)
        data, room = pattern(9000), np.zeros(9000, np.uint8)
        request = w.comms[0].Isend(data, dest=1)
        assert request.Test() == able(w)
        if able(w):
            data[:] = 0
        w.run(request, w.comms[1].Irecv(room, source=0))
        assert np.array_equal(room, pattern(9000))


def test_unmatched_messages_keep_buffers_and_hold_up_nobody(world):
    """Z1, Z2: three stay in the buffers, the fourth goes another way; taken in any order, all
    buffers are used again."""
    with world(2, **PLACING) as w:
        give(w)
        rng = np.random.default_rng(1)
        total = 0
        for turn in range(6):
            sends = [w.comms[0].Isend(pattern(6000 + tag, 10 * turn + tag), dest=1, tag=tag)
                     for tag in range(4)]
            w.settle()
            total += 3
            placed(w, 0, total)
            for tag in rng.permutation(4):
                room = np.zeros(6000 + tag, np.uint8)
                w.run(w.comms[1].Irecv(room, source=0, tag=int(tag)))
                assert np.array_equal(room, pattern(6000 + tag, 10 * turn + tag))
            w.run(*sends)
            # Two are told at once, the third by what is sent next.
            back = np.zeros(8, np.uint8)
            w.run(w.comms[1].Isend(pattern(8), dest=0), w.comms[0].Irecv(back, source=1))
            w.settle()


def test_one_buffer_is_always_told(world):
    """Z2: with one after the other, all but the first are placed, though nothing comes back."""
    with world(2, **PLACING) as w:
        give(w)
        before = count(w, 1, "credits_sent")
        for i in range(20):
            room = np.zeros(7000, np.uint8)
            w.run(w.comms[0].Isend(pattern(7000, i), dest=1), w.comms[1].Irecv(room, source=0))
            w.settle()
            assert np.array_equal(room, pattern(7000, i))
        placed(w, 0, 20)
        assert count(w, 1, "credits_sent") - before == (10 if able(w) else 0)


def test_messages_keep_their_order(world):
    """R4, Z3: eager, placed and larger ones of one envelope, and receives with wildcards."""
    with world(3, **PLACING) as w:
        give(w)
        give(w, 2)
        sizes = [100, 5000, 50_000, 16_000, 4, 4097, 20_000, 9999]
        sends = [w.comms[source].Isend(pattern(size, i), dest=1, tag=3)
                 for i, size in enumerate(sizes) for source in (0, 2)]
        w.settle()
        seen = {0: 0, 2: 0}
        for _ in range(2 * len(sizes)):
            room, status = np.zeros(60_000, np.uint8), MPI.Status()
            request = w.comms[1].Irecv(room, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
            w.until(lambda request=request, status=status: request.Test(status))
            source = status.Get_source()
            size = status.Get_count(MPI.BYTE)
            assert size == sizes[seen[source]]
            assert np.array_equal(room[:size], pattern(size, seen[source]))
            seen[source] += 1
        w.run(*sends)


def test_matched_probe_and_truncation(world):
    """A message that was found, not yet received, stays in its buffer; one too long is cut."""
    with world(2, **PLACING) as w:
        give(w)
        data = pattern(12_345)
        w.run(*[w.comms[0].Isend(data, dest=1, tag=tag) for tag in (1, 2)]
              if able(w) else [])
        sends = [] if able(w) else [w.comms[0].Isend(data, dest=1, tag=tag) for tag in (1, 2)]
        w.settle()
        status = MPI.Status()
        found = w.comms[1].Improbe(source=0, tag=1, status=status)
        assert found is not None and status.Get_count(MPI.BYTE) == 12_345
        short = np.zeros(1000, np.uint8)
        with pytest.raises(MPI.Exception):
            w.run(w.comms[1].Irecv(short, source=0, tag=2))
        assert np.array_equal(short, data[:1000])
        room = np.zeros(12_345, np.uint8)
        w.run(found.Irecv(room), *sends)
        assert np.array_equal(room, data)
        placed(w, 0, 2)


def test_small_ones_without_credit(world):
    """P1: what is small but has no credit goes by rendezvous, also where buffers stand."""
    with world(2, **PLACING | {"unexpected_max": 64 << 10}) as w:
        give(w)
        sends = [w.comms[0].Isend(pattern(4000, i), dest=1) for i in range(40)]
        w.settle()
        assert count(w, 0, "sends_rendezvous") > 1
        for i in range(40):
            room = np.zeros(4000, np.uint8)
            w.run(w.comms[1].Irecv(room, source=0))
            assert np.array_equal(room, pattern(4000, i))
        w.run(*sends)
        assert count(w, 0) == 0


@pytest.mark.parametrize("turns", range(6))
def test_the_sender_dies(world, turns):
    """R3: what was announced can be received, as an eager message; no other receive is harmed."""
    with world(3, **PLACING) as w:
        give(w)
        give(w, 2)
        w.comms[0].Isend(pattern(9000), dest=1, tag=1)
        for _ in range(turns):
            w.step()
        w.kill(0)
        try:
            room = np.zeros(9000, np.uint8)
            w.run(w.comms[1].Irecv(room, source=0, tag=1))
            assert np.array_equal(room, pattern(9000))
        except MPI.Exception:
            pass
        w.run(w.comms[2].Isend(pattern(9000, 2), dest=1), w.comms[1].Irecv(room, source=2))
        assert np.array_equal(room, pattern(9000, 2))


@pytest.mark.parametrize("turns", range(4))
def test_the_receiver_dies(world, turns):
    """R3: sends are complete or fail, and other peers' buffers are as they were."""
    with world(3, **PLACING) as w:
        give(w)
        give(w, 0, 2)
        sends = [w.comms[0].Isend(pattern(9000), dest=1, tag=tag) for tag in range(6)]
        for _ in range(turns):
            w.step()
        w.kill(1)
        for request in sends:
            try:
                w.run(request)
            except MPI.Exception:
                continue
        room = np.zeros(9000, np.uint8)
        w.run(w.comms[0].Isend(pattern(9000, 2), dest=2), w.comms[2].Irecv(room, source=0))
        assert np.array_equal(room, pattern(9000, 2))


def test_only_so_many_peers_get_some(world):
    """Z5: the others' messages go by rendezvous, as before."""
    with world(4, **PLACING | {"standing": 2}) as w:
        for source in (1, 2, 3):
            give(w, source, 0)
        for source in (1, 2, 3):
            room = np.zeros(9000, np.uint8)
            w.run(w.comms[source].Isend(pattern(9000, source), dest=0),
                  w.comms[0].Irecv(room, source=source))
            assert np.array_equal(room, pattern(9000, source))
        placed(w, 1, 1)
        placed(w, 2, 1)
        assert count(w, 3) == 0


def test_a_sender_of_many_takes_only_so_many(world):
    """Z5, on the other side: memory that messages are placed from is bounded as well."""
    with world(4, **PLACING | {"standing": 1}) as w:
        for target in (1, 2, 3):
            room = np.zeros(9000, np.uint8)
            for _ in range(3):
                w.run(w.comms[0].Isend(pattern(9000, target), dest=target),
                      w.comms[target].Irecv(room, source=0))
                w.settle()
                assert np.array_equal(room, pattern(9000, target))
        placed(w, 0, 2)


def test_buffers_of_a_peer_that_is_gone_serve_another(world):
    """Z5: one peer at a time has buffers here; with the first one's end the next one gets them."""
    with world(3, **PLACING | {"standing": 1}) as w:
        give(w, 1, 0)
        room = np.zeros(9000, np.uint8)
        w.run(w.comms[1].Isend(pattern(9000, 1), dest=0), w.comms[0].Irecv(room, source=1))
        placed(w, 1, 1)
        w.kill(1)
        with pytest.raises(MPI.Exception):
            w.run(w.comms[0].Irecv(room, source=1))
        for i in range(4):
            w.run(w.comms[2].Isend(pattern(9000, i), dest=0), w.comms[0].Irecv(room, source=2))
            w.settle()
            assert np.array_equal(room, pattern(9000, i))
        assert (count(w, 2) >= 2) == able(w)


def test_not_unless_it_is_wanted(world):
    """The knobs: no standing buffers, nothing copied, or the pairing that has no place for them."""
    for change in ({"standing": 0}, {"protocol": "get"}, {"speculation": "classic"}):
        with world(2, **PLACING | change) as w:
            for i in range(5):
                room = np.zeros(9000, np.uint8)
                w.run(w.comms[0].Isend(pattern(9000, i), dest=1),
                      w.comms[1].Irecv(room, source=0))
                w.settle()
                assert np.array_equal(room, pattern(9000, i))
            assert count(w, 0) == 0


# What only the simulated network can do -----------------------------------------

@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events(seed):
    """Z1-Z3: many messages both ways, sizes and order of receives at random, late packets."""
    rng = np.random.default_rng(seed)
    with CHAOS(2, seed=seed, **PLACING) as w:
        for turn in range(4):
            sends, expected = [], []
            for tag in range(10):
                for a in (0, 1):
                    size = int(rng.choice((10, 4097, 9000, ROOM, ROOM + 1, 40_000)))
                    data = pattern(size, 100 * turn + 10 * tag + a)
                    sends.append(w.comms[a].Isend(data, dest=1 - a, tag=tag))
                    expected.append((a, tag, data))
            receives = []
            for i in rng.permutation(len(expected)):
                a, tag, data = expected[i]
                room = np.zeros(len(data), np.uint8)
                receives.append((w.comms[1 - a].Irecv(room, source=a, tag=tag), room, data))
                if rng.random() < 0.5:
                    w.step()
            w.run(*sends, *[request for request, _, _ in receives])
            for _, room, data in receives:
                assert np.array_equal(room, data)
        assert count(w, 0) + count(w, 1) > 10


class UnevenWorld(SIM):
    """Two ranks with different settings."""

    def __init__(self, sizes, protocols=("pipeline", "pipeline")):
        self.prepare(2, 0, None)
        self.engines = [Engine(rank, 2, [fabric], **PLACING | {
            "lane_bytes": sizes[rank], "protocol": protocols[rank]})
                        for rank, fabric in enumerate(self.fabrics)]
        self.comms = [Comm.of(engine) for engine in self.engines]


@pytest.mark.parametrize("sizes", [(8192, ROOM), (ROOM, 8192)])
def test_buffers_of_different_sizes(sizes):
    """A sender writes at the receiver's distances, and no more than its own buffers hold."""
    with UnevenWorld(sizes) as w:
        give(w)
        for i in range(7):
            rooms = [np.zeros(size, np.uint8) for size in (8192, 8193)]
            w.run(*[w.comms[0].Isend(pattern(len(room), i), dest=1) for room in rooms],
                  *[w.comms[1].Irecv(room, source=0) for room in rooms])
            w.settle()
            for room in rooms:
                assert np.array_equal(room, pattern(len(room), i))
        assert count(w, 0) == 7


@pytest.mark.parametrize("limited", [0, 1])
def test_no_memory_for_them(limited):
    """Z5: where they cannot be registered, messages go as before, and it is not tried again."""
    with SIM(2, **PLACING) as w:
        room = np.zeros(9000, np.uint8)
        w.run(w.comms[0].Isend(pattern(100), dest=1), w.comms[1].Irecv(room, source=0))
        # A lane for the superpipeline fits, no second one.
        w.network.limit(limited, 3 * ROOM + 4096)
        for i in range(6):
            w.run(w.comms[0].Isend(pattern(9000, i), dest=1), w.comms[1].Irecv(room, source=0))
            w.settle()
            assert np.array_equal(room, pattern(9000, i))
        assert count(w, 0) == 0 and count(w, limited, "registrations_refused") == 1
        w.network.limit(limited, 0)


@pytest.mark.parametrize("speculation", ["off", "indexed"])
def test_by_figures_and_offers_come_first(speculation):
    """`auto` places what costs less so; but where the peer has offered a buffer the message is
    written there, without a copy."""
    tuning = {"protocol": "auto", "lane_bytes": 128 << 10, "speculation": speculation,
              "figures": (SOFT_ROCE,)}
    with SIM(2, **PLACING | tuning) as w:
        w.run(w.comms[0].Isend(pattern(100_000), dest=1),
              w.comms[1].Irecv(np.zeros(100_000, np.uint8), source=0))
        w.settle()
        for i in range(4):
            room = np.zeros(100_000, np.uint8)
            receive = w.comms[1].Irecv(room, source=0, tag=1)
            w.settle()
            w.run(w.comms[0].Isend(pattern(100_000, i), dest=1, tag=1), receive)
            assert np.array_equal(room, pattern(100_000, i))
        offers = speculation != "off"
        assert count(w, 0, "rtrs_used") == (4 if offers else 0)
        assert count(w, 0) == (0 if offers else 4)


def test_an_offer_for_another_message_is_no_obstacle():
    """A receive that waits all the time has offered its buffer; others' messages are placed."""
    tuning = {"protocol": "auto", "lane_bytes": 128 << 10, "speculation": "indexed",
              "figures": (SOFT_ROCE,)}
    with SIM(2, **PLACING | tuning) as w:
        room, other = np.zeros(100_000, np.uint8), np.zeros(100_000, np.uint8)
        waiting = w.comms[1].Irecv(other, source=0, tag=99)
        w.settle()
        for i in range(4):
            send = w.comms[0].Isend(pattern(100_000, i), dest=1, tag=1)
            w.settle()
            w.run(send, w.comms[1].Irecv(room, source=0, tag=1))
            w.settle()
            assert np.array_equal(room, pattern(100_000, i))
        assert count(w, 0) == 3
        w.run(w.comms[0].Isend(pattern(100_000, 9), dest=1, tag=99), waiting)
        assert count(w, 0, "rtrs_used") == 1 and np.array_equal(other, pattern(100_000, 9))


def test_told_to_read_a_sender_places_nothing():
    """PYRDV_PROTOCOL=get of one rank, whose peer gives it buffers."""
    with UnevenWorld((ROOM, ROOM), protocols=("get", "pipeline")) as w:
        for i in range(4):
            room = np.zeros(9000, np.uint8)
            w.run(w.comms[0].Isend(pattern(9000, i), dest=1), w.comms[1].Irecv(room, source=0))
            w.settle()
        assert count(w, 0) == 0
