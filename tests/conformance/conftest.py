"""The fixture of the suite: a world of ranks, over each kind of fabric."""

import pytest

from .worlds import KINDS, VerbsWorld

# Tests of offers run on a device with both ways of pairing them; the others with the usual one.
OF_OFFERS = ("test_adaptation", "test_profile", "test_speculation")


def pytest_generate_tests(metafunc):
    if "kind_of_world" not in metafunc.fixturenames:
        return
    without = getattr(metafunc.module, "WITHOUT", ())      # the kinds that a module has no case for
    kinds = [pytest.param(kind, id=name) for name, kind in KINDS.items() if name not in without]
    device = metafunc.config.rdma_device
    if device is not None:
        of_offers = metafunc.module.__name__.rpartition(".")[2] in OF_OFFERS
        for speculation in ("indexed", "classic") if of_offers else ("indexed",):
            kind = VerbsWorld.on(device.name, device.port, device.iwarp, speculation)
            kinds.append(pytest.param(kind, id=kind.kind, marks=pytest.mark.verbs))
    metafunc.parametrize("kind_of_world", kinds)


@pytest.fixture
def world(kind_of_world):
    """Make worlds of the kind under test: ``with world(2) as w``."""
    return kind_of_world
