"""Collective operations on one object per member, in their simplest correct form.

A root sends to and receives from each member by itself; where all exchange with all, every member
posts its receives before it sends.  Each function is one call (`pyrdv.collectives.calls.run`).
Those on buffers are schedules (`pyrdv.collectives.plans`).
"""

from pyrdv.api import objects
from pyrdv.collectives import arguments, pickles


def _others(call):
    """The other members, each beginning behind itself, so that not all begin with one."""
    return [(call.rank + step) % call.size for step in range(1, call.size)]


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
