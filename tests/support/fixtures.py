"""Fixtures for jobs and programs of cases (tests/support/jobs.py)."""

import pytest

from tests.support.jobs import Jobs, Programs


@pytest.fixture
def jobs(tmp_path):
    made = Jobs(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return Programs(lambda: tmp_path_factory.mktemp("program"))
