"""Objects that nobody gets, with and without the kernel's copies between processes."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "refused.py"


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_refused(programs, case, ranks):
    programs.check(PROGRAM, case, ranks)


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_refused_through_shared_memory(programs, case):
    programs.check(PROGRAM, case, 2, env={"PYRDV_SINGLE_COPY": "off"})
