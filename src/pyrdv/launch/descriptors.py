"""File descriptors of the launcher: room for them, and none of its own among the standard three."""

import os
import resource

from pyrdv.errors import LaunchError

# Descriptors that do not depend on the number of ranks: 0-2, listener, wake-up pipe, /dev/null,
# spawn's pipes, and four connections that have not authenticated yet.
FIXED_DESCRIPTORS = 16
PER_RANK_DESCRIPTORS = 3


def fill_standard():
    """Open /dev/null as each of 0, 1 and 2 that is closed.

    A daemon, cron or ``<&-`` may start the launcher so. What it opened itself would take these
    numbers, and be handed to rank 0 as its input, or written to as standard output.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def above_two(fd):
    """Move a descriptor out of 0..2 (the launcher may have been started with those closed)."""
    if fd > 2:
        return fd
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return moved


def pipe():
    read, write = os.pipe()
    return above_two(read), above_two(write)


def reserve(size):
    """Make room for `size` ranks.

    Returns
    -------
    ((int, int), int)
        The limits to give the ranks (those found), and how many connections that have not
        authenticated yet can be afforded.
    """
    soft, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = FIXED_DESCRIPTORS + PER_RANK_DESCRIPTORS * size
    comfortable = need + 64
    if soft != resource.RLIM_INFINITY and soft < comfortable:
        wanted = comfortable if hard == resource.RLIM_INFINITY else min(hard, comfortable)
        if wanted < need:
            most = max(0, (wanted - FIXED_DESCRIPTORS) // PER_RANK_DESCRIPTORS)
            raise LaunchError(
                f"{size} ranks need {need} open files in the launcher, but the limit (ulimit -n) "
                f"is {wanted}: raise it with `ulimit -Hn {need}`, or start at most {most} ranks")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    spare = 64 if soft == resource.RLIM_INFINITY else soft - need + 4
    return limits, max(4, min(64, spare))
