"""Limits that are used up: one clear error that names limit and remedy (R04, X05, X06)."""

import subprocess

import pytest

from tests.verbs.nodes import UNPRIVILEGED

pytestmark = pytest.mark.verbs

EXCHANGE = """
import sys
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
for size in (8, 5000, 100_000, int(sys.argv[1])):
    data, room = np.full(size, comm.rank, np.uint8), np.empty(size, np.uint8)
    comm.Sendrecv(data, right, 0, room, left, 0)
    assert (room == left).all()
print("exchanged")
"""
USER = (f'exec setpriv --reuid {UNPRIVILEGED} --regid {UNPRIVILEGED} --clear-groups '
        '--bounding-set -all --inh-caps -all "$@"')


def one_error(outcome, *parts):
    """A failed job whose text has all parts, and in which nobody crashed."""
    assert outcome.status not in (0, 124, 134, 139), outcome
    assert "exchanged" not in outcome.out, outcome
    for part in parts:
        assert part in outcome.err, f"{part!r} is missing: {outcome}"


def test_no_locked_memory(jobs):
    """R04: 64 KiB are too few for a connection; the error says how many, and what to do."""
    outcome = jobs.run(EXCHANGE, 2, first=f"ulimit -l 64; {USER}", args=["1000000"], limit=40)
    one_error(outcome, "RLIMIT_MEMLOCK", "65536", "ulimit -l")


def test_little_locked_memory(jobs):
    """R04: enough for connections, too little for a large message: it is copied through buffers."""
    outcome = jobs.run(EXCHANGE + """
assert MPI.counters()["sends_piped"] and MPI.counters()["registrations_refused"]
""", 2, first=f"ulimit -l 4096; {USER}", args=["30000000"], limit=80)
    assert outcome.ok().lines == ["exchanged"] * 2


def test_little_locked_memory_without_copies(jobs):
    """R04: the same, told to do without buffers: the error says how much is allowed."""
    outcome = jobs.run(EXCHANGE, 2, first=f"export PYRDV_PROTOCOL=get; ulimit -l 4096; {USER}",
                       args=["30000000"], limit=40)
    one_error(outcome, "MEMLOCK", "4194304", "ulimit -l")


def test_memory_that_was_given_back_is_no_limit(jobs):
    """M2: 12 MiB, one after the other, where 4 MiB are allowed."""
    outcome = jobs.run("""
import os
from pyrdv.instruments.fabric import Driver
from pyrdv.fabrics.verbs.fabric import VerbsFabric
device, _, port = os.environ["PYRDV_RDMA_DEVICE"].partition(":")
driver = Driver(VerbsFabric(0, 2, b"limits", device=device, port=int(port or 0)))
for _ in range(12):
    driver.register(bytearray(1 << 20), 2).deregister()
print("registered", driver.fabric.counters["registrations"])
""", 2, first=f"ulimit -l 4096; {USER}")
    assert outcome.ok().lines == ["registered 12"] * 2


def test_an_ordinary_user(jobs):
    """Without privileges, and with enough locked memory, everything works."""
    outcome = jobs.run(EXCHANGE, 2, first=USER, args=["8000000"])
    assert outcome.ok().lines == ["exchanged"] * 2


def test_descriptors_suffice(jobs):
    """X05: 64 descriptors are enough for 6 ranks, all to all."""
    outcome = jobs.run("""
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
requests = [comm.Isend(np.full(20_000, comm.rank, np.uint8), other) for other in range(comm.size)]
room = np.empty(20_000, np.uint8)
for other in range(comm.size):
    comm.Recv(room, other)
    assert (room == other).all()
MPI.Request.Waitall(requests)
print("exchanged")
""", 6, first="ulimit -n 64")
    assert outcome.ok().lines == ["exchanged"] * 6


def test_too_few_descriptors(jobs):
    """X05: whichever descriptor is the one too many, the error names the limit."""
    seen = set()
    for count in range(12, 34, 3):
        outcome = jobs.run(EXCHANGE, 2, first=f"ulimit -n {count}", args=["1000"], limit=40)
        seen.add(outcome.status == 0)
        if outcome.status:
            assert outcome.status not in (124, 134, 139), outcome
            assert "ulimit -n" in outcome.err or "Too many open files" in outcome.err, outcome
    assert seen == {True, False}, "the counts do not span the need"


# A library before the others in which one function always fails, whoever looks for it.
STUB = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
void *NAME(void) { errno = ENOMEM; return NULL; }
void *dlsym(void *handle, const char *name)
{
    void *(*real)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    return strcmp(name, "NAME") ? real(handle, name) : (void *)NAME;
}
"""


@pytest.mark.parametrize("call, lacks", [("ibv_create_qp", "queue pair"),
                                         ("ibv_create_cq", "completion queue")])
def test_none_left(jobs, call, lacks):
    """X06: a device that has no queue pair, or no completion queue, left."""
    source = jobs.write(STUB.replace("NAME", call), "stub.c")
    library = str(jobs.folder / "stub.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    outcome = jobs.run(EXCHANGE, 2, first=f"export LD_PRELOAD={library}", args=["1000"], limit=40)
    one_error(outcome, lacks, "device allows")
