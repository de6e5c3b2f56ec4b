"""Every interleaving of small collective calls that do not block (L1 to L8)."""

import pytest

from tests.explore.collectives import CollectiveExplorer
from tests.explore.explorer import EAGER, LARGE, Violation

BARRIER, BCAST, SUM = ("barrier",), ("bcast", 0, EAGER), ("allreduce", EAGER)
LARGE_BCAST, LARGE_SUM = ("bcast", 0, LARGE), ("allreduce", LARGE)

#: Calls that all ranks make, and how many ranks.
ALIKE = {
    "two in a barrier": ([BARRIER], 2),
    "three in a barrier": ([BARRIER], 3),
    "bcast to one": ([BCAST], 2),
    "bcast to two": ([BCAST], 3),
    "large bcast": ([LARGE_BCAST], 2),
    "allreduce of two": ([SUM], 2),
    "large allreduce of two": ([LARGE_SUM], 2),
    "one after the other": ([BCAST, BARRIER], 2),
    "two at a time": ([SUM, BCAST], 2),
}
#: Those that are many states.
LARGER = {
    "allreduce of three": ([SUM], 3),
    "large bcast to two": ([LARGE_BCAST], 3),
    "two barriers": ([BARRIER, BARRIER], 2),
    "three one after the other": ([BCAST, SUM], 3),
    "large allreduce of three": ([LARGE_SUM], 3),
    "four in a barrier": ([BARRIER], 4),
    "allreduce of four": ([SUM], 4),
}


@pytest.mark.parametrize("debug", [False, True], ids=["of calls", "by themselves"])
@pytest.mark.parametrize("name", ALIKE)
def test_calls(name, debug):
    calls, ranks = ALIKE[name]
    explorer = CollectiveExplorer(debug=debug)
    explorer.explore((tuple(calls),) * ranks)
    assert explorer.ends


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGER)
def test_more_calls(name):
    calls, ranks = LARGER[name]
    explorer = CollectiveExplorer()
    explorer.explore((tuple(calls),) * ranks)
    assert explorer.ends


@pytest.mark.parametrize("debug", [False, True], ids=["of calls", "by themselves"])
def test_one_refuses(debug):
    """The other is told, whenever the alarm comes; the next call is whole."""
    explorer = CollectiveExplorer(debug=debug)
    explorer.explore(((("refused", EAGER), BARRIER), (SUM, BARRIER)))
    assert explorer.ends


@pytest.mark.slow
def test_one_of_three_refuses():
    explorer = CollectiveExplorer(prompt=True)
    explorer.explore(((SUM,), (("refused", EAGER),), (SUM,)))
    assert explorer.ends


def test_what_is_broken_is_found():
    """A call that only one makes never ends; a message that nobody receives is left."""
    with pytest.raises(Violation, match="never complete"):
        CollectiveExplorer().explore(((BARRIER,), ()))
    with pytest.raises(Violation, match="messages_in_use"):
        CollectiveExplorer().explore(((("bcast", 0, EAGER),), (("bcast", 1, EAGER),)))
