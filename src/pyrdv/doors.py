"""Private doors: listening sockets that only processes of the same user can connect to.

A door is a socket in the file system with mode 0600 whose name is removed as soon as it is there.
What is left is a descriptor of its place; others connect to ``/proc/PID/fd/PLACE``. The kernel
asks whether they may look into the process and may write to that place, so other users cannot even
knock, no list of theirs shows a name that leads there, and nothing is left behind whoever dies.
"""

import os
from socket import AF_UNIX, SOCK_CLOEXEC, SOCK_NONBLOCK, socket

BACKLOG = 4096


def open_private(kind, name):
    """Open a private door.

    Parameters
    ----------
    kind : int
        ``SOCK_STREAM`` or ``SOCK_SEQPACKET``.
    name : str
        What the socket calls itself (``getpeername`` of those who connect ends with it), random.

    Returns
    -------
    (int, int) or None
        Descriptors of the listening socket, which does not block, and of its place. None where
        there is no folder for it, or a kernel or /proc that does not lead there.
    """
    for folder in ("/dev/shm", os.environ.get("TMPDIR") or "/tmp", "/tmp"):
        path = f"{folder}/{name}"
        door = socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK)
        place = -1
        try:
            # It gets its mode when it is bound: at no time may others connect.
            os.fchmod(door.fileno(), 0o600)
            door.bind(path)
            try:
                place = os.open(path, os.O_PATH | os.O_NOFOLLOW)
            finally:
                os.unlink(path)
            door.listen(BACKLOG)
            _try_door(door, kind, place)
            return door.detach(), place
        except OSError:
            door.close()
            if place >= 0:
                os.close(place)
    return None


def path_to(pid, place):
    """Where others connect."""
    return f"/proc/{pid}/fd/{place}"


def _try_door(door, kind, place):
    caller = socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK)
    try:
        caller.connect(path_to(os.getpid(), place))
        door.accept()[0].close()
    finally:
        caller.close()
