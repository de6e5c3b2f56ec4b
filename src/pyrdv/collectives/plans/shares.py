"""Reductions whose result is scattered, as `arguments.Shares` says."""

import itertools

from pyrdv.collectives.plans.alltoall import WINDOW
from pyrdv.collectives.plans.folding import paired


def spread(plan, given, op):
    """Each rank gets from all what they have for its share, and combines it in the order of ranks.

    As many bytes travel as must; the messages are p - 1 for each rank.
    """
    size, ends = given.datatype.size, list(itertools.accumulate(given.counts, initial=0))
    own = given.own[:given.counts[plan.rank] * size]
    parts = [given.mine[begin * size:end * size] for begin, end in itertools.pairwise(ends)]
    room = plan.scratch(plan.size * own.nbytes)
    come = [parts[plan.rank] if rank == plan.rank else
            room[rank * own.nbytes:(rank + 1) * own.nbytes] for rank in range(plan.size)]
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


def halving(plan, given, op):
    """Each rank exchanges halves of what it is left with, until that is its share: log2(p) rounds.

    Where the ranks are no power of two, pairs of neighbours have one share together in these
    rounds (`folding`).
    """
    size, ends = given.datatype.size, list(itertools.accumulate(given.counts, initial=0))
    result = plan.scratch(given.mine.nbytes)
    fold = paired(plan, op, given.datatype, given.mine, result)
    own = given.own[:given.counts[plan.rank] * size]
    mine = slice(ends[plan.rank] * size, ends[plan.rank + 1] * size)
    pairs = plan.size - fold.power
    if fold.place is None:
        plan.receive(result[mine], plan.rank + 1)
    else:
        first = [2 * place if place < pairs else place + pairs for place in range(fold.power + 1)]
        fold.halve(plan, [ends[rank] * size for rank in first])
    if fold.place is not None and fold.place < pairs:
        plan.send(result[ends[plan.rank - 1] * size:mine.start], plan.rank - 1)
    plan.copy(result[mine], own)
