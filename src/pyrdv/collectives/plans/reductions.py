"""Reductions to one rank, or up to each rank.  Operands are combined in the order of ranks."""

from pyrdv.collectives import arguments
from pyrdv.collectives.trees import parent_and_children


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


