"""How much of the stack of the thread that it interrupts a handler takes (parasite.h, Z5)."""

import ctypes
import os
import threading
import time
from pathlib import Path

import numpy as np

from pyrdv import MPI
from tests.progress.programs.event import rest
from tests.progress.programs.parasite import LIMIT, SIZE, flow, nap, pipes, tell, told
from tests.support.cases import run

PATTERN = 0xA5
BELOW = 128 << 10               # bytes below the stack pointer that are looked at
RED = 128                       # below it the x86 ABI lets functions keep what is theirs
MOST = 8 << 10
_SC_MINSIGSTKSZ = 249           # what the kernel puts there first: registers, mostly of vectors
STACK = 1 << 20


class Victim:
    """A thread that posts receives and then sleeps in a system call."""

    def __init__(self, comm, count):
        self.rooms = [np.zeros(SIZE, np.uint8) for _ in range(count)]
        self.comm = comm
        self.near, self.far = os.pipe()
        self.posted = threading.Event()
        before = threading.stack_size(STACK)
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        threading.stack_size(before)
        assert self.posted.wait(LIMIT)
        self.task = Path(f"/proc/self/task/{self.thread.native_id}")
        end = time.monotonic() + LIMIT
        while self.pointer() is None:
            time.sleep(0.01)
            assert time.monotonic() < end

    def work(self):
        self.requests = [self.comm.Irecv(room, MPI.ANY_SOURCE, tag)
                         for tag, room in enumerate(self.rooms)]
        rest(self.comm)             # from now on nothing happens until something comes
        self.posted.set()
        os.read(self.near, 1)
        self.facts = flow(self.comm)

    def pointer(self):
        """Its stack pointer while it sleeps; else None."""
        words = (self.task / "syscall").read_text().split()
        return int(words[7], 16) if len(words) == 9 and words[0] == "0" else None

    def end(self):
        os.write(self.far, b"x")
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()
        os.close(self.near)
        os.close(self.far)


def taken(pointer):
    """Bytes below `pointer` that are not as they were painted, down to the lowest."""
    seen = np.frombuffer(ctypes.string_at(pointer - BELOW, BELOW - RED), np.uint8)
    changed = np.flatnonzero(seen != PATTERN)
    return BELOW - int(changed[0]) if len(changed) else 0


def case_the_handler_needs_little_stack(comm):
    """What it finds: RTS, and on devices completions; what it posts: READs and DONE."""
    count = 12
    pipes(comm)
    if comm.rank == 1:
        victim = Victim(comm, count)
        pointer = victim.pointer()
        ctypes.memset(pointer - BELOW, PATTERN, BELOW - RED)
        tell("posted")
        for room in victim.rooms:
            nap(room)
        used = taken(pointer)
        victim.end()
        frame = os.sysconf(_SC_MINSIGSTKSZ)
        print(f"stack: {used} bytes, of them at most {frame} the kernel's", flush=True)
        assert victim.facts["signals"] > 0 and 0 < used <= MOST + frame, (used, frame)
        MPI.Request.Waitall(victim.requests)
        tell("there")
    else:
        told("posted")
        requests = [comm.Isend(np.full(SIZE, 5, np.uint8), 1, tag) for tag in range(count)]
        told("there")
        MPI.Request.Waitall(requests)
    comm.Barrier()


if __name__ == "__main__":
    run(globals())
