"""Peers and cables that are lost while steps are made between calls, over RDMA devices."""

import os
import signal

import pytest

from tests.progress.test_lost import MODES, PLACES, PROGRAM

pytestmark = pytest.mark.verbs


def begun(jobs, mode, place, hosts):
    """A job in the middle of its traffic."""
    process = jobs.start([PROGRAM, place], 3, "--grace", "60", hosts=hosts,
                         env=MODES[mode] | {"PYRDV_PEER_TIMEOUT": "2"})
    jobs.wait_file("first", 60)
    return process


def ended(jobs, process, status):
    outcome = jobs.finish(process, 60)
    assert outcome.status == status and outcome.out == "ended\n", outcome
    assert "Traceback" not in outcome.err, outcome
    jobs.check_clean()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
def test_killed(jobs, mode, place):
    process = begun(jobs, mode, place, "node0:1,node1:2")
    os.kill(jobs.ranks()[2], signal.SIGKILL)
    (jobs.folder / "killed").touch()
    jobs.wait_file("goes-on", 60)
    ended(jobs, process, 137)


@pytest.mark.parametrize("silent", (False, True), ids=("down", "silent"))
@pytest.mark.parametrize("mode", MODES)
def test_cable_cut(jobs, cable, mode, silent):
    """Rank 0 gets an error; its flow, or thread, goes on with the rank beside it."""
    process = begun(jobs, mode, "receiving", "node0:2,node1:1")
    if silent:
        cable.lose(100)
    else:
        cable.cut()
    (jobs.folder / "killed").touch()
    jobs.wait_file("goes-on", 60)
    cable.plug()                # so that rank 2 can tell the launcher that it ends
    ended(jobs, process, 0)
    cable.mend()
