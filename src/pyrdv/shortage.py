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


def _allowed(name, unit):
    """Who may have to allow a limit to be raised, by its names there."""
    return (f"for which {name} in /etc/security/limits.conf, {unit} of a service or "
            f"--ulimit {name} of a container may have to allow it")


def open_files(need=0):
    """The limit of open files and how to raise it, to `need` if that is known."""
    own = _limit("RLIMIT_NOFILE") or "RLIMIT_NOFILE is unlimited"
    if need:
        return (f"{own}; raise it with `ulimit -Hn {need}` before the program starts, "
                f"{_allowed('nofile', 'LimitNOFILE')}")
    return (f"{own}; raise the limit of open files (`ulimit -n`) before the program starts, or "
            "close files that it does not need")


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
    other = _limit("RLIMIT_AS", " bytes")
    if not own and not other:
        return ("RLIMIT_MEMLOCK is unlimited, so the system or the device has no more to give; "
                "use smaller messages, or fewer at a time; `pyrdv doctor` says more")
    found = [own or "RLIMIT_MEMLOCK is unlimited"]
    how = ["`ulimit -l unlimited`"] if own else []
    if other:
        found.append(other)
        how.append("`ulimit -v` for RLIMIT_AS")
    allowed = f", {_allowed('memlock', 'LimitMEMLOCK')}" if own else ""
    return (f"{' and '.join(found)}; raise it ({', '.join(how)}) before the program "
            f"starts{allowed}; `pyrdv doctor` says more")


def file_size():
    """The limit of the size of files and how to raise it."""
    return (f"{_limit('RLIMIT_FSIZE', ' bytes') or 'RLIMIT_FSIZE is unlimited'}; raise it "
            "(`ulimit -f`) before the program starts")


def processes():
    """The limit of processes and threads and how to raise it."""
    return (f"{_limit('RLIMIT_NPROC') or 'RLIMIT_NPROC is unlimited'}; raise the limit of "
            "processes and threads (`ulimit -u`), or the one of the container, or start fewer")


def remedy(error):
    """Which limit may stand behind an errno, and what to do; empty where none is known.

    Parameters
    ----------
    error : int
        Of a call for memory, descriptors, threads or processes, or for shared memory.
    """
    import errno

    if error == errno.EMFILE:
        return open_files()
    if error == errno.ENFILE:
        return "the whole machine is out of open files; its limit is /proc/sys/fs/file-max"
    if error == errno.ENOMEM:
        return memory()
    if error == errno.EFBIG:
        return f"{file_size()}; shared memory counts as a file"
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

    why = remedy(error)
    return f"{call}: {os.strerror(error)}{f' ({why})' if why else ''}"
