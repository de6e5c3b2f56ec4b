"""Rank 0 or 1 of a job without a launcher, whose other ranks are played by tests/verbs/hostile.py.

Rank 0 expects a message of each of them; ranks 0 and 1 exchange messages all the time, to show that
a bad peer harms nobody else.  Arguments: ROLE SIZE DEVICE RING TOKEN.  Rank 0 writes lines:
``got RANK TEXT``, ``lost RANK TEXT``, and ``beat COUNT BYTES`` with the messages exchanged with
rank 1 so far and its memory, until standard input ends; at last ``counters JSON``.
"""

import json
import os
import select
import sys
import time

import numpy as np

from pyrdv.api.communicator import Comm
from pyrdv.api.status import Status
from pyrdv.engine.engine import Engine
from pyrdv.errors import PeerLostError
from pyrdv.fabrics.verbs.fabric import VerbsFabric
from pyrdv.progress.waiting import wait_until

role, size = int(sys.argv[1]), int(sys.argv[2])
ROOM = 64 << 20
# It polls throughout its short pauses: one that slept in all of them would not open its ring for a
# peer that a busy machine makes slow, as that takes 16 packets without a sleep.
SPIN_NS = 50_000_000
PAUSE, SLEEP, SLEEP_EVERY = 0.005, 0.1, 2.0  # s


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def tell(*words):
    print(*words, flush=True)


def address_of(rank):
    name = f"address{rank}"
    while not os.path.exists(name):
        time.sleep(0.01)
    with open(name) as file:
        return bytes.fromhex(file.read())


def start():
    """The fabric and the engine, connected to the honest one."""
    fabric = VerbsFabric(role, size, bytes.fromhex(sys.argv[5]), device=sys.argv[3], port=1,
                         ring=sys.argv[4], peer_timeout=3)
    with open(f"new{role}", "w") as file:
        file.write(fabric.address.hex())
    os.rename(f"new{role}", f"address{role}")
    theirs = address_of(1 - role)
    fabric.set_peers([theirs if rank == 1 - role else None for rank in range(size)])
    # A receive that offered its buffer would connect to the hostile ones, who have no address.
    engine = Engine(role, size, [fabric], speculation="off", spin_ns=SPIN_NS)
    return fabric, engine, Comm.of(engine)


def exchange(comm, number):
    """One message each way with the honest one; False once it ends."""
    data, room = np.array([number]), np.empty(1, int)
    comm.Sendrecv(data, 1 - role, 1, room, 1 - role, 1)
    if -1 in (number, room[0]):
        return False
    assert room[0] == number
    return True


def ended():
    """Whether standard input was closed."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def look(comm, waiting, rooms):
    """Tell what became of the hostile ranks' messages; the first of each, then its end."""
    for rank, (request, status) in list(waiting.items()):
        try:
            if request.Test(status):
                text = bytes(rooms[:status.Get_count()][:40]).decode("latin1")
                tell("got", rank, text)
                waiting[rank] = (comm.Irecv(rooms, rank, 9), Status())
        except PeerLostError as error:
            assert error.peer == rank, error
            tell("lost", rank, str(error).replace("\n", " "))
            del waiting[rank]
        except Exception as error:
            tell("failed", rank, type(error).__name__, error)
            del waiting[rank]


def target(fabric, engine, comm):
    # One for all: only one rank at a time sends.  Touched, for its pages are counted.
    rooms = np.ones(ROOM, np.uint8)
    waiting = {rank: (comm.Irecv(rooms, rank, 0), Status()) for rank in range(2, size)}
    tell("ready")
    number, told, slept = 0, 0.0, time.monotonic()
    while not ended():
        assert exchange(comm, number)
        number += 1
        look(comm, waiting, rooms)
        if time.monotonic() - told > 0.1:
            told = time.monotonic()
            tell("beat", number, resident())
        sleeps = time.monotonic() - slept > SLEEP_EVERY
        wait_until(engine, lambda: False, SLEEP if sleeps else PAUSE)
        if sleeps:
            slept = time.monotonic()
    exchange(comm, -1)


def honest(fabric, engine, comm):
    number = 0
    tell("ready")
    while exchange_as_told(comm):
        number += 1


def exchange_as_told(comm):
    """The honest one sends back what it gets."""
    room = np.empty(1, int)
    comm.Recv(room, 0, 1)
    comm.Send(room, 0, 1)
    return room[0] != -1


def main():
    fabric, engine, comm = start()
    (honest if role else target)(fabric, engine, comm)
    tell("counters", json.dumps(fabric.counters))
    engine.cancel_receives()
    wait_until(engine, engine.finish, 5)
    engine.disconnect()
    engine.close()
    tell("ended")


main()
