"""fork() in a rank whose memory and connections belong to a device (field case R03)."""

import os
import signal

import pytest

from tests.support.jobs import wait_until

pytestmark = pytest.mark.verbs

HEAD = """
import os, sys, time
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
other = 1 - comm.rank
def exchange(rounds):
    data, room = np.zeros(30_000), np.zeros(30_000)
    for number in range(rounds):
        data[:] = number + comm.rank
        comm.Sendrecv(data, other, 1, room, other, 1)
        assert (room == number + other).all()
        assert comm.sendrecv(number, other, 2, None, other, 2) == number
exchange(3)
"""


def test_child_is_refused_and_harms_nobody(jobs):
    """The child gets an error with a text; however it ends, the parent goes on."""
    outcome = jobs.run(HEAD + """
for way in ("exit", "_exit", "kill"):
    pid = os.fork()
    if pid == 0:
        for call in (lambda: comm.send(1, other), lambda: comm.Recv(np.empty(1), other),
                     lambda: comm.Barrier(), lambda: comm.isend(b"x" * 100_000, other)):
            try: call()
            except MPI.Exception as error: assert "fork" in str(error), error
            else: os._exit(9)
        sys.stdout.flush()
        if way == "exit": sys.exit(5)
        if way == "_exit": os._exit(5)
        os.kill(os.getpid(), 9)
    # Written while the child lives: a page that is copied must not be the device's.
    exchange(20)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended == (-9 if way == "kill" else 5), ended
    exchange(20)
print("unharmed")
""", 2)
    assert outcome.ok().lines == ["unharmed"] * 2


def test_child_that_lives_keeps_no_page_and_no_connection(jobs):
    """The parent's traffic goes on beside a child that lives and writes its own copy of memory."""
    outcome = jobs.run(HEAD + """
kept = np.arange(200_000)
room = np.zeros(200_000, int)
pid = os.fork()
if pid == 0:
    end = time.monotonic() + 60
    while os.getppid() != 1 and time.monotonic() < end and not os.path.exists("over"):
        kept[:] = -1
        time.sleep(0.01)
    os._exit(0)
for number in range(40):
    kept[:] = np.arange(200_000) + number
    comm.Sendrecv(kept, other, 3, room, other, 3)
    assert (room == np.arange(200_000) + number).all()
comm.Barrier()
open("over", "w").close()
os.waitpid(pid, 0)
print("right")
""", 2)
    assert outcome.ok().lines == ["right"] * 2


def test_parent_dies_while_its_child_lives(jobs):
    """The child holds nothing of the connection: the death is noticed as ever."""
    process = jobs.start(HEAD + """
from pyrdv.errors import PeerLostError
if comm.rank == 1:
    if os.fork() == 0:
        os.setsid()
        time.sleep(40)
        os._exit(0)
    comm.send("forked", 0)
    time.sleep(60)
comm.recv(None, 1)
open("ready", "w").close()
try:
    comm.recv(None, 1)
except PeerLostError as error:
    assert error.peer == 1, error
    open("told", "w").close()
""", 2, "--grace", "60")
    jobs.wait_file("ready")
    children = jobs.processes()
    rank = min(pid for pid, number in pids(children) if number == 1)
    # The launcher would tell too.
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(rank, signal.SIGKILL)
    told = wait_until((jobs.folder / "told").exists, 8)
    os.kill(process.pid, signal.SIGCONT)
    for pid, number in pids(jobs.processes()):
        if number == 1:
            os.kill(pid, signal.SIGKILL)
    outcome = jobs.finish(process, 30)
    assert told, f"rank 0 was not told: {outcome}"
    assert outcome.status == 137, outcome
    jobs.check_clean()


def pids(processes):
    """Pairs of a process and the rank that its environment names."""
    found = []
    for pid in processes:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                for entry in file.read().split(b"\0"):
                    if entry.startswith(b"PYRDV_RANK="):
                        found.append((pid, int(entry[11:])))
        except OSError:
            pass
    return found
