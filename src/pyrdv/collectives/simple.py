"""Collective operations on objects, barrier and broadcast, in their simplest correct form.

Barrier by dissemination, broadcast down a binomial tree, reductions in rank order on one rank.
Those on buffers of all members are schedules (`pyrdv.collectives.plans`).  Each function is one
call (`pyrdv.collectives.calls.run`), or a part of one: its messages on one way between two ranks
come in order, so all parts of a call have one tag.
"""

from pyrdv.api import objects
from pyrdv.collectives import arguments, pickles
from pyrdv.collectives.trees import parent_and_children


def barrier(call):
    """Return when all members have called it."""
    call.confirm()


# --- buffers --------------------------------------------------------------------------------


def share_buffer(call, buf, root):
    """Binomial broadcast of a buffer of the library."""
    parent, children = parent_and_children(call.rank, call.size, root)
    if parent is not None:
        call.receive(buf, parent)
    for child in children:
        call.isend(buf, child)
    call.finish()
    if parent is not None:
        # A root that gave up may have let go of the buffer while it was read.
        call.glance()


def fold_buffers(call, mine, datatype, op, root):
    """Fold of the members' bytes in rank order, on `root`; None elsewhere."""
    if call.rank != root:
        call.send(mine, root)
        return None
    folded = None
    for rank in range(call.size):
        other = bytearray(mine)
        if rank != root:
            call.collect(other, rank)
        if rank:
            op.reduce_local(folded, other, datatype)
        folded = other
    return folded


def all_agree(call, mine, datatype, op):
    """Fold of the members' bytes, on all of them."""
    folded = fold_buffers(call, mine, datatype, op, 0)
    result = bytearray(mine) if folded is None else folded
    share_buffer(call, result, 0)
    return result


# --- objects --------------------------------------------------------------------------------


def bcast_object(call, obj, root):
    """Binomial broadcast of a pickle, made once at the root."""
    arguments.check_root(call, root)
    if call.rank == root:
        mine = objects.dumps(obj)
        share_pickle(call, mine, root)
        return pickles.own(obj, mine)
    return pickles.load(share_pickle(call, None, root))


def share_pickle(call, mine, root):
    """The broadcast of ``(head, parts)``, which all members get as it travels.

    It is passed on as received: large buffers stay beside the pickle, uncopied, on every rank.
    """
    parent, children = parent_and_children(call.rank, call.size, root)
    if parent is not None:
        mine = call.receive_pickled(parent)
    for child in children:
        call.send_pickled(*mine, child)
    call.finish()
    if parent is not None:
        call.glance()
    return mine


def fold_objects(call, mine, op, root):
    """Fold of the members' objects in rank order, on `root`; None elsewhere."""
    if call.rank != root:
        call.send_pickled(*mine, root)
        call.finish()
        return None
    # In rank order, whichever rank is the root.
    folded = None
    for rank in range(call.size):
        other = pickles.copy(mine) if rank == root else pickles.load(call.receive_pickled(rank))
        folded = op(folded, other) if rank else other
    return folded


def reduce_object(call, obj, op, root):
    """Fold of the members' objects in rank order, on `root`; None elsewhere."""
    arguments.check_root(call, root)
    arguments.check_op(op)
    folded = fold_objects(call, objects.dumps(obj), op, root)
    call.confirm()
    return folded


def allreduce_object(call, obj, op):
    """Fold of the members' objects in rank order."""
    arguments.check_op(op)
    folded = fold_objects(call, objects.dumps(obj), op, 0)
    if call.rank:
        return pickles.load(share_pickle(call, None, 0))
    if call.size > 1:
        share_pickle(call, objects.dumps(folded), 0)
    return folded


def scan_object(call, obj, op, inclusive):
    """Fold of the objects of the members up to this one, itself included or not."""
    arguments.check_op(op)
    upto, before = pickles.copy(objects.dumps(obj)), None
    if call.rank:
        # Twice, for the operation may change what it is given.
        mine = call.receive_pickled(call.rank - 1)
        upto = op(pickles.load(mine), upto)
        before = None if inclusive else pickles.copy(mine)
    if call.rank + 1 < call.size:
        call.send_pickled(*objects.dumps(upto), call.rank + 1)
        call.finish()
    call.confirm()
    return upto if inclusive else before
