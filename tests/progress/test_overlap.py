"""Data moves while one side computes, whoever it is (docs/protocols.md, rendezvous by write).

The computing side waits for a pipe that the other one writes when its operation is complete:
without the protocol these programs would wait for ever.
"""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "overlap.py"


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_overlap(programs, case):
    programs.check(PROGRAM, case, 2)
