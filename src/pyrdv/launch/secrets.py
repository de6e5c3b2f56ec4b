"""How ranks of ``pyrdv run`` get the job's secret: by a pipe that can be read once.

Variables and arguments of a process can be read by every process of its user, even after the
process has removed them. So only the number of a descriptor is in the environment
(``PYRDV_SECRET_FD``). Behind it is a pipe of the rank's own that holds the secret, and has no
writer. Whoever joins takes it and closes the descriptor, so children of a rank do not inherit it.
Wrappers hand it on like any descriptor above 2 that they do not close. Python closes them in what
it starts; then the rank takes the secret out of the descriptor that the wrapper itself still has.
"""

import os
from stat import S_ISFIFO

from pyrdv.errors import ConfigError

SECRET_BYTES = 32


def offer(secret, slot):
    """Make `slot` the end of a pipe that holds `secret`; closed when a program starts."""
    read, write = os.pipe()
    try:
        os.write(write, secret)
        # What `take` knows it by, besides that it is a pipe.
        os.set_blocking(read, False)
        os.dup2(read, slot, inheritable=False)
    finally:
        os.close(read)
        os.close(write)


def take(fd, started=0, job=""):
    """Read the secret from a descriptor, and close it.

    Parameters
    ----------
    fd : int
    started : int
        Id of the process that the launcher started with this descriptor; 0: this one.
    job : str
        Name of the job, by which that process is known.

    Raises
    ------
    ConfigError
        It is closed, something else, or was read already.
    """
    mine = fd
    try:
        if not _is_offer(mine):
            mine = _borrowed(fd, started, job)
        secret = os.read(mine, SECRET_BYTES + 1)
    except OSError:
        raise ConfigError(
            f"PYRDV_SECRET_FD={fd}: `pyrdv run` hands the secret of the job over by this "
            "descriptor, and programs between it and this process have closed it; such programs "
            "must leave descriptors open (in Python: subprocess with close_fds=False, or os.execv)",
            variable="PYRDV_SECRET_FD", value=str(fd)) from None
    os.close(mine)
    if len(secret) != SECRET_BYTES:
        raise ConfigError(
            f"PYRDV_SECRET_FD={fd}: another process has taken the secret of the job, so that "
            "one is the rank: of the processes below a program that is not Python, one may use "
            "pyrdv",
            variable="PYRDV_SECRET_FD", value=str(fd))
    return secret


def _is_offer(fd):
    try:
        return S_ISFIFO(os.fstat(fd).st_mode) and not os.get_blocking(fd)
    except OSError:
        return False


def _borrowed(fd, started, job):
    """The descriptor of the process that the launcher started, opened anew; OSError without one."""
    if started in (0, os.getpid()):
        raise OSError
    # In another pid namespace that number is somebody else's.
    with open(f"/proc/{started}/environ", "rb") as file:
        if f"PYRDV_JOB={job}".encode() not in file.read().split(b"\0"):
            raise OSError
    return os.open(f"/proc/{started}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
