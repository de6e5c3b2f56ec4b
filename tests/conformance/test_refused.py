"""Objects that nobody gets: their senders are let go all the same (R3, R6)."""

from pickle import PickleBuffer

import numpy as np
import pytest

from pyrdv.api import objects
from pyrdv.errors import MessageKindError, PeerLostError

from . import names
from .worlds import MPI, SimWorld

TAG = 4
# The head itself goes eagerly or not, whatever its parts do.
HEADS = pytest.mark.parametrize("text", ["", "x" * 300_000], ids=["short", "long"])


def boxed(text):
    """An object with two parts; `text` makes its head longer."""
    return [text, np.arange(100_000), np.arange(20_000)]


def receive(w, request):
    """The object of a receive."""
    return w.until(lambda: (result := request.test())[0] and [result[1]])[0]


def looks(w):
    """Steps and calls that have nothing to do with the object; never true."""
    w.comms[1].Iprobe(source=0, tag=99)


def let_go(w, send):
    """`send` ends although nobody gets its object; then all is as before."""
    w.until(lambda: looks(w) or send.Test())
    w.until(lambda: looks(w) or not (w.engines[1].forsaken or w.engines[1].matched))
    again = w.comms[0].isend(boxed("after"), dest=1, tag=TAG)
    got = receive(w, w.comms[1].irecv(source=0, tag=TAG))
    assert got[0] == "after" and got[1].sum() == np.arange(100_000).sum()
    w.run(again)


def posted(w):
    """A receive that has its message, as no call has seen yet."""
    request = w.comms[1].irecv(source=0, tag=TAG)
    w.settle()
    return request


def freed(w):
    """The same, and nobody will ask for it."""
    request = posted(w)
    request.Free()
    assert request == names.REQUEST_NULL and not request


def probed(w):
    """A message that a matched probe took."""
    return w.until(lambda: w.comms[1].improbe(source=0, tag=TAG))


def probed_and_freed(w):
    probed(w).irecv().Free()


def room_freed(w):
    w.comms[1].Irecv(bytearray(1000), source=0, tag=TAG).Free()


def room_after_it_came(w):
    request = w.comms[1].Irecv(bytearray(1000), source=0, tag=TAG)
    w.settle()
    return request


LEFT = {
    "irecv": posted,
    "irecv freed": freed,
    "message": probed,
    "message irecv": lambda w: probed(w).irecv(),
    "message irecv freed": probed_and_freed,
    "message Irecv": lambda w: probed(w).Irecv(bytearray(1000)),
    "Irecv": lambda w: w.comms[1].Irecv(bytearray(1000), source=0, tag=TAG),
    "Irecv without room": lambda w: w.comms[1].Irecv(bytearray(5), source=0, tag=TAG),
    "Irecv freed": room_freed,
    "Irecv complete": room_after_it_came,
}


@HEADS
@pytest.mark.parametrize("way", LEFT)
def test_a_receive_is_left_with_its_message(world, text, way):
    """Whoever took the message dropped it: head and parts are taken and thrown away."""
    with world(2) as w:
        send = w.comms[0].isend(boxed(text), dest=1, tag=TAG)
        w.settle()
        LEFT[way](w)
        let_go(w, send)


@HEADS
@pytest.mark.parametrize("way", ["irecv freed", "Irecv", "Irecv without room", "Irecv freed"])
def test_a_receive_is_left_before_its_message_comes(world, text, way):
    """What was freed, or dropped with a buffer, takes the message that it stands for."""
    with world(2) as w:
        LEFT[way](w)
        send = w.comms[0].isend(boxed(text), dest=1, tag=TAG)
        let_go(w, send)


@HEADS
def test_a_dropped_receive_takes_no_message(world, text):
    """Without its message it is withdrawn; the next receive gets the object."""
    with world(2) as w:
        posted(w)
        send = w.comms[0].isend(boxed(text), dest=1, tag=TAG)
        assert receive(w, posted(w))[0] == text
        w.run(send)


@HEADS
@pytest.mark.parametrize("room", [0, 1, 23, 24, 100, 400_000])
@pytest.mark.parametrize("first", ["send", "receive"])
def test_a_buffer_meets_an_object(world, text, room, first):
    """However its head travels and whatever room there is: an error here, and none there."""
    with world(2) as w:
        if first == "receive":
            request = w.comms[1].Irecv(bytearray(room), source=0, tag=TAG)
            w.settle()
        send = w.comms[0].isend(boxed(text), dest=1, tag=TAG)
        if first == "send":
            w.settle()
            request = w.comms[1].Irecv(bytearray(room), source=0, tag=TAG)
        with pytest.raises(MessageKindError, match="Python object"):
            w.run(request)
        let_go(w, send)


@HEADS
def test_an_object_to_oneself(world, text):
    """The same without a peer."""
    with world(1) as w:
        for room in (0, 23, 24, 400_000):
            send = w.comms[0].isend(boxed(text), dest=0, tag=TAG)
            with pytest.raises(MessageKindError):
                w.run(w.comms[0].Irecv(bytearray(room), source=0, tag=TAG))
            w.run(send)
        send = w.comms[0].isend(boxed(text), dest=0, tag=TAG)
        w.until(lambda: w.comms[0].improbe(source=0, tag=TAG))
        w.run(send)


def test_the_receiver_dies_in_between(world):
    """The half that is missing does not keep the sender."""
    with world(2) as w:
        send = w.comms[0].isend(boxed("x" * 300_000), dest=1, tag=TAG)
        w.settle()
        w.kill(1)
        with pytest.raises(PeerLostError):
            w.run(send)


@pytest.mark.parametrize("way", ["irecv", "message", "message Irecv", "Irecv", "Irecv complete"])
def test_the_world_ends_before_the_parts_were_announced(world, way, monkeypatch):
    """Their receiver waits for them then: a sender that computes has lost nobody."""
    monkeypatch.setattr(objects.pickle, "THRESHOLD", 3000)
    with world(2, slots=4) as w:
        w.run(w.comms[0].isend(None, dest=1), w.comms[1].irecv(source=0))
        left = [LEFT[way](w)] if way in ("irecv", "Irecv") else []
        send = w.comms[0].isend([PickleBuffer(bytes([i]) * 9000) for i in range(200)], 1, TAG)
        w.dead.add(0)           # it computes: its engine makes no step
        w.settle()
        left = left or [LEFT[way](w)]
        left.clear()
        w.until(lambda: looks(w) or w.engines[1].counters()["posted"])
        assert w.engines[1].cancel_receives() == 0
        w.settle()
        assert not w.engines[1].handed_over()
        w.dead.discard(0)
        w.until(w.engines[1].handed_over)
        w.until(w.engines[1].finish)
        w.run(send)


def test_parts_that_cannot_be_registered():
    """The head is gone by then: an empty part says that the object ends here, and both are told."""
    with SimWorld(2, protocol="get", speculation="off") as w:
        w.run(w.comms[0].Isend(b"1", dest=1), w.comms[1].Irecv(bytearray(1), source=0))
        for size in (100_000, 400_000):
            w.network.limit(0, 500_000)
            request = w.comms[1].irecv(source=0, tag=TAG)
            send = w.comms[0].isend([np.zeros(size, "u1"), np.ones(200_000)], dest=1, tag=TAG)
            requests = (request, send)
            w.until(lambda pair=requests: all(each.is_complete() for each in pair))
            with pytest.raises(MemoryError, match="registered"):
                send.wait()
            with pytest.raises(MPI.Exception, match="could not be read"):
                request.wait()
            w.network.limit(0, 0)
            request = w.comms[1].irecv(source=0, tag=TAG)
            send = w.comms[0].isend(np.ones(200_000), dest=1, tag=TAG)
            assert receive(w, request).sum() == 200_000
            w.run(send)
