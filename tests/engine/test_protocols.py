"""The table of protocols, and what each operation knows of its own."""

import re
from pathlib import Path

import numpy as np
import pytest

from pyrdv.engine.protocols import table
from pyrdv.instruments.sim.network import Network
from tests.engine.pair import EAGER, Pair

WIRE = Path(__file__).parents[2] / "src" / "pyrdv" / "engine" / "wire.pxd"
SMALL, LARGE = np.arange(100, dtype=np.uint8), np.arange(1 << 16, dtype=np.uint64)


def test_each_kind_of_packet_has_one_owner():
    """All kinds that the wire format names, and no others."""
    listed = re.search(r"(?s)cdef enum packet_kind:(.*?)\n\n", WIRE.read_text())[1]
    numbers = {int(number) for number in re.findall(r"PACKET_\w+ = (\d+)", listed)}
    assert set(table.kinds()) == numbers
    assert table.kinds()[1] == "eager" and table.kinds()[7] == "put"


def test_codes_are_names():
    assert table.names() == {1: "eager", 2: "placed", 3: "get", 4: "put", 5: "pipeline",
                             6: "loopback"}


def named(choices):
    return [choice[:2] for choice in choices]


@pytest.mark.parametrize("first", ["send", "receive"])
def test_a_small_message_knows_that_it_is_eager(pair, first):
    assert named(pair().exchange(SMALL, first, sync=True)) == [
        ("eager", "small"), ("eager", "the other side said so")]


def test_a_read_was_the_only_way(pair):
    """Without figures there is nothing to compare."""
    only = "nothing was measured or possible that could be compared"
    assert named(pair().exchange(LARGE, sync=True)) == [("get", only), ("get", only)]


@pytest.mark.parametrize("protocol", ["get", "pipeline"])
def test_the_knob_is_a_reason(pair, protocol):
    sent, received = pair(protocol=protocol).exchange(LARGE, sync=True)
    assert sent[:2] == (protocol, "PYRDV_PROTOCOL")
    assert received[0] == protocol


def test_an_offered_buffer_is_a_reason(pair):
    one = pair(speculation="indexed")
    assert named(one.exchange(LARGE, "receive", between=50)) == [
        ("put", "the receiver came first")] * 2
    assert one.exchange(LARGE)[0][0] == "get"


def test_a_lack_of_credit_is_a_reason(pair):
    """Small messages that nobody receives go by rendezvous once the receiver's memory is full."""
    one = pair(unexpected_max=1 << 16)
    data = np.ones(EAGER, np.uint8)
    sent = [one.ends[0].send(1, 0, data, sync=True) for _ in range(40)]
    one.turn()
    found = [operation.choice[:2] for operation in sent]
    assert found[0] == ("eager", "small")
    assert found[-1] == ("get",
                         "small, but the receiver has not taken enough of the earlier ones")
    rooms = [np.zeros_like(data) for _ in sent]
    received = [one.ends[1].receive(0, 0, room) for room in rooms]
    one.turn(2000)
    assert all(operation.ended() for operation in sent + received)
    assert all(np.array_equal(data, room) for room in rooms)
    assert {operation.choice[0] for operation in received} == {"eager", "get"}
    for operation in sent + received:
        operation.release()


def test_to_oneself(pair):
    one = pair()
    room = np.zeros_like(LARGE)
    sent = one.ends[0].send(0, 0, LARGE, sync=True)
    received = one.ends[0].receive(0, 0, room)
    assert sent.choice[:2] == received.choice[:2] == ("loopback", "to this process")
    assert np.array_equal(room, LARGE)
    sent.release(), received.release()
    assert sent.choice is None


def test_a_receive_that_was_left_reads_no_more_pieces():
    """A message of several READs: the one under way is the last."""
    network = Network(2, transfer_max=1000)
    pair = Pair(network=network)
    room = bytearray(10_000)
    sent = pair.ends[0].send(1, 0, bytes([1]) * len(room))
    received = pair.ends[1].receive(0, 0, room)
    while not any(room):
        pair.turn(1)
        network.run_next()
    pair.turn(1)
    assert received.forsake() and not received.ended()
    room[:] = bytes(len(room))
    before = pair.engines[1].counters()["reads"]
    for _turn in range(50):
        pair.turn(1)
        network.run_next()
    assert sent.ended() and received.ended() and sent.result[0] == 0
    assert pair.engines[1].counters()["reads"] == before < 10
    assert not any(room)
