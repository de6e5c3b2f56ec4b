"""What the programs of the comparison share: the library by name, the loops, the result line.

The programs use only names that pyrdv and mpi4py both have. They run where pyrdv is not installed,
so the measured loops are loaded by path: there is one text of them, in the package.
"""

import importlib
import importlib.util
import json
import pathlib
import sys

MARK = "@@result "


def library(name):
    """Return the MPI module of `name`, which is pyrdv or mpi4py."""
    if name not in ("pyrdv", "mpi4py"):
        raise SystemExit(f"{name!r} is not a library to compare; take pyrdv or mpi4py")
    return importlib.import_module(f"{name}.MPI")


def kernels(name="bench_kernels"):
    """Return a module of measured loops, from this checkout."""
    root = pathlib.Path(__file__).resolve().parents[3]
    path = root / "src" / "pyrdv" / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(value):
    """Print `value` as the result line that the caller looks for."""
    sys.stdout.write(MARK + json.dumps(value) + "\n")
    sys.stdout.flush()
