"""Progress by a signal, in real processes over shared memory (parasite.pyx)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "parasite.py"
GREENLETS = PROGRAM.parent / "greenlets.py"
#: What the receiver's handler finds: an RTS, of any source or of all; cells to copy.
SETTINGS = {"usual": {}, "no_offers": {"PYRDV_SPECULATION": "off"},
            "two_copies": {"PYRDV_SINGLE_COPY": "off"}}


@pytest.mark.parametrize("trigger", ("timer", "event"))
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_parasite(programs, case, settings, trigger):
    programs.check(PROGRAM, case, 2, env={
        "PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": trigger} | SETTINGS[settings])


@pytest.mark.parametrize("trigger", ("timer", "event"))
def test_gevent(programs, trigger):
    programs.check(GREENLETS, *case_names(GREENLETS), 2, env={
        "PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": trigger})


def test_nothing_is_installed_without_it(jobs):
    """By default no handler is installed and no step is made between calls."""
    jobs.run("""
        import numpy as np
        from pyrdv import MPI
        comm = MPI.COMM_WORLD
        request = comm.Irecv(np.zeros(1 << 20, np.uint8), MPI.ANY_SOURCE, 7)
        with open("/proc/self/status") as file:
            caught = next(int(line.split()[1], 16) for line in file if line.startswith("SigCgt"))
        assert caught >> 33 == 0, hex(caught)
        comm.Barrier()
        comm.Send(np.zeros(1 << 20, np.uint8), 1 - comm.rank, 7)
        request.Wait()
        assert comm.engine.mode is None and MPI.counters()["flow_turns"] == 0
        """, 2).ok()
