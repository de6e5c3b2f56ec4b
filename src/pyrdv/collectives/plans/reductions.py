"""Reductions.  Operands are combined in the order of ranks, which is only ever cut into runs."""

from pyrdv.collectives import arguments
from pyrdv.collectives.trees import parent_and_children


def recursive_doubling(plan, sendbuf, recvbuf, op):
    """Allreduce: in round k each rank exchanges what it has with the rank whose bit k differs.

    Both compute the same from the same, so all ranks get the same bits.  If the ranks are no power
    of two, as many pairs of neighbours as there are too many begin as one rank each.  R. Thakur,
    R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH",
    2005, section 4.4.
    """
    mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, plan.name)
    if mine is not result:
        plan.copy(mine, result)
    other = plan.scratch(result.nbytes)
    power = 1 << plan.size.bit_length() - 1
    pairs = plan.size - power
    paired = plan.rank < 2 * pairs
    if paired and plan.rank % 2 == 0:
        plan.send(result, plan.rank + 1)
        plan.then()
        plan.receive(result, plan.rank + 1)
        return
    if paired:
        plan.receive(other, plan.rank - 1)
        plan.reduce(op, datatype, other, result, False)
    place = plan.rank // 2 if paired else plan.rank - pairs
    bit = 1
    while bit < power:
        there = place ^ bit
        partner = 2 * there + 1 if there < pairs else there + pairs
        plan.receive(other, partner)
        plan.send(result, partner)
        plan.reduce(op, datatype, other, result, there > place)
        plan.then()
        bit *= 2
    if paired:
        plan.send(result, plan.rank - 1)


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
