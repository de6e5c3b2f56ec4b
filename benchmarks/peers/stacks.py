"""The libraries compared: how each is installed and how each starts a program.

pyrdv is the one of the running interpreter. The peers live in environments of their own, made once
from PyPI wheels outside of the repository; delete the folder to have them made again.
"""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
MARK = "@@result "


class Failed(RuntimeError):
    """A program or an installation ended badly; the text says which, and what it printed."""


@dataclasses.dataclass(frozen=True)
class Stack:
    """One library ready to run programs.

    Parameters
    ----------
    name, title : str
        Key and printed name.
    module : str
        Package whose ``MPI`` the programs import.
    python : str
        Interpreter of its environment.
    launcher : tuple of str
        Command up to and without the number of ranks.
    env : dict
        Variables added to the environment.
    """

    name: str
    title: str
    module: str
    python: str
    launcher: tuple
    env: dict

    def command(self, ranks, program, *args):
        """Return the command line that runs `program` on `ranks` ranks."""
        interpreter = () if self.name == "pyrdv" else (self.python,)
        words = (*self.launcher, "-n", ranks, *interpreter, PROGRAMS / program, *args)
        return [str(word) for word in words]

    def run(self, ranks, program, *args, timeout=180):
        """Run a program and return the value of its result line (None if it prints none)."""
        command = self.command(ranks, program, self.module, *args)
        return result_of(execute(command, self.env, timeout))


def execute(command, env, timeout):
    """Run `command` in a process group of its own; return its output or raise `Failed`."""
    process = subprocess.Popen(
        command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failed(f"no end within {timeout} s: {' '.join(command)}") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    if process.returncode != 0:
        tail = "\n".join((out + err).splitlines()[-15:])
        raise Failed(f"status {process.returncode} of {' '.join(command)}:\n{tail}")
    return out


def result_of(text):
    """Return the value of the result line in a program's output."""
    for line in text.splitlines():
        _, mark, rest = line.partition(MARK)
        if mark:
            return json.loads(rest)
    return None


def cache_folder():
    """Return where the peers' environments are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "pyrdv-bench"


def pyrdv():
    """Return the stack of the running interpreter's pyrdv."""
    script = pathlib.Path(sys.executable).with_name("pyrdv")
    if script.exists():
        start = (str(script), "run")
    else:
        code = "import sys; from pyrdv.tools.cli import main; sys.exit(main())"
        start = (sys.executable, "-c", code, "run")
    return Stack("pyrdv", "pyrdv", "pyrdv", sys.executable, start, {})


def peer(name, folder):
    """Return the stack of mpi4py on `name` (mpich or openmpi), installing it when missing."""
    import numpy

    wanted = ["mpi4py", name, f"numpy=={numpy.__version__}"]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = pathlib.Path(folder) / f"{name}-py{version}-numpy{numpy.__version__}"
    python, stamp = home / "bin" / "python", home / "installed"
    if not stamp.exists():
        print(f"installing {', '.join(wanted)} into {home}", file=sys.stderr, flush=True)
        quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        execute([sys.executable, "-m", "venv", "--clear", str(home)], quiet, 300)
        pip = [str(python), "-m", "pip", "install", "--only-binary", ":all:"]
        execute([*pip, *wanted], quiet, 900)
        stamp.write_text(" ".join(wanted) + "\n")
    if name == "mpich":
        launcher, env = (str(home / "bin" / "mpiexec"), "-bind-to", "none"), {}
    else:
        # Open MPI binds each rank to a core by default, the others do not: equal terms for all.
        launcher = (str(home / "bin" / "mpiexec"), "--oversubscribe", "--bind-to", "none")
        env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    title = {"mpich": "mpi4py+MPICH", "openmpi": "mpi4py+Open MPI"}[name]
    return Stack(name, title, "mpi4py", str(python), launcher, env)


def find(names, folder=None):
    """Return the stacks of `names` in that order."""
    folder = folder or cache_folder()
    return [pyrdv() if name == "pyrdv" else peer(name, folder) for name in names]


def versions(stack):
    """Return a dict of what runs in a stack's environment."""
    code = (
        "import json, importlib.metadata as m\n"
        "def v(n):\n"
        "    try: return m.version(n)\n"
        "    except m.PackageNotFoundError: return None\n"
        "found = {n: v(n) for n in ('pyrdv', 'mpi4py', 'mpich', 'openmpi', 'numpy')}\n"
        f"print({MARK!r} + json.dumps({{n: x for n, x in found.items() if x}}))\n"
    )
    return result_of(execute([stack.python, "-c", code], stack.env, 60))
