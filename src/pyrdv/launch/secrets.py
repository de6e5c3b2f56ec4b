"""How ranks of ``pyrdv run`` get the job's secret: by a pipe that can be read once.

Variables and arguments of a process can be read by every process of its user, even after the
process has removed them. So only the number of a descriptor is in the environment
(``PYRDV_SECRET_FD``). Behind it is a pipe of the rank's own that holds the secret, and has no
writer. Whoever joins takes it and closes the descriptor, so children of a rank do not inherit it.
Wrappers hand it on like any descriptor above 2 that they do not close.
"""

import os
from _stat import S_ISFIFO

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


def take(fd):
    """Read the secret from a descriptor, and close it.

    Raises
    ------
    ConfigError
        It is closed, something else, or was read already.
    """
    try:
        if not S_ISFIFO(os.fstat(fd).st_mode) or os.get_blocking(fd):
            raise OSError
        secret = os.read(fd, SECRET_BYTES + 1)
    except OSError:
        raise ConfigError(
            f"PYRDV_SECRET_FD={fd}: `pyrdv run` hands the secret of the job over by this "
            "descriptor, and a program between it and this process has closed it; such programs "
            "must leave descriptors open (in Python: subprocess with close_fds=False, or os.execv)",
            variable="PYRDV_SECRET_FD", value=str(fd)) from None
    os.close(fd)
    if len(secret) != SECRET_BYTES:
        raise ConfigError(
            f"PYRDV_SECRET_FD={fd}: another process has taken the secret of the job, so that "
            "one is the rank: of the processes below a program that is not Python, one may use "
            "pyrdv",
            variable="PYRDV_SECRET_FD", value=str(fd))
    return secret
