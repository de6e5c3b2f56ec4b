"""``pyrdv bench startup`` without a device: options, refusals, table and picture.

What needs a device is in tests/verbs/test_startup.py.
"""

import argparse
import os
import subprocess
import sys

import numpy as np
import pytest

from pyrdv.tools import bench, bench_report, bench_startup

LIMIT = 120


def parse(*words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(words)


def run(*words, **environ):
    command = [sys.executable, "-m", "pyrdv.tools.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, **environ})


def row(ranks, steps, thread):
    """A row as `measure` makes it, from samples in ms."""
    cells = {way: {"median": float(np.median(samples)), "min": min(samples), "max": max(samples),
                   "samples": samples}
             for way, samples in (("steps", steps), ("thread", thread))}
    return {"ranks": ranks, "connections": ranks * (ranks - 1) // 2, "rounds": len(steps),
            "unit": "ms", "device": "rxe0:1", **cells,
            "ratio": cells["steps"]["median"] / cells["thread"]["median"]}


def test_defaults():
    options = parse("startup")
    assert (options.ranks, options.counts, options.rounds, options.requests) == (
        None, None, 5, "one")
    assert bench_startup.default_counts(16) == [2, 4, 8, 16]
    assert bench_startup.default_counts(12) == [2, 4, 8, 12]
    assert bench_startup.default_counts(2) == [2]


@pytest.mark.parametrize(
    "words, told",
    [
        (["-n", "1"], "one rank has nobody"),
        (["--counts", "4,1"], "one rank has nobody"),
        (["--counts", "4,x"], "'x' is not a whole number"),
        (["--rounds", "0"], "'0' is not a whole number"),
        (["--requests", "some"], "invalid choice: 'some'"),
        (["--sizes", "8"], "unrecognized arguments: --sizes"),
    ],
)
def test_bad_options_are_named(capsys, words, told):
    with pytest.raises(SystemExit) as end:
        parse("startup", *words)
    assert end.value.code == 2
    assert told in capsys.readouterr().err


def test_counts_are_sorted_and_occur_once():
    assert parse("startup", "--counts", "4,2,4").counts == [2, 4]


@pytest.mark.parametrize("size, count, members", [
    (16, 2, [0, 8]), (16, 16, list(range(16))), (5, 4, [0, 1, 2, 3]), (6, 3, [0, 2, 4])])
def test_members_are_spread_over_the_hosts(size, count, members):
    assert bench_startup.spread(size, count) == members


def test_no_device():
    """Refused before ranks are started, with the reason and a remedy."""
    done = run("bench", "startup", PYRDV_RDMA_DEVICE="none0")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("pyrdv bench: ") and "RDMA" in done.stderr


def test_setting_that_is_no_device():
    done = run("bench", "startup", PYRDV_RDMA_DEVICE="rxe0:first")
    assert done.returncode == 2 and done.stdout == ""
    assert "rxe0:first" in done.stderr


def test_more_ranks_than_there_are():
    done = run("run", "-n", "3", "-m", "pyrdv.tools.bench", "startup", "--counts", "2,4")
    assert done.returncode == 2
    assert "has 3 ranks, too few for 4" in done.stderr


def test_no_device_in_a_job():
    """All ranks learn of it: one line with the reason, and nobody waits."""
    done = run("run", "-n", "3", "-m", "pyrdv.tools.bench", "startup", "--counts", "2",
               PYRDV_RDMA_DEVICE="none0")
    assert done.returncode == 1
    assert done.stderr.count("2 ranks cannot be connected: rank 0, 1: ") == 1, done.stderr


def test_table():
    text = bench_startup.row_text(row(16, [70.0, 80.0, 60.0], [100.0, 90.0, 110.0]))
    assert text.split() == ["16", "120", "70.00", "(60.00", "to", "80.00)", "100.00", "(90.00",
                            "to", "110.00)", "0.70"]
    assert len(text) == len(bench_startup.HEADER)


def test_plot(tmp_path):
    path = tmp_path / "out.png"
    rows = [row(2, [1.0, 1.2], [1.5, 1.4]), row(4, [3.0, 3.2], [3.5, 3.4])]
    content = bench_report.document("startup", {"ranks": 4}, rows, bench_report.machine_facts())
    bench_startup.plot(path, content, bench_report.plotting())
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = np.frombuffer(data[16:24], ">u4")
    assert width >= 800 and height >= 400
