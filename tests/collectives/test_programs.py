"""Collective operations and communicators in real jobs, case by case."""

import ast
from pathlib import Path

import pytest

from tests.support.jobs import case_names

FOLDER = Path(__file__).parent / "programs"
MAKING, BLOCKS, FAILING = (FOLDER / name for name in ("making.py", "blocks.py", "failing.py"))
DYING, LANDING = FOLDER / "dying.py", FOLDER / "landing.py"
NONBLOCKING = FOLDER / "nonblocking.py"


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("case", case_names(MAKING))
def test_making(programs, case, ranks):
    programs.check(MAKING, case, ranks)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("case", case_names(BLOCKS))
def test_blocks(programs, case, ranks):
    programs.check(BLOCKS, case, ranks)


@pytest.mark.parametrize("progress", ["polling", "parasite"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("case", case_names(NONBLOCKING))
def test_nonblocking(programs, case, ranks, progress):
    programs.check(NONBLOCKING, case, ranks, env={"PYRDV_PROGRESS": progress})


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("case", case_names(FAILING))
def test_failing(programs, case, ranks):
    programs.check(FAILING, case, ranks)


@pytest.mark.parametrize("way", ["read", "cells", "pipes"])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", case_names(LANDING))
def test_landing(programs, case, ranks, way):
    programs.check(LANDING, case, ranks, env={
        "read": {}, "cells": {"PYRDV_SINGLE_COPY": "off"},
        "pipes": {"PYRDV_PROTOCOL": "pipeline"}}[way])


def test_a_group_agrees_without_a_trace(jobs):
    """Who waits for anybody of the parent still waits when the members of the group have ended."""
    jobs.run("""
        import time
        import numpy as np
        from pyrdv import MPI
        world = MPI.COMM_WORLD
        if world.rank < 2:
            world.Create_group(world.Get_group().Incl([0, 1])).Free()
        if world.rank == 0:
            room = np.zeros(1)
            world.Recv(room, MPI.ANY_SOURCE, 5)
            assert room[0] == 8
        elif world.rank == 2:
            time.sleep(1)
            world.Send(np.full(1, 8.0), 0, 5)
    """, 3).ok()


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


def calls_of(program):
    """The names of the calls in a program's table."""
    tree = ast.parse(program.read_text(encoding="utf-8"))
    table = next(node.value for node in tree.body if isinstance(node, ast.Assign)
                 and node.targets[0].id == "CALLS")
    return [key.value for key in table.keys]


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("call", calls_of(DYING))
def test_survivors_are_told(jobs, call, ranks):
    """Each of them, by whoever notices first, while all of them live."""
    jobs.start([DYING], ranks, "--grace", "3600", args=[call])
    for rank in range(ranks):
        if rank != ranks - 2:
            jobs.wait_file(f"told-{rank}")
    jobs.kill_all()
