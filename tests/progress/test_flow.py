"""Flow control and waiting (field cases P02 to P07, P09, P10, F01, T07; P08 in tests/ranks).

Over RDMA devices: tests/verbs/test_progress.py.
"""

from pathlib import Path

import pytest

from tests.support.jobs import case_names

PROGRAM = Path(__file__).parent / "programs" / "flow.py"
# What takes another way without single copy, and what more ranks than processors could upset.
FORMS = ("case_receiver_posts_late", "case_no_slow_leak", "case_random_pauses",
         "case_first_contact_at_once")


@pytest.mark.parametrize("case", case_names(PROGRAM))
def test_flow(programs, case):
    programs.check(PROGRAM, case, 2)


@pytest.mark.parametrize("case", FORMS)
def test_two_pairs(programs, case):
    programs.check(PROGRAM, case, 4, only=FORMS)


@pytest.mark.parametrize("case", FORMS)
def test_without_single_copy(programs, case):
    programs.check(PROGRAM, case, 2, only=FORMS, env={"PYRDV_SINGLE_COPY": "off"})
