"""What the tests of the shm fabric share: pairs of ends and a hand-made peer."""

import fcntl
import hashlib
import mmap
import os
import socket
import struct
import time

from pyrdv.fabrics.shm import ShmFabric
from pyrdv.instruments.fabric import OK, PACKET, Driver

TOKEN = b"a job's secret"
HELLO = struct.Struct("<QIIIIQQ32s")  # magic version from to staged mark-address mark digest
# magic version pid mark-address mark space reach place length name
ADDRESS = struct.Struct("<QIIQQQQiI64s")
MAGIC = int.from_bytes(b"PRDVSHM1", "little")
VERSION = 4

# Offsets in a segment: csrc/ring.h.
PRODUCER_WAITING, HELP, PRODUCER_BYE, CREDIT = 128, 256, 260, 384
CONSUMER_WAITING, CONSUMER_BYE = 512, 516
STAGE_SERIAL, PRODUCER_CELLS, CONSUMER_CELLS = 640, 768, 896
JOBS, SLOTS, BULK = 1024, 4096, 4096 + 128 * 128
BULK_SIZE = 4 * 32768     # of a job of three ranks
PLAIN = BULK + BULK_SIZE
STAGED = PLAIN + 65536
INLINE, IN_BULK = 1 << 24, 2 << 24


def fabrics(count=2, single_copy="auto", token=TOKEN):
    """Ends that know each other's addresses."""
    made = [ShmFabric(rank, count, token, single_copy) for rank in range(count)]
    addresses = [one.address for one in made]
    for one in made:
        one.set_peers(addresses)
    return made


def pair(single_copy="auto"):
    """Two connected drivers in this process."""
    a, b = (Driver(one) for one in fabrics(2, single_copy))
    assert a.connect(1) == OK
    assert b.connect(0) == OK
    a.maintain()
    b.maintain()
    return a, b


def payloads(events):
    """Contents of the packets among `events`."""
    return [event[2] for event in events if event[0] == PACKET]


def until(condition, *drivers, seconds=30):
    """Poll `drivers` until `condition(events of each)` holds; the events."""
    seen = [[] for _ in drivers]
    limit = time.monotonic() + seconds
    while not condition(*seen):
        assert time.monotonic() < limit, f"nothing more came: {seen}"
        for events, one in zip(seen, drivers, strict=True):
            one.maintain()
            events += one.poll()
    return seen


def open_files():
    """Names of what this process has open, by descriptor."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
    return found


class RawPeer:
    """A peer made by hand, to do what a real one never does."""

    def __init__(self, rank=1, to=0, token=TOKEN):
        self.rank, self.to = rank, to
        self.digest = hashlib.blake2b(b"pyrdv shm " + token, digest_size=32).digest()
        self.name = b"pyrdv-test-" + os.urandom(8).hex().encode()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(b"\0" + self.name)
        self.listener.listen(8)
        self.mark = bytearray(8)
        self.socket = self.memory = self.into = self.into_socket = None

    def address(self, mark_address=0, mark=1):
        """An address for ``set_peers``."""
        return ADDRESS.pack(
            MAGIC, VERSION, os.getpid(), mark_address, mark, os.stat("/proc/self/ns/pid").st_ino,
            0, -1, len(self.name), self.name
        )

    def segment(self, size=PLAIN, seals=True, **changes):
        """Memory of a channel to the peer; its descriptor."""
        fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        if seals:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.memory = mmap.mmap(fd, size)
        fields = {"magic": MAGIC, "version": VERSION, "bytes": size, "from_rank": self.rank,
                  "to_rank": self.to, "staged": int(size == STAGED)} | changes
        struct.pack_into("<QIIIII", self.memory, 0, *fields.values())
        return fd

    def dial(self, target, public=False):
        """A socket connected to the fabric with that address, by its private door if it has one."""
        *_, place, length, name = fields = ADDRESS.unpack(target)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hidden = f"/proc/{fields[2]}/fd/{place}"
        self.socket.connect(b"\0" + name[:length] if public or place < 0 else hidden)
        return self.socket

    def hello(self, **changes):
        """The bytes of a hello."""
        fields = {"magic": MAGIC, "version": VERSION, "from_rank": self.rank, "to_rank": self.to,
                  "staged": 0, "mark_address": 0, "mark": 1, "digest": self.digest} | changes
        return HELLO.pack(*fields.values())

    def connect(self, target, size=PLAIN):
        """Offer a channel as a real peer would."""
        fd = self.segment(size)
        socket.send_fds(self.dial(target), [self.hello(staged=int(size == STAGED))], [fd])
        os.close(fd)

    def accept(self):
        """Take the channel that the other side offers."""
        self.into_socket, _ = self.listener.accept()
        data, fds, _, _ = socket.recv_fds(self.into_socket, 256, 1)
        size = os.fstat(fds[0]).st_size
        self.into = mmap.mmap(fds[0], size)
        os.close(fds[0])
        return HELLO.unpack(data)

    def put(self, index, word, data=b"", stamp=None):
        """Write slot `index` of the own channel, the stamp last."""
        base = SLOTS + (index % 128) * 128
        self.memory[base + 8 : base + 8 + len(data)] = data
        self.set32(base + 4, word)
        self.set32(base, index + 1 if stamp is None else stamp)

    def set32(self, offset, value, memory=None):
        """Write one word."""
        struct.pack_into("<I", memory or self.memory, offset, value)

    def hide(self):
        """Let go of the own channel."""
        self.socket.close()
        self.memory.close()

    def close(self):
        """Let go of everything."""
        for one in (self.memory, self.into):
            if one is not None:
                one.close()
        for one in (self.socket, self.into_socket, self.listener):
            if one is not None:
                one.close()
