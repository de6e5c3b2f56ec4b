"""100 000 signals in all, and what the program does meanwhile comes out right.

Rank 1 has a receive posted for which no message comes, and its handler runs every 20 µs or so.
"""

import hashlib
import multiprocessing
import select
import socket
import subprocess
import threading
import time
import zlib

import numpy as np

from pyrdv import MPI
from tests.progress.programs.parasite import another_mode
from tests.support.cases import run

SIGNALS = 17_000            # of each case
LIMIT = 60.0


def many_signals(comm, work):
    """Repeat `work` in rank 1 until so many signals have come."""
    with another_mode(comm, period=20, decay=1, turn_limit=1 << 30, share=100) as mode:
        if comm.rank == 1:
            request = comm.Irecv(np.zeros(1 << 20, np.uint8), MPI.ANY_SOURCE, 7)
            begin, end = mode.facts()["signals"], time.monotonic() + LIMIT
            while mode.facts()["signals"] - begin < SIGNALS:
                work()
                assert time.monotonic() < end, "too few signals came"
            request.Cancel()
            request.Wait()
        comm.Barrier()


def case_sleeps_and_select(comm):
    def work():
        begin = time.monotonic()
        time.sleep(0.02)
        assert time.monotonic() - begin >= 0.02
        begin = time.monotonic()
        assert select.select([near], [], [], 0.02) == ([], [], [])
        assert time.monotonic() - begin >= 0.02
        far.send(b"x")
        assert select.select([near], [], [], LIMIT)[0] and near.recv(1) == b"x"
        np.sort(np.arange(50_000)[::-1])

    near, far = socket.socketpair()
    with near, far:
        many_signals(comm, work)


def case_sockets_and_files(comm):
    def work():
        sender = threading.Thread(target=near.sendall, args=(data,))
        sender.start()
        got = bytearray()
        while len(got) < len(data):
            got += far.recv(1 << 16)
        sender.join()
        assert got == data
        with open(name, "wb") as file:
            assert file.write(data) == len(data)
        with open(name, "rb") as file:
            assert file.read() == data

    name = f"file{comm.rank}"
    data = np.random.default_rng(1).bytes(1 << 20)
    near, far = socket.socketpair()
    with near, far:
        many_signals(comm, work)


def case_subprocesses(comm):
    def work():
        done = subprocess.run(["cat"], input=data, capture_output=True, check=True)
        assert done.stdout == data and done.stderr == b""

    data = np.random.default_rng(2).bytes(1 << 18)
    many_signals(comm, work)


def triple(number):
    return 3 * number


def case_multiprocessing(comm):
    """Children are forked between signals; they have none themselves."""
    def work():
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(triple, range(1000)) == [3 * number for number in range(1000)]

    many_signals(comm, work)


def case_arrays_in_threads(comm):
    def work():
        results = []
        workers = [threading.Thread(target=lambda: results.append((left @ right).sum()))
                   for _ in range(3)]
        for worker in workers:
            worker.start()
        results.append((left @ right).sum())
        for worker in workers:
            worker.join()
        assert results == [wanted] * 4

    left, right = np.ones((200, 200)), np.full((200, 200), 2.0)
    wanted = 200 * 200 * 200 * 2.0
    many_signals(comm, work)


def case_extensions_in_long_loops(comm):
    """C code that makes no system call for long, with and without the interpreter's lock."""
    def work():
        packed = zlib.compress(data, 6)
        assert zlib.crc32(data) == check and zlib.decompress(packed) == data
        assert hashlib.sha256(data).digest() == digest

    data = np.random.default_rng(3).integers(0, 50, 1 << 20).astype(np.uint8).tobytes()
    check, digest = zlib.crc32(data), hashlib.sha256(data).digest()
    many_signals(comm, work)


if __name__ == "__main__":
    run(globals())
