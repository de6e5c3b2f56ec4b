"""gevent beside a flow: its hub sleeps, switches stacks and waits for children; signals come."""

import signal
import time

import gevent
import numpy as np
from gevent import socket, subprocess

from pyrdv import MPI
from tests.progress.programs.parasite import (
    LIMIT,
    SIZE,
    another_mode,
    flow,
    pipes,
    tell,
    told,
)
from tests.support.cases import run


def sleeps():
    """None is cut short."""
    for _ in range(50):
        began = time.monotonic()
        gevent.sleep(0.01)
        assert time.monotonic() - began >= 0.009     # libev rounds


def echo(sock, count):
    for _ in range(count):
        sock.sendall(sock.recv(8))


def ask(sock, count):
    with gevent.Timeout(LIMIT):
        for number in range(count):
            sock.sendall(number.to_bytes(8, "little"))
            assert int.from_bytes(sock.recv(8), "little") == number


def children():
    for _ in range(5):
        assert subprocess.check_output(["echo", "x"]) == b"x\n"


def awaited(room):
    with gevent.Timeout(LIMIT):
        while not room.all():
            gevent.sleep(0.005)


def beside(comm, mode):
    """What a program does with gevent while messages come that no call takes."""
    rooms = [np.zeros(SIZE, np.uint8) for _ in range(6)]
    requests = [comm.Irecv(room, MPI.ANY_SOURCE, tag) for tag, room in enumerate(rooms)]
    alarms = []
    watcher = gevent.signal_handler(signal.SIGALRM, lambda: alarms.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    near, far = socket.socketpair()
    tell("posted")
    work = [gevent.spawn(sleeps), gevent.spawn(echo, far, 500), gevent.spawn(ask, near, 500),
            gevent.spawn(children), *(gevent.spawn(awaited, room) for room in rooms)]
    gevent.joinall(work, timeout=LIMIT, raise_error=True)
    assert all(one.successful() for one in work)
    signal.setitimer(signal.ITIMER_REAL, 0)
    watcher.cancel()
    near.close()
    far.close()
    assert alarms and flow(comm)["signals"] > 0 and mode.facts()["watched"] == 0
    return requests


def case_gevent_is_not_disturbed(comm):
    pipes(comm)
    # By the timer as many signals as it can: one in 10 µs.
    with another_mode(comm, decay=1, turn_limit=1 << 30, share=100,
                      trigger=flow(comm)["trigger"]) as mode:
        if comm.rank == 1:
            requests = beside(comm, mode)
            tell("there")
        else:
            told("posted")
            requests = [comm.Isend(np.full(SIZE, 1 + tag, np.uint8), 1, tag) for tag in range(6)]
            told("there")
        MPI.Request.Waitall(requests)
        comm.Barrier()


if __name__ == "__main__":
    run(globals())
