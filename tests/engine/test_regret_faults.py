"""The tests of adaptation by regret notice each planted fault."""

import pytest

from tests.engine import regret_faults
from tests.support import copies

PASSED, FAILED = 0, 1


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package with every fault in it; where to import it from."""
    return regret_faults.build(tmp_path_factory.mktemp("faults"))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(regret_faults.FAULTS) + 1),
                         ids=["none", *(fault[0] for fault in regret_faults.FAULTS)])
def test_planted_faults_are_noticed(package, number):
    done = copies.run(package, "-m", "tests.engine.regret_faults", str(number))
    assert done.returncode == (FAILED if number else PASSED), done.stdout
