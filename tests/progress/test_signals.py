"""Many signals, and programs that come out right all the same (programs/signals.py)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "signals.py"


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_signals(programs, case):
    programs.check(PROGRAM, case, 2, env={
        "PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": "timer"})
