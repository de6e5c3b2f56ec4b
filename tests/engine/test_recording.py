"""The file of an engine: it has all that happened, whatever becomes of the engine."""

import contextlib
import errno
import os
import resource
import signal
import time

import numpy as np
import pytest

from pyrdv import recorded
from pyrdv.engine import traced
from pyrdv.engine.engine import Engine
from pyrdv.instruments.engine import Driver
from pyrdv.instruments.sim.network import Network
from pyrdv.memory.registration import Registrations

SMALL, LARGE = np.arange(100, dtype=np.uint8), np.arange(1 << 16, dtype=np.uint64)
ROOM = 1 << 30


class Recorded:
    """Two ranks in this process; rank 1 records in a file."""

    def __init__(self, folder, most=ROOM, **options):
        self.path = os.fspath(folder / "out.json")
        network = Network(2, auto=True, pins=True)
        files = (-1, traced.record(self.path, 1, 2, "host"))
        self.engines = [Engine(rank, 2, [network.fabric(rank)], eager_max=4096, trace=files[rank],
                               trace_most=most, speculation="off", **options,
                               registrations=Registrations("auto")) for rank in range(2)]
        self.ends = [Driver(engine) for engine in self.engines]

    def turn(self, count=20):
        for _ in range(count):
            for end in self.ends:
                end.turn()

    def messages(self, count, data=SMALL, room=SMALL.nbytes):
        """Send them to rank 1; every other one comes before its receive."""
        for number in range(count):
            if number % 2:
                self.ends[0].send(1, 5, data)
                self.turn(3)
            receive = self.ends[1].receive(0, 5, bytearray(room))
            if not number % 2:
                self.ends[0].send(1, 5, data)
            self.turn(3 if data is SMALL else 500)
            assert receive.ended()
            receive.release()

    def close(self):
        for engine in self.engines:
            engine.close()

    def read(self):
        """The file as it is now, and its events."""
        with contextlib.closing(recorded.Recording(self.path, 1)) as found:
            return found, list(found.events(found.scale() or recorded.Scale(0, 0, 0.0)))


@pytest.fixture
def two(tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            contextlib.closing(Recorded(tmp_path, **options)))


def numbers(events, kind="match"):
    return [event.number for event in events if event.kind == kind]


@pytest.mark.parametrize("count", [10, 5000, 20000])
def test_no_event_is_lost(two, count):
    """However much longer the job is than the ring (8192 slots)."""
    pair = two()
    pair.messages(count)
    pair.close()
    found, events = pair.read()
    assert numbers(events) == list(range(count)) and found.dropped == 0 and found.ended
    assert numbers(events, "unexpected") == list(range(1, count, 2))
    assert len([event for event in events if event.kind == "post"]) == count
    assert (os.path.getsize(pair.path + ".1") > 4 * 32 * 8192) == (count == 20000)


def test_long_events_are_whole(two):
    """They fill two slots, also where small ones come between."""
    pair = two(protocol="get")
    for _ in range(600):
        pair.messages(3)
        pair.messages(1, LARGE, LARGE.nbytes)
    pair.close()
    found, events = pair.read()
    assert numbers(events) == list(range(2400)) and found.dropped == 0
    reads = [event for event in events if event.kind == "transfer end"]
    assert len(reads) == 600 and {event.nbytes for event in reads} == {LARGE.nbytes}
    assert {event.protocol for event in reads} == {"get"}


def test_an_engine_that_is_killed(two):
    """Nothing is missing: the ring is the file's."""
    pair = two()
    pair.messages(7001)
    found, events = pair.read()
    assert numbers(events) == list(range(7001)) and not found.ended and found.dropped == 0


def test_a_process_that_is_killed(tmp_path):
    child = os.fork()
    if child == 0:
        pair = Recorded(tmp_path)
        pair.messages(3001)
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with contextlib.closing(recorded.Recording(os.fspath(tmp_path / "out.json"), 1)) as found:
        # The length of its ticks may not be known yet.
        events = list(found.events(found.scale() or recorded.Scale(0, 0, 0.0)))
    assert numbers(events) == list(range(3001)) and not found.ended


def test_no_more_room(two):
    """What came before is there, the last events as well; what is missing is counted."""
    pair = two(most=1 << 19)
    pair.messages(20000)
    pair.close()
    found, events = pair.read()
    got = numbers(events)
    assert found.why == os.strerror(errno.EFBIG) and os.path.getsize(found.path) <= 1 << 19
    assert got[0] == 0 and got[-1] == 19999 and got == sorted(set(got))
    # A message takes a slot, or two if it was early.
    assert found.dropped == pytest.approx(1.5 * (20000 - len(got)), abs=3)
    gap = [one for one, other in zip(got, got[1:], strict=False) if other != one + 1]
    assert len(gap) == 1 and 20000 - len(got) > 5000


def test_a_write_that_fails(tmp_path):
    """The engine goes on; the file says what the system said."""
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            pair = Recorded(tmp_path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
            pair.messages(20000)
            pair.close()
            found, events = pair.read()
            got = numbers(events)
            assert found.why and found.dropped > 5000 and (got[0], got[-1]) == (0, 19999)
            status = 0
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_post_without_its_message(two):
    """A receive that nothing has happened to is told at the end (T3)."""
    pair = two()
    receive = pair.ends[1].receive(0, 6, bytearray(8))
    assert not receive.ended()
    assert [event.kind for event in pair.engines[1].events()] == ["post"]
    assert pair.read()[1] == []
    pair.close()
    event, = [event for event in pair.read()[1] if event.kind == "post"]
    assert (event.tag, event.peer, event.nbytes, event.side) == (6, 0, 8, "receive")


@pytest.mark.parametrize("distrust", [False, True])
def test_times_are_those_of_the_clock(two, distrust):
    """By the processor's counter, or by the clock where that is none."""
    pair = two()
    if distrust:
        pair.ends[1].distrust_counter()
    before = time.monotonic()
    pair.messages(50)
    time.sleep(0.05)
    pair.messages(50)
    after = time.monotonic()
    pair.close()
    events = [event for event in pair.read()[1] if event.kind == "match"]
    times = [event.time for event in events]
    assert len(times) == 100 and times == sorted(times)
    assert before - 1e-4 <= times[0] and times[-1] <= after + 1e-4
    assert times[50] - times[49] >= 0.05
    assert after - times[50] < after - before - 0.04


def test_lines_of_the_program(two):
    """With them, events of small messages are long, and name them."""
    pair = two()
    pair.engines[1].note_lines(True)
    pair.messages(2)
    pair.engines[1].note_lines(False)
    pair.messages(2)
    pair.close()
    _, events = pair.read()
    assert numbers(events) == [0, 1, 2, 3]
    kinds = [event.operation[0] >= 0 for event in events if event.kind == "match"]
    assert kinds == [True, True, False, False], "an operation of its own, or none"


def test_a_receive_without_room(two):
    """Too long a message ends its receive with an error, which is an event of the same one."""
    pair = two()
    room = pair.ends[1].receive(0, 5, bytearray(10))
    pair.ends[0].send(1, 5, SMALL)
    pair.turn()
    assert room.ended()
    pair.close()
    events = pair.read()[1]
    assert [event.kind for event in events] == ["post", "match", "complete"]
    assert len({event.operation for event in events}) == 1 and events[-1].error


def test_what_is_there_is_replaced_or_refused(tmp_path):
    path = os.fspath(tmp_path / "out.json")
    (tmp_path / "out.json.1").write_text("old")
    os.close(traced.record(path, 1, 2, "host"))
    assert (tmp_path / "out.json.1").stat().st_size > 1 << 18
    (tmp_path / "out.json.1").unlink()
    (tmp_path / "out.json.1").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        traced.record(path, 1, 2, "host")
    with pytest.raises(OSError, match="No such file"):
        traced.record(os.fspath(tmp_path / "no" / "out.json"), 1, 2, "host")
