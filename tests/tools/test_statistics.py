"""``pyrdv run --stats``: a line of each rank at its end."""

import re

import pytest

PROGRAM = """
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
small, large = np.zeros(8), np.zeros(1 << 17)
comm.Sendrecv(small, 1 - comm.rank, 1, np.empty(8), 1 - comm.rank, 1)
comm.Barrier()
if comm.rank == 0:
    comm.Send(large, 1, 2)
else:
    comm.Recv(np.empty(1 << 17), 0, 2)
comm.Isend(small, comm.rank, 3)
comm.Recv(np.empty(8), comm.rank, 3)
"""
LINE = re.compile(r"pyrdv: rank (\d): sends: (\d+) eager(?:, 1 (read|written))?, 1 to itself; "
                  r"receives: (\d+), \d+ after their messages;(?: offers: \d sent, \d withheld;)? "
                  r"progress: (.*)")


@pytest.mark.parametrize(("progress", "words"), [
    ("polling", "calls alone"),
    ("parasite", r"parasite by event, \d+ flows, \d+ steps, \d+ of them moved something"),
    ("thread", r"thread, \d+ flows, \d+ steps, \d+ of them moved something")])
def test_each_rank_says_what_it_did(jobs, progress, words):
    outcome = jobs.run(PROGRAM, 2, "--stats", env={"PYRDV_PROGRESS": progress})
    assert (outcome.status, outcome.out) == (0, ""), outcome
    found = [LINE.fullmatch(line) for line in sorted(outcome.err.splitlines())]
    assert len(found) == 2 and all(found), outcome.err
    for rank, line in enumerate(found):
        assert int(line[1]) == rank and re.fullmatch(words, line[5])
        # To the peer, and a token of the barrier; the large one on rank 1.
        assert (int(line[2]), line[3] is None, int(line[4])) == (2, rank == 1, 3 + rank)


def test_nothing_is_said_without(jobs):
    outcome = jobs.run(PROGRAM, 2)
    assert (outcome.status, outcome.out, outcome.err) == (0, "", "")


def test_the_environment_asks_too(jobs):
    """Also of a rank that no launcher has started."""
    outcome = jobs.run("from pyrdv import MPI", 1, env={"PYRDV_STATS": "on"})
    assert outcome.err == ("pyrdv: rank 0: sends: none; receives: 0, 0 after their messages; "
                           "progress: calls alone\n")
