"""Collective calls that do not block, over a device; the cases of those over shared memory."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

pytestmark = pytest.mark.verbs

PROGRAM = Path(__file__).parents[1] / "collectives" / "programs" / "nonblocking.py"


@pytest.mark.parametrize(("ranks", "progress"), [(2, "polling"), (2, "parasite"), (3, "polling")])
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_nonblocking(programs, case, ranks, progress):
    programs.check(PROGRAM, case, ranks, env={"PYRDV_PROGRESS": progress})
