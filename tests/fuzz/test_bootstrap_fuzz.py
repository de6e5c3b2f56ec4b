"""Whatever bytes come, the bootstrap parses them, refuses them, and goes on (B2, B3, B5).

``FUZZ_EXAMPLES`` sets how many examples each property gets (`make fuzz` gives many).
"""

import os
import socket
import struct

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyrdv.launch import bootstrap, env, frames, server
from pyrdv.launch.events import Loop

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
# The test suite tries the same bytes each time; `make fuzz` tries new ones by its seed.
fuzz = settings(max_examples=EXAMPLES, deadline=None, derandomize="FUZZ_EXAMPLES" not in os.environ,
                suppress_health_check=[HealthCheck.too_slow])

SECRET = b"k" * 32
TABLES = [frames.SERVER_HELLO, frames.SERVER_PROOF, frames.SERVER_OPEN, frames.CLIENT_CHALLENGE,
          frames.CLIENT_WELCOME, frames.CLIENT_OPEN]

kinds = st.sampled_from(sorted({kind for table in TABLES for kind in table})) | st.integers(0, 255)
headers = st.builds(lambda length, kind, request: struct.pack("!IBI", length, kind, request),
                    st.integers(0, 600) | st.integers(0, 2**32 - 1), kinds,
                    st.integers(0, 2**32 - 1))
whole = st.builds(frames.frame, kinds, st.integers(0, 2**32 - 1), st.binary(max_size=200))
streams = st.lists(st.binary(max_size=200) | headers | whole, max_size=8).map(b"".join)


@fuzz
@given(st.sampled_from(TABLES), streams, st.lists(st.integers(1, 64), min_size=1, max_size=8))
def test_reader_refuses_or_delivers_within_its_limits(table, data, cuts):
    reader = frames.Reader(table)
    at = turn = 0
    try:
        while at < len(data):
            step = cuts[turn % len(cuts)]
            reader.feed(data[at:at + step])
            at += step
            turn += 1
            while (found := reader.next()) is not None:
                kind, _, body = found
                assert len(body) <= table[kind]
            assert reader.left_over() <= 9 + max(table.values())
    except frames.FrameError:
        pass


@fuzz
@given(st.lists(st.tuples(st.sampled_from(sorted(frames.SERVER_OPEN)), st.integers(0, 2**32 - 1),
                          st.binary(max_size=300)), max_size=6),
       st.integers(1, 50))
def test_reader_gives_back_what_was_framed_however_it_is_cut(sent, step):
    legal = [(k, r, b) for k, r, b in sent if len(b) <= frames.SERVER_OPEN[k]]
    data = b"".join(frames.frame(*one) for one in legal)
    reader = frames.Reader(frames.SERVER_OPEN)
    got = []
    for at in range(0, len(data), step):
        reader.feed(data[at:at + step])
        while (found := reader.next()) is not None:
            got.append(found)
    assert got == legal and reader.left_over() == 0


@fuzz
@given(st.binary(max_size=400))
def test_bodies_parse_or_raise_frame_error(body):
    for parse in (frames.unpack_number_text,
                  frames.unpack_kind_rank_text, frames.unpack_all,
                  lambda raw: frames.unpack_hello(raw, SECRET),
                  lambda raw: frames.unpack_hello(frames.MAGIC + raw, SECRET)):
        try:
            parse(body)
        except frames.FrameError:
            pass


@fuzz
@given(st.lists(st.binary(max_size=50), max_size=20))
def test_all_round_trip(values):
    packed = frames.pack_all(values)
    assert frames.unpack_all(packed) == values
    with pytest.raises(frames.FrameError):
        frames.unpack_all(packed + b"x")


@fuzz
@given(st.integers(0, 99), st.text(max_size=20), st.integers(0, 10**6), st.binary(max_size=3))
def test_a_changed_hello_is_not_genuine(rank, job, at, change):
    body = frames.pack_hello(SECRET, rank, 100, 5, job, "1.0", bytes(16))
    hello, genuine = frames.unpack_hello(body, SECRET)
    assert genuine and hello.rank == rank and hello.version == "1.0"
    at %= len(body)
    changed = body[:at] + change + body[at + len(change):]
    try:
        _, genuine = frames.unpack_hello(changed, SECRET)
    except frames.FrameError:
        return
    assert genuine == (changed == body)


class InProcess:
    """Server and peers in one thread: the server runs only when told."""

    def __init__(self, size):
        self.said, self.aborts = [], []
        self.loop = Loop()
        self.server = server.Server(self.loop, size, SECRET, "job",
                                    lambda *args: self.aborts.append(args), self.said.append)
        self.size = size

    def turns(self, count=4):
        for _ in range(count):
            self.loop.turn(0)

    def raw(self):
        host, port = self.server.address.rsplit(":", 1)
        sock = socket.create_connection((host, int(port)), timeout=10)
        sock.setblocking(False)
        return sock

    def client(self, rank):
        """Join by hand, since the blocking client would need a second thread."""
        launch = env.Launch(rank, self.size, self.server.address, SECRET, "job", "test")
        sock = self.raw()
        once = frames.nonce()
        hello = frames.pack_hello(SECRET, rank, self.size, 1, "job", frames.package_version(), once)
        sock.sendall(frames.frame(frames.HELLO, 0, hello))
        reader = frames.Reader(frames.CLIENT_CHALLENGE)
        challenge = self.answer(sock, reader)[2][:16]
        reader.accept = frames.CLIENT_WELCOME
        sock.sendall(frames.frame(frames.PROOF, 0, frames.client_proof(
            SECRET, hello[:-32], once, challenge)))
        seal, reader.seal = frames.seals(SECRET, hello[:-32], once, challenge)
        assert self.answer(sock, reader)[0] == frames.WELCOME
        reader.accept = frames.CLIENT_OPEN
        return bootstrap.Client(launch, sock, reader, seal)

    def answer(self, sock, reader):
        for _ in range(2000):
            self.turns(1)
            try:
                reader.feed(sock.recv(4096))
            except BlockingIOError:
                pass
            if (found := reader.next()) is not None:
                return found
        raise AssertionError("no answer")


def send(sock, data):
    try:
        sock.sendall(data)
    except OSError:
        pass  # the server has dropped it, or takes no more


@fuzz
@given(st.lists(streams, min_size=1, max_size=5))
def test_strangers_with_any_bytes_change_nothing(strangers):
    one = InProcess(2)
    try:
        socks = []
        for data in strangers:
            socks.append(one.raw())
            send(socks[-1], data)
            one.turns()
        assert not one.server.joined(0) and one.aborts == []
        clients = [one.client(0), one.client(1)]
        for client in clients:
            client._sock.sendall(client._seal.frame(frames.EXCHANGE, 1, b"%d" % client.rank))
        for client in clients:
            kind, _, body = one.answer(client._sock, client._reader)
            assert kind == frames.ALL and frames.unpack_all(body) == [b"0", b"1"]
            client.close()
        for sock in socks:
            sock.close()
    finally:
        one.server.close()


@fuzz
@given(st.lists(st.tuples(st.sampled_from(sorted(frames.SERVER_OPEN)), st.integers(0, 2**32 - 1),
                          st.binary(max_size=60)), max_size=8),
       st.binary(max_size=40), st.booleans())
def test_an_authenticated_rank_can_only_harm_its_own_connection(sent, junk, sealed):
    one = InProcess(2)
    try:
        bad, good = one.client(0), one.client(1)
        for kind, request, body in sent:
            send(bad._sock, (bad._seal if sealed else frames).frame(kind, request, body))
            one.turns(2)
        send(bad._sock, junk)
        one.turns()
        good._sock.sendall(good._seal.frame(frames.MISSING, 9))
        while True:
            kind, request, body = one.answer(good._sock, good._reader)
            if kind != frames.NOTICE:
                break
        assert (kind, request) == (frames.VALUE, 9)
        assert sealed or one.aborts == []
        bad.close()
        good.close()
    finally:
        one.server.close()


@fuzz
@given(st.lists(st.tuples(st.sampled_from(sorted(frames.SERVER_OPEN)), st.integers(0, 2**32 - 1),
                          st.binary(max_size=40)), min_size=1, max_size=4),
       st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_never_delivered(sent, at, change):
    """B6: all frames before the changed one come, and nothing else."""
    legal = [(k, r, b) for k, r, b in sent if len(b) <= frames.SERVER_OPEN[k]]
    out, into = (frames.seals(SECRET, b"hello", bytes(16), bytes(16))[0] for _ in range(2))
    data = bytearray(b"".join(out.frame(*one) for one in legal))
    if data:
        data[at % len(data)] ^= change
    reader = frames.Reader(frames.SERVER_OPEN)
    reader.seal = into
    reader.feed(bytes(data))
    got = []
    try:
        while (found := reader.next()) is not None:
            got.append(found)
    except frames.FrameError:
        pass
    assert got == legal[:len(got)] and (len(got) < len(legal) or not legal)
