"""Fabrics of one process on the RDMA device under test."""

import pytest

from pyrdv.instruments.fabric import Driver

TOKEN = b"links"


@pytest.fixture
def fabrics(rdma_device):
    """Make fabrics of one job that know each other, as drivers; closes them at the end."""
    from pyrdv.fabrics.verbs.fabric import VerbsFabric

    made = []

    def make(size, tokens=None, **parameters):
        ends = [VerbsFabric(rank, size, (tokens or {}).get(rank, TOKEN), device=rdma_device.name,
                            port=rdma_device.port, **parameters) for rank in range(size)]
        made.extend(ends)
        for end in ends:
            end.set_peers([other.address for other in ends])
        return [Driver(end) for end in ends]

    yield make
    # From the last: on iWARP the first would wait for an answer of the second (J5).
    for end in reversed(made):
        end.vanish()
