"""The peers' packages: what is missing, how it is installed, which versions there are."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))

import stacks  # noqa: E402

#: need of a row -> (program that shows that it is there, package of Debian)
PACKAGES = {
    "perftest": ("ib_send_lat", "perftest"),
    "ucx": ("ucx_perftest", "ucx-utils"),
    "openmpi": ("mpirun", "openmpi-bin"),
}
#: Libraries whose versions say what ran, as the package manager knows them.
NOTED = ("perftest", "ucx-utils", "openmpi-bin", "libibverbs1", "rdma-core")


def missing(needs):
    """Return those of `needs` whose program is not there."""
    return [need for need in needs if program(need) is None]


def program(need):
    """Return the path of what `need` is measured with, or None."""
    return open_mpi() if need == "openmpi" else shutil.which(PACKAGES[need][0])


def open_mpi():
    """Return the path of Open MPI's mpirun, or None.

    The name is that of other libraries' launchers, too: a wheel of MPICH puts one into the
    environment's folder, which comes first.  Debian has a name that is Open MPI's alone.
    """
    folders = os.get_exec_path()
    for name in ("mpirun.openmpi", "mpirun"):
        for path in (os.path.join(folder, name) for folder in folders):
            if os.access(path, os.X_OK) and "Open MPI" in _output([path, "--version"]):
                return path
    return None


def install(needs):
    """Install what is missing as root on Debian; return what is missing afterwards."""
    absent = missing(needs)
    if absent and os.geteuid() == 0 and shutil.which("apt-get"):
        names = [PACKAGES[need][1] for need in absent]
        print(f"installing Debian's {', '.join(names)}", file=sys.stderr, flush=True)
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        get = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *names]
        try:
            stacks.execute(["apt-get", "update", "-q"], quiet, 300)
            stacks.execute(get, quiet, 900)
        except stacks.Failed as error:
            print(error, file=sys.stderr)
        absent = missing(needs)
    return absent


def mpi_python(folder=None):
    """Return the interpreter of an environment with mpi4py, which runs on the system's Open MPI.

    The wheel of mpi4py binds to the MPI library that MPI4PY_MPIABI names, at run time.
    """
    import numpy

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = Path(folder or stacks.cache_folder()) / f"mpi4py-py{version}-numpy{numpy.__version__}"
    python, stamp = home / "bin" / "python", home / "installed"
    if not stamp.exists():
        wanted = ["mpi4py>=4.1", f"numpy=={numpy.__version__}"]
        print(f"installing {', '.join(wanted)} into {home}", file=sys.stderr, flush=True)
        quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        stacks.execute([sys.executable, "-m", "venv", "--clear", str(home)], quiet, 300)
        pip = [str(python), "-m", "pip", "install", "--only-binary", ":all:"]
        stacks.execute([*pip, *wanted], quiet, 900)
        stamp.write_text(" ".join(wanted) + "\n")
    return str(python)


def found(python=""):
    """Return {name: version} of what is measured."""
    versions = {}
    if shutil.which("dpkg-query"):
        shown = _output(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *NOTED])
        versions |= dict(line.split(" ", 1) for line in shown.splitlines() if " " in line)
    ucx = re.search(r"Version (\S+)", _output(["ucx_info", "-v"]))
    if ucx:
        versions["UCX"] = ucx[1]
    if python:
        code = ("import importlib.metadata as m, os; os.environ['MPI4PY_MPIABI'] = 'openmpi'; "
                "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
                "print(m.version('mpi4py')); print(MPI.Get_library_version().split(',')[0])")
        lines = _output([python, "-c", code]).splitlines()
        versions |= dict(zip(("mpi4py", "MPI"), lines, strict=False))
    return versions


def _output(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
