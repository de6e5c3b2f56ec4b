"""Other users and other programs that knock at the doors of a job, in processes of their own."""

import contextlib
import os
import signal
import socket

from .absent import absent

NOBODY = 65534


def become_nobody():
    """Be another user from here on; only root can, which CI is."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def need_root():
    """End the test where this process cannot become another user."""
    if os.geteuid() != 0:
        absent("only root can knock as another user: run this test as root")


def abstract_doors():
    """The abstract names of pyrdv's that any user can read, now."""
    with open("/proc/net/unix") as file:
        found = [line.split()[-1] for line in file]
    return [b"\0" + name[1:].encode() for name in found if name.startswith("@pyrdv-")]


def knock(doors, held):
    """Connect to each door and say nothing; the oldest of many goes."""
    for door in doors:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        with contextlib.suppress(OSError):
            one.connect(door)
        held.append(one)
        if len(held) > 600:
            held.pop(0).close()


def flood(doors=abstract_doors):
    """Knock for ever at what `doors()` gives."""
    held, at = [], doors()
    turn = 0
    while True:
        knock(at, held)
        turn += 1
        if not at or turn % 50 == 0:
            at = doors()


@contextlib.contextmanager
def strangers(work, count=1, foreign=True):
    """Run ``work()`` in `count` processes of another user, or of this one, until the block ends."""
    if foreign:
        need_root()
    pids = []
    try:
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                with contextlib.suppress(BaseException):
                    os.nice(5)
                    if foreign:
                        become_nobody()
                    work()
                os._exit(1)
            pids.append(pid)
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
