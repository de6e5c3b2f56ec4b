"""What the public meets is described: names, knobs, commands; and no file names one machine."""

import importlib
import importlib.util
import inspect
import re
import types

import pytest

from tests.house import reading

DOCS = reading.ROOT / "docs"


# ------------------------------------------------------------- public names


def public_names(module):
    """The names a module offers: its ``__all__``, or those without an underscore."""
    return getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]


def own_members(cls):
    """Public functions and properties of a class, without those of Python's own bases."""
    for base in cls.__mro__:
        if base.__module__.split(".")[0] == "builtins":
            continue
        for name, value in vars(base).items():
            described = callable(value) or inspect.isdatadescriptor(value)
            if not name.startswith("_") and (described or isinstance(value, classmethod)):
                yield name, value


def undocumented(module):
    """(how many objects were looked at, names of those without a docstring)."""
    seen, bare = 0, []
    for name in public_names(module):
        value = getattr(module, name)
        if inspect.isclass(value):
            members = [("", value), *own_members(value)]
        elif isinstance(value, types.ModuleType) or hasattr(value, "__name__"):
            members = [("", value)]
        else:
            members = [("", type(value))]  # a constant or a handle: its class explains it
        for member, thing in members:
            seen += 1
            # Cython gives plain attributes no docstring: their class's text must name them.
            described = (getattr(thing, "__doc__", None) or "").strip()
            if inspect.isgetsetdescriptor(thing) or inspect.ismemberdescriptor(thing):
                owner = thing.__objclass__.__doc__ or ""
                described = described or re.search(rf"\b{member}\b", owner)
            if not described:
                bare.append(f"{module.__name__}.{name}" + (f".{member}" if member else ""))
    return seen, sorted(set(bare))


@pytest.mark.parametrize("name, least", [("pyrdv", 1), ("pyrdv.MPI", 60), ("pyrdv.errors", 20)])
def test_public_names_have_docstrings(name, least):
    seen, bare = undocumented(importlib.import_module(name))
    assert seen >= least
    assert bare == []


def test_planted_bare_names_are_caught():
    module = types.ModuleType("planted", "A module.")
    exec(
        'class A:\n    "A class."\n    def f(self): pass\n    @property\n    def p(self): pass\n'
        '    def _private(self): pass\ndef g(): pass\ndef h():\n    "Fine."\n'
        "class E(ValueError): pass\n"
        'class S:\n    "Has told."\n    __slots__ = ("told", "silent")\n',
        vars(module),
    )
    for value in (module.A, module.E, module.S):
        value.__module__ = "planted"
    bare = ["planted.A.f", "planted.A.p", "planted.E", "planted.S.silent", "planted.g"]
    assert undocumented(module)[1] == bare


# ----------------------------------------------------------------- the knobs


def knob_tables():
    """The module of docs that turns the knobs into rows of a table."""
    spec = importlib.util.spec_from_file_location("knob_rows", DOCS / "_ext" / "knob_rows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prose():
    """Every page for people, as {name: text}."""
    pages = [reading.ROOT / "README.md", reading.ROOT / "CONTRIBUTING.md"]
    pages += reading.sources(".md", ".rst", under="docs")
    return {path.name: path.read_text(encoding="utf-8") for path in pages}


def test_every_knob_is_in_the_documentation():
    from pyrdv import config

    rows = knob_tables().knob_rows()
    assert [row[0] for row in rows] == [knob.variable for knob in config.KNOBS]
    assert all(all(cell.strip() for cell in (row[0], row[1], row[-1])) for row in rows)
    tuning = prose()["tuning.md"]
    assert "{pyrdv-knobs}" in tuning and "{pyrdv-internal}" in tuning
    assert [row[0] for row in knob_tables().internal_rows()] == [n for n, _ in config.INTERNAL]


def unknown_variables(text, known):
    return sorted(set(re.findall(r"\bPYRDV_[A-Z0-9_]+\b", text)) - known)


def test_documentation_names_only_variables_that_exist():
    from pyrdv import config

    known = {knob.variable for knob in config.KNOBS} | {name for name, _ in config.INTERNAL}
    setup = (reading.ROOT / "setup.py").read_text(encoding="utf-8")
    known |= set(re.findall(r"\bPYRDV_[A-Z]+\b", setup))
    for path in (reading.ROOT / "tests" / "lab").glob("*.py"):
        known |= set(re.findall(r"\bPYRDV_LAB_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    for name, text in prose().items():
        assert unknown_variables(text, known) == [], name
    assert unknown_variables("set PYRDV_NO_SUCH=1", known) == ["PYRDV_NO_SUCH"]


# ------------------------------------------------------------ the repository


def test_readme_names_the_two_commands():
    readme = (reading.ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (reading.ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in readme
        assert re.search(rf"^{target}:", makefile, re.M)


def test_commands_in_prose_exist():
    makefile = (reading.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    used = set()
    for text in prose().values():
        used |= set(re.findall(r"^ *(?:\$ )?make ([a-z-]+)", text, re.M))
        used |= set(re.findall(r"`make ([a-z-]+)", text))
    assert {"demo", "test"} <= used <= targets


# Folders that exist on one machine only.
_MACHINE = re.compile(r"(?<![\w.)}~$-])/(?:home|root|work|Users|opt|mnt|nix)/[\w.]")


def machine_paths(text):
    return [line.strip() for line in text.split("\n") if _MACHINE.search(line)]


def test_no_file_names_a_path_of_one_machine():
    found = {}
    for path in reading.tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path.name != "test_docs.py" and machine_paths(text):
            found[str(path)] = machine_paths(text)
    assert found == {}


def test_planted_machine_path_is_caught():
    assert machine_paths("open('/home/ann/x')") and machine_paths("see /opt/main")
    assert not machine_paths("src/opt/x, https://a.org/opt/x, /proc/self, ~/opt/x")


_UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")


def test_nothing_is_left_for_later_in_a_comment():
    found = []
    for path in reading.sources(".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".md", ".rst", ".sh"):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if _UNFINISHED.search(line):
                found.append(f"{path}:{number}")
    assert found == []
