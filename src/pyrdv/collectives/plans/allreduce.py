"""Allreduces of `mine` into `result`, which may be the same memory.

Each element is combined on one rank, or by the same operations on all: so all get the same bits.
"""

from pyrdv.collectives.plans.folding import paired


def doubling(plan, mine, result, datatype, op):
    """In round k each rank exchanges what it has with the rank whose bit k differs."""
    fold = paired(plan, op, datatype, mine, result)
    if fold.place is not None:
        whole = slice(0, result.nbytes)
        for number in range(fold.power.bit_length() - 1):
            fold.exchange(plan, number, 1 << number, whole, whole)
    _hand_back(plan, fold)


def halving(plan, mine, result, datatype, op):
    """Each rank combines its part of the vector, and then all get all parts.

    In round k each rank exchanges halves of what it is left with, with the rank whose bit k
    differs: it combines one and is rid of the other.  The same way back it gets the finished parts.
    So 2 (p - 1) / p vectors leave each rank, and each part is combined on one rank only.  R.
    Rabenseifner, "Optimization of collective reduction operations", 2004.

    The first partner is the one of `doubling`: if their vectors differ in length, so that one of
    them doubles, both notice at once.
    """
    fold = paired(plan, op, datatype, mine, result)
    if fold.place is not None:
        plan.parts = True
        elements, unit = result.nbytes // datatype.size, datatype.size
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
            plan.receive(result[there], partner)
            plan.send(result[here], partner)
            plan.then()
        plan.parts = False
    _hand_back(plan, fold)


def _hand_back(plan, fold):
    """The result for those for whom another one has folded."""
    if fold.place is None:
        plan.receive(fold.result, plan.rank + 1)
    elif plan.rank % 2 and plan.rank < 2 * (plan.size - fold.power):
        plan.send(fold.result, plan.rank - 1)


def ring(plan, mine, result, datatype, op):
    """Each part of the vector goes around a ring twice: to be combined, and as the result.

    It moves as little as `halving` if the ranks are no power of two, too, but in 2 (p - 1) rounds;
    a part is combined in the order of the ring, from where it begins.  P. Patarasuk and X. Yuan,
    "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
    """
    size, rank, unit = plan.size, plan.rank, datatype.size
    bound = [result.nbytes // unit * part // size * unit for part in range(size + 1)]
    parts = [slice(bound[part % size], bound[part % size + 1]) for part in range(-size, size + 1)]
    before, after = (rank - 1) % size, (rank + 1) % size
    in_place = mine is result
    other = plan.scratch(bound[1] + unit if in_place else 0)
    if size == 1 and not in_place:
        plan.copy(mine, result)
    for step in range(size - 1):
        go, come = parts[rank - step + size], parts[rank - step - 1 + size]
        into = other[:come.stop - come.start] if in_place else result[come]
        plan.receive(into, before)
        plan.send((mine if step == 0 else result)[go], after)
        if in_place:
            plan.reduce(op, datatype, into, result[come], False)
        else:
            plan.reduce(op, datatype, mine[come], into, True)
        plan.then()
    for step in range(size - 1):
        plan.receive(result[parts[rank - step + size]], before)
        plan.send(result[parts[rank + 1 - step + size]], after)
        plan.then()
