"""Collective calls on buffers: arguments are read, and the table says who adds the rounds.

`even`: blocks of one length; otherwise each has its own, as in the calls with ``v``.
"""

from pyrdv import algorithms
from pyrdv.api.buffers import parse_views
from pyrdv.collectives import arguments
from pyrdv.collectives.arguments import Blocks
from pyrdv.collectives.plans import (
    allgather as allgathers,
    allreduce as allreduces,
    alltoall as alltoalls,
    bcast as bcasts,
    gathers,
    shares,
)
from pyrdv.errors import CountError

#: Who adds the rounds, by kind and name of the row.
BUILDERS = {
    "bcast binomial": bcasts.binomial,
    "bcast scatter": bcasts.scattered,
    "bcast chain": bcasts.chain,
    "gather linear": gathers.linear_gather,
    "gather binomial": gathers.binomial_gather,
    "scatter linear": gathers.linear_scatter,
    "scatter binomial": gathers.binomial_scatter,
    "allgather bruck": allgathers.bruck,
    "allgather ring": allgathers.ring,
    "allgather doubling": allgathers.doubling,
    "alltoall bruck": alltoalls.bruck,
    "alltoall spread": alltoalls.spread,
    "alltoall pairwise": alltoalls.pairwise,
    "allreduce doubling": allreduces.doubling,
    "allreduce halving": allreduces.halving,
    "allreduce ring": allreduces.ring,
    "reduce_scatter spread": shares.spread,
    "reduce_scatter halving": shares.halving,
}


def choose(plan, kind, nbytes, ordered=False, elements=None):
    """The builder of the call that `plan` is to make; see `pyrdv.algorithms.choose`."""
    view = plan.view
    near = kind in algorithms.BY_HOSTS and _are_near(view)
    choice = algorithms.choose(kind, plan.size, nbytes, near, ordered, elements,
                               view.engine.preferred)
    plan.choose(choice.number, choice.reason, choice.mixed)
    return BUILDERS[choice.name]


def _are_near(view):
    """Whether all members share memory: on all of them alike, for that is an equivalence."""
    engine = view.engine
    near = engine.neighbours or ()
    return len(near) == engine.size or set(view.members.world_ranks()) <= {engine.rank, *near}


def bcast(plan, buf, root):
    """Bcast."""
    arguments.check_root(plan, root)
    data = parse_views(buf, writable=plan.rank != root)[0]
    choose(plan, "bcast", data.nbytes)(plan, data, root)


def gather(plan, sendbuf, recvbuf, root, even):
    """Gather and Gatherv."""
    arguments.check_root(plan, root)
    into = None
    if plan.rank == root:
        into = Blocks(recvbuf, plan.size, even, True)
        mine = arguments.own_block(into, sendbuf, plan)
    else:
        mine = parse_views(sendbuf)[0]
    choose(plan, "gather", len(mine if into is None else into[root]) if even else None)(
        plan, mine, into, root)


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
    choose(plan, "scatter", len(room if blocks is None else blocks[root]) if even else None)(
        plan, blocks, room, root)


def allgather(plan, sendbuf, recvbuf, even):
    """Allgather and Allgatherv."""
    into = Blocks(recvbuf, plan.size, even, True)
    mine = arguments.own_block(into, sendbuf, plan)
    choose(plan, "allgather", into.total() if even else None)(plan, mine, into, even)


def alltoall(plan, sendbuf, recvbuf, even):
    """Alltoall and Alltoallv."""
    sources, into = arguments.exchanged(sendbuf, recvbuf, plan, even)
    unit = len(into[plan.rank])
    choose(plan, "alltoall", unit if even else None, elements=unit * plan.size)(
        plan, sources, into)


def allreduce(plan, sendbuf, recvbuf, op):
    """Allreduce."""
    mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, plan.name)
    mine = arguments.apart(mine, result, plan)
    add = choose(plan, "allreduce", result.nbytes, not op.is_commutative,
                 result.nbytes // datatype.size)
    add(plan, mine, result, datatype, op)


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
    choose(plan, "reduce_scatter", shares.mine.nbytes, not op.is_commutative)(plan, shares, op)
