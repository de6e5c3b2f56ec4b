"""Requests in event loops, case by case."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAMS = Path(__file__).parent / "programs"
CASES = [(name, case) for name in ("awaiting", "loops")
         for case in case_names(PROGRAMS / f"{name}.py")]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_awaiting(programs, name, case):
    programs.check(PROGRAMS / f"{name}.py", case, 2)
