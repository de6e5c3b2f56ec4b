"""Flow control and waiting (field cases P02 to P07, P09, P10, F01, T07; P08 in tests/ranks)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "flow.py"


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_flow(programs, case):
    programs.check(PROGRAM, case, 2)
