"""Odd and exhausted resources (field cases X01, X04, X05)."""

import os
import subprocess
import sys

import pytest

EXCHANGE = """
import os, sys
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
for size in (8, 5000, 100_000, {largest}):
    data = np.full(size, comm.rank, np.uint8)
    room = np.empty_like(data)
    comm.Sendrecv(data, right, 0, room, left)
    assert (room == left).all()
got = comm.sendrecv({{"a": np.full(300_000, comm.rank)}}, right, 1, None, left, 1)
assert (got["a"] == left).all()
print("exchanged")
"""

# Runs what follows under a system-call filter that refuses process_vm_readv and _writev with
# EPERM, as container runtimes do.  Classic BPF: check the architecture, compare the number.
FILTERED = """
import ctypes, os, platform, struct, sys
arch, numbers = {"x86_64": (0xC000003E, (310, 311)), "aarch64": (0xC00000B7, (270, 271))}[
    platform.machine()]
def op(code, jump_true, jump_false, value):
    return struct.pack("HBBI", code, jump_true, jump_false, value)
program = b"".join([
    op(0x20, 0, 0, 4),                  # load the architecture
    op(0x15, 0, 3, arch),               # another one: allow
    op(0x20, 0, 0, 0),                  # load the number of the call
    op(0x15, 2, 0, numbers[0]),
    op(0x15, 1, 0, numbers[1]),
    op(0x06, 0, 0, 0x7FFF0000),         # allow
    op(0x06, 0, 0, 0x00050000 | 1),     # EPERM
])
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(program, len(program))
header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, header, 0, 0):
    raise SystemExit(f"no filter: errno {ctypes.get_errno()}")
libc.process_vm_readv(os.getpid(), 0, 0, 0, 0, 0)
assert ctypes.get_errno() == 1, ctypes.get_errno()
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_single_copy_is_forbidden(jobs):
    """X04: under a filter that gives EPERM, other ways are used, with one line at most."""
    wrapper = jobs.write(FILTERED, "filtered.py")
    outcome = jobs.finish(jobs.execute(
        [sys.executable, wrapper, "-m", "pyrdv.tools.cli", "run", "-n", "3",
         jobs.write(EXCHANGE.format(largest=40_000_000))]))
    assert outcome.status == 0 and outcome.out == "exchanged\n" * 3, outcome
    assert len(outcome.err.splitlines()) <= 1
    jobs.check_clean()


def test_single_copy_demanded_where_it_is_forbidden(jobs):
    """X04: PYRDV_SINGLE_COPY=on makes its absence an error that names the knob."""
    wrapper = jobs.write(FILTERED, "filtered.py")
    outcome = jobs.finish(jobs.execute(
        [sys.executable, wrapper, "-m", "pyrdv.tools.cli", "run", "-n", "2",
         jobs.write(EXCHANGE.format(largest=1_000_000))], env={"PYRDV_SINGLE_COPY": "on"}))
    assert outcome.status != 0 and "exchanged" not in outcome.out, outcome
    assert "single_copy" in outcome.err.lower()
    jobs.check_clean()


def private_mounts():
    """Whether this process may make a mount namespace."""
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@pytest.mark.parametrize("size", ["64k", "1m"])
def test_tiny_dev_shm(jobs, size):
    """X01: 4 ranks exchange 50 MB with a /dev/shm of 1 MiB and less, and use none of it."""
    if not private_mounts():
        # Nothing of it is used in any case: the shared memory is in memfds.
        before = set(os.listdir("/dev/shm"))
        jobs.run(EXCHANGE.format(largest=50_000_000), 4).ok()
        assert set(os.listdir("/dev/shm")) <= before | {
            name for name in os.listdir("/dev/shm") if "pyrdv" not in name}
        return
    outcome = jobs.run(
        EXCHANGE.format(largest=50_000_000) + 'assert os.listdir("/dev/shm") == []\n', 4,
        before=["unshare", "-m", "sh", "-c",
                f'mount -t tmpfs -o size={size} none /dev/shm && exec "$@"', "sh"])
    assert outcome.ok().out == "exchanged\n" * 4


def test_few_descriptors(jobs):
    """X05: 16 ranks all to all with 64 descriptors each."""
    outcome = jobs.run("""
import resource
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 64
requests = [comm.Isend(np.full(20_000, comm.rank, np.uint8), other) for other in range(comm.size)]
room = np.empty(20_000, np.uint8)
for other in range(comm.size):
    comm.Recv(room, other)
    assert (room == other).all()
MPI.Request.Waitall(requests)
print("exchanged")
""", 16, shell="ulimit -Sn 64")
    assert outcome.ok().out == "exchanged\n" * 16


def test_too_few_descriptors(jobs):
    """X05: where it cannot work, an error names the limit and the need."""
    outcome = jobs.run(EXCHANGE.format(largest=100), 16, shell="ulimit -n 40", limit=60)
    assert outcome.status != 0
    assert "RLIMIT_NOFILE is 40" in outcome.err and "ulimit -Hn 64" in outcome.err, outcome


def test_little_address_space_for_a_message(jobs):
    """A receive that memory cannot hold is an error of this receive; the next one works."""
    outcome = jobs.run("""
import resource
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
if comm.rank == 1:
    request = comm.isend({"a": np.zeros(3 << 30, np.uint8)}, 0, 1)
    comm.send("small", 0, 2)
    try:
        request.wait()
    except MPI.Exception as error:
        assert "rank 0" in str(error)
else:
    limit = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        comm.recv(None, 1, 1)
    except MemoryError:
        print("no memory")
    assert comm.recv(None, 1, 2) == "small"
""", 2, limit=60)
    assert outcome.status == 0 and outcome.out == "no memory\n", outcome
