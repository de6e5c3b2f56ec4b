"""Two ranks in this process, whose registrations are watched from outside."""

import contextlib

import numpy as np
import pytest

from pyrdv.api.communicator import Comm
from pyrdv.engine.engine import Engine
from pyrdv.fabrics.shm.fabric import ShmFabric
from pyrdv.instruments.sim.network import Network
from pyrdv.memory.registration import Registrations

TURNS = 2000


class Pair:
    """Two connected ranks with caches of registrations.

    Parameters
    ----------
    kind : {'sim', 'shm'}
    mode, bytes_max, entries_max
        Of `Registrations`.
    lockable : int
        Bytes that rank 0 may register; 0: any number.
    open_sinks : bool
        Of `Network`.
    speculation, protocol : str
        Of `Engine`.  With ``get`` no bounce buffers are registered.
    """

    def __init__(self, kind, mode="auto", bytes_max=1 << 30, entries_max=1024, *,
                 lockable=0, open_sinks=False, speculation="off", protocol="get"):
        self.network = None
        # Whether what is received into is registered: shared memory has no need of it.
        self.sinks = kind == "sim"
        if kind == "sim":
            self.network = Network(2, auto=True, pins=True, open_sinks=open_sinks)
            self.network.limit(0, lockable)
            fabrics = [self.network.fabric(rank) for rank in range(2)]
        else:
            fabrics = [ShmFabric(rank, 2, b"memory", "auto") for rank in range(2)]
            for fabric in fabrics:
                fabric.set_peers([other.address for other in fabrics])
        self.engines = [
            Engine(rank, 2, [fabric], speculation=speculation, protocol=protocol,
                   eager_max=8192,
                   registrations=Registrations(mode, bytes_max, entries_max,
                                               everywhere=kind == "shm"))
            for rank, fabric in enumerate(fabrics)]
        self.comms = [Comm.of(engine) for engine in self.engines]
        self.room = np.empty(1 << 22, np.uint8)

    def count(self, rank=0):
        """What the cache of `rank` has counted, without the prefix."""
        return {name.removeprefix("registration_"): value
                for name, value in self.engines[rank].counters().items()
                if name.startswith("registration_")}

    def settle(self, *requests):
        """Make turns until all are complete."""
        waiting = list(requests)
        for _ in range(TURNS):
            for engine in self.engines:
                engine.turn()
            waiting = [request for request in waiting if not request.Test()]
            if not waiting:
                return
        raise AssertionError(f"{len(waiting)} requests do not end: {self.engines[0].counters()}")

    def send(self, data, into=None):
        """`data` from rank 0 to rank 1, where it must arrive; returns what arrived."""
        room = self.room if into is None else into
        receive = self.comms[1].Irecv(room, 0)
        self.settle(self.comms[0].Isend(data, 1), receive)
        sent = memoryview(data).cast("B") if not isinstance(data, np.ndarray) else (
            np.ascontiguousarray(data).view(np.uint8).reshape(-1))
        got = room.view(np.uint8).reshape(-1)[:len(sent)]
        assert (got == np.frombuffer(sent, np.uint8)).all()
        return got

    def kept(self, rank=0):
        """Regions that the fabric of `rank` still has although nothing is under way."""
        if self.network is None:
            return self.count(rank)["entries"]
        return self.network.regions(rank)

    def close(self):
        for engine in self.engines:
            assert engine.counters()["regions_in_use"] == 0
            engine.close()
        if self.network is not None:
            assert self.network.faults == []
            assert [self.network.regions(rank) for rank in range(2)] == [0, 0]


@pytest.fixture(params=["sim", "shm"])
def pair(request):
    """Make pairs: ``pair(mode, …)``, see `Pair`.  Nothing may be left of them."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(
            contextlib.closing(Pair(request.param, *args, **options)))


@pytest.fixture
def sim():
    """As `pair`, but always the simulated network, whose memory can be scarce."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(
            contextlib.closing(Pair("sim", *args, **options)))


@pytest.fixture
def shm():
    """As `pair`, but always shared memory, whose ends may be in any threads."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(
            contextlib.closing(Pair("shm", *args, **options)))
