"""Threads that share requests, and asyncio (field cases T02, T03)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "awaiting.py"


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_awaiting(programs, case):
    programs.check(PROGRAM, case, 2)
