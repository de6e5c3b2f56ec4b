"""One job of the lab: what is to run, and its folder, which host and guest share.

The folder holds `guest` (scripts), `settings` (shell assignments for them), `command`, `cpuinfo`,
`out` (LAB_OUT in the guest) and `lock`; the guest makes `started` and writes `status`.
"""

import contextlib
import fcntl
import os
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUEST = Path(__file__).resolve().parent / "guest"
PREFIX = "pyrdv-lab-"
SHELL = """\
cat /run/lab/job/guest/welcome
rdma link
exec bash -i
"""
# Environment variables with these beginnings go from the caller's environment into the guest.
PASSED = ("PYRDV_", "UCX_", "OMPI_", "HYPOTHESIS_")


@dataclass
class Job:
    """What a machine is to run; `folder` is shared with the guest."""

    command: str | None
    nodes: int
    devices: tuple
    rate: str | None
    delay: str | None
    loss: str | None
    pinned: bool
    limit: float
    memory: int
    cpus: int
    directory: Path
    environment: dict
    folder: Path
    machine: str
    size: tuple = (24, 80)

    @property
    def out(self):
        """Where the guest leaves files for the host."""
        return self.folder / "out"


@contextlib.contextmanager
def new_folder():
    """A folder for one job; first removes those whose makers were killed before they could."""
    base = Path(tempfile.gettempdir())
    for old in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, RuntimeError), (old / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(old)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        # Locked before it has the name that the others look for.
        with (folder / "lock.new").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "lock.new").rename(folder / "lock")
            yield folder
    finally:
        remove(folder)


def write(job):
    """Fill the job's folder with what the guest reads."""
    os.chmod(job.folder, 0o755)
    shutil.copytree(GUEST, job.folder / "guest")
    job.out.mkdir()
    job.out.chmod(0o777)
    shutil.copyfile("/proc/cpuinfo", job.folder / "cpuinfo")
    virtual = Path(sys.executable).parent
    environment = {
        "HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8", "TMPDIR": "/tmp",
        "TERM": os.environ.get("TERM", "dumb"), "PYTHONUNBUFFERED": "1",
        "PATH": f"{virtual}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **{name: text for name, text in os.environ.items() if name.startswith(PASSED)},
        **job.environment,
    }
    body = job.command if job.command is not None else SHELL
    exports = "".join(f"export {name}={shlex.quote(text)}\n" for name, text in environment.items())
    (job.folder / "command").write_text(f"{exports}{body}\n")
    settings = {
        "LAB_NODES": job.nodes, "LAB_DEVICES": " ".join(job.devices), "LAB_RATE": job.rate or "",
        "LAB_DELAY": job.delay or "", "LAB_LOSS": job.loss or "", "LAB_DIRECTORY": job.directory,
        "LAB_LIMIT": f"{job.limit:g}", "LAB_ROWS": job.size[0], "LAB_COLUMNS": job.size[1],
        "LAB_OPEN": " ".join(_closed()),
    }
    (job.folder / "settings").write_text(
        "".join(f"{name}={shlex.quote(str(text))}\n" for name, text in settings.items())
    )


def _closed():
    """Folders on the way to the interpreter and the repository that only their owner may enter."""
    interpreter = Path(os.path.realpath(sys.executable))
    closed = set()
    for folder in {*interpreter.parents, *(ROOT / "tests").parents}:
        # What the caller may not enter either cannot be opened from inside.
        with contextlib.suppress(PermissionError):
            if folder.stat().st_mode & 0o5 != 0o5:
                closed.add(str(folder))
    return sorted(closed)


def settings(job, **devices):
    """Add what only the machine knows to the job's settings: the guest's names of the streams.

    Parameters
    ----------
    job : Job
    **devices
        LAB_STDOUT, LAB_STDERR and LAB_TERMINAL: device files in the guest.
    """
    with (job.folder / "settings").open("a") as file:
        for name, text in devices.items():
            file.write(f"{name}={shlex.quote(text)}\n")


def remove(folder):
    """Remove the job's folder, and stop at anything that is mounted below it."""
    device = folder.lstat().st_dev
    for base, folders, files in os.walk(folder, topdown=False):
        if os.lstat(base).st_dev != device:
            raise RuntimeError(f"{base} is a mount: it is left alone, and so is {folder}")
        for name in files:
            os.unlink(os.path.join(base, name))
        for name in folders:
            path = os.path.join(base, name)
            if os.path.islink(path):
                os.unlink(path)
            else:
                os.rmdir(path)
    os.rmdir(folder)
