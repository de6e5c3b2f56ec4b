"""Reaching the launcher: by its private door on the same machine, else at its TCP port."""

import errno
from socket import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    IPPROTO_TCP,
    SOCK_STREAM,
    TCP_NODELAY,
    socket,
)
from time import monotonic

from pyrdv.errors import BootstrapError

# Where the launcher's queue is full, the kernel repeats a request after 1, 3, 7, ... s; a new one
# finds the next free place sooner.
DIAL_SECONDS = 0.3


class Unreachable(BootstrapError):
    """Nobody answers at the launcher's address."""


def knock(door):
    """A socket connected to the launcher's private door; None where this process finds none."""
    path, _, name = door.partition(" ")
    if not name:
        return None
    sock = socket(AF_UNIX, SOCK_STREAM)
    try:
        sock.settimeout(DIAL_SECONDS)
        sock.connect(path)
        if sock.getpeername().endswith(name):
            return sock
    except OSError:
        pass  # another machine or container, or another user: by TCP
    sock.close()
    return None


def dial(address, deadline):
    """A socket connected to the launcher's port, HOST:PORT.

    Raises
    ------
    Unreachable
        It could not be had before `deadline`; names the system's reason.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    patience = DIAL_SECONDS
    while True:
        sock = socket(AF_INET6 if ":" in host else AF_INET, SOCK_STREAM)
        try:
            sock.settimeout(max(0.001, min(patience, deadline - monotonic())))
            sock.connect((host, int(port)))
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            if isinstance(error, TimeoutError) and monotonic() < deadline:
                patience *= 2
                continue
            reason = error.strerror or "no answer in time"
            raise Unreachable(
                f"cannot reach the launcher at {address}: {reason} (errno "
                f"{error.errno or errno.ETIMEDOUT}); it may have ended, or this rank runs where "
                "that address does not lead to it: `pyrdv run --address` names another"
            ) from None
