"""``pyrdv bench parasite`` over shared memory, small and short: all parts, none of them judged."""

import argparse
import json
import math
import os
import subprocess
import sys

import pytest

from pyrdv.tools import bench, bench_parasite as parasite, bench_resident as resident

LIMIT = 240
QUICK = ["--rounds", "2", "--seconds", "0.001", "--lead", "1", "--iterations", "1"]
#: Over shared memory nobody is offered a buffer.
MODES = ["polling", "timer", "event", "thread"]


def run(folder, *words):
    """(status, JSON or None, what was printed)."""
    path = folder / "out.json"
    done = subprocess.run([sys.executable, "-m", "pyrdv.tools.cli", "bench", "parasite", *words,
                           "--json", path], capture_output=True, text=True, timeout=LIMIT,
                          cwd=folder, env={**os.environ, "PYRDV_FABRIC": "shm"})
    content = json.loads(path.read_text()) if path.exists() else None
    return done.returncode, content, done.stdout + done.stderr


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """All parts on two ranks: (JSON, text)."""
    status, content, text = run(tmp_path_factory.mktemp("two"), *QUICK, "--sizes", "128K",
                                "--delays", "100", "--long", "1", "--ratio", "1")
    assert status == 0, text
    return content, text


def rows_of(content, part):
    return [row for row in content["rows"] if row["part"] == part]


def test_every_part_has_each_mode(two):
    content, text = two
    for part in parasite.PARTS:
        rows = rows_of(content, part)
        assert {row["mode"] for row in rows} == set(MODES), part
        assert f"\n{part}: " in text
        for row in rows:
            figures = [value for value in row.values() if isinstance(value, float)]
            assert part == "memory" or figures and all(map(math.isfinite, figures)), row
    assert content["paper"]["source"] == parasite.SOURCE
    assert list(content["modes"]) == content["settings"]["modes"] == MODES
    assert "\naims:\n  timer, 128 KiB, blocking: added: " in text


def test_what_is_compared(two):
    """All large messages are read; only where signals were asked for did any come."""
    content, _ = two
    for part in ("latency", "progress", "overlap", "any", "lu", "applications"):
        for row in rows_of(content, part):
            counted = row["counted"]
            assert counted["sends_rendezvous"] > 0 == counted["sends_placed"], row
            assert counted["sends_piped"] == counted["rtrs_sent"] == 0, row
    assert set(content["signal"]) == {"timer", "event"}


def test_latency(two):
    """What is added is the difference to polling, and to a receiver that waits where needed."""
    rows = rows_of(two[0], "latency")
    assert len(rows) == len(parasite.SCENARIOS) * len(MODES)
    for row in rows:
        assert row["added"] == pytest.approx(row["latency"] - row["usual"])
        assert row["share"] == pytest.approx(row["latency"] / row["usual"] - 1)
        if row["mode"] == "polling" and row["scenario"] != "needed":
            assert row["added"] == 0


def test_memory(two):
    """The thread is one more than polling has; the first mode is what others are compared with."""
    rows = {row["mode"]: row for row in rows_of(two[0], "memory")}
    assert rows["polling"]["beyond"] == 0
    threads = {mode: row["threads"] - rows["polling"]["threads"] for mode, row in rows.items()}
    assert threads == {"polling": 0, "timer": 0, "event": 0, "thread": 1}
    for row in rows.values():
        assert row["beyond"] == row["resident"] - rows["polling"]["resident"]
        assert 10_000 < row["resident"] < 1_000_000


def test_a_failed_job_is_told(monkeypatch):
    monkeypatch.setattr(resident, "LIMIT", 60)
    with pytest.raises(RuntimeError, match="failed, status 1"):
        resident.measure(["polling"], "nonsense", 1)


def test_four_ranks(tmp_path):
    """Only what applications need; the other parts are refused before anything is measured."""
    status, content, text = run(tmp_path, *QUICK, "-n", "4", "--parts", "lu,applications",
                                "--modes", "polling,event")
    assert status == 0, text
    assert {row["part"] for row in content["rows"]} == {"lu", "applications"}
    assert [row["kernel"] for row in rows_of(content, "applications")] == [
        name for name in parasite.APPLICATIONS for _ in range(2)]
    status, content, text = run(tmp_path / "..", *QUICK, "-n", "4", "--parts", "latency")
    assert status == 2 and "need just two ranks" in text


def test_arguments():
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    options = parser.parse_args(["parasite"])
    assert options.sizes is None and options.modes == parasite.MODES and options.ranks == 2
    assert options.delays == [50, 200, 400, 600, 800, 1000]


def test_verdicts():
    """Each aim is judged for signals, and only there."""
    def one(part, mode, **more):
        return {"part": part, "mode": mode, "size": 1 << 16, **more}

    signal = {"signal": {"timer": 10e-6, "event": 10e-6}}
    rows = [one("latency", "timer", scenario="blocking", share=0.011, added=1e-6),
            one("latency", "event", scenario="blocking", share=0.009, added=1e-6),
            one("latency", "event", scenario="needed", share=0.5, added=11e-6),
            one("latency", "timer", scenario="needed", share=0.5, added=13e-6),
            one("latency", "thread", scenario="needed", share=0.5, added=13e-6),
            one("any", "event", first="sender", side="sender", hidden=0.91),
            one("overlap", "event", first="receiver", side="receiver", hidden=0.94),
            one("lu", "timer", run_change=0.006), one("memory", "event", beyond=128)]
    met = [not line.endswith("NOT MET") for line in parasite.verdicts(rows, signal)]
    assert met == [False, True, True, False, True, False, False, True]
    assert len(parasite.verdicts(rows, signal, shm=True)) == 4
