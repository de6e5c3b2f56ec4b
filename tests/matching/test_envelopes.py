"""Matching between real processes (field cases M03 to M19; M14 in tests/ranks/test_ends.py)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "envelopes.py"


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_envelopes(programs, case):
    programs.check(PROGRAM, case, 4)
