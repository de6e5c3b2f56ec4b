"""``pyrdv bench applications`` over shared memory, and whether its kernels would notice."""

import argparse
import json

import numpy as np
import pytest

from pyrdv.tools import bench, bench_npb, npb_kernels as kernels

from .test_tune import run

MODES = ["current", "classic", "indexed", "default"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("applications")
    done = run(folder, "bench", "applications", "-n", "2", "--rounds", "1", "--iterations", "2",
               "--modes", ",".join(MODES), "--json", "out.json", "--plot", "out.png")
    assert done.returncode == 0, done
    return folder, json.loads((folder / "out.json").read_text()), done.stdout


def test_document(measured):
    """Each kernel has a row of each class and mode, and every row is what it is called."""
    folder, content, text = measured
    rows = content["rows"]
    assert [(row["kernel"], row["class"], row["mode"]) for row in rows] == [
        (name, size, mode) for name in kernels.KERNELS for size in bench_npb.CLASSES
        for mode in MODES]
    assert not content["refused"] and (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    for row in rows:
        assert 0 < row["wait"] < row["run"] and row["volume"] >= 0
        large = row["counted"]["sends_rendezvous"]
        assert (large > 0) == (row["class"] == "B"), row
        if row["mode"] == "current":
            assert row["change"] == row["extra_packets"] == 0 and row["usage"] is None
        if row["kernel"] == "lu":
            assert row["counted"]["rtrs_sent"] == 0, "its receives name no sender"
    assert any(row["counted"]["rtrs_used"] for row in rows if row["mode"] == "indexed")
    assert "wait +21 % without adaptation" in text


SPOILED = """
import sys
import numpy as np
from pyrdv import MPI
from pyrdv.tools import npb_kernels as kernels
from pyrdv.tools.application_kernels import Wrong

comm = MPI.COMM_WORLD
name, spoil = sys.argv[1], sys.argv[2] == "spoiled"

class Spoiled(kernels.KERNELS[name]):
    right = False

    def wait(self, *requests):
        super().wait(*requests)
        if spoil and not self.right and comm.rank == comm.size - 1:
            self.arrived()

    def arrived(self):
        for array in (getattr(self, "p", None), getattr(self, "came", None), self.halo):
            if array is not None:
                array.reshape(-1)[:1] += 100

    halo = None

    def neighbours(self, p):
        self.halo = p[0]
        return super().neighbours(p)

    def swap(self, comm, peer, mine, count):
        came = super().swap(comm, peer, mine, count)
        if spoil and peer != comm.rank:
            came = came ^ 1
        return came

    def check(self, comm):
        self.right = True
        super().check(comm)

# The whole grid is computed by the kernel as it is.
made = Spoiled(comm, 4096)
made.wanted = getattr(made, "wanted", None)
made.run(comm, 3)
if made.wanted is not None:
    one = kernels.KERNELS[name](kernels.Alone(), 4096, comm.size)
    one.run(kernels.Alone(), 3)
    rows = made.found.shape[0]
    made.wanted[3] = one.found[comm.rank * rows:(comm.rank + 1) * rows]
try:
    made.check(comm)
    print("right")
except Wrong as error:
    print("wrong", error)
"""


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", kernels.KERNELS)
def test_a_wrong_byte_is_noticed(tmp_path, name, ranks):
    """What arrived is what the result depends on, and the result is right if nobody spoils it."""
    (tmp_path / "spoiled.py").write_text(SPOILED)
    done = run(tmp_path, "run", "-n", str(ranks), "spoiled.py", name, "as-it-is")
    assert done.returncode == 0, done
    assert done.stdout.split() == ["right"] * ranks
    done = run(tmp_path, "run", "-n", str(ranks), "spoiled.py", name, "spoiled")
    assert done.returncode == 0, done
    assert f"wrong {name.upper()}: " in done.stdout, done


def test_multigrid_converges():
    """Its cycles are those of a solver: the residual falls."""
    alone, left = kernels.Alone(), []
    for iterations in (1, 4):
        made = kernels.Mg(alone, 8192)
        made.run(alone, iterations)
        u = np.pad(made.found, ((1, 1), (0, 0)))
        left.append(abs(made.residual(alone, u, made.start, 1.0)).max())
    assert left[1] < left[0] / 4, left


def test_lines_are_solved():
    """Elimination and substitution through the rows solve the systems that were produced."""
    alone = kernels.Alone()
    for kind in (kernels.Sp, kernels.Bt):
        made = kind(alone, 2048)
        before = made.start.reshape(made.shape)
        made.run(alone, 1)
        after = made.found.reshape(made.shape)
        matrices = np.stack([made.produce(before, block) for block in range(kind.BLOCKS)], axis=1)
        product = (matrices @ after[..., None])[..., 0]
        product[1:] -= after[:-1]
        product[:-1] -= after[1:]
        assert np.allclose(product, before)


def test_options(capsys):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    options = parser.parse_args(["applications", "--kernels", "bt,lu", "--classes", "B"])
    assert (options.kernels, options.classes, options.ranks) == (["bt", "lu"], ["B"], 4)
    assert "classic" in options.modes
    for wrong, told in ((["--kernels", "ft"], "'ft' is not a kernel"),
                        (["--classes", "C"], "'C' is not a class"), (["-n", "3"], "3 is odd")):
        with pytest.raises(SystemExit):
            parser.parse_args(["applications", *wrong])
        assert told in capsys.readouterr().err
