"""The status of a failed job is that of the rank that failed first and by itself."""

import re

import pytest

HEAD = """
import atexit, os, signal, sys, time
from pyrdv import MPI
from pyrdv.errors import PeerLostError
comm = MPI.COMM_WORLD
rank = comm.rank
comm.Barrier()
"""
# Code, exit status, the rank that failed by itself. Victims of a rank whose process ends slowly
# end before it.
SLOWLY = """
class Slow:
    def __del__(self): time.sleep(1.5)
if rank == 1: keep = Slow()
"""
WAYS = {
    "exit": ("if rank == 1: sys.exit(7)\ncomm.recv(None, 1)", 7, 1),
    "slow exit": (SLOWLY + "if rank == 1: sys.exit(7)\ncomm.recv(None, 1)", 7, 1),
    "slow exception": (SLOWLY + "if rank == 1: raise KeyError\ncomm.recv(None, 1)", 1, 1),
    "in a collective": ("if rank == 2: sys.exit(8)\nwhile True: comm.allreduce(1)", 8, 2),
    "signal": ("if rank == 0: os.kill(os.getpid(), 9)\ncomm.recv(None, 0)", 137, 0),
    "chain": ("if rank == 2: os._exit(5)\ncomm.recv(None, rank + 1)", 5, 2),
    "caught": ("if rank == 2: sys.exit(5)\ntry: comm.recv(None, 2)\n"
               "except PeerLostError: sys.exit(20 + rank)", 5, 2),
    "caught, no exit handlers": ("if rank == 2: os._exit(5)\ntry: comm.recv(None, 2)\n"
                                 "except PeerLostError: os._exit(20 + rank)", 5, 2),
    "wrapped": ("if rank == 2: sys.exit(5)\ntry: comm.recv(None, 2)\n"
                "except PeerLostError as error: raise RuntimeError('no') from error", 5, 2),
    "of another communicator": (
        "part = comm.Split(rank > 0)\nif rank == 2: sys.exit(5)\n"
        "if rank == 1: part.recv(None, 1)\ncomm.recv(None, 1)", 5, 2),
    "abort by a victim": ("if rank == 1: os.kill(os.getpid(), 9)\ntry: comm.recv(None, 1)\n"
                          "except PeerLostError: comm.Abort(30 + rank)", 137, 1),
    "abort": ("if rank == 1: comm.Abort(42)\ncomm.recv(None, 1)", 42, 1),
    "in good order": ("if rank: sys.exit(0)\ncomm.recv(None, 1)", 1, 0),
}


@pytest.mark.parametrize("way", WAYS)
def test_status_and_last_line(jobs, way):
    code, status, first = WAYS[way]
    outcome = jobs.run(HEAD + code, 3, limit=60)
    assert outcome.status == status, outcome
    said = [line for line in outcome.err.splitlines() if line.startswith("pyrdv run: ")]
    assert said[0].startswith(f"pyrdv run: rank {first} ") or way == "abort by a victim", outcome
    assert re.search(rf"rank {first}\b", said[-1]), outcome


def test_keep_going(jobs):
    """The others go on for longer than --grace, and the status is that of the first failure."""
    outcome = jobs.run(HEAD + """
if rank == 1: sys.exit(7)
if rank == 2: comm.recv(None, 1)
for _ in range(2):
    try: comm.recv(None, 1)
    except PeerLostError: time.sleep(0.5)
print("survived", MPI.COMM_SELF.allreduce(5))
""", 3, "--keep-going", "--grace", "0", limit=60)
    assert outcome.status == 7 and outcome.out == "survived 5\n", outcome
    assert "rank 1 " in outcome.err and " still running may go on" in outcome.err
    assert "ending" not in outcome.err
    assert "rank 1, which failed first: it ended with status 7; rank 2 failed after" in outcome.err


def test_keep_going_ends_by_abort_and_in_time(jobs):
    outcome = jobs.run(HEAD + """
if rank == 1: sys.exit(7)
try: comm.recv(None, 1)
except PeerLostError:
    if rank == 2: comm.Abort(3)
    time.sleep(60)
""", 3, "--keep-going", limit=60)
    assert outcome.status == 7 and "rank 2 aborted the job with status 3" in outcome.err, outcome
    outcome = jobs.run(HEAD + "if rank == 1: sys.exit(7)\ntime.sleep(60)", 2, "--keep-going",
                       "--timeout", "6", limit=60)
    assert outcome.status == 7 and "time of 6 s is up; ranks still running: 0" in outcome.err


@pytest.mark.parametrize("code", [256, -256, 0])
def test_abort_says_its_code_and_is_no_success(jobs, code):
    outcome = jobs.run(HEAD + f"if rank: comm.Abort({code})\ncomm.recv(None, 1)", 2)
    assert outcome.status == 1
    assert f"rank 1 aborted the job with status {code} (exit status 1: " in outcome.err
