"""Requests in event loops, case by case (field cases T02, T03, T05, T07, P09).

Over RDMA devices: tests/verbs/test_progress.py.
"""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAMS = Path(__file__).parent / "programs"
CASES = [(name, case) for name in ("awaiting", "loops")
         for case in case_names(PROGRAMS / f"{name}.py")]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_awaiting(programs, name, case):
    programs.check(PROGRAMS / f"{name}.py", case, 2)


@pytest.mark.parametrize("case", case_names(PROGRAMS / "awaiting.py"))
def test_two_pairs(programs, case):
    programs.check(PROGRAMS / "awaiting.py", case, 4)


@pytest.mark.parametrize("case", case_names(PROGRAMS / "awaiting.py"))
def test_without_single_copy(programs, case):
    programs.check(PROGRAMS / "awaiting.py", case, 2, env={"PYRDV_SINGLE_COPY": "off"})
