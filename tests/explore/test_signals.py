"""The handler of a signal at every point where one can arrive (P1 to P6, E1 to E3, S8 and S9)."""

import re

import pytest

from tests.explore import signals, strikes
from tests.explore.explorer import Violation
from tests.support import copies

EVERY = list(signals.explorations())


@pytest.mark.parametrize("number", range(len(EVERY)),
                         ids=[f"{name}, {trigger}" for name, trigger, *_ in EVERY])
def test_between_actions(number):
    """With the package as it is: signals between calls, deliveries, and the parts of a wait."""
    _, _, explorer, program = EVERY[number]
    explorer.explore(program)
    assert explorer.ends


def test_what_is_not_watched_waits_for_a_call():
    """The first hole of docs/progress.md: an RTS that crosses the offer."""
    program, network = signals.PROGRAMS["offers"]
    with pytest.raises(Violation, match="has no data before a call"):
        signals.SignalExplorer(alone=True, **network).explore(program)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The copy whose calls can be struck, with every fault in it; where to import it from."""
    return strikes.build(tmp_path_factory.mktemp("strikes"))


def explore(package, number):
    """What the explorer says of fault `number`, with signals within calls, too."""
    done = copies.run(package, "-m", "tests.explore.strikes", str(strikes.library(package)),
                      str(number))
    assert done.stdout, "the explorer died"
    return done.stdout


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is_planted(package):
    found = re.fullmatch(r"nothing found in (\d+) strikes, (\d+) of them refused\n",
                         explore(package, 0))
    assert found and int(found[1]) > 10_000 and int(found[2]) > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(strikes.FAULTS) + 1),
                         ids=[fault[0] for fault in strikes.FAULTS])
def test_planted_faults_are_found(package, number):
    found = explore(package, number)
    assert found.startswith("found in") and strikes.FAULTS[number - 1][4] in found
    assert "replay(" in found
