"""Signals sent by descriptors, in real processes over shared memory (parasite.pyx, E1-E6)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "event.py"


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_event(programs, case):
    programs.check(PROGRAM, case, 2, env={
        "PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": "event"})
