"""The ceiling of overlap on an RDMA device: plain RDMA writes, driven operation by operation.

A fabric of its own, without engine and protocol, between the two ranks of a benchmark: rank 0
writes into the memory of rank 1, and either side computes meanwhile.  What a device takes from the
processor it takes here, too, so this is what a message can reach at best.  It takes more from the
side that posts the transfer than from the other one, whichever way the data goes.

What must hold: nobody else polls the fabric; a write is at its target when its last byte is (the
devices of the lab write in order, and others are not claimed here).
"""

import os
import statistics
from functools import partial

import numpy as np

from pyrdv import config
from pyrdv.tools import bench_overlap_kernels as kernels

#: Polls between two looks for what only `maintain` sees.
PATIENCE = 4096
#: What each side does, by the names under which `ceilings` gives its figures.
POSTS, TARGET = "posts", "target"
ROLES = {kernels.SENDER: POSTS, kernels.RECEIVER: TARGET}


def open_one(session, size):
    """A yardstick for messages of up to `size` bytes; None if the ranks do not use RDMA."""
    return Yardstick(session, size) if session.device.startswith("verbs") else None


class Yardstick:
    """A connection for plain RDMA writes from rank 0 to rank 1.

    Parameters
    ----------
    session : bench_speculation.Session
    size : int
        Bytes of the largest write.
    """

    def __init__(self, session, size):
        from pyrdv.instruments import fabric
        from pyrdv.tools import bench_startup

        self.session, self.rank = session, session.rank
        settings = config.load(os.environ, warn=lambda text: None)
        team = bench_startup.Team(session.comm, [0, 1])
        self.fabric = bench_startup.open_fabric(team, settings)
        self.fabric.connect_all(settings.timeout_start)
        self.names, self.driver = fabric, fabric.Driver(self.fabric)
        self.buffer = np.zeros(size, np.uint8)
        self.region = self.driver.register(self.buffer)
        self.there = team.exchange((self.region.address, self.region.key))[1 - self.rank]
        self.lead = kernels.lead(session.comm, session.work)
        self.mark = 0

    def write(self, scene, units, size, count):
        """Write `count` times; see `bench_overlap_kernels.messages`."""
        me = (kernels.SENDER, kernels.RECEIVER)[self.rank]
        own = []
        ends = (partial(self._post, size), self._written) if me == kernels.SENDER else (
            lambda: None, partial(self._arrived, size))
        for _ in range(count):
            self.mark = self.mark % 250 + 1
            if me == kernels.SENDER:
                self.buffer[:size] = self.mark
            gone = kernels.let_go(self.session.comm, me == scene.first)
            own.append(kernels.stage(scene, me, self.session.work, units, *ends))
            gone.Wait()
            kernels.check(self.buffer[:size], self.mark)
        found = self.session.comm.gather([tuple(turn) for turn in own], root=0)
        if self.rank:
            return None
        return {side: [kernels.Turn(*turn) for turn in turns]
                for side, turns in zip((kernels.SENDER, kernels.RECEIVER), found, strict=True)}

    def _post(self, size):
        address, key = self.there
        self.out = 0
        for start in range(0, size, self.driver.transfer_max):
            piece = min(self.driver.transfer_max, size - start)
            status = self.driver.write(1, self.region, address + start, key, piece, offset=start)
            if status != self.names.OK:
                raise RuntimeError(f"a plain RDMA write was refused: status {status}")
            self.out += 1

    def _poll(self):
        for event in self.driver.poll():
            if event[0] == self.names.WRITE and event[3] == self.names.OK:
                self.out -= 1
            elif event[0] != self.names.PACKET:
                raise RuntimeError(f"a plain RDMA write failed: {event}")

    def _until(self, done):
        polls = 0
        while not done():
            self._poll()
            polls += 1
            if polls % PATIENCE == 0:
                self.driver.maintain()
            os.sched_yield()

    def _written(self):
        self._until(lambda: self.out == 0)

    def _arrived(self, size):
        self._until(lambda: self.buffer[size - 1] == self.mark)

    def close(self):
        """Disconnect; both ranks call it."""
        kernels.together(self.session.comm)
        self.fabric.disconnect(1 - self.rank)
        self.region.deregister()
        self.fabric.close()


def ceilings(session, yardstick, rounds, units, size, count, ticker):
    """What plain writes reach beside computation of the side that posts and of its target.

    Returns
    -------
    dict of str to dict
        By role; empty without RDMA, and on rank 1.
    """
    found = {}
    if yardstick is None:
        return found
    for side in kernels.SIDES:
        # The side that writes is the one that acts, so it is the late one, as a late send is.
        scene = kernels.Scene(kernels.RECEIVER, side, yardstick.lead)
        bare, both, alone = [], [], []
        rank = (kernels.SENDER, kernels.RECEIVER).index(side)
        for _ in range(rounds):
            ticker.tick(f"plain RDMA writes, {side} computes")
            one = yardstick.write(scene, 0, size, count)
            two = yardstick.write(scene, units, size, count)
            alone.append(session.alone(units, rank))
            if one is not None:
                bare += kernels.spans(scene, one)
                both += kernels.spans(scene, two)
        if session.rank == 0:
            found[ROLES[side]] = _figures(size, ROLES[side], bare, both, statistics.median(alone))
    return found


def _figures(size, role, bare, both, work):
    communication, together = statistics.median(bare), statistics.median(both)
    return {"size": size, "role": role, "communication": communication, "work": work,
            "both": together, "end_to_end": kernels.end_to_end(communication, work, together),
            "samples": len(both)}
