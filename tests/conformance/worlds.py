"""Worlds of several ranks in one process, one kind per fabric.

To put a fabric under the suite, derive from `World`, implement ``build`` and,
where the fabric needs it, ``turn``, and add the class to `KINDS`.
"""

import random
import time
from collections import deque

import numpy as np

from pyrdv.api.communicator import Comm
from pyrdv.engine.engine import Engine
from pyrdv.fabrics.shm.fabric import ShmFabric
from pyrdv.instruments.fabric import Driver
from pyrdv.instruments.sim.network import Network
from pyrdv.memory.registration import Registrations

from . import names as MPI

__all__ = ["KINDS", "MPI", "Stuck", "VerbsWorld", "World", "pattern"]

# Turns without any movement after which a test is told that it hangs.
PATIENCE = 3000
# What an engine must have given back when nothing is under way.
LEAKS = ("ops_in_use", "messages_in_use", "regions_in_use")


class Stuck(AssertionError):
    """Nothing moves although requests are not complete."""


def pattern(size, seed=0):
    """`size` bytes that differ between neighbours, offsets and seeds."""
    index = np.arange(size, dtype=np.uint64)
    mixed = (index * np.uint64(0x9E3779B1) + np.uint64(seed * 7919 + 1)) >> np.uint64(7)
    return mixed.astype(np.uint8)


class World:
    """`size` ranks: engines and world communicators.

    Parameters
    ----------
    size : int
    seed : int
        Chooses the order of events where the fabric leaves a choice.
    slots : int, optional
        Packets in flight per ordered pair; small makes back-pressure easy.
    engine : keyword arguments
        Handed to `Engine`: ``eager_max``, ``unexpected_max``.
    """

    kind = ""
    # False where the kernel copies for the reader: it checks that the memory
    # exists, not that it was registered.
    checks_keys = True
    # False where a READ of what is not there ends the connection, as on a device.
    survives_bad_keys = True
    # True where a fenced SEND never lacks room once its fence opens.
    keeps_room_for_fenced = False

    # What `Engine` is told unless a test says otherwise.
    speculation = "indexed"
    protocol = "auto"

    def __init__(self, size, *, seed=0, slots=None, **engine):
        self.prepare(size, seed, slots)
        engine.setdefault("speculation", self.speculation)
        engine.setdefault("protocol", self.protocol)
        engine.setdefault("debug", True)
        engine = self.tuning() | engine
        self.engines = [Engine(rank, size, [fabric], registrations=self.registrations(), **engine)
                        for rank, fabric in enumerate(self.fabrics)]
        self.comms = [Comm.of(engine) for engine in self.engines]

    @property
    def offers(self):
        """Whether large receives offer their buffers."""
        return self.speculation != "off" and self.protocol != "pipeline"

    def tuning(self):
        """Further parameters of the engines, the same for all of them."""
        return {}

    def prepare(self, size, seed, slots):
        self.size = size
        self.rng = random.Random(seed)
        self.dead = set()
        self.engines = []
        self.contexts = 1       # 0 and 1 are COMM_WORLD's and COMM_SELF's
        self.fabrics = self.build(size, seed, slots)

    @classmethod
    def bare(cls, size, *, seed=0, slots=None):
        """The fabrics of a world without engines, all connected, as drivers.

        Returns
        -------
        (World, list of Driver)
        """
        world = cls.__new__(cls)
        world.prepare(size, seed, slots)
        drivers = [Driver(fabric) for fabric in world.fabrics]
        for _ in range(PATIENCE):
            statuses = [driver.connect(peer) for rank, driver in enumerate(drivers)
                        for peer in range(size) if peer != rank]
            for driver in drivers:
                driver.maintain()
            world.turn()
            if not any(statuses):
                return world, drivers
        raise Stuck("the fabrics do not connect")

    def dup(self):
        """A further communicator over all ranks, one end per rank."""
        self.contexts += 1
        return [Comm.of(engine, number=self.contexts) for engine in self.engines]

    def build(self, size, seed, slots):
        """Make one fabric per rank."""
        raise NotImplementedError

    def registrations(self):
        """The cache of registrations of one engine; None for what an engine has by itself."""
        return None

    def turn(self):
        """Let the network move; returns how much happened."""
        return 0

    def kill(self, rank):
        """`rank` dies without a word."""
        raise NotImplementedError

    def shut(self):
        """Give back what `build` took; check the fabric's own invariants."""

    def step(self):
        """One turn of progress of every live engine and of the network."""
        moved = 0
        for rank, engine in enumerate(self.engines):
            if rank not in self.dead:
                moved += engine.turn()
        return moved + self.turn()

    def settle(self, quiet=3):
        """Step until nothing has moved for `quiet` turns."""
        idle = 0
        for _ in range(100_000):
            idle = 0 if self.step() else idle + 1
            if idle >= quiet:
                return
        raise Stuck("the world never comes to rest")

    def run(self, *requests, limit=PATIENCE):
        """Step until all `requests` are complete; an error of one is raised.

        Raises
        ------
        Stuck
            Nothing moved for `limit` turns.
        """
        waiting = deque(requests)
        idle = 0
        while True:
            before = len(waiting)
            while waiting and waiting[0].Test():
                waiting.popleft()
            if not waiting:
                return
            moved = self.step()
            idle = 0 if moved or len(waiting) < before else idle + 1
            if idle > limit:
                raise Stuck(f"{len(waiting)} of {len(requests)} requests are not complete and "
                            f"nothing moved for {limit} turns\n{self.describe()}")

    def until(self, condition, limit=PATIENCE):
        """Step until ``condition()`` holds."""
        for _ in range(limit):
            if value := condition():
                return value
            self.step()
        raise Stuck(f"the condition does not hold after {limit} turns\n{self.describe()}")

    def describe(self):
        """The state of the engines, for a failure's text."""
        return "\n".join(f"rank {rank}: {engine.counters()}"
                         for rank, engine in enumerate(self.engines) if rank not in self.dead)

    def leaks(self):
        """(rank, counter, value) of everything that was not given back."""
        found = []
        for rank, engine in enumerate(self.engines):
            if rank not in self.dead:
                engine.reap()
                counters = engine.counters()
                found += [(rank, name, counters[name]) for name in LEAKS if counters[name]]
        return found

    def close(self, check=True):
        """End the world; with `check`, assert that nothing leaked."""
        try:
            if check:
                self.settle()
                leaks = self.leaks()
                assert leaks == []
        finally:
            for rank, engine in enumerate(self.engines):
                if rank not in self.dead:
                    engine.close()
        if check:
            self.shut()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.close(check=kind is None)


class SimWorld(World):
    """The simulated network, delivering at once."""

    kind = "sim"
    forgiven = ()

    def build(self, size, seed, slots):
        self.network = Network(size, auto=True, seed=seed, slots=slots or 32)
        return [self.network.fabric(rank) for rank in range(size)]

    def kill(self, rank):
        self.dead.add(rank)
        self.network.kill(rank)

    def shut(self):
        assert [fault for fault in self.network.faults if fault[0] not in self.forgiven] == []


class ChaosWorld(SimWorld):
    """The simulated network: any order of events, late connections, torn transfers."""

    kind = "chaos"
    # Whether registering is claimed to be slow.
    pins = False

    def build(self, size, seed, slots):
        self.network = Network(size, seed=seed, slots=slots or 8, transfers=4,
                               chunk=self.rng.choice((1000, 65536, 1 << 20)), lazy=True,
                               single_copy=self.rng.random() < 0.7,
                               overtaking=self.rng.random() < 0.7,
                               pins=self.pins)
        return [self.network.fabric(rank) for rank in range(size)]

    def step(self):
        moved = 0
        order = [rank for rank in range(self.size) if rank not in self.dead]
        self.rng.shuffle(order)
        for rank in order:
            moved += self.engines[rank].turn()
            moved += self.turn()
        return moved

    def turn(self):
        moved = 0
        for _ in range(self.rng.choice((0, 1, 2, 20))):
            moved += self.network.run_random(self.rng)
        return moved

    def settle(self, quiet=3):
        super().settle(max(quiet, 20))

    def describe(self):
        return f"{super().describe()}\npending: {self.network.pending()}"


class ShmWorld(World):
    """Shared memory, with copies by the kernel where it permits them."""

    kind = "shm"
    single_copy = "auto"
    checks_keys = False

    def build(self, size, seed, slots):
        token = b"conformance"
        fabrics = [ShmFabric(rank, size, token, self.single_copy) for rank in range(size)]
        for fabric in fabrics:
            fabric.set_peers([other.address for other in fabrics])
        return fabrics

    def kill(self, rank):
        self.dead.add(rank)
        self.fabrics[rank].close()


class StagedWorld(ShmWorld):
    """Shared memory without the kernel's help."""

    kind = "shm-staged"
    single_copy = "off"
    checks_keys = True


class VerbsWorld(World):
    """A real RDMA device, all ranks in this process; `on` makes the class for a device."""

    device = ""
    port = 0
    survives_bad_keys = False
    keeps_room_for_fenced = True

    @classmethod
    def on(cls, device, port, iwarp, speculation="indexed"):
        """The kind of world for one device: ``siw`` for an iWARP one, else ``rxe``."""
        kind = "siw" if iwarp else "rxe"
        return type("DeviceWorld", (cls,), {
            "__doc__": f"Ranks that talk through {device}.", "device": device, "port": port,
            "kind": kind if speculation == "indexed" else f"{kind}-{speculation}",
            "speculation": speculation})

    def build(self, size, seed, slots):
        from pyrdv.fabrics.verbs.fabric import VerbsFabric

        fabrics = [VerbsFabric(rank, size, b"conformance", device=self.device, port=self.port,
                               ring=self.rng.choice(("on", "off")))
                   for rank in range(size)]
        for fabric in fabrics:
            fabric.set_peers([other.address for other in fabrics])
        return fabrics

    def turn(self):
        # Packets take their time in the kernel's threads.
        time.sleep(0.0002)
        return 0

    def step(self):
        moved = sum(engine.turn() for rank, engine in enumerate(self.engines)
                    if rank not in self.dead)
        return moved or self.turn()

    def settle(self, quiet=3):
        # A connection that is being set up makes many idle turns.
        super().settle(max(quiet, 20))
        while any(fabric.joining for fabric in self.fabrics):
            super().settle(max(quiet, 20))

    def kill(self, rank):
        self.dead.add(rank)
        self.fabrics[rank].vanish()


class UnspeculativeChaosWorld(ChaosWorld):
    """Any order of events, and no receive offers its buffer."""

    kind = "chaos-off"
    speculation = "off"


class UnspeculativeShmWorld(ShmWorld):
    """Shared memory, and no receive offers its buffer."""

    kind = "shm-off"
    speculation = "off"


class PipelineChaosWorld(ChaosWorld):
    """Any order of events, also of bytes, and large messages go through few, small buffers."""

    kind = "chaos-pipeline"
    protocol = "pipeline"

    def build(self, size, seed, slots):
        fabrics = super().build(size, seed, slots)
        self.network.scramble(self.rng.random() < 0.5)
        return fabrics

    def tuning(self):
        return {"arrival": self.rng.choice(("notice", "flags")), "lanes": self.rng.choice((1, 4)),
                "lane_bytes": self.rng.choice((2048, 16384, 131072)),
                "lane_block": self.rng.choice((64, 1024)),
                "standing": self.rng.choice((0, 1, 4)),
                "standing_after": self.rng.choice((1, 2)),
                "chunk_first": self.rng.choice((500, 12288))}


class PipelineShmWorld(ShmWorld):
    """Shared memory, and large messages go through bounce buffers."""

    kind = "shm-pipeline"
    protocol = "pipeline"

    def tuning(self):
        return {"arrival": self.rng.choice(("notice", "flags"))}


class CachedChaosWorld(ChaosWorld):
    """Any order of events, with few registrations that outlive their messages."""

    kind = "chaos-cached"
    pins = True

    def registrations(self):
        return Registrations(self.rng.choice(("auto", "trust")), 1 << 21, self.rng.choice((2, 16)))

    def shut(self):
        super().shut()
        assert [rank for rank in range(self.size)
                if rank not in self.dead and self.network.regions(rank)] == []


class FiguresChaosWorld(CachedChaosWorld):
    """Any order of events, and what large messages cost is known: some are placed, some read."""

    kind = "chaos-figures"
    speculation = "off"

    def tuning(self):
        registration = self.rng.choice((1e-6, 100e-6, 1.0))
        sizes = (4096, 1 << 20)
        return {"standing_after": 1, "lane_bytes": self.rng.choice((16384, 131072)),
                "speculation": self.rng.choice(("off", "indexed")),
                "figures": [{"latency": 2e-6, "gap": 1e-7,
                             "net": [[size, 2e-6 + size / 1e9] for size in sizes],
                             "read": [[size, 4e-6 + size / 1e9] for size in sizes],
                             "copy": [[size, size / 4e9] for size in sizes],
                             "registration": [[size, registration] for size in sizes]}]}


class CachedStagedWorld(StagedWorld):
    """Shared memory that checks keys, some of which outlive their messages."""

    kind = "shm-cached"

    def registrations(self):
        return Registrations("trust", entries_max=16, everywhere=True)


class ClassicChaosWorld(ChaosWorld):
    """Any order of events, and offers are paired with sends as published."""

    kind = "chaos-classic"
    speculation = "classic"


class ClassicShmWorld(ShmWorld):
    """Shared memory, and offers are paired with sends as published."""

    kind = "shm-classic"
    speculation = "classic"


KINDS = {world.kind: world for world in (
    SimWorld, ChaosWorld, ShmWorld, StagedWorld, UnspeculativeChaosWorld, UnspeculativeShmWorld,
    PipelineChaosWorld, PipelineShmWorld, CachedChaosWorld, FiguresChaosWorld, CachedStagedWorld,
    ClassicChaosWorld, ClassicShmWorld)}
