"""The packet behind a shared transfer: delivered by whoever sees the transfer end (Y1-Y4).

`a` posts; in most tests it then computes, that is, it never polls while `b` helps.
"""

import os
import random
import socket
import struct

import pytest

from pyrdv.instruments.fabric import CLOSED, FENCE, OK, PACKET, WRITE, Driver

from .shmtools import JOBS, RawPeer, fabrics, pair, payloads, until

KIB = 1 << 10
SIZE = 1 << 20
TAILS = JOBS + 16 * 64


def start(a, b, size=SIZE, last=b"FIN"):
    """`a` posts START, a WRITE and FIN as one chain; source and target."""
    data, room = bytearray(os.urandom(size)), bytearray(size)
    source, sink = a.register(data), b.register(room)
    assert a.post(1, Driver.send_request(b"START"),
                  Driver.write_request(source, 0, sink.address, sink.key, size, ident=5),
                  Driver.send_request(last, flags=FENCE)) == OK
    return data, room


def alone(b, wanted):
    """Poll only `b` until it has `wanted` packets; the packets, each released by its poll."""
    got = []
    for _ in range(1000):
        got += payloads(b.poll())
        if len(got) >= wanted:
            break
    return got


def test_the_helper_delivers_what_is_fenced_behind_its_last_chunk():
    """Y1: the poster posts and computes; its peer gets data and FIN."""
    a, b = pair()
    data, room = start(a, b)
    assert alone(b, 2) == [b"START", b"FIN"]
    assert room == data
    # Y3: the poster, back again, sees its transfer end and posts FIN no second time.
    assert until(lambda ev: ev, a) == [[(WRITE, 1, 5, OK)]]
    assert a.send(1, b"next") == OK
    assert alone(b, 1) == [b"next"]


def test_the_poster_delivers_it_when_it_moves_the_last_chunk():
    a, b = pair()
    data, room = start(a, b)
    assert until(lambda ev: ev, a) == [[(WRITE, 1, 5, OK)]]
    assert room == data
    assert alone(b, 2) == [b"START", b"FIN"]
    assert alone(b, 1) == []


@pytest.mark.parametrize("seed", range(8))
def test_exactly_once_in_any_rotation(seed):
    """Y1, Y3: jobs are used again and again, and both ends move chunks in all orders."""
    rng = random.Random(seed)
    a, b = pair()
    wanted, got, buffers, ended, open_ = [], [], [], 0, 0
    for number in range(150):
        size = rng.choice((33 * KIB, 64 * KIB, 200 * KIB))
        buffers.append(start(a, b, size, b"%d" % number))
        wanted += [b"START", b"%d" % number]
        open_ += 1
        while open_ > rng.randrange(4):
            if rng.random() < 0.5:
                done = len(a.poll())
                ended += done
                open_ -= done
            else:
                got += payloads(b.poll())
    while ended < 150 or len(got) < len(wanted):
        ended += len(a.poll())
        got += payloads(b.poll())
    assert sorted(got) == sorted(wanted)
    assert all(data == room for data, room in buffers)


def helped(b, chunks, **how):
    """Poll only `b` until it has moved so many chunks; the last packets that it was given."""
    got = []
    while b.fabric.counters["chunks_helped"] < chunks:
        got = payloads(b.poll(**how)) or got
    return got


def test_it_comes_before_what_is_posted_after_its_completion():
    """Y4, F1: the poster has seen the transfer end; later packets stand behind FIN."""
    a, b = pair()
    kept = start(a, b)
    assert helped(b, 8) == [b"START"]
    assert until(lambda ev: ev, a) == [[(WRITE, 1, 5, OK)]]
    assert a.send(1, b"later") == OK
    assert alone(b, 2) == [b"FIN", b"later"]
    assert kept


def test_it_comes_behind_what_stood_before_it():
    """Y4, F1, F6: START is not released yet, and stays before FIN."""
    a, b = pair()
    kept = start(a, b)
    assert helped(b, 8, release=False) == [b"START"]
    assert payloads(b.poll(release=False)) == [b"START"]
    assert payloads(b.poll()) == [b"START"]
    assert payloads(b.poll(release=False)) == [b"FIN"]
    assert payloads(b.poll()) == [b"FIN"]
    assert b.poll() == []
    assert kept


def test_a_transfer_that_fails_takes_its_packet_with_it():
    """Y2, J5: memory that is not there; nobody hears FIN."""
    a, b = pair()
    source = a.register(bytearray(SIZE))
    assert a.post(1, Driver.write_request(source, 0, 4096, 0, SIZE, ident=5),
                  Driver.send_request(b"FIN", flags=FENCE)) == OK
    got = []
    for _ in range(20):
        got += payloads(b.poll())
    until(lambda ev: ev, a)
    for _ in range(20):
        a.poll()
        got += payloads(b.poll())
    assert got == []


def test_a_peer_may_leave_with_it():
    """Y1: it took FIN from the tail and said goodbye; the transfer ended well all the same."""
    a, b = pair()
    data, room = start(a, b)
    assert alone(b, 2) == [b"START", b"FIN"]
    b.disconnect(0)
    b.fabric.close()
    (events,) = until(lambda ev: len(ev) == 2, a)
    assert events == [(WRITE, 1, 5, OK), (CLOSED, 1)]
    assert room == data


def test_nonsense_in_a_tail():
    """R8: length and place of a broken peer's tail are cut down to what can be."""
    end = Driver(fabrics(3)[0])
    peer = RawPeer()
    word = bytearray(os.urandom(8))
    room, data = bytearray(64 * KIB), bytearray(os.urandom(64 * KIB))
    places = [end.register(one) for one in (word, room, data)]
    fd = peer.segment()
    socket.send_fds(peer.dial(end.fabric.address), [peer.hello(
        mark_address=places[0].address, mark=int.from_bytes(word, "little"))], [fd])
    os.close(fd)
    end.maintain()
    struct.pack_into("<II56s", peer.memory, TAILS, 2**32 - 1, 77, b"x" * 56)
    struct.pack_into("<QQQQIIIIQQ", peer.memory, JOBS, 1 << 36 | 1 << 18, places[2].address,
                     places[1].address, 64 * KIB, 65536, 0, 0, 0, 1 << 2 | 1, places[1].key)
    peer.set32(256, 1)
    events = [event for _ in range(3) for event in end.poll()]
    assert [event[:2] for event in events] == [(PACKET, 1)]
    assert payloads(events) == [b"x" * 56]
    assert room == data
    assert struct.unpack_from("<Q", peer.memory, JOBS + 48) == (1 << 2 | 3,)
    peer.close()
