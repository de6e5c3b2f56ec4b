"""The classic pairing of RTRs and sends in every order of events (C1-C6).

Packets may pass a fenced DONE here, as on some fabrics they do: an RTR behind a READ under way is
what this pairing finds hard.  That it is wrong as published is in `test_mutants`.
"""

import pytest

from tests.explore import programs
from tests.explore.explorer import Explorer, replay
from tests.explore.test_explore import explore_all

NETWORK = {"speculation": "classic", "overtaking": True}


@pytest.mark.parametrize("name", programs.CHOSEN)
def test_bytes_that_move_at_any_time(name):
    explorer = Explorer(**NETWORK)
    explorer.explore(programs.CHOSEN[name])
    assert explorer.ends


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.UNANSWERED)
def test_receives_without_an_rtr(name):
    """C2, C3: their RTS is acknowledged before RTRs of others follow."""
    explorer = Explorer(**NETWORK)
    explorer.explore(programs.UNANSWERED[name])
    assert explorer.ends and explorer.used


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.STOPPED)
def test_small_before_large(name):
    """C4, C5: RTRs are stopped, dropped and resumed."""
    program, start, network = programs.STOPPED[name]
    explorer = Explorer(**NETWORK, **network)
    explorer.explore(program, start)
    assert explorer.ends


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.LARGER)
def test_three_of_something(name):
    explorer = Explorer(prompt=True, **NETWORK)
    explorer.explore(programs.LARGER[name])
    assert explorer.ends


@pytest.mark.slow
@pytest.mark.parametrize("name", ["twice", "behind one that is named", "cancelled", "too small"])
def test_three_ranks_and_anybody(name):
    """C2, C3: a wildcard has no RTR, and acknowledges to whoever it is."""
    explorer = Explorer(prompt=True, speculation="classic")
    explorer.explore(programs.FROM_ANYBODY[name])
    assert explorer.ends


@pytest.mark.parametrize("sends, receives, least", [(1, 1, 12), (1, 2, 48), (2, 1, 72)])
def test_all_programs(sends, receives, least):
    assert explore_all(programs.pairs(sends, receives), least, **NETWORK).used


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_programs_of_two_and_two(part):
    assert explore_all(list(programs.pairs(2, 2))[part::4], 72, **NETWORK).used


@pytest.mark.slow
@pytest.mark.parametrize("sends, receives", [(1, 1), (1, 2), (2, 1)])
def test_all_cancels(sends, receives):
    assert explore_all(programs.cancelled(programs.pairs(sends, receives)), 12, **NETWORK).used


@pytest.mark.parametrize("network", [{"slots": 2}, {"lazy": True}, {"transfers": 1}],
                         ids=lambda network: next(iter(network)))
def test_other_networks(network):
    explore_all([programs.CHOSEN["exchange, receives first"],
                 *programs.shuffled(programs.pairs(2, 2), 1, 12)], 13, **NETWORK, **network)


@pytest.mark.parametrize("name", programs.PUBLISHED)
def test_what_the_published_pairing_gets_wrong_is_mended(name):
    """C2, C5: the schedules that lead astray what was published."""
    program, start, then = programs.PUBLISHED[name]
    replay(program, (*start, *then), **NETWORK)
