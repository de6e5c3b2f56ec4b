"""The stubs name all that the public module offers, and docstrings are numpydoc where they list.

What the stubs say is compared with the built package by `mypy.stubtest`, a part of `make lint`.
"""

import ast
import inspect
import re
import subprocess
import sys

import pytest

from pyrdv.api.naming import Missing
from tests.house import reading
from tests.house.test_docs import own_members, public_names

SECTIONS = {"Parameters", "Returns", "Raises", "Yields", "Attributes", "Notes", "See Also",
            "Examples", "References", "Warns"}


def stub_of(module):
    return reading.SRC.joinpath(*module.split(".")).with_suffix(".pyi")


def stub_names(text):
    """{name: set of members, or None for what is no class} of a stub."""
    names = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = set(stub_names("\n".join(map(ast.unparse, node.body))))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = None
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname: None for alias in node.names if alias.asname}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = None
        elif isinstance(node, ast.Assign):
            names |= {target.id: None for target in node.targets}
    return names


def missing_members(cls, stubs):
    """Members of `cls` and its bases that no stub names, of their class or of one above it."""
    missing, named = [], set()
    for base in reversed(cls.__mro__):
        if base.__module__.split(".")[0] != "pyrdv":
            continue
        if base.__module__ not in stubs:
            stubs[base.__module__] = stub_names(stub_of(base.__module__).read_text("utf-8"))
        known = stubs[base.__module__].get(base.__name__)
        if known is None:
            missing.append(f"{base.__module__}.{base.__name__}")
            continue
        named |= known
        for name, value in vars(base).items():
            # What is not offered is in no stub, so that type checkers refuse it.
            offered = not name.startswith("_") and not isinstance(value, Missing)
            if offered and name not in named:
                missing.append(f"{base.__module__}.{base.__name__}.{name}")
    return missing


def test_stubs_name_the_public_module():
    from pyrdv import MPI

    known = stub_names(stub_of("pyrdv.MPI").read_text("utf-8"))
    assert sorted(set(MPI.__all__) - set(known)) == []
    stubs, missing, classes = {}, [], 0
    for name in MPI.__all__:
        value = getattr(MPI, name)
        if inspect.isclass(value):
            classes += 1
            missing += missing_members(value, stubs)
    assert classes >= 7 and len(stubs) >= 7
    assert missing == []


def test_planted_missing_member_is_caught():
    from pyrdv import MPI

    module = MPI.Status.__module__
    stubs = {module: stub_names("class Status:\n    source: int\n    def Get_tag(self): ...\n")}
    missing = missing_members(MPI.Status, stubs)
    assert f"{module}.Status.Get_count" in missing and f"{module}.Status.tag" in missing
    assert f"{module}.Status.source" not in missing and f"{module}.Status.Get_tag" not in missing
    assert missing_members(MPI.Status, {module: {}}) == [f"{module}.Status"]


# ---------------------------------------------------------------- docstrings


def sections(doc):
    """(title, lines) of each underlined section of a docstring."""
    lines = inspect.cleandoc(doc).split("\n")
    found = []
    for index, line in enumerate(lines[:-1]):
        if re.fullmatch(r"-{3,}", lines[index + 1]) and line.strip():
            found.append((line, lines[index + 1], []))
        elif found and not re.fullmatch(r"-{3,}", line):
            found[-1][2].append(line)
    if found:
        found[-1][2].append(lines[-1])
    return found


def parameters(function):
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None


def complaints(name, thing):
    """What is wrong with the form of one docstring."""
    doc = inspect.getdoc(thing) or ""
    found = []
    for title, line, body in sections(doc):
        if title not in SECTIONS:
            found.append(f"{name}: unknown section {title!r}")
        if len(line) != len(title):
            found.append(f"{name}: {title} is underlined with {len(line)} characters")
        known = parameters(thing)
        if title == "Parameters" and known:
            listed = [word.strip(" *") for text in body if text and not text[0].isspace()
                      for word in text.partition(" : ")[0].split(",")]
            for word in set(listed) - known:
                found.append(f"{name}: it has no parameter {word!r}")
    return found


@pytest.mark.parametrize("name, least", [("pyrdv.MPI", 15), ("pyrdv.errors", 2)])
def test_docstrings_are_numpydoc(name, least):
    module = __import__(name, fromlist=["_"])
    found, listed = [], 0
    for public in public_names(module):
        value = getattr(module, public)
        members = [("", value), *(own_members(value) if inspect.isclass(value) else ())]
        for member, thing in members:
            if not (callable(thing) or inspect.isdatadescriptor(thing)):
                continue
            whole = f"{name}.{public}" + (f".{member}" if member else "")
            listed += "Parameters" in [title for title, _, _ in sections(thing.__doc__ or "")]
            found += complaints(whole, thing)
    assert listed >= least
    assert sorted(set(found)) == []


def test_planted_bad_docstring_is_caught():
    def planted(real):
        """Do it.

        Parameters
        ----------
        unreal : int

        Retrns
        ------
        int

        Raises
        ----
        ValueError
        """

    assert complaints("f", planted) == [
        "f: it has no parameter 'unreal'", "f: unknown section 'Retrns'",
        "f: Raises is underlined with 4 characters"]


# -------------------------------------------------------------- a typed program


def test_typed_program_runs():
    program = reading.ROOT / "tests" / "house" / "typed_program.py"
    command = [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "2", "--timeout", "120"]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "typed program: good\n" * 2
