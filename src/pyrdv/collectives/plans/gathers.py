"""One block per member, to or from a root.

Gather: `mine` is what this member sends; None on the root, in place.  `into` are the places of the
blocks, on the root; None elsewhere.  Scatter: `blocks` are those to send, on the root; `room` is
what this member receives into; None on the root, in place.
"""

from pyrdv.collectives.trees import members_below, parent_and_children


def linear_gather(plan, mine, into, root):
    """The root receives from all at once."""
    if plan.rank != root:
        plan.send(mine, root)
        return
    for rank in others(plan):
        plan.receive(into[rank], rank)
    if mine is not None:
        plan.copy(mine, into[root])


def binomial_gather(plan, mine, into, root):
    """Up a binomial tree: each rank sends on what its subtree has, in one message.

    So the root gets log2(p) messages instead of p - 1; the bytes travel up to as many times.
    """
    size, place = plan.size, (plan.rank - root) % plan.size
    parent, children = parent_and_children(plan.rank, size, root)
    unit = len(into[root] if into is not None else mine)
    below = members_below(place, size)
    if below == 1:
        if parent is not None:
            plan.send(mine, parent)
        elif mine is not None:
            plan.copy(mine, into[root])
        return
    room = plan.scratch(below * unit)           # by place, from this one's
    for child in children:
        at = (child - root) % size
        plan.receive(room[(at - place) * unit:(at - place + members_below(at, size)) * unit], child)
    if parent is not None:
        plan.copy(mine, room[:unit])
        plan.send(room, parent)
        return
    if mine is not None:
        plan.copy(mine, into[root])
    for step in range(1, size):
        plan.copy(room[step * unit:(step + 1) * unit], into[(root + step) % size])


def linear_scatter(plan, blocks, room, root):
    """The root sends to all at once."""
    if plan.rank != root:
        plan.receive(room, root)
        return
    for rank in others(plan):
        plan.send(blocks[rank], rank)
    # Not earlier: it may be memory that others get.
    if room is not None:
        plan.copy(blocks[root], room)


def binomial_scatter(plan, blocks, room, root):
    """`binomial_gather` the other way."""
    size, place = plan.size, (plan.rank - root) % plan.size
    parent, children = parent_and_children(plan.rank, size, root)
    unit = len(blocks[root] if blocks is not None else room)
    below = members_below(place, size)
    if below == 1 and parent is not None:
        plan.receive(room, parent)
        return
    held = plan.scratch(below * unit)           # by place, from this one's
    if parent is not None:
        plan.receive(held, parent)
    else:
        for step in range(1, size):
            plan.copy(blocks[(root + step) % size], held[step * unit:(step + 1) * unit])
    plan.then()
    for child in children:
        at = (child - root) % size
        plan.send(held[(at - place) * unit:(at - place + members_below(at, size)) * unit], child)
    if room is not None:
        plan.copy(held[:unit] if parent is not None else blocks[root], room)


def others(plan):
    """The other members, each beginning behind itself, so that not all begin with one."""
    return [(plan.rank + step) % plan.size for step in range(1, plan.size)]
