"""Who may join a job, and what strangers on its port can do: nothing (field N05-N07)."""

import os
import socket
import struct
import threading
import time

import pytest

from pyrdv.errors import BootstrapError, LaunchError, PeerLostError, VersionError
from pyrdv.launch import bootstrap, dialing, env, frames, gate, server
from pyrdv.launch.events import Loop
from tests.support import strangers
from tests.support.bench import SECRET, at_once, wait_notices
from tests.support.jobs import wait_until

# --- who may join ---------------------------------------------------------------------------


def test_wrong_secret_is_refused_and_the_job_goes_on(bench):
    one = bench(1)
    with pytest.raises(BootstrapError, match="could not join"):
        bootstrap.Client.connect(one.launch(0, secret=b"x" * 32), 0.5)
    assert one.client(0).exchange(b"v") == [b"v"]
    assert any("does not know this job's secret" in text for text in one.said)
    assert len(one.said) == 1  # one line, however often it tried


def test_other_job_and_other_size(bench):
    one = bench(2)
    with pytest.raises(BootstrapError, match="could not join"):
        bootstrap.Client.connect(one.launch(0, job="other"), 0.3)
    with pytest.raises(BootstrapError, match="rank 5 of 2 does not exist"):
        one.client(5)
    with pytest.raises(BootstrapError, match="rank 0 of 3 does not exist in a job of 2"):
        one.client(0, size=3)


def test_second_process_for_a_rank_is_refused(bench):
    one = bench(2)
    first = one.client(0)
    with pytest.raises(BootstrapError, match="rank 0 has already joined"):
        one.client(0)
    other = one.client(1)
    assert at_once(lambda: first.exchange(b"a"), lambda: other.exchange(b"b"))[0] == [b"a", b"b"]


def test_a_server_that_is_not_the_launcher_is_recognized(bench):
    """It may listen on the right port, but it cannot prove itself."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"

    def impostor(answer):
        conn, _ = listener.accept()
        conn.recv(1000)
        conn.sendall(answer)
        conn.recv(1000)
        conn.close()

    answers = {
        frames.frame(frames.CHALLENGE, 0, bytes(48)): "does not know this job's secret",
        b"HTTP/1.1 400 Bad Request\r\n\r\n": "does not speak pyrdv",
        struct.pack("!IBI", 1 << 31, frames.CHALLENGE, 0): "does not speak pyrdv",
        frames.frame(frames.WELCOME, 0, bytes(4)): "does not speak pyrdv",
        frames.frame(frames.REFUSE, 0, b"\x09"): "does not speak pyrdv",
    }
    for answer, text in answers.items():
        thread = threading.Thread(target=impostor, args=(answer,))
        thread.start()
        with pytest.raises(BootstrapError, match=text):
            bootstrap.Client.connect(env.Launch(0, 1, address, SECRET, "job", "test"), 10)
        thread.join(10)
    listener.close()
    with pytest.raises(BootstrapError, match=f"{address}.*Connection refused.*111"):
        bootstrap.Client.connect(env.Launch(0, 1, address, SECRET, "job", "test"), 10)


def test_occupied_and_impossible_address_are_named(bench):
    one = bench(1)
    port = int(one.address.rsplit(":", 1)[1])
    with pytest.raises(LaunchError, match=f"127.0.0.1 port {port}: Address already in use"):
        bench(1, port=port)
    with pytest.raises(LaunchError, match="203.0.113.7 port 0: Cannot assign"):
        bench(1, host="203.0.113.7")


def test_a_hello_writes_no_line_of_its_own(bench):
    """What comes from outside is one line of the launcher's and one of the rank's."""
    one = bench(1)
    raw = one.raw()
    version = "9.9\npyrdv run: all is well\r\x1b[2J\u202e"
    raw.sendall(frames.frame(frames.HELLO, 0, frames.pack_hello(
        SECRET, 0, 1, 1, "job", version, frames.nonce())))
    while raw.recv(1000):
        pass
    wait_until(lambda: one.said, 30)
    for text in one.said:
        assert text.isprintable()
    assert r"9.9\npyrdv run: all is well\r\x1b[2J\u202e" in one.said[0]
    hosted = one.client(0)
    hosted.abort(3, "first\nsecond")
    wait_until(lambda: one.aborts, 30)
    assert one.aborts == [(0, 3, r"first\nsecond")]


@pytest.mark.parametrize(
    "change", [{"version": "9.9.9"}, {"protocol": 77}, {"word": 4}, {"endian": 3 - frames.ENDIAN}])
def test_version_mismatch_is_one_error_on_both_sides(bench, change):
    one = bench(1)
    given = {"version": frames.package_version(), **change}
    raw = one.raw()
    raw.sendall(frames.frame(frames.HELLO, 0, frames.pack_hello(
        SECRET, 0, 1, 1, "job", once=frames.nonce(), **given)))
    reader = frames.Reader(frames.CLIENT_CHALLENGE)
    while (found := reader.next()) is None:
        reader.feed(raw.recv(1000))
    assert found[0] == frames.REFUSE
    code, _, text = frames.unpack_kind_rank_text(found[2])
    assert code == frames.REFUSED_VERSION
    assert raw.recv(1) == b""  # dropped, so the launcher's line is out
    for side in (text, one.said[0]):
        assert frames.describe_build(frames.package_version()) in side
        assert frames.describe_build(**given) in side
    assert one.client(0).exchange(b"v") == [b"v"]


def test_rank_of_another_version_raises_version_error(bench):
    one = bench(1, version="8.8.8")
    with pytest.raises(VersionError) as caught:
        one.client(0)
    for part in ("8.8.8", frames.package_version(), "install one version"):
        assert part in str(caught.value)


# --- strangers ------------------------------------------------------------------------------


def record_handshake(one, rank):
    """Join through a relay and return the bytes that the rank sent."""
    relay = socket.create_server(("127.0.0.1", 0))
    sent = []

    def pump():
        client, _ = relay.accept()
        upstream = one.raw()

        def back():
            while data := upstream.recv(4096):
                client.sendall(data)

        thread = threading.Thread(target=back)
        thread.start()
        while data := client.recv(4096):
            sent.append(data)
            upstream.sendall(data)
        upstream.shutdown(socket.SHUT_WR)
        thread.join(10)
        upstream.close()
        client.close()

    thread = threading.Thread(target=pump)
    thread.start()
    address = f"127.0.0.1:{relay.getsockname()[1]}"
    launch = env.Launch(rank, one.size, address, SECRET, "job", "test")
    bootstrap.Client.connect(launch, 10).leave()
    thread.join(10)
    relay.close()
    return b"".join(sent)


def test_a_recorded_handshake_is_worth_nothing(bench):
    one = bench(2)
    recorded = record_handshake(one, 0)
    again = bench(2)  # another run under the same secret, the worst case
    raw = again.raw()
    raw.sendall(recorded)
    received = b""
    while data := raw.recv(1000):
        received += data
    # A challenge, and no welcome.
    assert received[4] == frames.CHALLENGE and len(received) == 9 + 48
    assert not again.server.joined(0)
    assert any("does not know this job's secret" in text for text in again.said)


STRANGERS = {
    "nothing": b"",
    "one byte": b"\x00",
    "random 64 KiB": os.urandom(65536),
    "length 2^63": struct.pack("!Q", 1 << 63) + b"x" * 100,
    "length 2^32-1": struct.pack("!IBI", 0xFFFFFFFF, frames.HELLO, 0) + b"x" * 100,
    "TLS hello": bytes.fromhex("1603010200010001fc0303") + bytes(500),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "magic only": frames.MAGIC,
    "empty hello": frames.frame(frames.HELLO, 0, b""),
    "hello of zeros": frames.frame(frames.HELLO, 0, bytes(500)),
    "hello with the magic": frames.frame(frames.HELLO, 0, frames.MAGIC + bytes(200)),
    "authenticated kinds": frames.frame(frames.ABORT, 0, bytes(4)),
    "a proof first": frames.frame(frames.PROOF, 0, bytes(32)),
}


def test_strangers_do_not_disturb_the_start(bench):
    one = bench(2)
    held = []
    for data in STRANGERS.values():
        for linger in (False, True):
            raw = one.raw()
            try:
                raw.sendall(data)
            except OSError:
                pass  # dropped already, which is right
            if linger:
                held.append(raw)
            else:
                raw.close()
    a, b = one.client(0), one.client(1)
    assert at_once(lambda: a.exchange(b"a"), lambda: b.exchange(b"b")) == [[b"a", b"b"]] * 2
    assert one.aborts == []
    # Those that still wait are dropped within the time allowed to authenticate.
    end = time.monotonic() + gate.HANDSHAKE_SECONDS + 3
    for raw in held:
        raw.settimeout(max(0.1, end - time.monotonic()))
        try:
            while raw.recv(4096):
                pass
        except ConnectionError:
            pass
        raw.close()
    assert 1 <= len(one.said) <= 3  # a line, not one per stranger


def test_a_thousand_connections_do_not_prevent_the_start(bench):
    one = bench(4)
    held = [one.raw() for _ in range(200)]
    stop = threading.Event()
    made = [0]

    def flood():
        while not stop.is_set():
            raw = one.raw()
            made[0] += 1
            held.append(raw)
            if len(held) > 400:
                held.pop(0).close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        clients = at_once(*[lambda rank=rank: one.client(rank) for rank in range(4)])
        assert all(isinstance(c, bootstrap.Client) for c in clients), clients
        got = at_once(*[lambda c=c: c.exchange(b"%d" % c.rank) for c in clients])
        assert got == [[b"0", b"1", b"2", b"3"]] * 4
        while made[0] < 1000:
            time.sleep(0.01)
        assert len(one.server._gate.pending) <= 64
    finally:
        stop.set()
        thread.join(20)
        for raw in held:
            raw.close()
    assert len(one.said) <= 2


def test_broken_frames_of_an_authenticated_rank_end_only_its_connection(bench):
    one = bench(2)
    a, b = one.client(0), one.client(1)
    b._sock.sendall(struct.pack("!IBI", 1 << 30, frames.EXCHANGE, 0))
    (rank, kind, _), = wait_notices(a)
    assert (rank, kind) == (1, "lost")
    assert any("rank 1" in text and "announces 1073741824 bytes" in text for text in one.said)
    with pytest.raises(PeerLostError, match="rank 1"):
        a.exchange(b"still heard", 10)


# --- on the way -----------------------------------------------------------------------------


class Between:
    """Somebody who sees, and may change, what a rank and the launcher say to each other."""

    def __init__(self, one, rank):
        relay = socket.create_server(("127.0.0.1", 0))
        address = f"127.0.0.1:{relay.getsockname()[1]}"
        self.launch = env.Launch(rank, one.size, address, SECRET, "job", "test")
        self.one, self.relay, self.seen, self.threads = one, relay, {}, []
        self.change = {"rank": lambda data: data, "launcher": lambda data: data}
        self.start(self.serve)

    def start(self, target, *args):
        self.threads.append(threading.Thread(target=target, args=args))
        self.threads[-1].start()

    def serve(self):
        rank, _ = self.relay.accept()
        launcher = self.one.raw()
        self.ends = rank, launcher
        self.start(self.pump, "rank", rank, launcher)
        self.start(self.pump, "launcher", launcher, rank)

    def pump(self, who, source, sink):
        try:
            while data := source.recv(65536):
                self.seen[who] = data
                sink.sendall(self.change[who](data))
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one of them gave up, as it should

    def close(self):
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)  # a close would not end a recv of another thread
            except OSError:
                pass
        for thread in self.threads:
            thread.join(20)
        for end in (*self.ends, self.relay):
            end.close()


def flipped(data, at):
    at %= len(data)
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1:]


# Bytes of the number of a request, the body and the seal; others change the length or the kind.
@pytest.mark.parametrize("at", [5, 8, 9, 11, -1, -16])
def test_a_changed_frame_of_a_rank_ends_its_connection(bench, at):
    """B6: and it changes nothing in the job: the others do not get what it says."""
    one = bench(2)
    between = Between(one, 0)
    a, b = bootstrap.Client.connect(between.launch, 20), one.client(1)
    between.change["rank"] = lambda data: flipped(data, at)
    told = at_once(lambda: a.exchange(b"true", 20), lambda: b.exchange(b"b", 20))
    assert isinstance(told[0], BootstrapError) and isinstance(told[1], PeerLostError), told
    assert any("rank 0" in text and "wrong seal" in text for text in one.said)
    assert one.aborts == []
    between.close()


@pytest.mark.parametrize("how", ["repeat", "abort", "leave out"])
def test_frames_that_a_rank_did_not_send_now(bench, how):
    """B6: an old frame, one without the key, and one that is missing."""
    one = bench(2)
    between = Between(one, 0)
    a, b = bootstrap.Client.connect(between.launch, 20), one.client(1)
    assert at_once(lambda: a.exchange(b"1"), lambda: b.exchange(b"2"))[0] == [b"1", b"2"]
    first, kept = between.seen["rank"], threading.Event()
    between.change["rank"] = {
        "repeat": lambda data: first, "leave out": lambda data: (kept.set(), b"")[1],
        "abort": lambda data: frames.frame(frames.ABORT, 0, frames.pack_number_text(9, "mine"))
        + bytes(frames.SEAL_BYTES)}[how]
    if how == "leave out":
        a.abort(3, "this is left out")
        assert kept.wait(20)
        between.change["rank"] = lambda data: data
    told = at_once(lambda: a.exchange(b"3", 20), lambda: b.exchange(b"4", 20))
    assert isinstance(told[1], PeerLostError) and one.aborts == []
    assert any("wrong seal" in text for text in one.said)
    between.close()


@pytest.mark.parametrize("at", [5, 12, -1])
def test_a_changed_frame_of_the_launcher_ends_the_connection(bench, at):
    one = bench(1)
    between = Between(one, 0)
    a = bootstrap.Client.connect(between.launch, 20)
    between.change["launcher"] = lambda data: flipped(data, at)
    with pytest.raises(BootstrapError, match="broken frame: .*wrong seal"):
        a.exchange(b"x", 20)
    assert [found[:2] for found in a.notices()] == [(-1, "launcher")]
    between.close()


def test_directions_and_connections_have_keys_of_their_own():
    """B6: what the launcher sent is worth nothing as a rank's, nor on another connection."""
    made = [frames.seals(SECRET, b"hello", once, theirs)
            for once, theirs in ((b"a" * 16, b"b" * 16), (b"a" * 16, b"c" * 16),
                                 (b"d" * 16, b"b" * 16))]
    first = [seal.frame(frames.EXCHANGE, 1, b"x") for pair in made for seal in pair]
    again = [seal.frame(frames.EXCHANGE, 1, b"x") for pair in made for seal in pair]
    assert len({*first, *again}) == 12


# --- the door and the port ------------------------------------------------------------------


def test_a_rank_of_this_machine_joins_by_the_door(bench):
    """G1: whatever becomes of the port."""
    one = bench(2)
    assert one.server.door.startswith("/proc/")
    by_door = one.launch(0)
    by_door.door, by_door.address = one.server.door, "127.0.0.1:1"
    a = bootstrap.Client.connect(by_door, 20)
    lost = one.launch(1)  # the path leads to something else than it did: by the port
    lost.door = one.server.door + "x"
    b = bootstrap.Client.connect(lost, 20)
    assert at_once(lambda: a.exchange(b"a"), lambda: b.exchange(b"b")) == [[b"a", b"b"]] * 2


def test_nobody_else_can_come_by_the_door(bench):
    """G1: the kernel refuses other users."""
    strangers.need_root()
    one = bench(1)
    pid = os.fork()
    if pid == 0:
        strangers.become_nobody()
        os._exit(7 if dialing.knock(one.server.door) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    found = dialing.knock(one.server.door)
    found.close()


def said_hello(one, rank):
    """A connection that showed a HELLO and has its challenge; what the proof is made of."""
    raw, once = one.raw(), frames.nonce()
    hello = frames.pack_hello(SECRET, rank, one.size, 1, "job", frames.package_version(), once)
    raw.sendall(frames.frame(frames.HELLO, 0, hello))
    reader = frames.Reader(frames.CLIENT_CHALLENGE)
    while (found := reader.next()) is None:
        reader.feed(raw.recv(1000))
    return raw, frames.client_proof(
        SECRET, hello[:-frames.MAC_BYTES], once, found[2][:frames.NONCE_BYTES])


def test_strangers_do_not_take_the_place_of_who_showed_a_hello(bench):
    """G2, G3: it may be slow with its proof."""
    one = bench(1)
    raw, proof = said_hello(one, 0)
    held = [one.raw() for _ in range(300)]
    # The last of them is in: the others were turned out before it.
    last = "{}:{}".format(*held[-1].getsockname())
    assert wait_until(lambda: last in [
        peer.where for peer in list(one.server._gate.pending.values())], 30)
    raw.sendall(frames.frame(frames.PROOF, 0, proof))
    reader = frames.Reader(frames.CLIENT_WELCOME)
    while (found := reader.next()) is None:
        data = raw.recv(1000)
        assert data, "it was dropped"
        reader.feed(data)
    assert found[0] == frames.WELCOME
    for sock in (raw, *held):
        sock.close()


def test_strangers_cost_a_bounded_time():
    """G4: one turn takes STRANGERS of them, then the port is left alone; the door is not."""
    loop = Loop()
    gatekeeper = server.Server(loop, 1, SECRET, "job", None, lambda text: None)
    host, port = gatekeeper.address.rsplit(":", 1)
    held = [socket.create_connection((host, int(port))) for _ in range(3 * gate.STRANGERS)]
    loop.turn()
    taken = len(gatekeeper._gate.pending)
    assert taken == gate.STRANGERS
    assert gatekeeper._gate._port.fileno() not in loop._calls
    door = dialing.knock(gatekeeper.door)
    while "this machine" not in [one.where for one in gatekeeper._gate.pending.values()]:
        loop.turn(0)
    while gatekeeper._gate._strays < gate.STRANGERS:
        loop.turn(1.0)
    for one in (*held, door):
        one.close()
    gatekeeper.close()


def test_a_full_queue_is_tried_again(monkeypatch):
    """By new requests, for the kernel repeats the first one ever more seldom."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    first = socket.create_connection(listener.getsockname())
    made, found = [], []

    def counted(*arguments):
        made.append(socket.socket(*arguments))
        return made[-1]

    monkeypatch.setattr(dialing, "socket", counted)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    caller = threading.Thread(
        target=lambda: found.append(dialing.dial(address, time.monotonic() + 60)))
    caller.start()
    assert wait_until(lambda: len(made) > 2, 30)
    accepted, _ = listener.accept()
    caller.join(60)
    assert found == made[-1:]
    for one in (listener, first, accepted, *made):
        one.close()
