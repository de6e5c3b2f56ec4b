"""Vectors that are combined by exchanges between ranks whose places differ in one bit."""

from collections.abc import Callable
from typing import NamedTuple

from pyrdv.api.datatypes import Datatype
from pyrdv.api.ops import Op


class Folding(NamedTuple):
    """A reduction under construction, among as many ranks as are a power of two.

    Attributes
    ----------
    op : Op
    datatype : Datatype
    mine : memoryview
        What this rank begins with; it may be `result`.
    result : memoryview
        What this rank has got together after the first round.
    other : memoryview
        Room for as much.
    power : int
        How many ranks fold.
    place : int or None
        That of this rank among them; None: another one folds for it.
    rank_of : callable
        Place -> rank.
    """

    op: Op
    datatype: Datatype
    mine: memoryview
    result: memoryview
    other: memoryview
    power: int
    place: int | None
    rank_of: Callable[[int], int]

    def exchange(self, plan, number, bit, given, kept):
        """Round `number` with the rank whose place differs in `bit`: parts of the vector."""
        partner, lower = self.rank_of(self.place ^ bit), self.place & bit == 0
        if number or self.mine is self.result:
            plan.receive(self.other[kept], partner)
            plan.send(self.result[given], partner)
            plan.reduce(self.op, self.datatype, self.other[kept], self.result[kept], lower)
        else:           # nothing is in the result yet: no copy, and no other room
            plan.receive(self.result[kept], partner)
            plan.send(self.mine[given], partner)
            plan.reduce(self.op, self.datatype, self.mine[kept], self.result[kept], not lower)
        plan.then()
        return partner

    def halve(self, plan, bound):
        """Each place gets the result of elements ``bound[place] .. bound[place + 1]``, in bytes.

        In round k each rank exchanges halves of what it is left with: it combines one and is rid of
        the other.  R. Rabenseifner, "Optimization of collective reduction operations", 2004.

        Returns
        -------
        list of (int, slice, slice)
            By round: the partner, what this rank keeps, and what the partner does.
        """
        low, high, ways = 0, self.power, []
        for number in range(self.power.bit_length() - 1):
            bit = (high - low) // 2
            middle = low + bit
            lower, upper = slice(bound[low], bound[middle]), slice(bound[middle], bound[high])
            first = self.place & bit == 0
            kept, given = (lower, upper) if first else (upper, lower)
            ways.append((self.exchange(plan, number, bit, given, kept), kept, given))
            low, high = (low, middle) if first else (middle, high)
        return ways


def paired(plan, op, datatype, mine, result):
    """Have some neighbours begin as one rank; the `Folding` of what follows.

    If the ranks are no power of two, as many pairs of neighbours as there are too many begin as one
    rank each.  R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
    operations in MPICH", 2005, section 4.4.
    """
    power = 1 << plan.size.bit_length() - 1
    pairs = plan.size - power
    alone = mine is not result and power == 1
    rounds = power.bit_length() - 1 + (plan.rank < 2 * pairs)
    other = plan.scratch(result.nbytes if rounds > 1 or mine is result else 0)
    if alone:
        plan.copy(mine, result)
    if plan.rank >= 2 * pairs:
        place = plan.rank - pairs
    elif plan.rank % 2 == 0:
        place = None
        plan.send(mine, plan.rank + 1)
        plan.then()
    else:
        place = plan.rank // 2
        into = other if mine is result else result
        plan.receive(into, plan.rank - 1)
        plan.reduce(op, datatype, other if mine is result else mine, result, mine is not result)
        plan.then()             # also if there is nothing to combine: the next learn of a failure
        mine = result
    return Folding(op, datatype, mine, result, other, power, place,
                   lambda there: 2 * there + 1 if there < pairs else there + pairs)


