"""The package builds, imports and explains itself without rdma-core; with it, nothing is opened."""

import os
import subprocess
import sys
import textwrap

import pytest

from tests.house import reading

VERBS = "pyrdv.fabrics.verbs"


def build(tmp_path, **variables):
    """Build one module of verbs into a folder of its own; status, what was built, stderr."""
    environ = {**os.environ, "PYRDV_MODULES": f"{VERBS}.library", **variables}
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib",
               str(tmp_path / "lib"), "--build-temp", str(tmp_path / "temp")]
    done = subprocess.run(command, cwd=reading.ROOT, env=environ, capture_output=True, text=True)
    return done.returncode, [path.name for path in tmp_path.rglob("*.so")], done.stderr


# -nostdinc hides every header of the system, so those of rdma-core too.
ABSENT = {"CPPFLAGS": "-nostdinc"}


def test_absent_headers_leave_verbs_out_with_one_line(tmp_path):
    status, built, stderr = build(tmp_path, PYRDV_VERBS="auto", **ABSENT)
    assert (status, built) == (0, [])
    (line,) = stderr.splitlines()
    assert line.startswith("built without RDMA verbs: infiniband/verbs.h and rdma/rdma_cma.h were")
    assert "libibverbs-dev librdmacm-dev" in line


def test_absent_headers_are_an_error_where_they_are_required(tmp_path):
    status, built, stderr = build(tmp_path, PYRDV_VERBS="require", **ABSENT)
    assert (status, built) == (1, [])
    assert "PYRDV_VERBS=require" in stderr and "libibverbs-dev" in stderr


def test_old_headers_are_told_from_absent_ones(tmp_path):
    for name in ("infiniband/verbs.h", "rdma/rdma_cma.h"):
        header = tmp_path / "old" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("", encoding="ascii")
    old = {"CPPFLAGS": f"-isystem {tmp_path / 'old'}"}
    status, _, stderr = build(tmp_path, PYRDV_VERBS="require", **old)
    assert status == 1 and "too old" in stderr


def test_verbs_are_built_where_the_headers_are(tmp_path):
    status, built, stderr = build(tmp_path, PYRDV_VERBS="require")
    assert status == 0, stderr
    assert [name.split(".")[0] for name in built] == ["library"]


def test_verbs_can_be_turned_off(tmp_path):
    stale = tmp_path / "lib" / "pyrdv" / "fabrics" / "verbs"
    stale.mkdir(parents=True)
    suffix = next((reading.SRC / "pyrdv" / "engine").glob("engine.*.so")).name.partition(".")[2]
    (stale / f"library.{suffix}").write_bytes(b"of an earlier build")
    status, built, stderr = build(tmp_path, PYRDV_VERBS="off")
    assert (status, built) == (0, [])
    assert "PYRDV_VERBS=off" in stderr


def test_unknown_choice_is_refused(tmp_path):
    status, _, stderr = build(tmp_path, PYRDV_VERBS="maybe")
    assert status != 0 and "auto, require or off" in stderr


# ----------------------------------------------------------- such a package at work


HIDDEN = """\
import sys
from pathlib import Path

class Hide:
    # Extension modules of verbs that a build without headers does not have.
    def find_spec(self, name, path=None, target=None):
        if name.startswith("pyrdv.fabrics.verbs.") and "." not in name[20:]:
            folder = Path(path[0])
            if (folder / (name[20:] + ".pyx")).exists():
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
"""


def python(program, **variables):
    environ = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environ,
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_package_without_verbs_imports_and_says_so():
    status, stdout, stderr = python(HIDDEN + textwrap.dedent("""
        from pyrdv import MPI
        from pyrdv.fabrics import verbs
        print(MPI.COMM_WORLD.Get_size(), verbs.built(), verbs.unavailable())
    """))
    assert (status, stderr) == (0, "")
    assert stdout.startswith("1 False this installation of pyrdv was built without RDMA verbs")
    assert "libibverbs-dev" in stdout


def test_doctor_of_a_package_without_verbs_says_so():
    status, stdout, stderr = python(HIDDEN + textwrap.dedent("""
        from pyrdv.tools import cli
        sys.exit(cli.main(["doctor"]))
    """))
    assert status == 0, stderr
    assert "built without RDMA verbs" in stdout and "libibverbs-dev" in stdout


@pytest.mark.parametrize("program", ["import pyrdv", "from pyrdv import MPI",
                                     "import pyrdv.fabrics.verbs as v; v.built()"])
def test_importing_opens_no_library(program):
    """Field cases L12 and R12: libraries are opened when verbs are asked for, not before."""
    status, stdout, stderr = python(program + "\nprint(open('/proc/self/maps').read())")
    assert status == 0, stderr
    assert "libc.so" in stdout, "the list of libraries could be read"
    assert "libibverbs" not in stdout and "librdmacm" not in stdout


def test_asking_opens_the_libraries():
    status, stdout, stderr = python(
        "import pyrdv.fabrics.verbs as v; v.unavailable()\nprint(open('/proc/self/maps').read())")
    assert status == 0, stderr
    assert "libibverbs" in stdout and "librdmacm" in stdout
