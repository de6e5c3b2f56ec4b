"""How much memory a process may keep registered."""

import os
import resource

#: Share of the machine's memory, one part in so many.
PART = 4
#: Bit of CAP_IPC_LOCK, the privilege to which RLIMIT_MEMLOCK means nothing.
IPC_LOCK = 14


def may_lock():
    """Whether this process may lock memory beyond its limit."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("CapEff:"):
                    return bool(int(line.split()[1], 16) >> IPC_LOCK & 1)
    except (OSError, ValueError):
        pass
    return False


def share():
    """A quarter of the machine's memory, bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // PART


def default_bytes():
    """Bytes to keep registered when nobody says: a quarter of the memory, half of the limit.

    The other half of RLIMIT_MEMLOCK is for connections and for messages under way.
    """
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY or may_lock():
        return share()
    return min(share(), limit // 2)
