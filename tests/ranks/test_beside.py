"""Further connections among the ranks of a job, which benchmarks compare settings with."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "beside.py"


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_beside(programs, case, ranks):
    programs.check(PROGRAM, case, ranks)
