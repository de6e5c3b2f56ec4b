"""mpi4py's own tests of error classes and `Exception`; not those that add classes."""

import os
import re
import subprocess
import sys

from tests.mpi4py import source

TESTS = ("testGetErrorClass", "testGetErrorStrings", "testException")


def judged(folder, tests):
    """(how many ran, whether all passed) in a process of its own, a world of one."""
    command = [sys.executable, "-m", "unittest", *tests]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          env={**os.environ, **source.environment()})
    ran = re.search(r"^Ran (\d+) test", done.stderr, re.MULTILINE)
    assert ran, done.stderr
    return int(ran[1]), done.stderr.rstrip().endswith("\nOK")


def test_exceptions_behave_as_in_mpi4py(mpi4py_source):
    tests = [f"test_errorcode.TestErrorCode.{name}" for name in TESTS]
    assert judged(mpi4py_source / "test", tests) == (len(TESTS), True)


def test_planted_failure_is_caught(mpi4py_source, tmp_path):
    (tmp_path / "test_planted.py").write_text(
        "import unittest\nfrom mpi4py import MPI\nclass T(unittest.TestCase):\n"
        "    def test(self): self.assertEqual(MPI.Exception(4), 5)\n", "utf-8")
    assert judged(tmp_path, ["test_planted.T"]) == (1, False)
