"""Jobs and programs of cases."""

from tests.support.fixtures import jobs, programs

__all__ = ["jobs", "programs"]
