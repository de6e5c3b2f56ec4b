"""Sizes and kinds of buffers between processes (field cases B02 to B15, R05, R13)."""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "buffers.py"


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_buffers(programs, case):
    programs.check(PROGRAM, case, 2)


@pytest.mark.parametrize("case", ["case_every_size_and_alignment", "case_mutability",
                                  "case_sizes_from_nothing_to_large",
                                  "case_memory_dropped_and_refilled", "case_large_objects"])
def test_without_single_copy(programs, case):
    """The same through the shared pool, as in a container that forbids the other way (X04)."""
    programs.check(PROGRAM, case, 2, env={"PYRDV_SINGLE_COPY": "off"})


@pytest.mark.parametrize("arrival", ["notice", "flags"])
@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_by_pipeline(programs, case, arrival):
    """The same through bounce buffers: what the user's memory is like does not matter."""
    programs.check(PROGRAM, case, 2, env={"PYRDV_PROTOCOL": "pipeline",
                                          "PYRDV_PIPELINE_ARRIVAL": arrival})
