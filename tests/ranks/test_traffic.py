"""Traffic on 1 to 8 ranks, which are more than the cores (field cases F02, F06)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "traffic.py"


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_traffic(programs, case, ranks):
    programs.check(PROGRAM, case, ranks)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_by_pipeline(programs, case, ranks):
    """B2, B3: all large messages through few and small bounce buffers."""
    programs.check(PROGRAM, case, ranks, env={"PYRDV_PROTOCOL": "pipeline",
                                              "PYRDV_PIPELINE_BUFFER": "16K"})
