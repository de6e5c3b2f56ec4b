"""The explorer finds what is planted, so what it does not find is probably not there."""

import pytest

from tests.explore import mutants, programs
from tests.support import copies


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package with every mutant in it; where to import it from."""
    return mutants.build(tmp_path_factory.mktemp("mutants"))


def explore(package, number, *how):
    """What the explorer says of mutant `number`."""
    done = copies.run(package, "-m", "tests.explore.mutants", str(number), *how)
    assert done.stdout, "the explorer died"
    return done.stdout


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is_planted(package):
    """The copy is the engine as it is: what is found below is the fault that was planted."""
    assert explore(package, 0) == "nothing found\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, len(mutants.MUTANTS) + 1),
                         ids=[mutant[0] for mutant in mutants.MUTANTS])
def test_planted_faults_are_found(package, number):
    found = explore(package, number)
    assert found.startswith("found in") and "replay(" in found


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.PUBLISHED)
def test_the_pairing_as_published_is_wrong(package, name):
    """C2, C5, docs/protocols.md: the counterexample with the fewest actions."""
    number = [mutant[0] for mutant in mutants.MUTANTS].index(name) + 1
    _, start, then = programs.PUBLISHED[name]
    assert explore(package, number, "shortest") == f"{(*start, *then)!r}\n"
