"""Hosts and a verbs fabric that are not there, for programs of `test_ways`.

A rank's place is made from the host that its PYRDV_HOST names, so ranks of one machine believe to
be on several. The fabric between them is shm under another name: real messages, no device.
"""

import os
import sys
import types

from pyrdv.fabrics import verbs
from pyrdv.fabrics.shm.fabric import ShmFabric
from pyrdv.launch import places

made = []


class FakeFabric(ShmFabric):
    """What `world` may call of the verbs fabric, and what it was called with."""

    def __new__(cls, rank, size, token, **options):
        trouble = os.environ.get("FAKE_TROUBLE", "")
        where, _, text = trouble.partition("=")
        if text and where in (os.environ.get("PYRDV_HOST", ""), "*"):
            raise OSError(19, f"fabric of rank {rank}: {text}")
        self = ShmFabric.__new__(cls, rank, size, token)
        self.options = options
        self.peers = None
        self.at_start = 0
        made.append(self)
        return self

    kind = "verbs"

    @property
    def device(self):
        return "fake0:1"

    def set_peers(self, addresses):
        self.peers = [address is not None for address in addresses]
        super().set_peers(addresses)

    def connect_all(self, timeout):
        assert 0 < timeout <= 60
        self.at_start += 1


def install(built=True):
    """Put the fakes in place; must be called before `pyrdv.MPI` is imported."""
    assert "pyrdv.world" not in sys.modules
    verbs.built = lambda: built
    module = types.ModuleType("pyrdv.fabrics.verbs.fabric")
    module.VerbsFabric = FakeFabric
    sys.modules[module.__name__] = module
    own = places.own_place
    host = os.environ.get("PYRDV_HOST", "").encode()
    places.own_place = lambda: own()[:16] + host.ljust(8, b"\0") + own()[24:]
