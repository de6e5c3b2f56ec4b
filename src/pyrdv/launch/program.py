"""What ``pyrdv run`` executes: Python code from wherever, or any other program."""

import os
import re
import sys

from pyrdv.errors import LaunchError

# As shells say it.
CANNOT_EXECUTE = 126
NOT_FOUND = 127
# python3, python3.13t, python3.11-dbg, pypy3.10
_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*[a-z]?(-dbg)?")


class Program:
    """What to execute.

    Parameters
    ----------
    name : str
        A Python file, ``-`` for the standard input, any executable; or by `kind` something else.
    args : sequence of str
        Its arguments.
    kind : str
        ``"m"``: `name` is a module, as in ``python -m``; ``"c"``: Python code, as in
        ``python -c``; empty otherwise.
    wrapped : bool
        Whether it starts the rank as a child, though it is Python.

    Attributes
    ----------
    path : str
        File to execute.
    argv : list of str
    wrapped : bool
        Whether the rank may be a child of the process that is started.
    input : bytes or None
        Standard input of every rank, which is the program itself; None: not so.

    Raises
    ------
    LaunchError
        Not found or not executable; attribute ``exit_status`` is 127 or 126.
    """

    def __init__(self, name, args=(), kind="", wrapped=False):
        self.wrapped = wrapped
        self.input = None
        if kind:
            self.path, self.argv = sys.executable, [sys.executable, f"-{kind}", name, *args]
        elif name == "-":
            # Each rank needs all of it, and there is but one.
            with open(0, "rb", closefd=False) as file:
                self.input = file.read()
            self.path, self.argv = sys.executable, [sys.executable, name, *args]
        elif _is_python(name):
            self.path, self.argv = sys.executable, [sys.executable, name, *args]
        else:
            self.path = find_executable(name)
            self.argv = [name, *args]
            # Python itself is the rank; anything else may start the process that is.
            self.wrapped = wrapped or not _is_interpreter(self.path)


def _is_interpreter(path):
    """Whether a file is Python itself, and no script or link of that name to something else."""
    if os.path.samefile(path, sys.executable):
        return True
    try:
        with open(path, "rb") as file:
            binary = file.read(4) == b"\x7fELF"
    except OSError:
        # It may be executable and not readable.
        return False
    return binary and _INTERPRETER.fullmatch(os.path.basename(os.path.realpath(path))) is not None


def _is_python(name):
    if name.endswith((".py", ".pyw", ".pyz")):
        if not os.path.exists(name):
            raise LaunchError(f"there is no file {name!r} in {_folder()}; give the path of the "
                              "program, or -m for a module", exit_status=NOT_FOUND)
        return True
    return os.path.isfile(os.path.join(name, "__main__.py"))


def _folder():
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "the present folder, which was deleted"


def find_executable(name):
    """Path of a program as a shell would find it; LaunchError as for `Program`."""
    if "/" in name:
        places = [name]
    else:
        places = [os.path.join(folder or ".", name)
                  for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    for place in (name, *places):
        if os.path.exists(place):
            raise LaunchError(
                f"{place!r} cannot be executed: it is no .py file and not executable; chmod +x "
                f"it, or run it as `python {name}`", exit_status=CANNOT_EXECUTE)
    raise LaunchError(f"there is no program {name!r} here or in PATH; give a .py file, an "
                      "executable, or -m and a module", exit_status=NOT_FOUND)
