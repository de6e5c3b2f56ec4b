"""Jobs and programs, and mpi4py's source."""

import pytest

from tests.mpi4py import source
from tests.support.fixtures import jobs

__all__ = ["jobs"]


@pytest.fixture(scope="session")
def mpi4py_source():
    """The folder of mpi4py's source."""
    return source.ensure()
