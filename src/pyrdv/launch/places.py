"""Where the ranks of a job run: what each tells of itself at start, and what follows from it.

Two ranks may use shared memory if their *places* are equal: one running kernel (its boot id), one
network namespace (the sockets over which shared memory is handed out live in one) and one user
(nobody else may copy from a process). `pyrdv.world` exchanges one `Card` per rank, once.
"""

import os

from pyrdv.foreign import shown

_BOOT = 16
_PLACE = _BOOT + 8 + 4
_PROCESSORS = 8
_HEAD = 1 + 8 + _PLACE + _PROCESSORS + 1


def own_place():
    """What `Card.place` holds for this process, as bytes."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = bytes.fromhex(file.read().decode("ascii").replace("-", ""))
        space = os.stat("/proc/self/ns/net").st_ino
    except (OSError, ValueError):
        # Without /proc the host's name has to do; such processes never meet those that have it.
        boot, space = os.uname().nodename.encode("utf-8", "replace"), 0
    return (boot[:_BOOT].ljust(_BOOT, b"\0") + space.to_bytes(8, "little")
            + os.geteuid().to_bytes(4, "little"))


def own_processors():
    """What `Card.processors` holds for this process, as bytes."""
    # The hash of a tuple of small integers is the same in every process of one build.
    return (hash(tuple(sorted(os.sched_getaffinity(0)))) & (1 << 64) - 1).to_bytes(8, "little")


class Card:
    """What one rank tells all others at start.

    Attributes
    ----------
    allowance : int
        Its PYRDV_UNEXPECTED_MAX, bytes.
    choices : int
        Its PYRDV_FABRIC, PYRDV_CONNECT and PYRDV_SPECULATION, as one number below 256.
    place : bytes
        Equal for ranks that may use shared memory.
    processors : bytes
        Equal for ranks that may run on the same processors of one machine.
    host : str
        Name of its host, for people.
    shm : bytes
        Address of its shm fabric; empty if it opened none.
    collectives : str
        Its PYRDV_COLLECTIVES.
    """

    __slots__ = ("allowance", "choices", "place", "processors", "host", "shm", "collectives")

    def __init__(self, allowance, choices, place, host, shm=b"", processors=bytes(_PROCESSORS),
                 collectives=""):
        self.allowance = allowance
        self.choices = choices
        self.place = place
        self.processors = processors
        self.host = host
        self.shm = shm
        self.collectives = collectives

    def pack(self):
        """The card as bytes."""
        host = self.host.encode("utf-8", "replace")[:255]
        asked = self.collectives.encode("ascii")
        return b"".join([bytes([self.choices]), self.allowance.to_bytes(8, "little"), self.place,
                         self.processors, bytes([len(host)]), host,
                         len(asked).to_bytes(2, "little"), asked, self.shm])

    @staticmethod
    def unpack(data):
        """Undo `pack`; the sender is a rank of this job and of the same build."""
        end = _HEAD + data[_HEAD - 1]
        shm = end + 2 + int.from_bytes(data[end:end + 2], "little")
        return Card(int.from_bytes(data[1:9], "little"), data[0], data[9:9 + _PLACE],
                    shown(data[_HEAD:end]), data[shm:], data[9 + _PLACE:_HEAD - 1],
                    shown(data[end + 2:shm]))

    @property
    def machine(self):
        """Equal for ranks that share processors."""
        return self.place[:_BOOT]


def ranges(ranks):
    """Write sorted ranks in short: ``ranks 0-3, 7``."""
    parts = []
    for rank in ranks:
        if parts and parts[-1][1] == rank - 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    text = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
    return f"rank{'s' if len(ranks) > 1 else ''} {text}"


def describe(cards):
    """Say which ranks are where: ``ranks 0-1 on node0, ranks 2-3 on node1``.

    Where two places have one host name, what tells them apart is added.
    """
    groups = {}
    for rank, card in enumerate(cards):
        groups.setdefault((card.place, card.host), []).append(rank)
    hosts = [host for _, host in groups]
    return ", ".join(
        f"{ranges(ranks)} on {host}" + (_details(place) if hosts.count(host) > 1 else "")
        for (place, host), ranks in groups.items())


def _details(place):
    space = int.from_bytes(place[_BOOT:_BOOT + 8], "little")
    user = int.from_bytes(place[_BOOT + 8:], "little")
    return f" (boot {place[:4].hex()}, network namespace {space}, user {user})"
