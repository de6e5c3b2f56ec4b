"""``pyrdv bench``: what it prints and writes, how it refuses; and the loops it shares with others.

The figures themselves are not judged here: only that they are there, finite and positive.
"""

import argparse
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from pyrdv.tools import bench, bench_kernels, bench_report, bench_startup, cli

LIMIT = 120
QUICK = ["--seconds", "0.02"]


def pyrdv(*words, cwd):
    """Run the command line to its end."""
    command = [sys.executable, "-m", "pyrdv.tools.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=cwd)


def parse(*words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(words)


def check_document(content, benchmark, ranks):
    """Every fact and every figure of a JSON file is there and makes sense."""
    assert content["schema"] == bench_report.SCHEMA
    assert content["benchmark"] == benchmark
    assert content["settings"]["ranks"] == ranks
    machine = content["machine"]
    assert machine["cores"] >= machine["cores_allowed"] >= 1
    assert machine["cpu"] and machine["kernel"] and machine["python"]
    assert machine["numpy"] == np.__version__
    assert {"pyrdv", "commit"} <= machine.keys()
    for row in content["rows"]:
        figures = [row[key] for key in ("min", "p10", "median", "p90")]
        assert all(math.isfinite(figure) and figure > 0 for figure in figures), row
        assert figures == sorted(figures)
        assert row["samples"] >= 1 and row["size"] >= 1


@pytest.mark.parametrize(
    "benchmark, more, rows, unit",
    [
        ("latency", ["--sizes", "8,4K,1M"], 3, "us"),
        ("rate", ["--window", "16"], 1, "M/s"),
        ("bandwidth", ["--sizes", "64K", "--buffers", ",".join(bench_kernels.BUFFERS),
                       "--window", "8"], len(bench_kernels.BUFFERS), "GB/s"),
    ],
)
def test_table_and_json(tmp_path, benchmark, more, rows, unit):
    path = tmp_path / "out.json"
    done = pyrdv("bench", benchmark, *QUICK, *more, "--json", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(path.read_text())
    check_document(content, benchmark, 2)
    assert len(content["rows"]) == rows
    assert {row["unit"] for row in content["rows"]} == {unit}
    lines = done.stdout.splitlines()
    assert lines[-rows - 1] == bench_report.HEADER
    assert all(line.endswith(unit) for line in lines[-rows:])
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"], "nothing else is left behind"


def test_pairs_of_more_ranks(tmp_path):
    path = tmp_path / "out.json"
    words = ["bench", "rate", "-n", "4", "--iterations", "7", "--json", path, *QUICK]
    done = pyrdv(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(path.read_text())
    check_document(content, "rate", 4)
    assert content["rows"][0]["pairs"] == 2
    assert content["rows"][0]["samples"] == 7


def test_pin(tmp_path):
    done = pyrdv("bench", "latency", "--sizes", "8", "--pin", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rank 0 on CPU " in done.stdout


def test_wrong_number_of_ranks(tmp_path):
    done = pyrdv("run", "-n", "3", "-m", "pyrdv.tools.bench", "latency", cwd=tmp_path)
    assert done.returncode == 2
    assert "has 3 ranks" in done.stderr


@pytest.mark.parametrize(
    "words, told",
    [
        (["latency", "--sizes", "8,x"], "'x' is not a size"),
        (["latency", "--sizes", "0"], "smallest size is 1"),
        (["latency", "-n", "3"], "3 is odd"),
        (["rate", "--window", "0"], "'0' is not a whole number"),
        (["bandwidth", "--buffers", "new"], "'new' is not a kind of buffers"),
        (["latency", "--seconds", "-1"], "'-1' is not a number of seconds"),
    ],
)
def test_bad_options_are_named(capsys, words, told):
    with pytest.raises(SystemExit) as end:
        parse(*words)
    assert end.value.code == 2
    assert told in capsys.readouterr().err


def test_unwritable_files_are_refused_before_measuring(tmp_path):
    missing = tmp_path / "missing" / "out.json"
    done = pyrdv("bench", "latency", "--json", missing, cwd=tmp_path)
    assert done.returncode == 2
    assert str(missing) in done.stderr
    assert bench_report.HEADER not in done.stdout


def test_plot(tmp_path):
    """The picture is a PNG of a decent size; without matplotlib the command says what to do."""
    path = tmp_path / "out.png"
    done = pyrdv("bench", "latency", "--sizes", "8,1K,64K", "--plot", path, *QUICK, cwd=tmp_path)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert done.returncode == 2
        assert "pip install 'pyrdv[bench]'" in done.stderr and str(path) in done.stderr
        return
    assert done.returncode == 0, done.stderr
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = np.frombuffer(data[16:24], ">u4")
    assert width >= 800 and height >= 400


@pytest.mark.parametrize("ranks, given", [
    ("2", ["bench", "latency", "--sizes", "1,2K", "--pin"]),
    ("4", ["bench", "rate", "-n", "4", "--iterations", "9", "--seconds", "0.125"]),
    ("4", ["bench", "startup", "--counts", "4,2", "--requests", "all", "--json", "a b.json"]),
    ("2", ["bench", "first-touch", "--sizes", "1M,64K", "--no-pin"]),
    ("6", ["bench", "kernels", "-n", "6", "--kernels", "cg"]),
    ("2", ["bench", "exchange", "--models", "2", "--ratios", "0.25"]),
    ("2", ["tune", "--fabric", "shm", "--seconds", "0.125"]),
])
def test_ranks_are_told_the_words_as_they_were_given(monkeypatch, tmp_path, ranks, given):
    started = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYRDV_RANK", raising=False)
    monkeypatch.setattr(cli, "_COMMANDS", {**cli._COMMANDS, "run": started.append})
    monkeypatch.setattr(bench_startup, "refusal", lambda: None)
    cli.main(given)
    command, *words = given
    assert started == [["-n", ranks, "-m", f"pyrdv.tools.{command}", *words]]


@pytest.mark.parametrize(
    "text, size", [("8", 8), ("4K", 4096), ("1m", 1 << 20), ("2 MiB", 2 << 20), ("1GB", 1 << 30)]
)
def test_sizes(text, size):
    assert bench_report.parse_size(text) == size
    assert bench_report.parse_size(bench_report.size_text(size).replace(" ", "")) == size


def test_plan_keeps_to_the_budget():
    samples, batch = bench_kernels.Plan(budget=1.0).counts(1e-6)
    assert samples == bench_kernels.MAX_SAMPLES and batch * 1e-6 >= bench_kernels.MIN_BATCH_S * 0.99
    samples, batch = bench_kernels.Plan(budget=1.0).counts(0.01)
    assert (samples, batch) == (100, 1)
    samples, batch = bench_kernels.Plan(budget=0.1).counts(10.0)
    assert (samples, batch) == (bench_kernels.MIN_SAMPLES, 1)
    assert bench_kernels.Plan(iterations=3).counts(1e-6)[0] == 3


def test_kernels_need_no_pyrdv():
    """The loops are loaded by path where only mpi4py exists: they may not import the package."""
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('k', {bench_kernels.__file__!r})\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "assert not any(name.split('.')[0] == 'pyrdv' for name in sys.modules), 'pyrdv imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)
