"""Registrations that outlive their messages (field cases R03, R05, R07, R11, R13)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

pytestmark = pytest.mark.verbs

MEMORY = Path(__file__).parent / "programs" / "memory.py"
# Every large array is mapped on its own, and unmapped when it dies; and it is registered, also
# where copying would cost less.
MAPPED = {"MALLOC_MMAP_THRESHOLD_": "16384", "PYRDV_REGISTRATION_ENTRIES": "64",
          "PYRDV_PROTOCOL": "get"}


@pytest.mark.parametrize("speculation", ["off", "indexed"])
@pytest.mark.parametrize("cache", ["auto", "trust"])
@pytest.mark.parametrize("case", case_names(MEMORY))
def test_registrations(programs, case, cache, speculation):
    """Without and with offered buffers, which are kept registered only in trust."""
    programs.check(MEMORY, case, 2, env={
        **MAPPED, "PYRDV_REGISTRATION_CACHE": cache, "PYRDV_SPECULATION": speculation})


FORK = """
import os, signal
import numpy as np
import pyrdv
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
data, room = np.empty(200_000, np.uint8), np.empty(200_000, np.uint8)
pooled = pyrdv.empty(200_000, np.uint8)
def exchange(seed):
    for sent in (data, pooled):
        sent[:] = seed + comm.rank
        comm.Sendrecv(sent, other, 1, room, other, 1)
        assert (room == seed + other).all(), (seed, room[:8])
exchange(10)
exchange(20)
ends, theirs = os.pipe()
wait, go = os.pipe()
child = os.fork()
if child == 0:
    # It has all that the parent had, to read and to write.
    assert (data == 20 + comm.rank).all() and (pooled == 20 + comm.rank).all()
    data[:] = pooled[:] = room[:] = 99
    del data, pooled
    os.write(theirs, b"x")
    os.read(wait, 1)
    os._exit(0 if (room == 99).all() else 1)
os.read(ends, 1)
for seed in range(30, 50):
    exchange(seed)
os.write(go, b"x")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
exchange(60)
print("right")
"""


def test_a_forked_child_sees_its_memory_and_the_device_the_parents(jobs):
    assert jobs.run(FORK, 2).ok().lines == ["right"] * 2
