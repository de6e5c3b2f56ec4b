"""Whether variables of a launcher were meant for this process, or for one it descends from."""

import os

_INTERPRETERS = ("python", "pypy")


def inherited(environ, names):
    """Process id of a Python program above this one that was started with the same variables.

    Launchers such as torchrun do not write down which process they mean. It is the first Python
    process that has the variables: what it starts itself inherits them, and is a helper of its.
    Shells between them pass the variables on, too, but are no worker. A launcher written in Python
    gives the variables to its workers only, so it does not count.

    Parameters
    ----------
    environ : mapping of str to str
        Of this process.
    names : sequence of str
        Variables to compare, absent ones included.

    Returns
    -------
    int
        0: there is none, or the system does not tell.
    """
    wanted = {name: environ.get(name) for name in names}
    pid = os.getppid()
    try:
        own = os.readlink("/proc/self/exe")
        while pid > 0 and _variables(pid, wanted) == wanted:
            program = os.readlink(f"/proc/{pid}/exe")
            if program == own or os.path.basename(program).startswith(_INTERPRETERS):
                return pid
            pid = _parent(pid)
    except (OSError, ValueError):
        pass
    return 0


def _variables(pid, names):
    """Variables that a process was started with, of those in `names`."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = [os.fsdecode(entry).partition("=") for entry in file.read().split(b"\0")]
    found = {name: value for name, _, value in pairs}
    return {name: found.get(name) for name in names}


def _parent(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name of the program may contain anything, and stands in brackets.
        return int(file.read().rpartition(b")")[2].split()[1])
