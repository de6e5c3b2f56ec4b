"""One block per member, of one length or not: gather, scatter, and where all exchange with all."""

from pyrdv.api.buffers import parse_views
from pyrdv.collectives import arguments
from pyrdv.collectives.arguments import Blocks

#: Ranks with which one exchanges blocks at a time.
WINDOW = 32


def gather(plan, sendbuf, recvbuf, root, even):
    """The root receives from all at once."""
    arguments.check_root(plan, root)
    if plan.rank != root:
        plan.send(parse_views(sendbuf)[0], root)
        return
    into = Blocks(recvbuf, plan.size, even, True)
    mine = arguments.own_block(into, sendbuf, plan)
    for rank in _others(plan):
        plan.receive(into[rank], rank)
    if mine is not None:
        plan.copy(mine, into[root])


def scatter(plan, sendbuf, recvbuf, root, even):
    """The root sends to all at once."""
    arguments.check_root(plan, root)
    if plan.rank != root:
        plan.receive(parse_views(recvbuf, writable=True)[0], root)
        return
    blocks = Blocks(sendbuf, plan.size, even, False)
    room = None
    if not arguments.in_place(recvbuf):
        room = parse_views(recvbuf, writable=True)[0]
        arguments.same_length(room, blocks[root], plan.name)
    for rank in _others(plan):
        plan.send(blocks[rank], rank)
    # Not earlier: it may be memory that others get.
    if room is not None:
        plan.copy(blocks[root], room)


def ring(plan, sendbuf, recvbuf, even):
    """Allgather: each rank hands on to the next what came from the one before, n - 1 times."""
    into = Blocks(recvbuf, plan.size, even, True)
    mine = arguments.own_block(into, sendbuf, plan)
    for step in range(1, plan.size):
        plan.receive(into[(plan.rank - step) % plan.size], (plan.rank - 1) % plan.size)
        out = into[(plan.rank - step + 1) % plan.size]
        plan.send(mine if mine is not None and step == 1 else out, (plan.rank + 1) % plan.size)
        if step + 1 < plan.size:
            plan.then()
    # Behind the messages: nobody waits for it.
    if mine is not None:
        plan.copy(mine, into[plan.rank])


def spread(plan, sendbuf, recvbuf, even):
    """Alltoall: rank i sends to i + 1, i + 2, ..., so many at a time that no rank is flooded."""
    sources, into = arguments.exchanged(sendbuf, recvbuf, plan, even)
    for step in range(1, plan.size):
        source = (plan.rank - step) % plan.size
        dest = (plan.rank + step) % plan.size
        plan.receive(into[source], source)
        plan.send(sources[dest], dest)
        if step % WINDOW == 0:
            plan.then()
    plan.copy(sources[plan.rank], into[plan.rank])


def _others(plan):
    """The other members, each beginning behind itself, so that not all begin with one."""
    return [(plan.rank + step) % plan.size for step in range(1, plan.size)]
