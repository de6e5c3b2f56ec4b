"""File descriptors of the launcher: room for them, and none of its own among the standard three."""

import errno
import os
import resource

from pyrdv import shortage
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
    """Both ends of a pipe, each above 2."""
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
            most = (wanted - FIXED_DESCRIPTORS) // PER_RANK_DESCRIPTORS
            fewer = f", or start at most {most} rank{'s' if most > 1 else ''}" if most > 0 else ""
            raise LaunchError(
                f"{size} rank{'s' if size > 1 else ''} need{'' if size > 1 else 's'} {need} open "
                f"files in the launcher, but {shortage.open_files(need)}{fewer}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    spare = 64 if soft == resource.RLIM_INFINITY else soft - need + 4
    return limits, max(4, min(64, spare))


def in_memory(data):
    """A descriptor from which `data` can be read."""
    fd = os.memfd_create("pyrdv-program")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def why_not_started(error):
    """Why fork or exec failed, for people; begins with the error."""
    text = f"{error.strerror} (errno {error.errno})"
    if error.filename is not None:
        why = "is it a program for this machine?"
    else:
        why = shortage.remedy(error.errno)
        if error.errno == errno.ENOMEM:
            why += ", or start fewer ranks"
    return f"{text}; {why}" if why else text


def why_not_written(error):
    """Why output cannot be written, for people."""
    text = error.strerror
    if error.errno == errno.EFBIG:
        text += f"; {shortage.file_size()}"
    return text
