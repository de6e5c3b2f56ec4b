"""Messages beyond 32 bits (field case B02; issue: above 4 GiB)."""

import os

import pytest

from tests.support.absent import absent

GIB = 1 << 30


def available():
    """Memory in bytes that can be had without swapping, limits of the container included."""
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvail"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path):
            with open(path) as file:
                text = file.read().strip()
            if text.isdecimal():
                free = min(free, int(text))
    return free


def need(nbytes):
    """Where the machine is too small: skip and say so on a user's, fail in CI."""
    if available() < nbytes:
        absent(f"needs {nbytes / GIB:.0f} GiB of memory, {available() / GIB:.1f} are there")


@pytest.mark.slow
def test_above_four_gib(jobs):
    """A message of 4 GiB + 4097 bytes: count, ends and sums agree, nothing beyond is touched."""
    need(12 * GIB)
    outcome = jobs.run("""
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
nbytes = (1 << 32) + 4097
data = np.zeros(nbytes + 1, np.uint8)
whole = data[:nbytes]
marks = [0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, nbytes - 1]
if comm.rank == 1:
    whole[marks] = np.arange(1, len(marks) + 1)
    comm.Send(whole, 0, 3)
else:
    data[-1] = 77
    status = MPI.Status()
    comm.Recv(whole, 1, 3, status)
    assert status.Get_count() == nbytes
    assert (whole[marks] == np.arange(1, len(marks) + 1)).all() and data[-1] == 77
    assert np.count_nonzero(whole) == len(marks)
    print("arrived")
""", 2, limit=200)
    assert outcome.ok().out == "arrived\n"


@pytest.mark.slow
def test_object_of_more_than_two_gib(jobs):
    """B02: {'a': 2.2 GB array}; the receiver's peak stays below 1.3 x its size."""
    need(8 * GIB)
    outcome = jobs.run("""
import numpy as np
from tests.support.cases import resident
from pyrdv import MPI
comm = MPI.COMM_WORLD
nbytes = 2_200_000_000
if comm.rank == 1:
    comm.send({"a": np.ones(nbytes, np.uint8), "b": "rest"}, 0)
else:
    before = resident("VmHWM")
    got = comm.recv(None, 1)
    assert resident("VmHWM") - before < 1.3 * nbytes
    assert len(got["a"]) == nbytes and got["b"] == "rest"
    assert got["a"][0] == got["a"][-1] == got["a"][1 << 31] == 1
    print("arrived")
""", 2, limit=200)
    assert outcome.ok().out == "arrived\n"
