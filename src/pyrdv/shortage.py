"""What the system refused, in words: the call, its error, the limit behind it, and the remedy.

It imports nothing of the package and, when it is loaded, nothing at all, so that every layer may
use it, and a rank that lacks nothing does not pay for it.
"""


def _figure(value, unit=""):
    return "unlimited" if value < 0 else f"{value}{unit}"


def _limit(name, unit=""):
    """A limit of this process with its hard one, or an empty text where there is none."""
    import resource

    soft, hard = resource.getrlimit(getattr(resource, name))
    if soft == resource.RLIM_INFINITY:
        return ""
    return f"{name} is {_figure(soft, unit)} (hard limit {_figure(hard, unit)})"


def open_files():
    """The limit of open files and how to raise it."""
    return (f"{_limit('RLIMIT_NOFILE') or 'RLIMIT_NOFILE is unlimited'}; raise the limit of open "
            "files (`ulimit -n`) before the program starts, or close files that it does not need")


def memory():
    """The limits of memory that this process has, and how to raise them."""
    found = [text for text in (_limit("RLIMIT_AS", " bytes"), _limit("RLIMIT_DATA", " bytes"))
             if text]
    if not found:
        return ("no limit of this process stands in the way, so the machine, its container or its "
                "batch job has no memory left; use less, or ask for more")
    return (f"{' and '.join(found)}; raise it (`ulimit -v` for RLIMIT_AS, `ulimit -d` for "
            "RLIMIT_DATA) before the program starts, or use less memory")


def locked_memory():
    """The limit of locked memory, which registered memory counts against, and how to raise it."""
    own = _limit("RLIMIT_MEMLOCK", " bytes")
    if not own:
        own = "RLIMIT_MEMLOCK is unlimited"
    other = _limit("RLIMIT_AS", " bytes")
    return (f"{own}{f' and {other}' if other else ''}; raise it (`ulimit -l unlimited`, or memlock "
            f"in /etc/security/limits.conf{', `ulimit -v` for RLIMIT_AS' if other else ''}) before "
            "the program starts; `pyrdv doctor` says more")


def file_size():
    """The limit of the size of files, which shared memory counts against."""
    return (f"{_limit('RLIMIT_FSIZE', ' bytes') or 'RLIMIT_FSIZE is unlimited'}, and shared memory "
            "counts as a file; raise it (`ulimit -f`) before the program starts")


def processes():
    """The limit of processes and threads and how to raise it."""
    return (f"{_limit('RLIMIT_NPROC') or 'RLIMIT_NPROC is unlimited'}; raise the limit of "
            "processes and threads (`ulimit -u`), or the one of the container, or start fewer")


def _remedy(error):
    import errno

    if error == errno.EMFILE:
        return open_files()
    if error == errno.ENFILE:
        return "the whole machine is out of open files; its limit is /proc/sys/fs/file-max"
    if error == errno.ENOMEM:
        return memory()
    if error == errno.EFBIG:
        return file_size()
    if error == errno.ENOSPC:
        return "the machine, or its container, has no room left for shared memory; free some"
    if error == errno.EAGAIN:
        return processes()
    if error in (errno.EBADF, errno.ENOTSOCK):
        return ("a descriptor of pyrdv was closed by this program; close only what it has opened "
                "(os.closerange closes others' as well)")
    if error in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        return ("the system forbids it: a seccomp filter (of a container), Yama's ptrace_scope or "
                "another security module; `pyrdv doctor` says what it finds")
    return ""


def explain(call, error):
    """Say why a system call failed and what to do.

    Parameters
    ----------
    call : str
        Name of the call.
    error : int
        Its errno.

    Returns
    -------
    str
        Without a full stop at its end.
    """
    import os

    remedy = _remedy(error)
    return f"{call}: {os.strerror(error)}{f' ({remedy})' if remedy else ''}"
