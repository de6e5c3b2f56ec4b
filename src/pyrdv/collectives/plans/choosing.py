"""Which algorithm a collective call takes: one table.

What must hold:

1. A choice depends only on what is equal on all members: the kind of call, the number of members,
   the bytes that all of them know, whether the order of operands counts, and PYRDV_COLLECTIVES.
   Ranks that differ in the last refuse at start (`pyrdv.world`).
2. The first row that fits is taken; for each kind one fits any call.
3. Members that give different lengths by mistake may take different rows, and must not wait for
   each other in vain: one of them has to get a message of a length that it does not expect.  That
   ends its call (`Schedule.differs`), and it tells all.  So each member begins with a message to
   the next one, of a block or a *greeting*, whose length differs from row to row; somewhere in the
   ring a member of one row follows one of another.  Where data go along a tree, the greeting does.
   `doubling` of Allreduce has none, for its messages are short and few: there the first partners
   are neighbours, which is enough if one member is wrong, but not if several are.

The thresholds of MPICH (CVARs of ``src/mpi/coll``) and Open MPI (``coll_tuned_decision_fixed.c``)
were the beginning; docs/tuning.md has what was measured here.
"""

from collections.abc import Callable
from typing import NamedTuple

from pyrdv.collectives.plans import allgather, allreduce, alltoall, bcast, gathers, shares
from pyrdv.collectives.plans.greetings import OTHER_GREETING, greeting


class Way(NamedTuple):
    """A row of the table: one algorithm of one kind of call, and when it is taken.

    Attributes
    ----------
    kind, name : str
        As in PYRDV_COLLECTIVES.
    add : callable
        ``add(plan, ...)`` adds the rounds.
    most : int or None
        Bytes up to which it is taken (`MEASURES`); None: there is no limit.
    ranks : int
        Members from which on it is taken.
    odd : bool
        It is not taken if the members are a power of two.
    powers : bool
        It cannot be taken unless they are.
    ordered : bool
        It combines operands in the order of ranks.
    uneven : bool
        It moves blocks whose lengths not all members know.
    greeted : callable or None
        As `add`, with a greeting before; None: rule 3 holds without.
    alike : bool
        The first message is a block to the next member; rows of which that is true need no
        greeting among each other.
    """

    kind: str
    name: str
    add: Callable
    most: int | None = None
    ranks: int = 1
    odd: bool = False
    powers: bool = False
    ordered: bool = True
    uneven: bool = True
    greeted: Callable | None = None
    alike: bool = False

    def can(self, size, ordered, uneven):
        """Whether it does what a call of `size` members wants."""
        return ((self.ordered or not ordered) and (self.uneven or not uneven)
                and (not self.powers or size & size - 1 == 0))

    def may(self, size):
        """Whether it is taken with `size` members, if the bytes are right."""
        return size >= self.ranks and (not self.odd or size & size - 1 != 0)

    def when(self):
        """When it is taken, in words."""
        words = []
        if self.most is not None:
            words.append(f"up to {self.most >> 10} KiB" if self.most >= 1 << 10 else
                         f"up to {self.most} bytes")
        if self.ranks > 1:
            words.append(f"from {self.ranks} ranks on")
        if self.odd:
            words.append("if the ranks are no power of two")
        if self.powers:
            words.append("if the ranks are a power of two")
        if not self.ordered:
            words.append("if the order of operands does not count")
        if not self.uneven:
            words.append("if the blocks are even")
        return ", ".join(words) or "else"


class Choice(NamedTuple):
    """The algorithm of a call.

    Attributes
    ----------
    name : str
        Of the algorithm.
    why : str
        Why it was taken, in words.
    build : callable
        ``build(plan, ...)`` adds the rounds.
    """

    name: str
    why: str
    build: Callable


#: Of what the table counts bytes, by kind.
MEASURES = {
    "bcast": "in all",
    "gather": "of a block",
    "scatter": "of a block",
    "allgather": "of all blocks",
    "alltoall": "of a block",
    "allreduce": "of the vector",
    "reduce_scatter": "of all shares",
}

TABLE = (
    Way("bcast", "binomial", bcast.binomial, most=12 << 10),
    Way("bcast", "scatter", bcast.scattered, ranks=8),
    Way("bcast", "binomial", bcast.binomial),
    Way("bcast", "chain", bcast.chain),         # if asked for: it was not measured yet
    Way("gather", "binomial", gathers.binomial_gather, most=1 << 10, ranks=8, uneven=False),
    Way("gather", "linear", gathers.linear_gather, greeted=gathers.greeted_gather),
    Way("scatter", "binomial", gathers.binomial_scatter, most=1 << 10, ranks=8, uneven=False),
    Way("scatter", "linear", gathers.linear_scatter, greeted=gathers.greeted_scatter),
    Way("allgather", "bruck", allgather.bruck, most=80 << 10, alike=True),
    Way("allgather", "doubling", allgather.doubling, most=512 << 10, powers=True,
        greeted=greeting(allgather.doubling)),
    Way("allgather", "ring", allgather.ring, alike=True),
    Way("alltoall", "bruck", alltoall.bruck, most=256, ranks=8, uneven=False),
    Way("alltoall", "spread", alltoall.spread, most=32 << 10, alike=True,
        greeted=greeting(alltoall.spread)),
    Way("alltoall", "pairwise", alltoall.pairwise, alike=True,
        greeted=greeting(alltoall.pairwise)),
    Way("allreduce", "doubling", allreduce.doubling, most=16 << 10),
    Way("allreduce", "ring", allreduce.ring, odd=True, ordered=False,
        greeted=greeting(allreduce.ring, OTHER_GREETING)),
    Way("allreduce", "halving", allreduce.halving, ordered=False,
        greeted=greeting(allreduce.halving)),
    Way("allreduce", "doubling", allreduce.doubling),
    Way("reduce_scatter", "halving", shares.halving, most=512 << 10, ordered=False,
        greeted=greeting(shares.halving)),
    Way("reduce_scatter", "spread", shares.spread, alike=True),
)


def choose(plan, kind, nbytes, ordered=False):
    """The algorithm of the call that `plan` is to make.

    Parameters
    ----------
    plan : Plan
    kind : str
    nbytes : int or None
        What the table counts for this kind (`MEASURES`), the same on all members; None: they do not
        all know.
    ordered : bool
        Operands must be combined in the order of ranks.

    Returns
    -------
    Choice
        Also noted in the plan.
    """
    plan.choice, differ = chosen(kind, plan.size, nbytes, ordered, plan.view.engine.preferred)
    if differ:
        plan.differs()
    return plan.choice


def chosen(kind, size, nbytes, ordered=False, preferred=None):
    """What `choose` does, for `size` members.

    Parameters
    ----------
    preferred : dict of str to str, optional
        Kind -> name of the algorithm that PYRDV_COLLECTIVES asks for.

    Returns
    -------
    (Choice, bool)
        Whether members may have taken other rows, if their lengths differ by mistake.
    """
    rows = [way for way in TABLE
            if way.kind == kind and way.can(size, ordered, nbytes is None)]
    asked = preferred and preferred.get(kind)
    for way in rows:
        if way.name == asked:
            return Choice(way.name, "PYRDV_COLLECTIVES", way.add), False
    rows = [way for way in rows if way.may(size)]
    way = next(way for way in rows if way.most is None or (nbytes or 0) <= way.most)
    others = [other for other in rows if other.name != way.name] if nbytes is not None else []
    add = way.add
    if way.greeted and not all(way.alike and other.alike for other in others):
        add = way.greeted
    why = "not all know the lengths of the blocks" if nbytes is None else way.when()
    return Choice(way.name, why, add), bool(others)
