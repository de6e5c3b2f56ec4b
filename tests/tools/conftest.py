"""Jobs."""

from tests.support.fixtures import jobs

__all__ = ["jobs"]
