"""What is executed, and which process is the rank (pyrdv.launch.program)."""

import os
import shutil
import sys

import pytest

from pyrdv.launch.program import Program
from tests.launch.conftest import PREAMBLE

RANK = PREAMBLE + "client = join(); print(launch.rank, client.size, sys.argv[1:]); client.leave()\n"
BOTH = ["0 2 ['a b', '-n']", "1 2 ['a b', '-n']"]
WRAPPER = f'#!/bin/sh\n# loads what the site needs\n{sys.executable} "$@"\nexit $?\n'


def script(folder, name, text):
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("name", ["python", "python3.11", "python-wrapper", "pythonw.sh", "tool"])
def test_a_wrapper_is_no_interpreter_whatever_its_name(jobs, name):
    wrapper = script(jobs.folder, name, WRAPPER)
    status, out, err = jobs.run([wrapper, jobs.write(RANK), "a b", "-n"], 2)
    assert (status, sorted(out.splitlines())) == (0, BOTH), err


def test_a_wrapper_by_a_link_or_from_path_or_in_python(jobs):
    os.symlink(script(jobs.folder, "site.sh", WRAPPER), jobs.folder / "python3")
    program = jobs.write(RANK)
    inside = script(jobs.folder, "pythonx", f"#!{sys.executable}\nimport subprocess, sys\n"
                    "sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))\n")
    for words in (["python3"], [inside], ["env", "python3"]):
        status, out, err = jobs.run(
            [*words, program, "a b", "-n"], 2,
            env={"PATH": f"{jobs.folder}{os.pathsep}{os.environ['PATH']}"})
        assert (status, sorted(out.splitlines())) == (0, BOTH), err


def test_a_python_program_may_say_that_it_is_a_wrapper(jobs):
    inner = jobs.write(RANK, "inner.py")
    outer = script(jobs.folder, "outer.py", "import subprocess, sys\nsys.exit(subprocess.call("
                   f"[sys.executable, {inner!r}, *sys.argv[1:]]))\n")
    status, out, err = jobs.run([outer, "a b", "-n"], 2, "--wrapped")
    assert (status, sorted(out.splitlines())) == (0, BOTH), err


def test_the_interpreter_itself_is_the_rank(tmp_path):
    assert not Program(sys.executable).wrapped
    assert not Program(os.path.realpath(sys.executable)).wrapped
    os.symlink(os.path.realpath(sys.executable), tmp_path / "mine")
    assert not Program(str(tmp_path / "mine")).wrapped
    # A copy of another program under that name.
    shutil.copy(shutil.which("true"), tmp_path / "python-true")
    assert Program(str(tmp_path / "python-true")).wrapped
    assert Program(script(tmp_path, "python", WRAPPER)).wrapped


def test_code_and_standard_input(jobs):
    """Every rank gets the whole program, and the other words behind it."""
    status, out, err = jobs.run(["-c", RANK, "a b", "-n"], 2)
    assert (status, sorted(out.splitlines())) == (0, BOTH), err
    long = RANK + "# " + "x" * 300_000 + "\nassert sys.stdin.read() == ''\n"
    status, out, err = jobs.run(["-", "a b", "-n"], 2, input=long.encode())
    assert (status, sorted(out.splitlines())) == (0, BOTH), err


def test_number_of_ranks_in_the_words_of_mpiexec(jobs):
    status, out, _ = jobs.run([jobs.write(RANK), "a b", "-n"], 1, "-np", "2")
    assert (status, sorted(out.splitlines())) == (0, BOTH)


def test_in_a_folder_that_was_deleted(jobs):
    gone = "mkdir gone; cd gone; rmdir ../gone"
    status, out, err = jobs.run([jobs.write(RANK), "a b", "-n"], 2, shell_before=gone)
    assert (status, sorted(out.splitlines())) == (0, BOTH), err
    status, out, err = jobs.run(["missing.py"], 2, shell_before=gone)
    assert status == 127 and "missing.py" in err and "was deleted" in err
    assert err.count("\n") == 1
