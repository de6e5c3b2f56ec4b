"""Collective calls on buffers: arguments are read, and the table says who adds the rounds.

`even`: blocks of one length; otherwise each has its own, as in the calls with ``v``.
"""

from pyrdv.api.buffers import parse_views
from pyrdv.collectives import arguments
from pyrdv.collectives.arguments import Blocks
from pyrdv.collectives.plans.choosing import choose
from pyrdv.errors import CountError


def bcast(plan, buf, root):
    """Bcast."""
    arguments.check_root(plan, root)
    data = parse_views(buf, writable=plan.rank != root)[0]
    choose(plan, "bcast", data.nbytes).build(plan, data, root)


def gather(plan, sendbuf, recvbuf, root, even):
    """Gather and Gatherv."""
    arguments.check_root(plan, root)
    into = None
    if plan.rank == root:
        into = Blocks(recvbuf, plan.size, even, True)
        mine = arguments.own_block(into, sendbuf, plan)
    else:
        mine = parse_views(sendbuf)[0]
    length = len(mine if into is None else into[root]) if even else None
    choose(plan, "gather", length).build(plan, mine, into, root)


def scatter(plan, sendbuf, recvbuf, root, even):
    """Scatter and Scatterv."""
    arguments.check_root(plan, root)
    blocks = room = None
    if plan.rank == root:
        blocks = Blocks(sendbuf, plan.size, even, False)
    if plan.rank != root or not arguments.in_place(recvbuf):
        room = parse_views(recvbuf, writable=True)[0]
    if blocks is not None and room is not None:
        arguments.same_length(room, blocks[root], plan.name)
    length = len(room if blocks is None else blocks[root]) if even else None
    choose(plan, "scatter", length).build(plan, blocks, room, root)


def allgather(plan, sendbuf, recvbuf, even):
    """Allgather and Allgatherv."""
    into = Blocks(recvbuf, plan.size, even, True)
    mine = arguments.own_block(into, sendbuf, plan)
    choose(plan, "allgather", into.total()).build(plan, mine, into, even)


def alltoall(plan, sendbuf, recvbuf, even):
    """Alltoall and Alltoallv."""
    sources, into = arguments.exchanged(sendbuf, recvbuf, plan, even)
    choose(plan, "alltoall", len(into[plan.rank]) if even else None).build(plan, sources, into)


def allreduce(plan, sendbuf, recvbuf, op):
    """Allreduce."""
    mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, plan.name)
    mine = arguments.apart(mine, result, plan)
    way = choose(plan, "allreduce", result.nbytes, ordered=not op.is_commutative)
    way.build(plan, mine, result, datatype, op)


def reduce_scatter_block(plan, sendbuf, recvbuf, op):
    """Reduce_scatter_block."""
    _reduce_scatter(plan, arguments.Shares.even(sendbuf, recvbuf, op, plan.size, plan.name), op)


def reduce_scatter(plan, sendbuf, recvbuf, counts, op):
    """Reduce_scatter."""
    shares = arguments.Shares(sendbuf, recvbuf, op, plan.name)
    counts = arguments.shares_given(counts, plan.size, plan.name)
    if counts is None:
        raise CountError(f"{plan.name} in place needs the counts: the receive buffer of a rank "
                         "does not tell its share")
    shares.give(counts, plan.rank)
    _reduce_scatter(plan, shares, op)


def _reduce_scatter(plan, shares, op):
    way = choose(plan, "reduce_scatter", shares.mine.nbytes, ordered=not op.is_commutative)
    way.build(plan, shares, op)
