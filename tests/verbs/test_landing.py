"""Collective calls over a device that fail while large blocks are on their way."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

pytestmark = pytest.mark.verbs

LANDING = Path(__file__).parents[1] / "collectives" / "programs" / "landing.py"
WAYS = {"auto": {}, "read": {"PYRDV_PROTOCOL": "get", "PYRDV_SPECULATION": "off"},
        "pipes": {"PYRDV_PROTOCOL": "pipeline"}}


@pytest.mark.parametrize(("ranks", "way"), [(2, "auto"), (2, "read"), (2, "pipes"), (3, "auto")])
@pytest.mark.parametrize("case", case_names(LANDING))
def test_nothing_lands_after_a_failed_call(programs, case, ranks, way):
    """Nor does any rank wait for a call of one that has left."""
    programs.check(LANDING, case, ranks, env=WAYS[way])
