"""Broadcasts of `data`, as many bytes on all members, which are only read on `root`."""

from pyrdv.collectives.plans.greetings import greeted_down
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
    high-performance collective communication library", 1994.
    """
    size, place = plan.size, (plan.rank - root) % plan.size
    bound = [data.nbytes * share // size for share in range(size + 1)]

    def below(rank):
        at = (rank - root) % size
        return data[bound[at]:bound[at + members_below(at, size)]]

    parent = parent_and_children(plan.rank, size, root)[0]
    token, children = greeted_down(plan, root)
    if parent is not None:
        plan.receive(below(plan.rank), parent)
        plan.then()
    for child in children:
        plan.send(token, child)
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


def chain(plan, data, root):
    """From each rank to the next, in segments: while one comes, that before it is handed on.

    It is ``pipeline`` in Open MPI, with a fanout of one.
    """
    size, later = plan.size, int(plan.rank != root)
    before, after = (plan.rank - 1) % size, (plan.rank + 1) % size
    parts = [data[at:at + SEGMENT] for at in range(0, data.nbytes, SEGMENT)] or [data]
    token, children = greeted_down(plan, root)
    for number in range(len(parts) + later):
        if number == later:
            for child in children:
                plan.send(token, child)
        if later and number < len(parts):
            plan.receive(parts[number], before)
        if after != root and number >= later:
            plan.send(parts[number - later], after)
        plan.then()
