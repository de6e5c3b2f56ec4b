"""Programs written for mpi4py, run unchanged by pyrdv on two ranks."""

import re
from pathlib import Path

import pytest

from tests.mpi4py import source

OSU = ("osu_latency", "osu_bw", "osu_bibw", "osu_multi_lat")
#: The programs of MPI's reference that need no derived datatypes.
REFERENCE = ("2.01", "2.08", "2.16", "2.29", "2.32", "2.34", "2.35")


def run(jobs, words, *options, **more):
    return jobs.run(words, 2, *options, env=source.environment(), **more)


@pytest.mark.parametrize("name", OSU)
def test_osu_benchmarks(jobs, mpi4py_source, name):
    """Each prints a line per size, from 1 byte (latencies: 0) to 4 MiB."""
    out = run(jobs, [mpi4py_source / "demo" / f"{name}.py"]).ok().out
    sizes = [int(line.split()[0]) for line in out.splitlines() if re.match(r" *\d+ +\d", line)]
    assert sizes == [0, *(1 << i for i in range(23))] or sizes == [1 << i for i in range(23)], out


@pytest.mark.parametrize("name", REFERENCE)
def test_reference_programs(jobs, mpi4py_source, name):
    """They hold their own assertions."""
    run(jobs, [mpi4py_source / "demo" / "mpi-ref-v1" / f"ex-{name}.py"]).ok()


@pytest.mark.parametrize("command, line", [
    ("pingpong --max-size 65536 --loop 20 --skip 2", r" *65536 .*\d"),
    ("pingpong --max-size 65536 --loop 20 --skip 2 --outband", r" *65536 .*\d"),
    ("ringtest", r"time for \d+ loops"),
    ("helloworld", r"Hello, World! I am process 1 of 2"),
])
def test_bench(jobs, mpi4py_source, command, line):
    first, *args = command.split()
    out = run(jobs, ["mpi4py.bench", first, *args], "-m").ok().out
    assert re.search(line, out), out


def test_sampler_over_a_pool(jobs, mpi4py_source):
    program = Path(__file__).parent / "programs" / "sampler.py"
    out = run(jobs, [program]).ok().out
    assert re.fullmatch(r"sampled 1600 by 1 workers: mean (2\.9|3\.[01])\n", out), out
