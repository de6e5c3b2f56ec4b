"""The timed loops on a bare fabric: they move what they say, and end when the other end does."""

import mmap
import threading

import pytest

from pyrdv.calibration.meter import Meter
from pyrdv.calibration.registering import registrations
from pyrdv.instruments.fabric import Driver

from . import shmtools

SIZE = 1 << 20


class Ends:
    """Two ends in one process, each driven by a thread of its own."""

    def __init__(self, fabrics, timeout=30):
        self.meters = [Meter(fabric, 1 - rank, rank == 0, timeout)
                       for rank, fabric in enumerate(fabrics)]
        self.drivers = [Driver(fabric) for fabric in fabrics]
        self.memory = [mmap.mmap(-1, SIZE) for _ in fabrics]
        self.regions = [driver.register(memory)
                        for driver, memory in zip(self.drivers, self.memory, strict=True)]

    def both(self, work):
        """``work(end)`` for both ends at once; what they returned, exceptions included."""
        found = [None, None]

        def one(end):
            try:
                found[end] = work(end)
            except Exception as error:
                found[end] = error

        threads = [threading.Thread(target=one, args=(end,)) for end in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def remote(self, end):
        """Address and key of the other end's memory."""
        region = self.regions[1 - end]
        return region.address, region.key


@pytest.fixture(params=["on", "off"])
def ends(request):
    fabrics = shmtools.fabrics(2, request.param)
    made = Ends(fabrics)
    assert made.both(lambda end: made.meters[end].join()) == [None, None]
    yield made
    for fabric in fabrics:
        fabric.close()


def seconds(found, samples):
    """Assert that both ends returned so many positive times."""
    for times in found:
        assert not isinstance(times, Exception), times
        assert len(times) == samples
        assert all(0 < each < 30 for each in times)


def test_packets(ends):
    found = ends.both(lambda end: ends.meters[end].packets_back_and_forth(b"12345678", 50, 3))
    seconds(found, 3)
    with pytest.raises(ValueError, match="do not fit a packet"):
        ends.meters[0].packets_back_and_forth(bytes(1 << 24), 1, 1)


def test_writes(ends):
    ends.memory[0][:5] = b"hello"
    found = ends.both(lambda end: ends.meters[end].writes_back_and_forth(
        ends.regions[end], *ends.remote(end), SIZE, 3, 4))
    seconds(found, 4)
    assert ends.memory[1][:5] == b"hello"


def test_writes_in_a_row(ends):
    ends.memory[0][SIZE // 2 - 3:SIZE // 2] = b"end"
    found = ends.both(lambda end: ends.meters[end].writes_in_a_row(
        ends.regions[end], *ends.remote(end), SIZE // 2, 9, 2))
    assert ends.memory[1][SIZE // 2 - 3:SIZE // 2] == b"end"
    assert len(found[0]) == 2
    for total, inside in found[0]:
        assert 0 < inside <= total < 30
    assert found[1] == [(0.0, 0.0)] * 2


@pytest.mark.parametrize("size", [1, 4097, SIZE])
def test_reads(ends, size):
    """The active end fetches; what the other end has stays as it is."""
    ends.memory[0][:], ends.memory[1][:] = b"a" * SIZE, b"b" * SIZE
    found = ends.both(lambda end: ends.meters[end].reads_in_a_row(
        ends.regions[end], *ends.remote(end), size, 5, 3))
    seconds(found[:1], 3)
    assert found[1] == [0.0] * 3
    assert ends.memory[0][:] == b"b" * size + b"a" * (SIZE - size)
    assert ends.memory[1][:] == b"b" * SIZE
    with pytest.raises(ValueError, match="0 bytes: give 1 to"):
        ends.meters[0].reads_in_a_row(ends.regions[0], *ends.remote(0), 0, 1, 1)


def test_registered(ends):
    """The same buffer goes there and back: the last who wrote it was the other end."""
    buffers = [bytearray(b"a" * 70001), bytearray(b"b" * 70001)]
    seconds(ends.both(lambda end: ends.meters[end].registered_back_and_forth(
        buffers[end], 5, 2)), 2)
    assert buffers == [b"a" * 70001] * 2


def test_copied(ends):
    """Through the windows, from and to memory that no peer may touch."""
    buffers = [bytearray(b"a" * 5000), bytearray(b"b" * 5000)]
    sources = [driver.register(mmap.mmap(-1, SIZE)) for driver in ends.drivers]
    seconds(ends.both(lambda end: ends.meters[end].copied_back_and_forth(
        buffers[end], sources[end], ends.regions[end], *ends.remote(end), 5, 2)), 2)
    assert buffers == [b"a" * 5000] * 2
    assert ends.memory[0][:5001] == b"a" * 5000 + b"\0"
    with pytest.raises(ValueError, match="do not fit the regions"):
        ends.meters[0].copied_back_and_forth(
            bytearray(SIZE + 1), sources[0], ends.regions[0], 0, 0, 1, 1)


def test_registrations(ends):
    times = registrations(ends.drivers[0].fabric, bytearray(1 << 16), 1, 16, 3)
    assert len(times) == 3
    assert all(on >= 0 and off >= 0 for on, off in times)


def test_other_end_leaves(ends):
    def work(end):
        if end:
            ends.drivers[1].disconnect(0)
            return None
        return ends.meters[0].packets_back_and_forth(b"", 5, 1)

    found = ends.both(work)
    assert isinstance(found[0], OSError)
    assert "rank 1: it broke or left" in str(found[0])


def test_other_end_is_silent():
    fabrics = shmtools.fabrics(2)
    ends = Ends(fabrics, timeout=0.05)
    assert ends.both(lambda end: ends.meters[end].join()) == [None, None]
    with pytest.raises(OSError, match="silent for 0.05 s"):
        ends.meters[0].packets_back_and_forth(b"", 1, 1)
    for fabric in fabrics:
        fabric.close()
