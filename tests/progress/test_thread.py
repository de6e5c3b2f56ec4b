"""Progress by a thread of the library, in real processes over shared memory (thread.pyx)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "thread.py"
SETTINGS = {"usual": {}, "two_copies": {"PYRDV_SINGLE_COPY": "off"}}


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_thread(programs, case, settings):
    programs.check(PROGRAM, case, 2, env={"PYRDV_PROGRESS": "thread"} | SETTINGS[settings])


def test_an_exception_ends_the_job_beside_it(jobs):
    """Who dies with a thread at work dies as without one, and says why."""
    outcome = jobs.run("""
        from pyrdv import MPI
        comm = MPI.COMM_WORLD
        comm.Barrier()
        if comm.rank:
            raise RuntimeError("on purpose")
        comm.recv(source=1)
        """, 2, env={"PYRDV_PROGRESS": "thread"})
    assert outcome.status != 0 and "on purpose" in outcome.err


def test_connections_are_accepted_while_both_compute(jobs):
    """Its turns are calls.  So a first message finds its way, which no handler could give it."""
    jobs.run("""
        import os, time
        import numpy as np
        from pyrdv import MPI
        comm = MPI.COMM_WORLD
        room = np.zeros(1 << 20, np.uint8)
        if comm.rank == 1:
            request = comm.Irecv(room, MPI.ANY_SOURCE, 7)
            open("posted", "w").close()
            end = time.monotonic() + 60
            while not room.all():
                sum(range(100_000))
                assert time.monotonic() < end
            open("there", "w").close()
        else:
            while not os.path.exists("posted"):
                time.sleep(0.01)
            request = comm.Isend(np.full(1 << 20, 5, np.uint8), 1, 7)
            while not os.path.exists("there"):
                time.sleep(0.01)
        request.Wait()
        """, 2, env={"PYRDV_PROGRESS": "thread"}).ok()
