"""Three ranks; rank 2 is taken away while rank 0 has messages with it under way, and computes.

Steps of rank 0 that no call makes go on with rank 1 all the while.  Files tell the test what
happened: `ready` once both are under way; `told` with the text of the error; and `goes-on` when
rank 0 has had a message of rank 1 afterwards, without a call in between.
"""

import os
import sys
import time

import numpy as np

from pyrdv import MPI
from pyrdv.errors import PeerLostError
from tests.progress.programs.parasite import LIMIT, SIZE, spin

COUNT = 8

comm = MPI.COMM_WORLD
#: What is under way with rank 2: "idle", for it sends nothing; else what rank 0 does all the time.
place = sys.argv[1]


def tell(name, text=""):
    """Write a file, all of it at once."""
    with open(f"{name}.new", "w") as file:
        file.write(text)
    os.rename(f"{name}.new", name)


def compute(name):
    """Until the file `name` is there; no call."""
    end = time.monotonic() + LIMIT
    while not os.path.exists(name):
        np.sort(np.arange(20_000)[::-1])
        assert time.monotonic() < end, name


def requests_with(peer):
    """Some operations with the rank that is taken away."""
    rooms = [np.zeros(SIZE, np.uint8) for _ in range(COUNT)]
    if place == "sending":
        return [comm.Isend(room, peer, 1) for room in rooms]
    return [comm.Irecv(room, peer, 1) for room in rooms]


def until_lost(peer, requests):
    """Wait for `requests`, then for more and more; returns the text of the error."""
    while True:
        try:
            for request in requests:
                request.Wait()
            requests = requests_with(peer)
        except PeerLostError as error:
            assert error.peer == peer and f"rank {peer}" in str(error), error
            return str(error)


def survivor():
    rooms = [np.zeros(SIZE, np.uint8) for _ in range(2)]
    others = [comm.Irecv(room, MPI.ANY_SOURCE, 5 + number) for number, room in enumerate(rooms)]
    lost = requests_with(2)
    if place != "idle":
        lost[0].Wait()          # it is in the middle of it
    tell("ready")
    spin(rooms[0])              # a message of rank 1, before
    tell("first")
    compute("killed")
    text = until_lost(2, lost)
    tell("told", text)
    spin(rooms[1])              # and one after
    tell("goes-on")
    for number, request in enumerate(others):
        request.Wait()
        assert (rooms[number] == 5 + number).all()


def other():
    compute("ready")
    comm.Send(np.full(SIZE, 5, np.uint8), 0, 5)
    compute("told")
    comm.Send(np.full(SIZE, 6, np.uint8), 0, 6)


def victim():
    """Until it is killed, or until rank 0 is lost to it."""
    if place == "idle":
        compute("goes-on")
        return
    data = np.ones(SIZE, np.uint8)
    call = comm.Send if place == "receiving" else comm.Recv
    try:
        while True:
            call(data, 0, 1)
    except PeerLostError as error:
        assert error.peer == 0, error


# Everybody meets: the loss must not be that of a first contact.
for step in range(1, 3):
    comm.sendrecv("meet", (comm.rank + step) % 3, 0, None, (comm.rank - step) % 3, 0)
comm.Barrier()
(survivor, other, victim)[comm.rank]()
if comm.rank == 0:
    assert MPI.counters()["flow_hits"] > 0
    print("ended")
