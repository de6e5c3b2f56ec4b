"""The figures of the compression example: which part of a wait was a wait for work."""

import pathlib

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def overlap(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import overlap

    return overlap


@pytest.mark.parametrize(
    "first, second, seconds",
    [
        ([], [(0, 1)], 0),
        ([(0, 1)], [(1, 2)], 0),
        ([(0, 10)], [(1, 2), (3, 5), (9, 12)], 4),
        ([(1, 2), (3, 5), (9, 12)], [(0, 10)], 4),
        ([(0, 4), (4, 6)], [(1, 5)], 4),
        ([(2, 3), (3, 4)], [(0, 1), (2.5, 3.5)], 1),
    ],
)
def test_time_in_common(overlap, first, second, seconds):
    assert overlap.common(first, second) == seconds


def meter(overlap, calls, waits=(), spans=(), posted=()):
    made = overlap.Meter(0.0)
    made.calls, made.waits, made.spans, made.posted = calls, list(waits), list(spans), dict(posted)
    return made


def test_waiting_for_a_block_counts_until_it_was_posted(overlap):
    root = meter(overlap, 9, waits=[(1, 10, 14), (3, 20, 21), (5, 30, 34)])
    other = meter(overlap, 0, posted=[(1, 13), (3, 15), (5, 40)])
    overlap.settle([root, other])
    assert root.late_block == 3 + 0 + 4  # within the wait, before it, after it
    assert other.late_root == 0


def test_waiting_for_rank_0_counts_while_it_works_or_has_a_late_block(overlap):
    root = meter(overlap, 3, waits=[(1, 10, 13)], spans=[(0, 10), (13, 20)])
    first = meter(overlap, 1, waits=[(1, 12, 13)], posted=[(1, 12)])
    second = meter(overlap, 12, waits=[(2, 8, 15)], posted=[(2, 8)])
    overlap.settle([root, first, second])
    assert root.late_block == 2
    assert first.late_root == 0
    assert second.late_root == 2 + 2 + 2  # compressing, waiting for block 1, compressing


def test_sums_are_scaled_to_the_bytes_of_the_other_pass(overlap):
    meters = [meter(overlap, 3), meter(overlap, 2)]
    meters[0].late_block, meters[1].late_root, meters[1].sent = 1, 0.5, 100
    row = overlap.Pass(meters, 200)
    assert (row.calls, row.late_block, row.late_root, row.exposed) == (10, 2, 1, 7)


def test_meter_counts_calls_and_notes_waits_and_work(overlap):
    made = overlap.Meter(5.0)
    assert made.call(divmod, 7, 2) == (3, 1)
    assert made.wait(4, max, 1, 2) == 2
    assert made.work(min, 1, 2) == 1
    ((block, start, end),), (span,) = made.waits, made.spans
    assert block == 4 and start <= end <= span[0] <= span[1] <= made.now()
    assert made.calls >= end - start
