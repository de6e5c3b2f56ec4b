"""Requests of all kinds in real jobs, case by case."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "persistent.py"


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_requests(programs, case, ranks):
    programs.check(PROGRAM, case, ranks)
