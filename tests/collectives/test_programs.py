"""Collective operations and communicators in real jobs, case by case."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

FOLDER = Path(__file__).parent / "programs"
MAKING, BLOCKS = FOLDER / "making.py", FOLDER / "blocks.py"


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("case", case_names(MAKING))
def test_making(programs, case, ranks):
    programs.check(MAKING, case, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("case", case_names(BLOCKS))
def test_blocks(programs, case, ranks):
    programs.check(BLOCKS, case, ranks)


def test_number_waits_for_an_unexpected_message(jobs):
    """What nobody received in a freed communicator cannot turn up in a later one."""
    jobs.run("""
        import numpy as np
        from pyrdv import MPI
        world = MPI.COMM_WORLD
        old = world.Dup()
        number = old.context_number
        if world.rank == 0:
            old.Send(np.full(1, 7.0), 1, 5)
        old.Free()
        new = world.Dup()
        assert new.context_number != number, number
        if world.rank == 1:
            assert not new.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)
        world.Barrier()
        room = np.zeros(1)
        new.Sendrecv(np.full(1, 8.0), 1 - world.rank, 5, room, MPI.ANY_SOURCE, 5)
        assert room[0] == 8
        new.Free()
    """, 2).ok()
