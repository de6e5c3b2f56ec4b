"""The fixture of the suite: a world of ranks, over each kind of fabric."""

import pytest

from .worlds import KINDS


@pytest.fixture(params=KINDS)
def world(request):
    """Make worlds of the kind under test: ``with world(2) as w``."""
    return KINDS[request.param]
