"""What ``pyrdv run`` executes: a Python file, a module, or any other program."""

import os
import sys

from pyrdv.errors import LaunchError

# As shells say it.
CANNOT_EXECUTE = 126
NOT_FOUND = 127


class Program:
    """What to execute.

    Parameters
    ----------
    name : str
        A Python file, a module (with `module`), or any executable.
    args : sequence of str
        Its arguments.
    module : bool
        Run as ``python -m name``.

    Raises
    ------
    LaunchError
        Not found or not executable; attribute ``exit_status`` is 127 or 126.
    """

    def __init__(self, name, args=(), module=False):
        self.wrapped = False
        if module:
            self.path, self.argv = sys.executable, [sys.executable, "-m", name, *args]
        elif _is_python(name):
            self.path, self.argv = sys.executable, [sys.executable, name, *args]
        else:
            self.path = find_executable(name)
            self.argv = [name, *args]
            # Python itself is the rank; anything else may start the process that is.
            self.wrapped = not os.path.basename(self.path).startswith("python")


def _is_python(name):
    if name.endswith((".py", ".pyw", ".pyz")):
        if not os.path.exists(name):
            raise LaunchError(f"there is no file {name!r} in {os.getcwd()}; give the path of the "
                              "program, or -m for a module", exit_status=NOT_FOUND)
        return True
    return os.path.isfile(os.path.join(name, "__main__.py"))


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
