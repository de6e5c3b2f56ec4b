"""Signals sent by descriptors, in real processes over shared memory (parasite.pyx, E1-E6)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "event.py"
STACK = PROGRAM.parent / "stack.py"
EVENT = {"PYRDV_PROGRESS": "parasite", "PYRDV_PARASITE_TRIGGER": "event"}


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_event(programs, case):
    programs.check(PROGRAM, case, 2, env=EVENT)


@pytest.mark.parametrize("copies", ("on", "off"))
def test_the_handler_needs_little_stack(programs, copies):
    programs.check(STACK, *case_names(STACK), 2, env=EVENT | {"PYRDV_SINGLE_COPY": copies})
