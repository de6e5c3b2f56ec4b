"""``pyrdv doctor --collectives RANKS``: which algorithm a collective call takes, and why.

The table itself is asked (`pyrdv.algorithms`), with the present settings.
"""

from typing import NamedTuple

from pyrdv import algorithms
from pyrdv.tools import bench_report as report

_MUCH = 1 << 62


class Row(NamedTuple):
    """An algorithm and the sizes with which it is taken.

    Attributes
    ----------
    kind, name, why : str
    most : int or None
        Bytes up to which it is taken, from the row before on; None: all others.
    uneven : bool
        Blocks have lengths that not all ranks know.
    ordered : bool
        The order of operands counts.
    """

    kind: str
    name: str
    why: str
    most: int | None
    uneven: bool = False
    ordered: bool = False


def rows(size, near, asked):
    """The rows for `size` ranks.

    Parameters
    ----------
    size : int
    near : bool
        They share memory.
    asked : dict of str to str
        Kind -> name of PYRDV_COLLECTIVES.
    """
    found = []
    for kind in algorithms.MEASURES:
        ways = [way for way in algorithms.TABLE if way.kind == kind]
        even = _by_bytes(kind, size, near, asked, False)
        found += even
        if not all(way.ordered for way in ways):
            found += _unless_alike(even, _by_bytes(kind, size, near, asked, True))
        if not all(way.uneven for way in ways):
            choice = algorithms.choose(kind, size, None, near, preferred=asked)
            uneven = [Row(kind, choice.way.name, choice.why, None, uneven=True)]
            found += _unless_alike(even, uneven)
    return found


def _by_bytes(kind, size, near, asked, ordered):
    limits = sorted({way.most for way in algorithms.TABLE if way.kind == kind and way.most})
    found = []
    for most in (*limits, None):
        choice = algorithms.choose(kind, size, most or _MUCH, near, ordered, preferred=asked)
        if found and found[-1].name == choice.way.name:
            found.pop()
        found.append(Row(kind, choice.way.name, choice.why, most, ordered=ordered))
    return found


def _unless_alike(even, others):
    """`others`, unless they only say again that there is one algorithm for all."""
    return [] if [row.name for row in even] == [row.name for row in others] else others


def page(size, near, found):
    """Lines of the table."""
    where = "within one host" if near else "across hosts"
    lines = [f"Algorithms of collective calls of {size} ranks {where}",
             f"  {'call':<16}{'bytes':<28}{'algorithm':<12}why"]
    before = None
    for row in found:
        if row.uneven:
            span = "each block another length"
        elif row.most is not None:
            span = f"up to {report.size_text(row.most)} {algorithms.MEASURES[row.kind]}"
        else:
            span = "more" if before == (row.kind, row.ordered) else "any"
        before = row.kind, row.ordered
        span += ", in order" if row.ordered else ""
        lines.append(f"  {row.kind:<16}{span:<28}{row.name:<12}{row.why}")
    return [*lines, "", *TEXT.splitlines()]


TEXT = """\
Calls that do not block and persistent ones take the same. Barrier takes dissemination, Reduce a
binomial tree, Scan and Exscan doubling. In order: the operation does not commute. PYRDV_COLLECTIVES
asks for others, such as bcast=chain,alltoall=pairwise."""
