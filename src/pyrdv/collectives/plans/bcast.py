"""Broadcasts of `data`, as many bytes on all members, which are only read on `root`.

A member whose length differs, and who so takes another one of `binomial` and `scattered`, has the
same parent in both, and gets from it a whole where it expects a part, or the other way round.
"""

from pyrdv.collectives.trees import members_below, parent_and_children

#: Bytes that the chain hands on at a time.
SEGMENT = 128 << 10


def binomial(plan, data, root):
    """Down a binomial tree: each rank receives once, and sends to its children at once."""
    parent, children = parent_and_children(plan.rank, plan.size, root)
    if parent is not None:
        plan.receive(data, parent)
        plan.then()
    for child in children:
        plan.send(data, child)


def scattered(plan, data, root):
    """The root scatters shares down a binomial tree, and all gather them around a ring.

    So hardly any rank sends more than it gets; but p - 1 rounds follow those of the tree.  M.
    Barnett, L. Shuler, S. Gupta, D. Payne, R. van de Geijn and J. Watts, "Building a
    high-performance collective communication library", 1994.  Each share has a byte at least, for
    all of them are parts.
    """
    size, place = plan.size, (plan.rank - root) % plan.size
    bound = [data.nbytes * share // size for share in range(size + 1)]

    def below(rank):
        at = (rank - root) % size
        return data[bound[at]:bound[at + members_below(at, size)]]

    parent, children = parent_and_children(plan.rank, size, root)
    plan.parts = True
    if parent is not None:
        plan.receive(below(plan.rank), parent)
        plan.then()
    for child in children:
        plan.send(below(child), child)
    plan.then()
    after = (place + 1) % size
    for step in range(1, size):
        come, go = (place - step) % size, (place - step + 1) % size
        # Not what the tree has brought, which is the whole on the root.
        if not place < come < place + members_below(place, size):
            plan.receive(data[bound[come]:bound[come + 1]], (plan.rank - 1) % size)
        if not after < go < after + members_below(after, size):
            plan.send(data[bound[go]:bound[go + 1]], (plan.rank + 1) % size)
        plan.then()
    plan.parts = False


def chain(plan, data, root):
    """From each rank to the next, in segments: while one comes, that before it is handed on.

    It is ``pipeline`` in Open MPI, with a fanout of one.  All segments but the last are marked as
    parts, so nobody takes the first of several for all that there is.
    """
    size, later = plan.size, int(plan.rank != root)
    before, after = (plan.rank - 1) % size, (plan.rank + 1) % size
    parts = [data[at:at + SEGMENT] for at in range(0, data.nbytes, SEGMENT)] or [data]
    last = len(parts) - 1
    for number in range(len(parts) + later):
        if later and number <= last:
            plan.parts = number < last
            plan.receive(parts[number], before)
        if after != root and number >= later:
            plan.parts = number - later < last
            plan.send(parts[number - later], after)
        plan.then()
    plan.parts = False
