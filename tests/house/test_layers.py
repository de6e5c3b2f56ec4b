"""Who may import whom.  Every ``import``, ``cimport`` and ``#include`` is an edge of the table."""

import pytest

from tests.house import reading

# The layers of the package, longest name first where one lies inside another.  A module belongs to
# the layer whose name is its own or a prefix of it.
LAYERS = (
    "pyrdv.fabrics.contract",
    "pyrdv.fabrics",
    "pyrdv.engine",
    "pyrdv.memory",
    "pyrdv.progress.contract",
    "pyrdv.progress",
    "pyrdv.collectives",
    "pyrdv.api",
    "pyrdv.launch",
    "pyrdv.calibration",
    "pyrdv.ways",
    "pyrdv.world",
    "pyrdv.instruments",
    "pyrdv.diagnosis",
    "pyrdv.tools",
    "pyrdv.algorithms",
    "pyrdv.config",
    "pyrdv.errors",
    "pyrdv.error_codes",
    "pyrdv.files",
    "pyrdv.shortage",
    "pyrdv.recorded",
    "pyrdv.timeline",
    "pyrdv.doors",
    "pyrdv.foreign",
    "pyrdv.__main__",
    "pyrdv.MPI",
    "pyrdv.arrays",
    "pyrdv",
)

FREE = {"pyrdv.algorithms", "pyrdv.config", "pyrdv.doors", "pyrdv.error_codes", "pyrdv.errors",
        "pyrdv.files", "pyrdv.foreign", "pyrdv.recorded", "pyrdv.shortage", "pyrdv.timeline"}
BELOW_WORLD = {
    "pyrdv.memory", "pyrdv.fabrics.contract", "pyrdv.fabrics", "pyrdv.engine",
    "pyrdv.progress.contract", "pyrdv.progress",
    "pyrdv.collectives", "pyrdv.api", "pyrdv.launch",
}

ALLOWED = {
    "pyrdv.errors": {"pyrdv.error_codes", "pyrdv.shortage"},
    "pyrdv.error_codes": set(),
    "pyrdv.shortage": set(),
    "pyrdv.recorded": {"pyrdv.files"},
    "pyrdv.timeline": {"pyrdv.errors", "pyrdv.files", "pyrdv.recorded"},
    # The words of a knob are names of that table.
    "pyrdv.config": {"pyrdv.algorithms", "pyrdv.errors"},
    "pyrdv.algorithms": set(),
    "pyrdv.files": set(),
    "pyrdv.doors": set(),
    "pyrdv.foreign": set(),
    "pyrdv.memory": FREE,
    "pyrdv.fabrics.contract": FREE,
    "pyrdv.fabrics": FREE | {"pyrdv.fabrics.contract", "pyrdv.memory"},
    # Names no type of the engine, which asks for its mode by it.
    "pyrdv.progress.contract": set(),
    "pyrdv.engine": FREE | {"pyrdv.fabrics.contract", "pyrdv.memory", "pyrdv.progress.contract"},
    "pyrdv.progress": FREE | {"pyrdv.engine", "pyrdv.fabrics.contract", "pyrdv.progress.contract"},
    "pyrdv.api": FREE | {"pyrdv.engine", "pyrdv.memory", "pyrdv.progress"},
    "pyrdv.collectives": FREE | {"pyrdv.api"},
    "pyrdv.launch": FREE,
    # Times bare fabrics, and makes what the engine calls a profile.
    "pyrdv.calibration": FREE | {"pyrdv.engine", "pyrdv.fabrics.contract", "pyrdv.fabrics"},
    "pyrdv.ways": FREE | {"pyrdv.calibration", "pyrdv.engine", "pyrdv.fabrics", "pyrdv.launch",
                          "pyrdv.progress"},
    "pyrdv.world": FREE | BELOW_WORLD - {"pyrdv.fabrics"} | {"pyrdv.diagnosis", "pyrdv.ways"},
    # Instruments take engines, fabrics and progress modes apart.  Only tools and tests use them.
    "pyrdv.instruments": FREE | {"pyrdv.calibration", "pyrdv.engine", "pyrdv.fabrics.contract",
                                 "pyrdv.fabrics", "pyrdv.memory", "pyrdv.progress.contract",
                                 "pyrdv.progress"},
    # Words for what the engine knows: of calls, and of collectives.
    "pyrdv.diagnosis": FREE | {"pyrdv.engine", "pyrdv.api", "pyrdv.collectives"},
    # Tools may also be ordinary users of the public names.
    "pyrdv.tools": FREE | {"pyrdv.world", "pyrdv.api", "pyrdv", "pyrdv.MPI", "pyrdv.instruments",
                           "pyrdv.calibration"},
    # The face of the package only hands on what is made below.
    "pyrdv": FREE | {"pyrdv.MPI", "pyrdv.arrays", "pyrdv.world", "pyrdv.api", "pyrdv.memory"},
    "pyrdv.arrays": FREE | {"pyrdv.world", "pyrdv.api", "pyrdv.memory"},
    "pyrdv.MPI": FREE | {"pyrdv.world", "pyrdv.collectives", "pyrdv.api"},
    "pyrdv.__main__": {"pyrdv.tools"},
}

# Single edges that the table does not give, each with its reason.
EXCEPTIONS = {
    ("pyrdv.tools.cli", "pyrdv.launch"): "`pyrdv run` is a subcommand of the one command line",
    ("pyrdv.tools.doctor_facts", "pyrdv.launch"):
        "`pyrdv doctor` says who started this process without joining its job",
    ("pyrdv.tools.doctor_facts", "pyrdv.fabrics"):
        "`pyrdv doctor` looks at devices before there is a world: making one would join a job",
    ("pyrdv.tools.bench_startup", "pyrdv.fabrics"):
        "`pyrdv bench startup` asks whether there is a device before it starts ranks",
    ("pyrdv.tools.bare", "pyrdv.fabrics"):
        "measures what fabrics cost by themselves, where a world's engine may not touch them",
    ("pyrdv.calibration.kept", "pyrdv"): "figures of another version are not used",
    ("pyrdv.tools.doctor_figures", "pyrdv.engine"):
        "reads a profile as ranks do",
    ("pyrdv.tools.doctor_protocols", "pyrdv.fabrics"):
        "looks at devices before there is a world: making one would join a job",
    ("pyrdv.tools.doctor_protocols", "pyrdv.engine"):
        "prints the engine's own rule; a second copy would drift",
    ("pyrdv.tools.cost_model", "pyrdv.engine"):
        "reads the lines of a profile as the engine does; a second copy would drift",
}

# Header folders that belong to one fabric alone.
VERBS_HEADERS = ("infiniband/", "rdma/")
VERBS_MODULES = ("pyrdv.fabrics.verbs", "pyrdv.instruments.verbs")


def layer(module):
    """The layer that `module` belongs to."""
    for name in LAYERS[:-1]:
        if module == name or module.startswith(name + "."):
            return name
    return "pyrdv" if module == "pyrdv" else None


def resolve(target, modules):
    """The module that an edge's target names, or None outside pyrdv."""
    base, _, member = target.partition(":")
    full = f"{base}.{member}" if member else base
    for name in (full, base):
        if name in modules:
            return name
    # An unbuilt or misspelt name must not slip through: judge it by its prefix.
    return base if base.split(".")[0] == "pyrdv" else None


def one_fabric(module):
    """The fabric that a module of the fabrics layer belongs to; empty: it drives any."""
    name = module.removeprefix("pyrdv.fabrics.").split(".")[0]
    return name if name in ("shm", "verbs") else ""


def violations(edges, modules):
    """What the edges break, as sentences."""
    found = []
    for edge in edges:
        target = resolve(edge.target, modules)
        if target is None or target == edge.module or edge.target == "pyrdv:__version__":
            continue  # the version is a fact, not a dependency
        here, there = layer(edge.module), layer(target)
        where = f"{edge.module}, line {edge.line}: "
        if here is None or there is None:
            found.append(f"{where}{target if here else edge.module} is in no layer of the table")
        elif here == there:
            if here == "pyrdv.fabrics" and one_fabric(edge.module) != one_fabric(target):
                found.append(f"{where}one fabric uses another, {target}")
        elif there not in ALLOWED[here] and (edge.module, there) not in EXCEPTIONS:
            found.append(f"{where}{here} may not import {there} ({target})")
    return found


def header_violations(edges, own):
    """Headers that are not csrc's own, the system's or, for verbs alone, rdma-core's."""
    found = []
    for edge in edges:
        quoted = edge.target.startswith('"')
        name = edge.target.strip('<>"')
        if name.startswith(VERBS_HEADERS) and not edge.module.startswith(VERBS_MODULES):
            if edge.module != "csrc/verbs_shim.h":
                found.append(f"{edge.module}, line {edge.line}: only verbs includes {name}")
        elif quoted and name not in own:
            found.append(f"{edge.module}, line {edge.line}: {name} is not in csrc")
        elif name.endswith((".c", ".cpp")) or ".." in name:
            found.append(f"{edge.module}, line {edge.line}: {name} is no header of csrc")
    return found


def package_files():
    return reading.sources(".py", ".pyi", ".pyx", ".pxd", under="src/pyrdv")


def test_package_keeps_the_layers():
    files = package_files()
    modules = {reading.module_name(path) for path in files}
    edges = [edge for path in files for edge in reading.imports(path)]
    inside = [edge for edge in edges if resolve(edge.target, modules)]
    assert len(inside) > 10, "the reader found hardly any import: it is broken"
    assert not violations(edges, modules)


def test_headers_come_from_csrc_or_the_system():
    own = {path.name for path in reading.sources(".h", under="csrc")}
    edges = []
    for path in reading.sources(".c", ".h", under="csrc"):
        edges += reading.c_includes(f"csrc/{path.name}", path.read_text(encoding="utf-8"))
    for path in reading.sources(".pyx", ".pxd", under="src/pyrdv"):
        edges += reading.externs(reading.module_name(path), path.read_text(encoding="utf-8"))
    assert edges
    assert not header_violations(edges, own)


def test_exceptions_are_used():
    files = package_files()
    modules = {reading.module_name(path) for path in files}
    edges = {
        (edge.module, layer(target))
        for path in files for edge in reading.imports(path)
        if (target := resolve(edge.target, modules))
    }
    stale = [pair for pair in EXCEPTIONS if pair[0] in modules and pair not in edges]
    assert not stale, f"no longer needed: {stale}"


def private_modules(edges):
    """Imports of modules outside the package that their owner hides behind an underscore."""
    return [f"{edge.module}, line {edge.line}: {edge.target}" for edge in edges
            if edge.target.startswith("_") and not edge.target.startswith("__future__")]


def test_modules_of_the_library_are_the_public_ones():
    edges = [edge for path in package_files() for edge in reading.imports(path)]
    for folder in ("tests", "benchmarks", "examples"):
        for path in reading.sources(".py", under=folder):
            name = str(path.relative_to(reading.ROOT))
            edges += reading.python_imports(name, path.read_text(encoding="utf-8"))
    assert len(edges) > 1000, "the reader found hardly any import: it is broken"
    assert private_modules(edges) == []


@pytest.mark.parametrize("read, text", [
    (reading.python_imports, "import os\nfrom _socket import socket"),
    (reading.python_imports, "def f():\n    import _thread"),
    (reading.cython_imports, "import os\ntry:\n    from _blake2 import blake2b"),
])
def test_planted_private_module_is_caught(read, text):
    (complaint,) = private_modules(read("pyrdv.launch.frames", text))
    assert complaint.startswith("pyrdv.launch.frames, line ")


PLANTED_PYTHON = [
    ("pyrdv.memory.pool", "import pyrdv.engine.op", "pyrdv.engine"),
    ("pyrdv.memory.pool", "from pyrdv import api", "pyrdv.api"),
    ("pyrdv.launch.run", "def f():\n    from pyrdv.world import init", "pyrdv.world"),
    ("pyrdv.launch.run", "from .. import world", "pyrdv.world"),
    ("pyrdv.tools.bench", "from pyrdv.engine.op import x", "pyrdv.engine"),
    ("pyrdv.config", "from pyrdv import MPI", "pyrdv.MPI"),
    ("pyrdv.config", "import importlib\nimportlib.import_module('pyrdv.api')", "pyrdv.api"),
    ("pyrdv.api.request", "from pyrdv import world as w", "pyrdv.world"),
]
PLANTED_CYTHON = [
    ("pyrdv.engine.step", "from pyrdv.fabrics.shm.datapath cimport f", "pyrdv.fabrics"),
    ("pyrdv.engine.step", "from pyrdv.fabrics.shm cimport (\n    datapath,\n)", "pyrdv.fabrics"),
    ("pyrdv.engine.step", "cimport cython, pyrdv.progress.waiting", "pyrdv.progress"),
    ("pyrdv.engine.step", "from pyrdv.api \\\n    cimport request", "pyrdv.api"),
    ("pyrdv.engine.step", "from ..api.request cimport Request", "pyrdv.api"),
    ("pyrdv.fabrics.shm.segment", "from pyrdv.fabrics.verbs.link cimport x", "one fabric"),
    ("pyrdv.engine.step", "from pyrdv.instruments.fingerprint cimport x", "pyrdv.instruments"),
    ("pyrdv.fabrics.contract", "import pyrdv.memory.pool", "pyrdv.memory"),
]
KNOWN = {
    "pyrdv", "pyrdv.MPI", "pyrdv.world", "pyrdv.api", "pyrdv.api.request", "pyrdv.engine.op",
    "pyrdv.engine", "pyrdv.fabrics.shm.datapath", "pyrdv.fabrics.verbs.link", "pyrdv.memory.pool",
    "pyrdv.progress.waiting", "pyrdv.launch", "pyrdv.fabrics.contract",
}


@pytest.mark.parametrize("module, text, named", PLANTED_PYTHON)
def test_planted_python_import_is_caught(module, text, named):
    (complaint,) = violations(reading.python_imports(module, text), KNOWN)
    assert named in complaint


@pytest.mark.parametrize("module, text, named", PLANTED_CYTHON)
def test_planted_cimport_is_caught(module, text, named):
    (complaint,) = violations(reading.cython_imports(module, text), KNOWN)
    assert named in complaint


@pytest.mark.parametrize("read", [reading.python_imports, reading.cython_imports])
def test_allowed_imports_and_prose_pass(read):
    text = (
        '"""A docstring that says:\n\nfrom pyrdv.tools import bench\n"""\n'
        "import os\nfrom pyrdv.fabrics.contract import x\nfrom pyrdv.engine import op\n"
        "from pyrdv.errors import Error  # import pyrdv.tools\n"
    )
    assert violations(read("pyrdv.engine.step", text), KNOWN) == []


@pytest.mark.parametrize("module, line", [
    ("csrc/ring.h", '#include "missing.h"'),
    ("csrc/ring.h", '#include "copy.c"'),
    ("csrc/ring.h", "# include <infiniband/verbs.h>"),
    ("csrc/ring.h", '#include "../src/pyrdv/engine/op.h"'),
])
def test_planted_include_is_caught(module, line):
    assert header_violations(reading.c_includes(module, line + "\n"), {"ring.h", "copy.c"})


def test_planted_extern_is_caught():
    text = 'cdef extern from "<infiniband/verbs.h>" nogil:\n    int x\n'
    assert header_violations(reading.externs("pyrdv.engine.step", text), set())
    assert not header_violations(reading.externs("pyrdv.fabrics.verbs.device", text), set())
