"""``pyrdv bench kernels`` over shared memory, and whether its kernels would notice."""

import argparse
import json

import pytest

from pyrdv.tools import (
    application_kernels as kernels,
    bench,
    bench_applications as applications,
    bench_protocols as protocols,
)

from .test_tune import run

QUICK = ["--rounds", "2", "--iterations", "3", "--bytes", "128K"]


@pytest.mark.parametrize("ranks", [2, 3])
def test_bench(tmp_path, ranks):
    done = run(tmp_path, "bench", "kernels", "-n", str(ranks), *QUICK, "--json", "out.json",
               "--plot", "out.png")
    assert done.returncode == 0, done
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["benchmark"] == "kernels" and content["settings"]["ranks"] == ranks
    assert [(row["kernel"], row["way"]) for row in content["rows"]] == [
        (name, way) for name in ("is", "cg") for way in protocols.UNREGISTERED]
    for row in content["rows"]:
        assert len(row["times"]) == row["samples"] == 2 and row["iterations"] == 3
        assert 0 < row["min"] <= row["median"] and 0 < row["in_messages"] < 1
        # Each way is what it is called, and its messages are large.
        if row["way"] != "auto":
            assert (row["counted"]["sends_piped"] > 0) == (row["way"] == "pipeline")
        assert row["counted"]["sends_rendezvous"] > 0
    for name in ("is", "cg"):
        rivals = [row["of_better"] for row in content["rows"]
                  if row["kernel"] == name and row["way"] in applications.RIVALS]
        assert min(rivals) == 1
        assert f"{name}: auto takes" in done.stdout
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


SPOILED = """
import sys
from pyrdv import MPI
from pyrdv.tools import application_kernels as kernels

comm = MPI.COMM_WORLD
peer = 1 - comm.Get_rank()
what = sys.argv[1]

class Sort(kernels.Sort):
    def exchange(self, comm, pieces):
        arrived = super().exchange(comm, pieces)
        if what == "changed":
            arrived[peer][3] += 1
        elif what == "lost":
            arrived[peer] = arrived[peer][1:]
        elif what == "strange":
            arrived[peer][-1] = -1
        return arrived

class Gradients(kernels.Gradients):
    right = False
    def edges(self, comm):
        super().edges(comm)
        if what == "edge" and not self.right:
            self.p[-1 if peer else 0, 5] += 1
    def check(self, comm):
        self.right = True
        super().check(comm)

made = (Gradients if what in ("edge", "well-cg") else Sort)(comm, 64 << 10)
made.run(comm, 12)
if what == "order":
    made.result[0][[0, -1]] = made.result[0][[-1, 0]]
try:
    made.check(comm)
    print("right")
except kernels.Wrong as error:
    print(error)
"""


@pytest.mark.parametrize("what, told", [
    ("well-is", "right"), ("well-cg", "right"), ("changed", "IS: keys were lost or changed"),
    ("lost", "IS: keys were lost or changed"), ("order", "are not sorted"),
    ("edge", "CG: the residual after 12 iterations is"),
])
def test_a_wrong_result_is_noticed(tmp_path, what, told):
    """What arrived is what the result depends on: a changed element changes it."""
    (tmp_path / "spoiled.py").write_text(SPOILED)
    done = run(tmp_path, "run", "-n", "2", "spoiled.py", what)
    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == 2
    assert all(told in line for line in done.stdout.splitlines()), done.stdout


def test_a_key_of_another_bucket_ends_the_run(tmp_path):
    (tmp_path / "spoiled.py").write_text(SPOILED)
    done = run(tmp_path, "run", "-n", "2", "spoiled.py", "strange")
    assert done.returncode == 1
    assert "has keys that are not of its bucket" in done.stderr


def test_verdict():
    def row(kernel, way, median, ratio):
        return {"kernel": kernel, "way": way, "median": median, "of_better": ratio}

    rows = [row("is", "get-auto", 2.0, 2.0), row("is", "pipeline", 1.0, 1.0),
            row("is", "auto", 1.03, 1.03), row("cg", "get-auto", 1.0, 1.0),
            row("cg", "get-trust", 0.5, 0.5), row("cg", "pipeline", 2.0, 2.0),
            row("cg", "auto", 1.04, 1.04)]
    text = applications.verdict(rows)
    assert "is: auto takes 1.030 times the better protocol's time (aim 1.03): met" in text
    assert "is: pipeline takes 0.50 times the time of get-auto; paper 0.92" in text
    assert "cg: auto takes 1.040 times the better protocol's time (aim 1.03): NOT MET" in text
    assert "cg: pipeline takes 4.00 times the time of get-trust; paper 1.00" in text


def test_options(capsys):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    options = parser.parse_args(["kernels", "--kernels", "cg", "--bytes", "1M", "--no-pin"])
    assert (options.kernels, options.bytes, options.pin) == (["cg"], 1 << 20, False)
    for wrong, told in ((["--kernels", "ft"], "'ft' is not a kernel"),
                        (["--bytes", "1K,2K"], "'1K,2K' is more than one size"),
                        (["-n", "1"], "take at least 2")):
        with pytest.raises(SystemExit):
            parser.parse_args(["kernels", *wrong])
        assert told in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parser.parse_args(["kernels", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in [*protocols.WAYS, *kernels.KERNELS])


def test_wrong_number_of_ranks(tmp_path):
    done = run(tmp_path, "run", "-n", "1", "-m", "pyrdv.tools.bench", "kernels")
    assert done.returncode == 2
    assert "kernels needs at least 2 ranks and this job has 1" in done.stderr
