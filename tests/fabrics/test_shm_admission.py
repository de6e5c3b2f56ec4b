"""Who comes in at the doors of the shm fabric, and what strangers can do: A1 to A5, D1 to D4."""

import os
import socket

import pytest

from pyrdv.fabrics.shm import ShmFabric, doors
from pyrdv.instruments.fabric import AGAIN, LOST, OK, PEER_LOST, Driver
from tests.support import strangers
from tests.support.ready import readable

from .shmtools import ADDRESS, INLINE, TOKEN, RawPeer, fabrics, open_files, payloads, until
from .test_shm_processes import child, sleep_until

STRANGERS = 32      # per window: admission.pyx
PLACE = 7           # field of an address


def public(address):
    """Name of the public door."""
    *_, length, name = ADDRESS.unpack(address)
    return b"\0" + name[:length]


def private(address):
    """Path of the private door."""
    fields = ADDRESS.unpack(address)
    return f"/proc/{fields[2]}/fd/{fields[PLACE]}".encode()


@pytest.fixture
def public_ends(monkeypatch):
    """Make ends that have no private door, as where nobody may look into them."""
    monkeypatch.setattr(doors, "_own_reach", lambda: 0)
    return lambda count=2: [Driver(one) for one in fabrics(count)]


def dial(door, silent=True):
    """One more connection; None where the queue is full."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        one.connect(door)
    except BlockingIOError:
        one.close()
        return None
    if not silent:
        one.send(b"?" * 72)
    return one


def as_nobody(work):
    """Exit status of ``work()`` in a process of another user."""
    strangers.need_root()
    pid = os.fork()
    if pid == 0:
        status = 9
        try:
            strangers.become_nobody()
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# --- doors --------------------------------------------------------------------------------------


def test_nobody_else_can_knock_at_a_private_door():
    """D1: the kernel refuses other users; D2: where no peer needs it, there is no public door."""
    a, b = fabrics()
    for one in (a, b):
        with pytest.raises(ConnectionRefusedError):
            dial(public(one.address))

    def knock():
        try:
            dial(private(a.address))
        except PermissionError:
            return 7
        return 1

    assert as_nobody(knock) == 7
    with dial(private(a.address)) as one:       # the same user can
        assert not os.path.exists(one.getpeername())


def test_another_user_gets_no_further_with_the_descriptor_itself():
    """D1: whoever holds the place, by inheritance say, still needs the right to write there."""
    a, _ = fabrics()
    place = ADDRESS.unpack(a.address)[PLACE]

    def knock():
        try:
            dial(f"/proc/self/fd/{place}".encode())
        except PermissionError:
            return 7
        return 1

    assert as_nobody(knock) == 7


def test_one_peer_that_cannot_reach_it_keeps_the_public_door_open(monkeypatch):
    """D3: both sides choose alike, by the addresses alone."""
    made = [ShmFabric(rank, 3, TOKEN) for rank in range(2)]
    monkeypatch.setattr(doors, "_own_reach", lambda: 0)
    made.append(ShmFabric(2, 3, TOKEN))
    for one in made:
        one.set_peers([other.address for other in made])
    ends = [Driver(one) for one in made]
    assert ends[0].connect(1) == ends[0].connect(2) == OK
    assert ends[1].connect(0) == OK
    for rank, one in enumerate(ends[:2]):
        assert one.send(1 - rank, b"%d" % rank) == OK
    ends[0].send(2, b"far")
    assert payloads(until(payloads, ends[1])[0]) == [b"0"]
    assert payloads(until(payloads, ends[2])[0]) == [b"far"]
    dial(public(made[0].address)).close()
    for one in made:
        one.close()


def test_a_dead_peer_has_no_door(public_ends):
    """D4: on both kinds of doors."""
    a, b = fabrics()
    b.close()
    assert Driver(a).connect(1) == LOST
    one, two = public_ends()
    two.fabric.close()
    assert one.connect(1) == LOST
    strict, other = fabrics(single_copy="on")
    other.close()
    assert Driver(strict).connect(1) == LOST


# --- strangers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [True, False])
def test_other_users_take_no_place_and_cost_a_bounded_time(public_ends, silent):
    """A1, A4: whatever they do, one look at the doors accepts STRANGERS of them, no more."""
    end = public_ends(3)[0]
    before = len(open_files())

    def knock():
        held = [dial(public(end.fabric.address), silent) for _ in range(300)]
        os.write(ready[1], b"x")
        os.read(stop[0], 1)
        return len(held) - 300

    ready, stop = os.pipe(), os.pipe()
    with strangers.strangers(knock):
        os.read(ready[0], 1)
        end.maintain()
        assert end.fabric.counters["foreign"] == STRANGERS
        assert end.maintain() == 0
        assert len(open_files()) == before + 4
        until(lambda _: end.fabric.counters["foreign"] == 300, end)
        assert end.fabric.counters["refused"] == 0
    for fd in (*ready, *stop):
        os.close(fd)
    end.fabric.close()


def test_a_sleeper_is_not_kept_awake_by_strangers_and_wakes_up_for_a_peer(public_ends):
    """A4, F8: the doors are left alone for a while, then looked at again."""
    ends = public_ends(3)
    end = ends[0]
    door = public(end.fabric.address)
    held = [dial(door, silent=False) for _ in range(STRANGERS)]
    end.maintain()
    assert end.fabric.counters["refused"] == STRANGERS
    held += [dial(door, silent=False) for _ in range(5)]
    assert ends[1].connect(0) == OK  # behind those
    ends[1].send(0, b"me too")
    assert payloads(sleep_until(end, payloads)) == [b"me too"]
    for one in (*held, *(driver.fabric for driver in ends)):
        one.close()


@pytest.mark.parametrize("silent", [True, False])
def test_a_full_queue_is_tried_again_and_wakes_the_sleeper(public_ends, silent):
    """G5: a peer whose queue is full is not gone, and its memory is made once."""
    one, two = public_ends()
    door = public(two.fabric.address)
    held = []
    while (more := dial(door, silent)) is not None:
        held.append(more)
        if len(held) > 900:  # do without a limit of descriptors
            held.pop(0).close()
    assert one.connect(1) == AGAIN
    made = sum("memfd" in name for name in open_files().values())
    assert one.connect(1) == AGAIN
    assert sum("memfd" in name for name in open_files().values()) == made == 1
    assert one.arm() == OK
    assert readable(one.wake_fd, 60)
    one.disarm()
    until(lambda _: one.connect(1) == OK, two)
    one.send(1, b"in")
    assert payloads(until(payloads, two)[0]) == [b"in"]
    for each in (*held, one.fabric, two.fabric):
        each.close()


# --- hellos that come late ----------------------------------------------------------------------


@pytest.mark.parametrize("silent", [True, False])
def test_a_rank_whose_hello_is_late_keeps_its_place(silent):
    """A2: connections of processes that are no rank do not take it, however many there are."""

    end = Driver(ShmFabric(0, 3, TOKEN))
    step, done = os.pipe(), os.pipe()

    def late():
        peer = RawPeer()
        os.write(done[1], peer.address())
        os.read(step[0], 1)
        peer.dial(end.fabric.address)
        os.write(done[1], b"connected")
        os.read(step[0], 1)
        fd = peer.segment()
        socket.send_fds(peer.socket, [peer.hello()], [fd])
        peer.put(0, INLINE | 4, b"late")
        os.write(done[1], b"said hello")
        os.read(step[0], 1)

    with strangers.strangers(late, foreign=False):
        os.close(done[1])
        end.fabric.set_peers([None, os.read(done[0], 4096), None])
        os.write(step[1], b"c")
        assert os.read(done[0], 4096) == b"connected"
        end.maintain()  # it has its place
        held = []

        def all_came(_):
            held.append(dial(private(end.fabric.address), silent))
            return len(held) > 200

        until(all_came, end)
        os.write(step[1], b"h")
        assert os.read(done[0], 4096) == b"said hello"
        assert payloads(until(payloads, end)[0]) == [b"late"]
    for fd in (*step, done[0]):
        os.close(fd)
    for one in (*held, end.fabric):
        one.close()


def test_who_is_given_up_knows_it_and_a_hello_in_time_is_taken():
    """A3: after the connection was given up its sender gets EPIPE, never before."""
    end = Driver(ShmFabric(0, 3, TOKEN))
    door = private(end.fabric.address)
    held = [dial(door) for _ in range(16)]
    end.maintain()
    late = held[0]
    peer = RawPeer()
    fd = peer.segment()
    socket.send_fds(late, [peer.hello()], [fd])  # in time, not looked at yet
    peer.put(0, INLINE | 4, b"last")
    more = dial(door)
    assert payloads(until(payloads, end)[0]) == [b"last"]
    newest = [dial(door) for _ in range(16)]
    until(lambda _: end.fabric.counters["refused"] >= 16, end)
    for one in held[1:]:
        with pytest.raises(BrokenPipeError):
            one.send(b"hello")
    os.close(fd)
    for one in (*held, more, *newest, end.fabric):
        one.close()


# --- the end of a peer --------------------------------------------------------------------------


@pytest.mark.parametrize("connected", [True, False])
def test_the_end_of_a_peer_is_noticed_whoever_knocks(connected):
    """A5: what it had sent comes first, then its end, in one look at the doors."""

    def work(end, wire):
        if connected:
            assert end.connect(0) == OK
            assert end.send(0, b"mine") == OK
        os.write(wire[1], b"r")
        os.read(wire[0], 1)

    with child(work) as one:
        end = one.end
        assert end.connect(1) == OK
        os.read(one.wire[0], 1)
        door = private(end.fabric.address)
        held = [dial(door) for _ in range(700)]  # behind its connection
        os.write(one.wire[1], b"e")
        assert one.wait() == 0
        end.maintain()
        end.maintain()
        assert end.poll() + end.poll() == [(1, 1, b"mine")] * connected + [(PEER_LOST, 1)]
        for each in held:
            each.close()
