"""Reductions.  Operands are combined in the order of ranks, which is only ever cut into runs."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

from pyrdv.api.datatypes import Datatype
from pyrdv.api.ops import Op
from pyrdv.collectives import arguments
from pyrdv.collectives.plans.blocks import WINDOW
from pyrdv.collectives.trees import parent_and_children
from pyrdv.errors import CountError

#: Bytes up to which ranks exchange all they have: measured on two ranks over shared memory, where
#: halves win from 64 KiB on, and less for more ranks, which send more of what they have twice.
WHOLE = 16 << 10


class Folding(NamedTuple):
    """An Allreduce under construction, among as many ranks as are a power of two.

    Attributes
    ----------
    op : Op
    datatype : Datatype
    mine : memoryview
        What this rank begins with; it may be `result`.
    result : memoryview
        What this rank has got together after the first round, in the end the result.
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


def allreduce(plan, sendbuf, recvbuf, op):
    """Short vectors by `doubling`, and those of operations that do not commute: some, as products
    of matrices, take elements in groups, which a cut could part.  Else by `halving`.

    If the ranks are no power of two, as many pairs of neighbours as there are too many begin as one
    rank each.  R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
    operations in MPICH", 2005, section 4.4.
    """
    mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, plan.name)
    fold = paired(plan, op, datatype, arguments.apart(mine, result, plan), result)
    if fold.place is None:
        return
    halves = op.is_commutative and result.nbytes > max(WHOLE, (fold.power - 1) * datatype.size)
    (halving if halves else doubling)(plan, fold)
    if plan.rank % 2 and plan.rank < 2 * (plan.size - fold.power):
        plan.send(result, plan.rank - 1)


def paired(plan, op, datatype, mine, result):
    """Have some neighbours begin as one rank; the `Folding` of what follows."""
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
        plan.receive(result, plan.rank + 1)
    else:
        place = plan.rank // 2
        into = other if mine is result else result
        plan.receive(into, plan.rank - 1)
        plan.reduce(op, datatype, other if mine is result else mine, result, mine is not result)
        mine = result
    return Folding(op, datatype, mine, result, other, power, place,
                   lambda there: 2 * there + 1 if there < pairs else there + pairs)


def doubling(plan, fold):
    """In round k each rank exchanges what it has with the rank whose bit k differs.

    Both compute the same from the same, so all ranks get the same bits.
    """
    whole = slice(0, fold.result.nbytes)
    for number in range(fold.power.bit_length() - 1):
        fold.exchange(plan, number, 1 << number, whole, whole)


def halving(plan, fold):
    """Each rank combines its part of the vector, and then all get all parts.

    In round k each rank exchanges halves of what it is left with, with the rank whose bit k
    differs: it combines one and is rid of the other.  The same way back it gets the finished parts.
    So 2 (p - 1) / p vectors leave each rank, and each part is combined on one rank only.  R.
    Rabenseifner, "Optimization of collective reduction operations", 2004.

    The first partner is the one of `doubling`: if their vectors differ in length, so that one of
    them doubles, both notice at once.
    """
    plan.parts = True
    elements, unit = fold.result.nbytes // fold.datatype.size, fold.datatype.size
    bound = [elements * part // fold.power * unit for part in range(fold.power + 1)]
    low, high, ways = 0, fold.power, []
    for number in range(fold.power.bit_length() - 1):
        bit, middle = 1 << number, (low + high) // 2
        lower, upper = slice(bound[low], bound[middle]), slice(bound[middle], bound[high])
        first = fold.place & bit == 0
        kept, given = (lower, upper) if first else (upper, lower)
        ways.append((fold.exchange(plan, number, bit, given, kept), kept, given))
        low, high = (low, middle) if first else (middle, high)
    for partner, here, there in reversed(ways):
        plan.receive(fold.result[there], partner)
        plan.send(fold.result[here], partner)
        plan.then()
    plan.parts = False


def binomial(plan, sendbuf, recvbuf, op, root):
    """Reduce: up a binomial tree, whose subtrees are runs of ranks.

    The tree begins at the root if the order of the operands does not matter, else at rank 0, which
    sends the result to the root.
    """
    arguments.check_root(plan, root)
    result = None
    if plan.rank == root:
        mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, plan.name)
    else:
        mine, datatype = arguments.contribution(sendbuf, op)
    top = root if op.is_commutative else 0
    parent, children = parent_and_children(plan.rank, plan.size, top)
    folded = mine
    if plan.rank == root == top:
        folded = result
    elif children:
        folded = plan.scratch(mine.nbytes)
    if folded is not mine:
        plan.copy(mine, folded)
    other = plan.scratch(mine.nbytes if children else 0)
    for child in reversed(children):        # the nearest first: the runs stay in order
        plan.receive(other, child)
        plan.reduce(op, datatype, other, folded, True)
        plan.then()
    if parent is not None:
        plan.send(folded, parent)
    elif root != top:
        plan.send(folded, root)
    if plan.rank == root != top:
        plan.then()
        plan.receive(result, top)


def prefix(plan, sendbuf, recvbuf, op, inclusive):
    """Scan: in round k each rank exchanges with the rank whose bit k differs what their runs of
    2**k ranks give.  What comes from below is part of the result.

    W. D. Hillis and G. L. Steele, "Data parallel algorithms", 1986, in the pairwise form of MPICH.
    """
    mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, plan.name)
    run, other = plan.scratch(mine.nbytes), plan.scratch(mine.nbytes)
    plan.copy(mine, run)
    if inclusive and mine is not result:
        plan.copy(mine, result)
    empty = not inclusive               # nothing is in the result yet
    bit = 1
    while bit < plan.size:
        partner = plan.rank ^ bit
        bit *= 2
        if partner >= plan.size:
            continue
        plan.receive(other, partner)
        plan.send(run, partner)
        below = partner < plan.rank
        if below and empty:
            plan.copy(other, result)
            empty = False
        elif below:
            plan.reduce(op, datatype, other, result, False)
        if bit < plan.size:
            plan.reduce(op, datatype, other, run, not below)
        plan.then()


def spread(plan, shares, sendbuf, recvbuf, counts, op):
    """Reduce_scatter: each rank gets from all what they have for its share, and combines it in the
    order of ranks.  As many bytes travel as must; the messages are n - 1 for each rank.

    ``shares(plan, sendbuf, recvbuf, counts, op)`` reads the arguments.
    """
    given = shares(plan, sendbuf, recvbuf, counts, op)
    size, ends = given.datatype.size, list(itertools.accumulate(given.counts, initial=0))
    own = given.own[:given.counts[plan.rank] * size]
    parts = [given.mine[begin * size:end * size] for begin, end in itertools.pairwise(ends)]
    come = [parts[plan.rank] if rank == plan.rank else plan.scratch(own.nbytes)
            for rank in range(plan.size)]
    for step in range(1, plan.size):
        source = (plan.rank - step) % plan.size
        dest = (plan.rank + step) % plan.size
        plan.receive(come[source], source)
        plan.send(parts[dest], dest)
        if step % WINDOW == 0:
            plan.then()
    folded = plan.scratch(own.nbytes)
    plan.copy(come[0], folded)
    for other in come[1:]:
        plan.reduce(op, given.datatype, other, folded, True)
    plan.copy(folded, own)              # not earlier: in place, others get parts of it


def even_shares(plan, sendbuf, recvbuf, counts, op):
    """The arguments of Ireduce_scatter_block."""
    return arguments.Shares.even(sendbuf, recvbuf, op, plan.size, plan.name)


def given_shares(plan, sendbuf, recvbuf, counts, op):
    """The arguments of Ireduce_scatter."""
    shares = arguments.Shares(sendbuf, recvbuf, op, plan.name)
    counts = arguments.shares_given(counts, plan.size, plan.name)
    if counts is None:
        raise CountError(f"{plan.name} in place needs the counts: the receive buffer of a rank "
                         "does not tell its share")
    shares.give(counts, plan.rank)
    return shares
