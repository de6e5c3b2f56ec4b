"""Three ranks; ranks 0 and 2 lose each other while they are at `PLACE`; rank 0 goes on with 1.

Files tell the test what happened: `ready` once ranks 0 and 2 are in the middle of it; `told0` and
`told2` with the moment and the text of the error, once a rank has it; `goes-on` when rank 0 has
used rank 1 afterwards.
"""

import os
import sys
import time

import numpy as np

from pyrdv import MPI
from pyrdv.errors import PeerLostError

BIG = 4 << 20
comm = MPI.COMM_WORLD
place = sys.argv[1]


def tell(name, text=""):
    """Write a file, all of it at once."""
    with open(f"{name}.new", "w") as file:
        file.write(text)
    os.rename(f"{name}.new", name)


def until_lost(call, peer):
    """Call again and again until the peer is lost; returns the text, which names it."""
    count = 0
    try:
        while True:
            call()
            count += 1
            if comm.rank == 0 and count == (1 if place in ("read", "write") else 300):
                tell("ready")
    except PeerLostError as error:
        moment = time.time()
        assert error.peer == peer, error.peer
        assert f"rank {peer}" in str(error), error
        return f"{moment} {error}"


def call_of(receives, peer):
    """What a rank does with its peer at `place`."""
    if place == "idle":
        return lambda: comm.recv(None, peer, 1)
    if place in ("stream", "ring"):
        return (lambda: comm.Recv(np.empty(10), peer, 1)) if receives else (
            lambda: comm.Send(np.ones(10), peer, 1))
    if receives:
        # Two at once, so that there always is one under way.
        rooms = [np.empty(BIG, np.uint8) for _ in range(2)]
        return lambda: MPI.Request.Waitall([comm.Irecv(room, peer, 1) for room in rooms])
    data = np.ones(BIG, np.uint8)
    return lambda: MPI.Request.Waitall([comm.Isend(data, peer, 1) for _ in range(2)])


def more_is_refused_at_once(peer):
    """Every further operation with the lost peer ends in an error, soon."""
    began = time.monotonic()
    for call in (lambda: comm.Send(np.ones(1), peer), lambda: comm.send(b"x" * 300_000, peer),
                 lambda: comm.irecv(None, peer).wait(), lambda: comm.Probe(peer),
                 lambda: comm.Recv(np.empty(1), peer)):
        try:
            call()
        except PeerLostError as error:
            assert f"rank {peer}" in str(error), error
        else:
            raise AssertionError("no error")
    assert time.monotonic() - began < 3


# Everybody meets: the loss must not be that of a first contact.
for step in range(1, 3):
    comm.sendrecv("meet", (comm.rank + step) % 3, 0, None, (comm.rank - step) % 3, 0)
comm.Barrier()
if comm.rank == 1:
    # Not in a call while the others lose each other.
    while not os.path.exists("told0"):
        time.sleep(0.02)
    for number in range(20):
        assert comm.recv(None, 0, 5) == number
        comm.Send(np.full(50_000, number), 0, 6)
else:
    peer = 2 - comm.rank
    # "read": rank 0 reads out of rank 2's memory; "write": rank 2 out of rank 0's.
    receives = comm.rank == (2 if place in ("write", "sending") else 0)
    if place == "sending":
        place = "stream"
    if place == "idle" and comm.rank == 0:
        tell("ready")
    text = until_lost(call_of(receives, peer), peer)
    more_is_refused_at_once(peer)
    if comm.rank == 0:
        tell("told0", text)
        room = np.empty(50_000, int)
        for number in range(20):
            comm.send(number, 1, 5)
            comm.Recv(room, 1, 6)
            assert (room == number).all()
        tell("goes-on")
    else:
        tell("told2", text)
print("ended", comm.rank)
