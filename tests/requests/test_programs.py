"""Requests of all kinds in real jobs, case by case."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAMS = Path(__file__).parent / "programs"
CASES = [(name, case) for name in ("persistent", "freed", "snapshots", "kinds")
         for case in case_names(PROGRAMS / f"{name}.py")]


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize(("name", "case"), CASES)
def test_requests(programs, name, case, ranks):
    programs.check(PROGRAMS / f"{name}.py", case, ranks)
