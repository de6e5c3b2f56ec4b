"""Jobs of shared memory while another user knocks at their doors: A1, A5, D1, D3."""

import pytest

from tests.support import strangers

TRAFFIC = """
    import sys
    {before}
    from pyrdv import MPI
    comm = MPI.COMM_WORLD
    for turn in range({turns}):
        assert comm.alltoall([(comm.rank, turn)] * comm.size) == [
            (rank, turn) for rank in range(comm.size)]
"""
NOT_DUMPABLE = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"


@pytest.mark.parametrize("doors", ["private", "public"])
def test_a_job_starts_and_runs_while_another_user_knocks(jobs, doors):
    """A1, D1: sixteen ranks, all of which meet; nothing is lost."""
    before = NOT_DUMPABLE if doors == "public" else ""
    with strangers.strangers(strangers.flood, count=2):
        jobs.run(TRAFFIC.format(before=before, turns=3), 16, env={"PYRDV_FABRIC": "shm"}).ok()


def test_nobody_waits_longer_for_a_lost_rank_while_another_user_knocks(jobs):
    """A5 in a whole job."""
    source = TRAFFIC.format(before=NOT_DUMPABLE, turns=1) + """
    from pyrdv.errors import PeerLostError
    if comm.rank == 1:
        import os
        os._exit(3)
    try:
        comm.recv(source=1)
    except PeerLostError:
        sys.exit(0)
    """
    with strangers.strangers(strangers.flood, count=2):
        assert jobs.run(source, 2, env={"PYRDV_FABRIC": "shm"}).status == 3


def test_where_nobody_may_look_into_a_rank_the_public_doors_are_used(jobs):
    """D3: by all ranks, without a word."""
    jobs.run(TRAFFIC.format(before=NOT_DUMPABLE, turns=1), 3, env={"PYRDV_FABRIC": "shm"}).ok()
