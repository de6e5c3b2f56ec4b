"""``pyrdv doctor --collectives RANKS``: which algorithm a collective call takes, and why.

The table itself is asked (`pyrdv.collectives.plans.choosing`), with the present settings.
"""

from typing import NamedTuple

from pyrdv.collectives.plans import choosing
from pyrdv.tools import bench_report as report


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


def rows(size, asked):
    """The rows for `size` ranks; `asked`: kind -> name of PYRDV_COLLECTIVES."""
    found = []
    for kind in choosing.MEASURES:
        found += _by_bytes(kind, size, asked, False)
        ways = [way for way in choosing.TABLE if way.kind == kind]
        if not all(way.ordered for way in ways):
            found += _by_bytes(kind, size, asked, True)
        if not all(way.uneven for way in ways):
            choice = choosing.chosen(kind, size, None, preferred=asked)[0]
            found.append(Row(kind, choice.name, choice.why, None, uneven=True))
    return found


def _by_bytes(kind, size, asked, ordered):
    limits = sorted({way.most for way in choosing.TABLE if way.kind == kind and way.most})
    found = []
    for most in (*limits, None):
        nbytes = most if most is not None else 1 << 62
        choice = choosing.chosen(kind, size, nbytes, ordered, asked)[0]
        if found and found[-1].name == choice.name:
            found.pop()
        found.append(Row(kind, choice.name, choice.why, most, ordered=ordered))
    return found


def page(size, found):
    """Lines of the table."""
    lines = [f"Algorithms of collective calls of {size} ranks",
             f"  {'call':<16}{'bytes':<28}{'algorithm':<12}why"]
    for row in found:
        span = "all others" if row.most is None else f"up to {report.size_text(row.most)}"
        span += f" {choosing.MEASURES[row.kind]}" if row.most is not None else ""
        if row.uneven:
            span = "each block another length"
        elif row.ordered:
            span += ", in order"
        lines.append(f"  {row.kind:<16}{span:<28}{row.name:<12}{row.why}")
    return [*lines, "", *TEXT.splitlines()]


TEXT = """\
Calls that do not block and persistent ones take the same. Barrier takes dissemination, Reduce a
binomial tree, Scan and Exscan doubling. In order: the operation does not commute. PYRDV_COLLECTIVES
asks for others, such as bcast=chain,alltoall=pairwise."""
