"""Counts how much of a message moves while who computes is in no call of the library.

A scene is a message with two names: who makes its call first, and who computes then.  Who does not
compute goes on to its Wait; with "both" nobody is in a call.  To compute means here to look at
memory or at a pipe, never at the library, until the message has moved, or until it stands still for
PATIENCE.  The call that comes late is made when the packet of the early one is there, and no call
has seen it: LEAD later, and twice as long after each message that has not moved as a whole, for on
a busy machine the packet may take long.

Arguments: how many messages each scene has, and how many messages cross in its envelope (source,
tag and communicator) before the first scene.  Rank 0 sends and prints {"first, side": [bytes that
moved, ...]}.
"""

import json
import os
import select
import sys
import time

import numpy as np

from pyrdv import MPI

SIZE, TAG = 1 << 20, 7
LEAD, PATIENCE = 0.1, 2.0
SIDES = ("receiver", "sender", "both")
SCENES = [(first, side) for first in SIDES[:2] for side in SIDES]
#: Messages that cross before each further scene.
AGAIN = 40

comm = MPI.COMM_WORLD
me, peer = ("sender", "receiver")[comm.rank], 1 - comm.rank
data, room = np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint8)


class Line:
    """A pipe each way between the ranks, outside of the library."""

    def __init__(self):
        if comm.rank == 0:
            for name in ("to0", "to1"):
                os.mkfifo(name)
        comm.Barrier()
        self.back, self.out = (os.open(f"to{rank}", os.O_RDWR) for rank in (comm.rank, peer))

    def tell(self):
        os.write(self.out, b".")

    def told(self, limit=None):
        """Whether the other rank has told, or does so within `limit` seconds."""
        ready, _, _ = select.select([self.back], [], [], limit)
        return bool(ready and os.read(self.back, 1))


def watch(mark):
    """How many bytes of the message are there when all are, or no more come."""
    there, since = 0, time.monotonic()
    while there < SIZE and time.monotonic() - since < PATIENCE:
        time.sleep(0.005)
        found = int(np.count_nonzero(room == mark))
        if found > there:
            there, since = found, time.monotonic()
    return there


def compute(line, side, mark):
    """Stay away from the library; returns the bytes that moved meanwhile."""
    if me == "receiver":
        there = watch(mark)
        if side == "both":
            line.tell()
        return there
    if side == "both":
        line.told()
        return 0                # the receiver has counted them
    return SIZE if line.told(PATIENCE) else 0


def play(line, first, side, mark, lead):
    """One message; returns the bytes that moved while `side` computed."""
    data.fill(mark)
    comm.Barrier()
    if me != first:
        line.told()
        time.sleep(lead)
    request = comm.Isend(data, 1, TAG) if me == "sender" else comm.Irecv(room, 0, TAG)
    if me == first:
        line.tell()
    moved = compute(line, side, mark) if side in (me, "both") else 0
    request.Wait()
    if side == "sender" and me == "receiver":
        line.tell()
    elif side == me == "sender" and not moved:
        line.told()             # so that the next message does not find it
    assert me == "sender" or (room == mark).all()
    return comm.allreduce(moved)


def cross(messages):
    """Both ranks send, then both receive: each RTR would come too late."""
    for _ in range(messages // 2):
        sent = comm.Isend(data, peer, TAG)
        received = comm.Irecv(room, peer, TAG)
        sent.Wait()
        received.Wait()


def main():
    count, crossing = map(int, sys.argv[1:])
    line, mark, found = Line(), 0, {}
    for first, side in SCENES:
        cross(min(crossing, AGAIN) if found else crossing)
        moved, lead = found.setdefault(f"{first}, {side}", []), LEAD
        for _ in range(count):
            mark = mark % 250 + 1
            moved.append(play(line, first, side, mark, lead))
            lead *= 1 if moved[-1] == SIZE else 2
    if comm.rank == 0:
        print(json.dumps(found))


main()
