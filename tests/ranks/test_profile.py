"""Static adaptation in a job: PYRDV_SPECULATION_RECORD and PYRDV_SPECULATION_PROFILE."""

import json

import pytest

# Rank 1 receives a small message into a large buffer, then a large one with another tag.
PROGRAM = """
from pyrdv import MPI
import numpy as np
comm = MPI.COMM_WORLD
room = np.empty(1 << 20, np.uint8)
for step in range(12):
    for tag, size in ((1, 10), (2, room.size)):
        if comm.rank == 1:
            request = comm.Irecv(room, 0, tag)
            comm.Barrier()
            request.Wait()
        else:
            comm.Barrier()
            comm.Send(room[:size], 1, tag)
if comm.rank == 1:
    counters = MPI.counters()
    print(*(counters[name] for name in ("rtrs_sent", "rtrs_withheld")))
"""


def test_a_second_run_knows_what_the_first_one_learned(jobs, tmp_path):
    path = str(tmp_path / "profile")
    env = {"PYRDV_SPECULATION": "indexed", "PYRDV_SPECULATION_THRESHOLD": "80"}
    jobs.run(PROGRAM, 2, env={**env, "PYRDV_SPECULATION_RECORD": path}).ok()
    profile = json.loads((tmp_path / "profile.1").read_text())
    used = {tag: (sent, used) for context, source, tag, sent, used in profile["envelopes"]
            if (context, source) == (0, 0)}
    assert used[1][1] == 0 and used[1][0] >= 3 and used[2] == (12, 12)
    outcome = jobs.run(PROGRAM, 2, env={**env, "PYRDV_SPECULATION_PROFILE": path})
    assert outcome.ok().lines == ["12 12"]


@pytest.mark.parametrize("variable, text", [
    ("PYRDV_SPECULATION_PROFILE", "profile.0 cannot be read"),
    ("PYRDV_SPECULATION_RECORD", "cannot write into the folder")])
def test_a_path_that_is_not_there(jobs, tmp_path, variable, text):
    outcome = jobs.run(PROGRAM, 2, env={variable: str(tmp_path / "absent" / "profile")}, limit=40)
    assert outcome.status == 1 and text in outcome.err, outcome
