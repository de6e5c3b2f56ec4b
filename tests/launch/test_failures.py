"""Who failed first, and by itself (invariants V1 to V4 of pyrdv.launch.failures)."""

import pytest

from pyrdv.launch.failures import Failures, Report, exit_status
from pyrdv.launch.frames import MAX_REPORT, FrameError


def job(size=4):
    """Failures of a job, and the time of its begin."""
    made = Failures(size)
    return made, made._begin


def test_a_report_survives_its_journey():
    report = Report.unpack(Report({3, 70_000}, ends=True, when=12345).pack())
    assert (set(report.gone), report.ends, report.raised, report.when) == (
        {3, 70_000}, True, False, 12345)
    assert Report.unpack(Report([], raised=True).pack()).raised
    assert len(Report(range(5000)).pack()) <= MAX_REPORT


@pytest.mark.parametrize("body", [b"", b"12345678", b"123456789a"])
def test_what_is_no_report(body):
    with pytest.raises(FrameError):
        Report.unpack(body)


def test_nobody_failed():
    failures, _ = job()
    failures.ended(0, 0)
    assert failures.first() is None and failures.first(final=True) is None


def test_the_earlier_one_decides():
    """V3, by the time that each gives, and not by the order in which processes end."""
    failures, begin = job()
    failures.reported(2, Report([], ends=True, raised=True, when=begin + 50))
    failures.reported(1, Report([], ends=True, when=begin + 20))
    failures.ended(2, 1)
    assert failures.first() == 2
    failures.ended(1, 7)
    assert failures.first() == 1


def test_one_that_said_earlier_that_an_exception_ends_it_is_waited_for():
    failures, begin = job()
    failures.reported(1, Report([], ends=True, raised=True, when=begin + 20))
    failures.ended(0, -11)
    assert failures.first() is None and failures.first(final=True) == 0
    failures.ended(1, 1)
    assert failures.first() == 1


def test_a_victim_waits_for_its_culprit():
    """V2 and V4: the process of a victim ends first."""
    failures, _ = job()
    failures.reported(0, Report([2]))
    failures.ended(0, 1)
    assert failures.first() is None
    failures.ended(2, 7)
    assert failures.first() == 2
    assert failures.failed() == [0, 2]


def test_a_culprit_that_does_not_end_is_not_waited_for_without_end():
    failures, _ = job()
    failures.reported(0, Report([2]))
    failures.ended(0, 1)
    assert failures.first(final=True) == 0


def test_who_needed_a_rank_that_ended_well_failed_by_itself():
    failures, _ = job()
    failures.reported(0, Report([1]))
    failures.ended(0, 1)
    failures.ended(1, 0)
    assert failures.first() == 0


def test_chains_also_through_ranks_that_ended_well():
    """V1: 0 came after 1, which came after 2, which came after 3."""
    failures, _ = job()
    for rank in (0, 1, 2):
        failures.reported(rank, Report([rank + 1]))
    failures.ended(0, -9)
    failures.ended(1, 0)
    failures.ended(2, 1)
    assert failures.first() is None
    failures.ended(3, 5)
    assert failures.first() == 3


def test_a_circle_has_a_first_one():
    """Two that lost each other (a cable was pulled)."""
    failures, begin = job()
    failures.reported(1, Report([0], ends=True, raised=True, when=begin + 10))
    failures.reported(0, Report([1], ends=True, raised=True, when=begin + 30))
    failures.ended(0, 1)
    failures.ended(1, 1)
    assert failures.first() == 1


def test_an_abort_by_a_victim():
    failures, _ = job()
    failures.reported(1, Report([0]))
    failures.aborted(1, 30)
    assert failures.first() is None
    failures.ended(0, -9)
    assert failures.first() == 0 and failures.code(1) == 30 and failures.code(0) is None


def test_an_abort_is_a_failure_before_its_process_ends():
    failures, _ = job()
    failures.aborted(1, 0)
    assert failures.first() == 1


def test_what_a_rank_is_told_behind_its_end_is_no_cause_of_it():
    failures, begin = job()
    failures.reported(1, Report([], ends=True, raised=True, when=begin + 5))
    failures.reported(1, Report([0]))
    failures.ended(0, 1)
    failures.ended(1, 1)
    assert failures.before(1) == set() and failures.first() == 1


def test_wrong_clocks_and_ranks_do_no_harm():
    failures, begin = job()
    failures.reported(1, Report([9, 1], ends=True, when=0))
    failures.reported(2, Report([], ends=True, when=1 << 63))
    failures.ended(1, 3)
    failures.ended(2, 4)
    assert failures.before(1) == set() and failures.first() == 1


@pytest.mark.parametrize(("code", "status"), [
    (0, 1), (1, 1), (255, 255), (256, 1), (-256, 1), (257, 1), (-1, 255), (1 << 40, 1)])
def test_exit_status_is_never_success(code, status):
    assert exit_status(code) == status
