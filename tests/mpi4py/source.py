"""mpi4py's source, which is fetched once and kept beside the lab's kernel, outside the repository.

Its test suite, its programs and its pure Python parts are run against pyrdv; nothing of it is
built or installed.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.lab import kernel
from tests.support.absent import absent

VERSION = "4.1.2"
SHIM = Path(__file__).parent / "shim"


def folder():
    """Where the unpacked source is, or will be."""
    return kernel.cache().parent / "mpi4py" / VERSION


def ensure():
    """Fetch and unpack the source unless it is there; returns its folder."""
    target = folder()
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            _fetch(work)
            archive = Path(work, f"mpi4py-{VERSION}.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(work, filter="data")
            _place(Path(work, f"mpi4py-{VERSION}"), target)
    return target


def _fetch(work):
    """Download the source archive; pip asks the package for its name, so it needs its tools."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet",
               "--no-deps", "--no-binary", "mpi4py", "--dest", work, f"mpi4py=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        absent(f"mpi4py {VERSION} cannot be downloaded; unpack its source archive to {folder()}\n"
               f"{done.stderr[-2000:]}")


def _place(made, target):
    """Present means complete; another process may have been faster."""
    try:
        os.rename(made, target)
    except OSError:
        if not target.is_dir():
            raise
        shutil.rmtree(made)


def environment():
    """Variables with which a program finds the shim, and the pure Python parts of mpi4py."""
    before = os.environ.get("PYTHONPATH")
    root = Path(__file__).parents[2]
    return {"MPI4PY_SOURCE": str(folder() / "src" / "mpi4py"),
            "PYTHONPATH": os.pathsep.join([str(SHIM), str(root), *filter(None, [before])])}
