"""Two ranks in this process, over the simulated network."""

import numpy as np

from pyrdv.engine.engine import Engine
from pyrdv.instruments.engine import Driver
from pyrdv.instruments.sim.network import Network
from pyrdv.memory.registration import Registrations

EAGER = 4096


class Pair:
    """Two ranks; `options` are those of their engines, `mode` that of the registration cache.

    Without a `network` they have one that delivers by itself and where registering counts.
    """

    def __init__(self, network=None, mode="auto", **options):
        network = network or Network(2, auto=True, pins=True)
        self.engines = [Engine(rank, 2, [network.fabric(rank)], eager_max=EAGER,
                               **{"speculation": "off", **options},
                               registrations=Registrations(mode)) for rank in range(2)]
        self.ends = [Driver(engine) for engine in self.engines]

    def turn(self, count=50):
        for _ in range(count):
            for end in self.ends:
                end.turn()

    def exchange(self, data, first="send", between=0, room=None, waits=(False, False), owned=False,
                 sync=False):
        """Send `data` with tag 5 from rank 0 to rank 1, into `room`; the choices of both sides.

        `between`: turns of both after each post.
        """
        room = np.zeros_like(data) if room is None else room
        posts = {"send": lambda: self.ends[0].send(1, 5, data, sync, waits[0], owned),
                 "receive": lambda: self.ends[1].receive(0, 5, room, waits[1], owned)}
        made = {}
        for side in (first, *(set(posts) - {first})):
            made[side] = posts[side]()
            self.turn(between)
        for _ in range(40):
            self.turn()
            if all(operation.ended() for operation in made.values()):
                break
        assert all(one.ended() and one.result[0] == 0 for one in made.values())
        assert np.array_equal(data, room)
        choices = [made[side].choice for side in posts]
        for operation in made.values():
            operation.release()
        return choices

    def count(self, name, rank=0):
        return self.engines[rank].counters()[name]

    def kinds(self, rank):
        """Kinds of the events of a rank, in order."""
        return [event.kind for event in self.engines[rank].events()]

    def one(self, rank, kind):
        """The only event of a kind."""
        found = [event for event in self.engines[rank].events() if event.kind == kind]
        assert len(found) == 1, (kind, self.kinds(rank))
        return found[0]

    def close(self):
        for engine in self.engines:
            assert engine.counters()["regions_in_use"] == 0
            engine.close()
