"""Collective operations that move one block per member, in their simplest correct form.

A root sends to and receives from each member by itself; where all exchange with all, every member
posts its receives before it sends.  Each function is one call (`pyrdv.collectives.calls.run`).
"""

from pyrdv.api import objects
from pyrdv.api.buffers import parse_views
from pyrdv.collectives import arguments, pickles
from pyrdv.collectives.arguments import Blocks


def gather(call, sendbuf, recvbuf, root, even):
    """Blocks of all members, side by side on `root`."""
    arguments.check_root(call, root)
    if call.rank != root:
        call.send(parse_views(sendbuf)[0], root)
        call.confirm()
        return
    into = Blocks(recvbuf, call.size, even, True)
    mine = arguments.own_block(into, sendbuf, call)
    for rank in _others(call):
        call.irecv(into[rank], rank)
    if mine is not None:
        into[root][:] = mine
    call.finish()
    call.confirm()


def scatter(call, sendbuf, recvbuf, root, even):
    """To each member its block of the message of `root`."""
    arguments.check_root(call, root)
    if call.rank != root:
        call.receive(parse_views(recvbuf, writable=True)[0], root)
        call.confirm()
        return
    blocks = Blocks(sendbuf, call.size, even, False)
    room = None
    if not arguments.in_place(recvbuf):
        room = parse_views(recvbuf, writable=True)[0]
        arguments.same_length(room, blocks[root], call.name)
    for rank in _others(call):
        call.isend(blocks[rank], rank)
    call.finish()
    # Not earlier: it may be memory that others get.
    if room is not None:
        room[:] = blocks[root]
    call.confirm()


def allgather(call, sendbuf, recvbuf, even):
    """Blocks of all members, side by side on every member."""
    into = Blocks(recvbuf, call.size, even, True)
    mine = arguments.own_block(into, sendbuf, call)
    for rank in _others(call):
        call.irecv(into[rank], rank)
    if mine is None:
        mine = into[call.rank]
    else:
        into[call.rank][:] = mine
    for rank in _others(call):
        call.isend(mine, rank)
    call.finish()
    call.confirm()


def alltoall(call, sendbuf, recvbuf, even):
    """From each member the block that it has for this one."""
    sources, into = arguments.exchanged(sendbuf, recvbuf, call, even)
    for rank in reversed(_others(call)):
        call.irecv(into[rank], rank)
    for rank in _others(call):
        call.isend(sources[rank], rank)
    into[call.rank][:] = sources[call.rank]
    call.finish()
    call.confirm()


def _others(call):
    """The other members, each beginning behind itself, so that not all begin with one."""
    return [(call.rank + step) % call.size for step in range(1, call.size)]


# --- objects --------------------------------------------------------------------------------


def gather_objects(call, obj, root):
    """The objects of all members, a list on `root` and None elsewhere."""
    arguments.check_root(call, root)
    mine = objects.dumps(obj)
    found = None
    if call.rank != root:
        call.send_pickled(*mine, root)
        call.finish()
    else:
        others = {rank: call.receive_pickled(rank) for rank in _others(call)}
        found = [pickles.own(obj, mine) if rank == root else pickles.load(others[rank])
                 for rank in range(call.size)]
    call.confirm()
    return found


def allgather_objects(call, obj):
    """The objects of all members, a list on every member."""
    mine = objects.dumps(obj)
    for rank in _others(call):
        call.send_pickled(*mine, rank)
    others = {rank: call.receive_pickled(rank) for rank in _others(call)}
    call.finish()
    return [pickles.own(obj, mine) if rank == call.rank else pickles.load(others[rank])
            for rank in range(call.size)]


def scatter_objects(call, objs, root):
    """To each member its object of the sequence of `root`."""
    arguments.check_root(call, root)
    if call.rank != root:
        found = pickles.load(call.receive_pickled(root))
    else:
        items = arguments.items_for_all(objs, call.size, "scatter")
        pickled = [objects.dumps(item) for item in items]
        for rank in _others(call):
            call.send_pickled(*pickled[rank], rank)
        found = pickles.own(items[root], pickled[root])
        call.finish()
    call.confirm()
    return found


def alltoall_objects(call, objs):
    """From each member the object that it has for this one."""
    items = arguments.items_for_all(objs, call.size, "alltoall")
    pickled = [objects.dumps(item) for item in items]
    for rank in _others(call):
        call.send_pickled(*pickled[rank], rank)
    others = {rank: call.receive_pickled(rank) for rank in reversed(_others(call))}
    call.finish()
    found = [pickles.own(items[rank], pickled[rank]) if rank == call.rank
             else pickles.load(others[rank]) for rank in range(call.size)]
    call.confirm()
    return found
