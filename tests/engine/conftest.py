"""What the tests of the engine share."""

import contextlib

import pytest

from tests.engine.pair import Pair


@pytest.fixture
def pair():
    """Make pairs of ranks, which are closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(
            contextlib.closing(Pair(*args, **options)))
