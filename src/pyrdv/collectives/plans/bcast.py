"""Broadcasts."""

from pyrdv.api.buffers import parse_views
from pyrdv.collectives import arguments
from pyrdv.collectives.trees import parent_and_children


def binomial(plan, buf, root):
    """Down a binomial tree: each rank receives once, and sends to its children at once."""
    arguments.check_root(plan, root)
    data = parse_views(buf, writable=plan.rank != root)[0]
    parent, children = parent_and_children(plan.rank, plan.size, root)
    if parent is not None:
        plan.receive(data, parent)
        plan.then()
    for child in children:
        plan.send(data, child)
