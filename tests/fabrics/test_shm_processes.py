"""The shm fabric between real processes: F7, F8, S3, G3, C1, C2."""

import contextlib
import errno
import os
import random
import resource
import signal
import threading
import time

import pytest

from pyrdv.fabrics.shm import ShmFabric
from pyrdv.instruments.fabric import (
    AGAIN,
    CLOSED,
    FAILED,
    FENCE,
    LOST,
    OK,
    PACKET,
    PEER_LOST,
    READ,
    Driver,
)
from tests.support.ready import readable

from .shmtools import TOKEN, fabrics, payloads, until

HANG = 60  # seconds; far more than any of these tests takes


class Child:
    """A forked process that runs ``work(driver, wire)`` as rank 1 of 2."""

    def __init__(self, work, mode="auto"):
        mine, theirs = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 99
            with contextlib.suppress(BaseException):
                end = ShmFabric(1, 2, TOKEN, mode)
                os.write(theirs[1], end.address)
                end.set_peers([os.read(mine[0], 4096), None])
                status = work(Driver(end), (mine[0], theirs[1])) or 0
            os._exit(status)
        os.close(mine[0])
        os.close(theirs[1])
        self.wire = (theirs[0], mine[1])
        fabric = ShmFabric(0, 2, TOKEN, mode)
        fabric.set_peers([None, os.read(self.wire[0], 4096)])
        os.write(self.wire[1], fabric.address)
        self.end = Driver(fabric)

    def wait(self):
        """Exit status."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self):
        """Release what this side holds."""
        self.end.fabric.close()
        for fd in self.wire:
            os.close(fd)


@contextlib.contextmanager
def child(work, mode="auto"):
    """A `Child`, killed and collected whatever happens."""
    made = Child(work, mode)
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(made.pid, signal.SIGKILL)
            made.wait()
        made.close()


def sleep_until(end, condition):
    """Wait as a caller would: poll, arm, sleep; the events."""
    events = []
    limit = time.monotonic() + HANG
    while not condition(events):
        assert time.monotonic() < limit, f"no wake-up; had {events}"
        end.maintain()
        events += end.poll()
        if condition(events):
            break
        if end.arm() == OK:
            readable(end.wake_fd, HANG)
            end.disarm()
    return events


@pytest.mark.parametrize("goodbye", [True, False])
@pytest.mark.parametrize("sleeping", [True, False])
def test_exit_right_after_sending_loses_nothing(goodbye, sleeping):
    # G3, C2: the receiver had not even accepted; it never connected itself.
    def work(end, wire):
        assert end.connect(0) == OK
        for i in range(100):
            assert end.send(0, b"%d" % i) == OK
        if goodbye:
            end.disconnect(0)

    with child(work) as one:
        assert one.wait() == 0
        if sleeping:
            events = sleep_until(one.end, lambda ev: len(ev) == 101)
        else:
            events, = until(lambda ev: len(ev) == 101, one.end)
        assert payloads(events) == [b"%d" % i for i in range(100)]
        assert events[-1] == (CLOSED if goodbye else PEER_LOST, 1)
        one.end.maintain()
        assert one.end.poll() == []
        assert one.end.connect(1) == LOST


def test_death_is_reported_after_slowly_taken_packets():
    def work(end, wire):
        end.connect(0)
        for i in range(50):
            end.send(0, b"%d" % i)

    with child(work) as one:
        assert one.end.connect(1) == OK
        assert one.wait() == 0
        taken = []
        while len(taken) < 50:
            one.end.maintain()
            events = one.end.poll(limit=4, release=False)
            assert all(event[0] == PACKET for event in events)  # F6, F7
            one.end.release(1, 1)
            taken += events[:1]
        assert payloads(taken) == [b"%d" % i for i in range(50)]
        assert until(lambda ev: ev, one.end) == [[(PEER_LOST, 1)]]


@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("connected", [True, False])
def test_killed_peer_ends_everything(mode, connected):
    def work(end, wire):
        if connected:
            end.connect(0)
        os.write(wire[1], b"r")
        signal.pause()

    with child(work, mode) as one:
        end = one.end
        assert end.connect(1) == OK
        os.read(one.wire[0], 1)
        sink = end.register(bytearray(8 << 20))
        chain = [Driver.read_request(sink, 0, 4096, 1, 8 << 20, ident=4),
                 Driver.send_request(b"DONE", flags=FENCE)]
        if mode == "off":
            assert end.post(1, *chain) == OK
        os.kill(one.pid, signal.SIGKILL)
        one.wait()
        expected = [(READ, 1, 4, LOST)] if mode == "off" else []
        events = sleep_until(end, lambda ev: (PEER_LOST, 1) in ev)
        assert events == [*expected, (PEER_LOST, 1)]
        assert end.send(1, b"x") == LOST
        assert end.connect(1) == LOST


def test_killed_in_the_middle_of_a_read():
    def work(end, wire):
        end.connect(0)
        data = bytearray(64 << 20)
        region = end.register(data)
        os.write(wire[1], region.address.to_bytes(8, "little"))
        while True:
            end.maintain()
            end.poll()

    with child(work) as one:
        end = one.end
        assert end.connect(1) == OK
        address = int.from_bytes(os.read(one.wire[0], 8), "little")
        sink = end.register(bytearray(64 << 20))
        assert end.read(1, sink, address, 0, 64 << 20, ident=1) == OK
        events = end.poll()
        os.kill(one.pid, signal.SIGKILL)
        more, = until(lambda ev: (PEER_LOST, 1) in ev, end)
        events += more
        assert events[-1] == (PEER_LOST, 1)
        assert events[0][:3] == (READ, 1, 1)
        assert len(events) == 2


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_five_thousand_wake_ups(mode):
    # S3: ping-pong with random pauses before each sleep and each send.
    count = 5000 if mode == "auto" else 500

    def play(end, peer, first):
        pause = random.Random(peer)
        buffer = bytearray(70000)
        region = end.register(buffer)
        came = []

        def next_packet():
            # The peer's address and its first message may come in one poll.
            if not came:
                came.extend(payloads(sleep_until(end, payloads)))
            return came.pop(0)

        end.send(peer, region.address.to_bytes(8, "little"), region.key.to_bytes(8, "little"))
        where = next_packet()
        remote, key = (int.from_bytes(where[i : i + 8], "little") for i in (0, 8))
        for i in range(count):
            if first == (i % 2 == 0):
                if pause.random() < 0.5:
                    time.sleep(pause.random() * 0.002)
                if i % 50 < 2:  # with a transfer before it
                    request = Driver.read_request(region, 0, remote, key, 70000, flags=0)
                    done = Driver.send_request(b"%d" % i, flags=FENCE)
                    assert end.post(peer, request, done) == OK
                else:
                    assert end.send(peer, b"%d" % i) == OK
            else:
                assert next_packet() == b"%d" % i
                assert not came
        return end.fabric.counters

    def work(end, wire):
        while end.connect(0) == AGAIN:
            pass
        play(end, 0, False)
        end.disconnect(0)
        sleep_until(end, lambda ev: ev)

    with child(work, mode) as one:
        assert one.end.connect(1) == OK
        counters = play(one.end, 1, True)
        one.end.disconnect(1)
        assert sleep_until(one.end, lambda ev: ev) == [(CLOSED, 1)]
        assert one.wait() == 0
        # How often it slept is the scheduler's choice.
        assert counters["sleeps"]
        assert counters["doorbells"] <= count + 10 + 40 * counters["staged_jobs"]


def test_a_full_ring_wakes_its_sender():
    def work(end, wire):
        end.connect(0)
        got = 0
        pause = random.Random(1)
        while got < 3000:
            time.sleep(pause.random() * 0.001)
            end.maintain()
            got += len(end.poll(limit=pause.randint(1, 128)))
        end.disconnect(0)
        sleep_until(end, lambda ev: ev)

    with child(work) as one:
        assert one.end.connect(1) == OK
        sent = 0
        while sent < 3000:
            if one.end.send(1, b"x") == OK:
                sent += 1
            elif one.end.arm() == OK:
                assert readable(one.end.wake_fd, HANG), "nobody told that there is room"
                one.end.disarm()
        one.end.disconnect(1)
        assert sleep_until(one.end, lambda ev: ev) == [(CLOSED, 1)]
        assert one.wait() == 0


def test_nobody_wakes_who_waits_for_nothing():
    def work(end, wire):
        end.connect(0)
        end.send(0, b"up")
        until(payloads, end)
        os.write(wire[1], b"t")
        os.read(wire[0], 1)

    with child(work) as one:
        end = one.end
        end.connect(1)
        until(payloads, end)
        end.send(1, b"x")
        while end.arm() != OK:
            end.poll()
        assert os.read(one.wire[0], 1) == b"t"  # the packet was taken and released
        assert not readable(end.wake_fd, 0.05)
        end.disarm()
        os.write(one.wire[1], b"e")


def test_cooperation_between_processes():
    size = 16 << 20

    def work(end, wire):
        end.connect(0)
        data = bytearray(os.urandom(1 << 16)) * (size >> 16)
        region = end.register(data)
        end.send(0, region.address.to_bytes(8, "little"))
        end.send(0, bytes(data[:64]))
        seen, told = [], False
        while not seen:
            end.maintain()
            seen += payloads(end.poll())
            if end.fabric.counters["chunks_helped"] and not told:
                told = os.write(wire[1], b"!")
        os.write(wire[1], b"%d" % end.fabric.counters["chunks_helped"])
        assert end.fabric.counters["chunks_helped"] > 0

    with child(work) as one:
        end = one.end
        end.connect(1)
        first, = until(lambda ev: len(ev) == 2, end)
        address, head = payloads(first)
        got = bytearray(size)
        sink = end.register(got)
        end.read(1, sink, int.from_bytes(address, "little"), 0, size)
        assert os.read(one.wire[0], 1) == b"!"  # the other moves data while this end does nothing
        until(lambda ev: (READ, 1, 0, OK) in ev, end)
        time.sleep(0.01)
        end.send(1, b"done")
        helped = int(os.read(one.wire[0], 20))
        assert bytes(got[:64]) == head
        assert got == got[: 1 << 16] * (size >> 16)
        assert helped + end.fabric.counters["chunks"] == size // (256 << 10)
        assert one.wait() == 0


def test_both_sides_connect_at_once():
    # C1: 500 fresh connections; both threads start together.
    for turn in range(500):
        ends = [Driver(one) for one in fabrics()]
        gate = threading.Barrier(2)
        errors = []

        def first_contact(me, ends=ends, gate=gate, errors=errors, turn=turn):
            try:
                gate.wait()
                while (status := ends[me].connect(1 - me)) == AGAIN:
                    pass
                assert status == OK
                assert ends[me].send(1 - me, b"%d %d" % (turn, me)) == OK
                events, = until(lambda ev: ev, ends[me])
                assert payloads(events) == [b"%d %d" % (turn, 1 - me)]
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=first_contact, args=(me,)) for me in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(HANG)
        assert errors == []
        assert [one.fabric.counters["refused"] for one in ends] == [0, 0]
        for one in ends:
            one.fabric.close()


def test_all_to_all_of_many_ends():
    ends = [Driver(one) for one in fabrics(12)]
    for me, one in enumerate(ends):
        for peer in range(12):
            if peer != me:
                assert one.connect(peer) == OK
                assert one.send(peer, b"%d" % me) == OK
    for me, one in enumerate(ends):
        events, = until(lambda ev: len(ev) == 11, one)
        assert sorted((e[1], e[2]) for e in events) == [
            (peer, b"%d" % peer) for peer in range(12) if peer != me]
    for one in ends:
        one.fabric.close()


def test_a_crowd_that_dies_before_it_is_accepted_loses_nothing():
    # C2: more connections than one round accepts, the last ones die first.
    ends = [Driver(one) for one in fabrics(100)]
    for rank in range(1, 100):
        assert ends[0].connect(rank) == OK
        assert ends[rank].connect(0) == OK
        assert ends[rank].send(0, b"%d" % rank) == OK
    for rank in range(99, 0, -1):
        ends[rank].fabric.close()
    events, = until(lambda ev: len(ev) == 198, ends[0])
    assert sorted(e[1] for e in events) == sorted([*range(1, 100)] * 2)
    for rank in range(1, 100):
        mine = [event for event in events if event[1] == rank]
        assert mine == [(PACKET, rank, b"%d" % rank), (PEER_LOST, rank)]
    ends[0].fabric.close()


def test_single_copy_on_is_refused_where_it_is_forbidden():
    one, two = fabrics(2, "on")
    changed = bytearray(two.address)
    changed[24] ^= 1  # the driver word: as if another process were there
    one.set_peers([None, bytes(changed)])
    end = Driver(one)
    assert end.connect(1) == FAILED
    assert end.error == errno.ESRCH
    assert not one.capabilities & 1
    assert two.capabilities & 1


def test_auto_falls_back_where_it_is_forbidden():
    one, two = fabrics(2, "auto")
    changed = bytearray(two.address)
    changed[24] ^= 1
    one.set_peers([None, bytes(changed)])
    a, b = Driver(one), Driver(two)
    assert a.connect(1) == OK
    data, got = bytearray(os.urandom(100000)), bytearray(100000)
    source, sink = b.register(data), a.register(got)
    a.read(1, sink, source.address, source.key, 100000)
    until(lambda ea, eb: ea, a, b)
    assert got == data
    assert (one.counters["staged_jobs"], one.counters["chunks"]) == (1, 0)


def test_forked_child_closes_without_a_word():
    def work(end, wire):
        end.connect(0)
        events = sleep_until(end, lambda ev: len(payloads(ev)) == 2)
        assert payloads(events) == [b"before", b"after"]
        assert len(events) == 2
        os.read(wire[0], 1)

    with child(work) as one:
        end = one.end
        end.connect(1)
        end.send(1, b"before")
        pid = os.fork()
        if pid == 0:
            end.fabric.close()
            os._exit(0)
        os.waitpid(pid, 0)
        assert end.send(1, b"after") == OK
        for _ in range(5):
            end.maintain()
            assert end.poll() == []
        os.write(one.wire[1], b"e")
        assert one.wait() == 0


def test_out_of_descriptors_is_no_busy_loop_and_heals():
    one, two = fabrics()
    a, b = Driver(one), Driver(two)
    assert a.connect(1) == OK
    assert a.send(1, b"patient") == OK
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        b.maintain()
        assert two.counters["accept_errors"] > 0
        assert b.error == errno.EMFILE
        # Who waits is told of it once, to say so, and then sleeps.
        assert b.arm() == AGAIN
        assert b.arm() == OK
        called = readable(b.wake_fd, 0)
        assert a.connect(1) == OK
        assert b.connect(0) == FAILED
        assert b.error == errno.EMFILE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not called
    b.disarm()
    assert payloads(until(lambda ev: ev, b)[0]) == [b"patient"]
