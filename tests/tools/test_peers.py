"""The comparison with other libraries: its programs run on pyrdv, and its verdicts are right.

The peers themselves need downloads and are measured by `make bench-peers`, not here.
"""

import json
import math
import pathlib
import subprocess
import sys

import pytest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
LIMIT = 240


def run(program, *words, ranks=None):
    """Run a program of benchmarks/ to its end, on `ranks` ranks if given."""
    command = [sys.executable]
    if ranks:
        command += ["-m", "pyrdv.tools.cli", "run", "-n", ranks]
    command += [BENCHMARKS / program, *words]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT)


@pytest.fixture
def aims(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "peers"))
    import aims

    return aims


class Figures:
    """What `Case.row` asks of results."""

    def __init__(self, rounds):
        self.rounds = rounds

    def medians(self, row):
        return self.rounds.get(row, {})


@pytest.mark.slow
def test_every_program_runs_on_pyrdv(tmp_path, aims):
    path = tmp_path / "out.json"
    done = run("peers/run.py", "--stacks", "pyrdv", "--quick", "--json", path)
    assert done.returncode == 0, done.stderr
    content = json.loads(path.read_text())
    assert content["failures"] == []
    assert content["versions"]["pyrdv"]["numpy"] == content["machine"]["numpy"]
    titles = [row["title"] for row in content["rows"]]
    assert len(titles) == sum(len(sizes) for _, sizes in aims.CASES.values()) + len(aims.ABSOLUTE)
    for row in content["rows"]:
        value = row["figures"]["pyrdv"]
        assert math.isfinite(value), row
        # What is left after a baseline is taken away may be anything; all else is positive.
        assert value > 0 or "beyond" in row["title"] or "memory" in row["title"], row
        assert row["ratio"] is None, "there is no peer to compare with"
        assert row["title"] in done.stdout


def test_unknown_names_are_refused():
    done = run("peers/run.py", "--only", "speed")
    assert done.returncode == 2
    assert "'speed' is not one of" in done.stderr


@pytest.mark.parametrize(
    "key, own, peers, ratio, verdict",
    [
        (("latency", 8), 0.5, (1.0, 2.0), 0.5, "met"),
        (("latency", 8), 0.7, (1.0, 2.0), 0.7, "MISSED"),
        (("rate", 8), 2.0, (0.5, 1.0), 2.0, "met"),
        (("rate", 8), 1.5, (0.5, 1.0), 1.5, "MISSED"),
        (("reused", 1 << 20), 11.0, (1.0, 10.0), 1.1, "met"),
        (("fresh", 4 << 20), 11.0, (1.0, 10.0), 1.1, "MISSED"),
        (("slots", 1 << 20), 1.0, (1.0, 10.0), 0.1, ""),
    ],
)
def test_the_better_peer_counts(aims, key, own, peers, ratio, verdict):
    figures = dict(zip(("pyrdv", "mpich", "openmpi"), (own, *peers), strict=True))
    row = aims.Case(key).row(Figures({key: figures}), None)
    assert row["ratio"] == pytest.approx(ratio)
    assert row["verdict"] == verdict


def test_absolute_aims(aims):
    base, start = ("two Python+NumPy", 0), ("start-up", 0)
    for own, verdict in ((240.0, "met"), (260.0, "MISSED")):
        figures = Figures({base: {"pyrdv": 100.0}, start: {"pyrdv": own}})
        row = aims.Case(start).row(figures, None)
        assert row["figures"] == {"pyrdv": own - 100}
        assert row["verdict"] == verdict
    key = ("memory per peer", 0)
    assert aims.Case(key).row(Figures({key: {"pyrdv": 129.0}}), None)["verdict"] == "MISSED"


def test_cost_of_calls_runs_on_pyrdv(tmp_path):
    path = tmp_path / "out.json"
    done = run("overhead.py", "--quick", "--stacks", "pyrdv", "--json", path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["rows"]
    assert {row["call"] for row in rows} >= {"Isend 100 MB", "Irecv 100 MB", "Isend 8 B"}
    assert all(row["us"]["pyrdv"] > 0 for row in rows)


def test_cost_of_matching_runs_on_pyrdv(tmp_path):
    path = tmp_path / "out.json"
    words = ["--rounds", "50", "--others", "500", "--json", path]
    done = run("matching.py", *words, ranks=2)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["rows"]
    assert [(row["queue"], row["others"]) for row in rows] == [
        (queue, others) for queue in ("posted", "unexpected") for others in (0, 100, 500)]
    assert all(row["us"] > 0 and row["ratio"] > 0 for row in rows)


def test_cost_in_one_process_of_two_builds(tmp_path):
    path, other = tmp_path / "out.json", tmp_path / "other"
    other.mkdir()
    words = ["--rounds", "1", "--sizes", "8,4K", "--json", path]
    done = run("one_process.py", *words, "--against", other)
    assert done.returncode != 0 and "other was not measured" in done.stderr
    (other / "src").symlink_to(BENCHMARKS.parent / "src")
    done = run("one_process.py", *words, "--against", other)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [
        [first, size] for first in ("receiver", "sender") for size in ("8", "4096")]
    assert all(float(word) > 0 for row in rows for word in row[2:]) and len(rows[0]) == 5
    assert len(json.loads(path.read_text())["rounds"]) == 2
    assert run("one_process.py", "--sizes", "8q").returncode == 2
