"""What type checkers make of the stubs: files that must pass do, and files that must fail do.

The files are in ``typings``. In those that must fail a comment names the code of each error at its
line, ``# E: attr-defined``; mypy must report these and no others.
"""

import ast
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pyrdv.api.missing import MISSING
from tests.house import reading

FOLDER = Path(__file__).parent / "typings"
FOUND = re.compile(r"^(.+?):(\d+): error: .*\[([\w-]+)\]$", re.MULTILINE)

#: Functions that really never return: `Abort` ends the job, and `Missing` raises when asked.
ENDS = {"Abort", "__get__"}


def expected(path):
    """{(line, code)} of the comments of a file."""
    lines = path.read_text("utf-8").splitlines()
    return {(number, code) for number, line in enumerate(lines, 1)
            for code in re.findall(r"# E: ([\w-]+)", line)}


def reported(paths, cache):
    """{name of file: {(line, code)}} of what mypy says about `paths`."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty",
               "--config-file", str(reading.ROOT / "pyproject.toml"), "--cache-dir", str(cache),
               *map(str, paths)]
    done = subprocess.run(command, cwd=reading.ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {path.name: set() for path in paths}
    for name, line, code in FOUND.findall(done.stdout):
        found[Path(name).name].add((int(line), code))
    assert done.returncode == any(found.values()), done.stdout + done.stderr
    return found


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """What mypy says about all files of the folder, and about a planted one."""
    planted = tmp_path_factory.mktemp("planted") / "planted.py"
    planted.write_text(textwrap.dedent("""\
        from pyrdv import MPI
        MPI.Win.Create(None)
        print(MPI.VERSION)  # E: attr-defined
    """), "utf-8")
    paths = [*sorted(FOLDER.glob("*.py")), planted]
    return {path: (expected(path), found) for path, found in zip(
        paths, reported(paths, tmp_path_factory.mktemp("cache")).values(), strict=True)}


def test_files_that_must_pass(judged):
    good = [path for path in judged if path.name.startswith("good")]
    assert good and [judged[path] for path in good] == [(set(), set())] * len(good)


def test_files_that_must_fail(judged):
    bad = [path for path in judged if path.name.startswith("bad")]
    assert len(bad) >= 2
    for path in bad:
        wanted, found = judged[path]
        assert len(wanted) >= 5 and found == wanted, path.name


def test_planted_file_is_caught(judged):
    """An error without a comment, and a comment without an error."""
    wanted, found = next(judged[path] for path in judged if path.name == "planted.py")
    assert (wanted, found) == ({(3, "attr-defined")}, {(2, "attr-defined")})


# ------------------------------------------------- stand-ins for what is not offered


def stand_ins(text):
    """Functions of a stub that claim never to return: a type checker stops behind them."""
    return [node.name for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef) and node.returns is not None
            and ast.unparse(node.returns).rpartition(".")[2] in ("NoReturn", "Never")
            and node.name not in ENDS]


def refused_members(text):
    """``Class.name`` of a stub that `MISSING` lists."""
    return [f"{node.name}.{member.name}" for node in ast.parse(text).body
            if isinstance(node, ast.ClassDef) and node.name in MISSING
            for member in node.body if isinstance(member, ast.FunctionDef)
            and member.name in " ".join(MISSING[node.name].values()).split()]


def test_stubs_do_not_stand_in_for_what_is_not_offered():
    stubs = reading.sources(".pyi", under="src/pyrdv")
    assert len(stubs) > 40
    found = {path.name: stand_ins(path.read_text("utf-8"))
             + refused_members(path.read_text("utf-8")) for path in stubs}
    assert {name: names for name, names in found.items() if names} == {}
    tree = ast.parse((reading.SRC / "pyrdv" / "MPI.pyi").read_text("utf-8"))
    assert "__getattr__" not in {getattr(node, "name", None) for node in tree.body}


def test_planted_stand_ins_are_caught():
    text = textwrap.dedent("""\
        class Comm:
            def Spawn(self) -> int: ...
            def Abort(self) -> NoReturn: ...
        def __getattr__(name: str) -> typing.NoReturn: ...
        def Open() -> Never: ...
    """)
    assert sorted(stand_ins(text)) == ["Open", "__getattr__"]
    assert refused_members(text) == ["Comm.Spawn"]
