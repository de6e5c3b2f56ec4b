"""``pyrdv bench overlap|progress|exchange|overhead`` over shared memory, small and short.

How good the figures are is not judged: only that they are there, belong together, and that what
they are called by is what was done.
"""

import argparse
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from pyrdv.tools import (
    bench,
    bench_exchange,
    bench_large,
    bench_overlap,
    bench_overlap_kernels as kernels,
    bench_report,
    bench_speculation as speculation,
)

LIMIT = 240
MODES = ["current", "indexed", "indexed-fixed", "default"]
QUICK = ["--rounds", "2", "--seconds", "0.001", "--modes", ",".join(MODES)]
OWN = {
    "overlap": ["--sizes", "128K", "--lead", "5"],
    "progress": ["--sizes", "128K", "--delays", "0,1", "--long", "2", "--lead", "5"],
    "exchange": ["--sizes", "128K", "--ratios", "1,2"],
    "overhead": ["--sizes", "8,128K"],
}


def parse(*words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(words)


def pyrdv(*words, cwd, **environ):
    command = [sys.executable, "-m", "pyrdv.tools.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=cwd,
                          env={**os.environ, **environ})


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Run a benchmark once; (its JSON, what it printed)."""
    known = {}

    def one(name):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            path = folder / "out.json"
            done = pyrdv("bench", name, *QUICK, *OWN[name], "--json", path, cwd=folder)
            assert done.returncode == 0, done.stderr
            known[name] = json.loads(path.read_text()), done.stdout
        return known[name]

    return one


@pytest.mark.parametrize("name", bench_large.BENCHMARKS)
def test_documents(measured, name):
    """Facts, settings, modes and the paper's figures are in the file, and every figure is one."""
    content, text = measured(name)
    assert content["schema"] == bench_report.SCHEMA and content["benchmark"] == name
    assert content["settings"]["ranks"] == 2 and content["settings"]["modes"] == MODES
    assert content["fabric"] == "shm" and list(content["modes"]) == MODES
    assert content["paper"]["source"] == speculation.PAPER and len(content["paper"]) == 2
    assert content["unit_us"] > 0
    assert {row["mode"] for row in content["rows"]} == set(MODES)
    for row in content["rows"]:
        assert row["samples"] >= 2
        assert row["mode"] == "default" or not row["counted"]["sends_piped"]
        figures = [value for value in row.values() if isinstance(value, float)]
        assert figures and all(map(math.isfinite, figures)), row
        used = row["usage"]
        assert used is None if row["mode"] == "current" else used is None or 0 <= used <= 1
    assert "paper" in text and all(mode in text for mode in MODES)


@pytest.mark.parametrize("name", bench_large.BENCHMARKS)
def test_counters_say_what_was_compared(measured, name):
    """No RTR in the mode without speculation; elsewhere each that came is accounted for."""
    content, _ = measured(name)
    for row in content["rows"]:
        counted = row["counted"]
        if row["mode"] == "current":
            assert counted["rtrs_sent"] == counted["writes"] == 0, row
        dropped = sum(counted[f"rtrs_{why}"] for why in ("stale", "unused", "refused", "revoked"))
        assert counted["rtrs_received"] == counted["rtrs_sent"], row
        assert counted["rtrs_used"] + dropped <= counted["rtrs_sent"], row
        if row["mode"] == "indexed-fixed":
            assert counted["stops_sent"] == counted["rtrs_withheld"] == 0


def test_overlap(measured):
    content, _ = measured("overlap")
    rows = content["rows"]
    assert len(rows) == len(bench_overlap.SCENES) * len(MODES)
    assert {(row["first"], row["side"]) for row in rows} == set(bench_overlap.SCENES)
    for row in rows:
        assert 0 <= row["moved"] <= 1 and min(row["call"], row["wait"], row["transfer"]) > 0
        assert row["both"] > 0 and row["work"] > 0
        assert row["of_ceiling"] is None, "there is no RDMA write over shared memory"
        assert row["end_to_end"] == pytest.approx(kernels.end_to_end(
            row["communication"], row["work"], row["both"]))
    assert content["ceilings"] == []


def test_progress(measured):
    content, text = measured("progress")
    rows = content["rows"]
    assert len(rows) == len(bench_overlap.SCENES) * len(MODES) * 3
    for row in rows:
        assert row["latency"] > 0 and row["left"] == pytest.approx(row["wait"] / row["transfer"])
    assert {row["delay_text"] for row in rows} == {"0 x", "1 x", "2 ms"}
    assert {row["delay"] for row in rows if row["delay_text"] == "2 ms"} == {0.002}
    assert "2 ms" in text


def test_exchange(measured):
    content, _ = measured("exchange")
    rows = content["rows"]
    assert [(row["neighbours"], row["model"], row["ratio"], row["mode"]) for row in rows] == [
        (neighbours, model, ratio, mode) for neighbours in (1, 2) for model in (1, 2)
        for ratio in (1.0, 2.0) for mode in MODES]
    for row in rows:
        assert row["size"] == 128 << 10 and row["iteration"] > 0 and row["improvement"] < 1
        assert row["iterations"] >= bench_exchange.ITERATIONS
        if row["mode"] == "current":
            assert row["improvement"] == 0
        # Produced, consumed and packed are whole units of work, one at least each.
        wanted = (1 / row["ratio"] + 0.05) * row["communication"]
        assert abs(row["computation"] - wanted) < 3.01 * row["unit"]
    (half,), (full,) = ({row["computation"] for row in rows
                         if row["ratio"] == ratio and row["model"] == row["neighbours"] == 1}
                        for ratio in (2, 1))
    assert half <= full


def test_exchange_on_four_ranks(tmp_path):
    """Each rank has both its neighbours' data (the loops look), and every message is counted."""
    done = pyrdv("bench", "exchange", "--ranks", "4", "--sizes", "128K", "--ratios", "1",
                 "--rounds", "1", "--seconds", "0.001", "--modes", "current,indexed", "--models",
                 "1", "--json", tmp_path / "out.json", cwd=tmp_path)
    assert done.returncode == 0, done
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [(row["neighbours"], row["mode"]) for row in rows] == [
        (neighbours, mode) for neighbours in (1, 2) for mode in ("current", "indexed")]
    for row in rows:
        assert row["ranks"] == 4
        assert row["counted"]["sends_rendezvous"] == 4 * row["neighbours"] * row["iterations"]


def test_overhead(measured):
    content, text = measured("overhead")
    rows = content["rows"]
    assert [(row["pattern"], row["size"]) for row in rows[::len(MODES)]] == [
        ("ping-pong", 8), ("ping-pong", 131072), ("crossing", 8), ("crossing", 131072),
        ("halo", 8), ("halo", 131072), ("mispredicted", 131072)]
    for row in rows:
        assert row["time"] > 0 and row["volume"] >= 0
        if row["mode"] == "current":
            assert row["beyond"] == row["volume"] == row["rtrs_per_message"] == 0
        if row["pattern"] == "mispredicted" and row["mode"] != "current":
            # An offer for a small message is never of use; adaptation leaves one in sixteen.
            assert row["usage"] in (None, 0)
            assert row["rtrs_per_message"] > 0.3 or row["mode"] in ("indexed", "default")
    stopped = {row["mode"]: row["rtrs_per_message"] for row in rows
               if row["pattern"] == "mispredicted"}
    assert stopped["indexed"] < stopped["indexed-fixed"] / 2
    assert "aims" not in text, "they are for a link whose wire is the bottleneck"


@pytest.mark.parametrize("name", bench_large.BENCHMARKS)
def test_plots(measured, tmp_path, name):
    content, _ = measured(name)
    path = tmp_path / "out.png"
    bench_large.Benchmark.plot(path, content, bench_report.plotting())
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = np.frombuffer(data[16:24], ">u4")
    assert width >= 800 and height >= 300


def test_wrong_number_of_ranks(tmp_path):
    done = pyrdv("run", "-n", "3", "-m", "pyrdv.tools.bench", "overlap", cwd=tmp_path)
    assert done.returncode == 2
    assert "needs 2 ranks and this job has 3" in done.stderr


def test_options():
    options = parse("progress", "--delays", "0,0.5,3", "--long", "7")
    assert (options.delays, options.long) == ([0, 0.5, 3], 7)
    options = parse("overlap")
    assert options.modes == speculation.available() and options.modes[0] == "current"
    assert options.sizes[-1] == 4 << 20 and options.ratio == bench_overlap.RATIO
    assert parse("exchange").models == [1, 2]


@pytest.mark.parametrize(
    "words, told",
    [
        (["overlap", "--modes", "current,fast"], "'fast' is not a mode"),
        (["overlap", "--sizes", "1X"], "'1X' is not a size"),
        (["overlap", "--ratio", "0"], "'0' is not a number above 0"),
        (["progress", "--delays", "0,-1"], "'-1' is not a number above 0"),
        (["exchange", "--models", "3"], "'3' is not a model"),
        (["exchange", "--ratios", "a"], "'a' is not a number above 0"),
        (["overhead", "--rounds", "0"], "'0' is not a whole number"),
        (["overlap", "-n", "4"], "unrecognized arguments: -n"),
    ],
)
def test_bad_options_are_named(capsys, words, told):
    with pytest.raises(SystemExit) as end:
        parse(*words)
    assert end.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("name", bench_large.BENCHMARKS)
def test_help_explains_the_modes(capsys, name):
    with pytest.raises(SystemExit) as end:
        parse(name, "--help")
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{mode} {speculation.MODES[mode][1]}" in text for mode in speculation.available())
    assert speculation.PAPER in text


@pytest.mark.parametrize(
    "seconds, text",
    [(0, "0 µs"), (1.23e-6, "1.23 µs"), (9.996e-4, "1 ms"), (0.123456, "123 ms"), (2.5, "2.5 s"),
     (99.96e-6, "100 µs"), (None, "-")])
def test_times(seconds, text):
    assert speculation.time_text(seconds) == text


@pytest.mark.parametrize(
    "communication, work, both, share",
    [(1.0, 2.0, 2.0, 1.0), (1.0, 2.0, 3.0, 0.0), (4.0, 2.0, 5.0, 0.5), (1.0, 1.0, 1.25, 0.75)])
def test_end_to_end(communication, work, both, share):
    assert kernels.end_to_end(communication, work, both) == share


def test_aims_are_judged_for_rdma_only():
    row = {"size": 1 << 20, "first": "receiver", "side": "sender", "mode": "indexed",
           "hidden": 0.985, "of_ceiling": 0.96}
    assert "NOT MET" in bench_overlap.verdicts([row])[1]
    assert bench_overlap.verdicts([row | {"of_ceiling": 0.98}])[1].endswith(": met")
    assert not bench_overlap.verdicts([row | {"of_ceiling": None}])
    assert not bench_overlap.verdicts([row | {"mode": "current"}])
    useless = {"pattern": "crossing", "mode": "indexed", "message": 1 << 20, "beyond": 0.015,
               "volume": 0.0001}
    assert "NOT MET" in bench_exchange.verdicts([useless])[1]
    assert bench_exchange.verdicts([useless | {"mode": "indexed-fixed"}])[1].endswith(": met")
    assert not bench_exchange.verdicts([useless | {"pattern": "mispredicted"}])


def test_kernels_need_no_pyrdv():
    """The loops are loaded by path where only mpi4py exists: they may not import the package."""
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('k', {kernels.__file__!r})\n"
        "module = importlib.util.module_from_spec(spec); sys.modules['k'] = module\n"
        "spec.loader.exec_module(module)\n"
        "assert not any(name.split('.')[0] == 'pyrdv' for name in sys.modules), 'pyrdv imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)
