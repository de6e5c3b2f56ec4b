"""A peer that is killed while steps are made between calls, by a signal or by a thread.

Over RDMA devices, with cables that are cut: tests/verbs/test_progress_lost.py.
"""

import os
import signal
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "lost.py"
MODES = {
    "timer": {"PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": "timer"},
    "event": {"PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": "event"},
    "thread": {"PYRDV_PROGRESS": "thread"},
}
PLACES = ("idle", "receiving", "sending")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
def test_killed(jobs, mode, place):
    """Rank 0 gets an error that names it; its flow, or thread, goes on with another."""
    process = jobs.start([PROGRAM, place], 3, "--grace", "60", env=MODES[mode])
    jobs.wait_file("first", 60)
    os.kill(jobs.ranks()[2], signal.SIGKILL)
    (jobs.folder / "killed").touch()
    jobs.wait_file("goes-on", 60)
    outcome = jobs.finish(process, 60)
    assert outcome.status == 137 and outcome.out == "ended\n", outcome
    assert "Traceback" not in outcome.err, outcome
    jobs.check_clean()
