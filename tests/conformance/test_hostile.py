"""What a hostile peer sends can fail its own connection, and nothing else (R8).

Only the simulated network lets a test put forged packets in flight.
"""

import struct

import numpy as np
import pytest

from .worlds import KINDS, MPI, pattern

HEADER = struct.Struct("=BBHIiIQQII")
EAGER, RTS, DONE, CREDIT, _, RTR, START, FIN, REVOKE, REVOKED, RTS_ACK = range(1, 12)
SIM = KINDS["sim"]


def header(kind, *, flags=0, context=0, tag=1, sequence=1, length=0, cookie=0, credit=0):
    return HEADER.pack(kind, flags, 0, context, tag, sequence, length, cookie, credit, 0)


FORGED = {
    "empty": b"",
    "short": header(EAGER)[:-1],
    "unknown kind": header(200),
    "kind zero": bytes(HEADER.size),
    "all ones": b"\xff" * 64,
    "negative tag": header(EAGER, tag=-2),
    "sequence behind": header(EAGER, sequence=0),
    "sequence ahead": header(EAGER, sequence=7),
    "data missing": header(EAGER, length=100),
    "data too long": header(EAGER, length=1) + b"ab",
    "length wraps": header(EAGER, length=2**64 - 1) + b"ab",
    "unknown flags": header(EAGER, flags=0xF0),
    "unknown operation done": header(DONE, cookie=2**63),
    "operation zero done": header(DONE, cookie=0),
    "credit never taken": header(CREDIT, credit=1 << 30),
    "announcement without address": header(RTS, length=1 << 20),
    "announcement too long": header(RTS, length=1 << 20) + bytes(24),
    "offer without address": header(RTR, length=1 << 20),
    "offer that has seen the future": header(RTR, sequence=2) + bytes(24),
    "offer of any tag": header(RTR, tag=-1) + bytes(24),
    "start of no receive": header(START, length=16),
    "fin of no receive": header(FIN, length=16),
    "answer that nobody asked for": header(REVOKED),
    "acknowledgement of nothing": header(RTS_ACK, cookie=7),
    "announcement that stops offers": header(RTS, flags=16) + bytes(16),
}
# With the classic pairing the last one is legal.
FORGED_FOR_CLASSIC = [name for name in FORGED if name != "announcement that stops offers"]


def connected(w):
    """One message each way between all, so that sequence numbers stand at 1."""
    for a in range(w.size):
        for b in range(w.size):
            if a != b:
                w.run(w.comms[a].Isend(pattern(8), dest=b),
                      w.comms[b].Irecv(np.zeros(8, np.uint8), source=a))


def others_go_on(w):
    room = np.zeros(100_000, np.uint8)
    w.run(w.comms[0].Isend(pattern(100_000), dest=2),
          w.comms[2].Irecv(room, source=0))
    assert np.array_equal(room, pattern(100_000))


@pytest.mark.parametrize(
    "speculation, name", [*[("indexed", name) for name in FORGED],
                          *[("classic", name) for name in FORGED_FOR_CLASSIC]])
def test_forged_packet(speculation, name):
    """R8: the connection it came over breaks, pending operations with it end."""
    w = SIM(3, speculation=speculation)
    connected(w)
    room = np.full(16, 0x42, np.uint8)
    pending = w.comms[0].Irecv(room, source=1, tag=1)
    w.network.inject(1, 0, FORGED[name])
    with pytest.raises(MPI.Exception):
        w.run(pending)
    assert w.engines[0].peer_states()[1] == "lost"
    assert (room == 0x42).all()
    others_go_on(w)
    w.close(check=False)


def test_announcement_of_memory_that_is_not_there():
    """R5, R8: the receive ends with an error and its buffer stays as it was."""
    w = SIM(3)
    connected(w)
    room = np.full(4096, 0x42, np.uint8)
    pending = w.comms[0].Irecv(room, source=1, tag=1)
    w.network.inject(1, 0, header(RTS, length=4096, cookie=5) + struct.pack("=QQ", 4096, 77))
    with pytest.raises(MPI.Exception):
        w.run(pending)
    assert (room == 0x42).all()
    others_go_on(w)
    w.close(check=False)


def test_claim_of_a_huge_message_costs_nothing():
    """R8: a length is only a number until a receive matches it."""
    w = SIM(3)
    connected(w)
    before = w.engines[0].counters()["pool_bytes"]
    w.network.inject(1, 0, header(RTS, length=2**63, cookie=5) + struct.pack("=QQ", 4096, 77))
    w.settle()
    assert w.engines[0].counters()["pool_bytes"] - before < 1 << 20
    status = MPI.Status()
    assert w.comms[0].Iprobe(source=1, tag=1, status=status)
    others_go_on(w)
    w.close(check=False)


@pytest.mark.parametrize("speculation", ["indexed", "classic"])
@pytest.mark.parametrize("seed", range(20))
def test_random_bytes(seed, speculation):
    """R8: noise, and headers with one field changed at random."""
    w = SIM(3, seed=seed, speculation=speculation)
    connected(w)
    rng = w.rng
    for _ in range(60):
        kind = rng.choice((EAGER, RTS, DONE, CREDIT, RTR, RTS_ACK))
        packet = bytearray(header(kind, length=rng.randrange(9))
                           + rng.randbytes(rng.choice((0, 8, 16, 24))))
        for _ in range(rng.randrange(3)):
            packet[rng.randrange(len(packet))] = rng.randrange(256)
        try:
            w.network.inject(1, 0, rng.choice((bytes(packet), rng.randbytes(rng.randrange(90)))))
        except BlockingIOError:
            break
        w.step()
    w.settle()
    others_go_on(w)
    w.close(check=False)
