"""Collective operations on whole buffers and objects, in their simplest correct form.

Barrier by dissemination, broadcast down a binomial tree, reductions in rank order on one rank.
Each function is one call (`pyrdv.collectives.calls.run`), or a part of one: its messages on one way
between two ranks come in order, so all parts of a call have one tag.
"""

from pyrdv.api import objects
from pyrdv.collectives import arguments, pickles
from pyrdv.collectives.trees import parent_and_children
from pyrdv.errors import CountError


def barrier(call):
    """Return when all members have called it."""
    call.confirm()


# --- buffers --------------------------------------------------------------------------------


def bcast_buffer(call, buf, root):
    """Binomial broadcast of a buffer."""
    arguments.check_root(call, root)
    call.look(buf, call.rank != root)
    share_buffer(call, buf, root)


def share_buffer(call, buf, root):
    """The broadcast of a buffer that was looked at."""
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


def allreduce_buffer(call, sendbuf, recvbuf, op):
    """Fold of the members' buffers in rank order on rank 0, then a broadcast."""
    mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, "Allreduce")
    folded = fold_buffers(call, mine, datatype, op, 0)
    if folded is not None:
        result[:] = folded
    share_buffer(call, result, 0)


def reduce_buffer(call, sendbuf, recvbuf, op, root):
    """Fold of the members' buffers in rank order, on `root`."""
    arguments.check_root(call, root)
    if call.rank == root:
        mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, "Reduce")
        folded = fold_buffers(call, mine, datatype, op, root)
        call.confirm()
        result[:] = folded
    else:
        mine, datatype = arguments.contribution(sendbuf, op)
        fold_buffers(call, mine, datatype, op, root)
        call.confirm()


def scan_buffer(call, sendbuf, recvbuf, op, inclusive):
    """Fold of the buffers of the members up to this one, itself included or not."""
    mine, result, datatype = arguments.operands(sendbuf, recvbuf, op, call.name)
    upto = bytearray(mine)
    before = bytearray(mine.nbytes)
    if call.rank:
        call.collect(before, call.rank - 1)
        op.reduce_local(before, upto, datatype)
    if call.rank + 1 < call.size:
        call.send(upto, call.rank + 1)
    call.confirm()
    if inclusive:
        result[:] = upto
    elif call.rank:
        result[:] = before


def reduce_scatter(call, shares_of, sendbuf, recvbuf, counts, op):
    """Fold of the members' buffers on rank 0, and to each member its share of it.

    ``shares_of(call, sendbuf, recvbuf, counts, op)`` reads the arguments.
    """
    shares = shares_of(call, sendbuf, recvbuf, counts, op)
    size, counts = shares.datatype.size, shares.counts
    folded = fold_buffers(call, shares.mine, shares.datatype, op, 0)
    own = shares.own[:counts[call.rank] * size]
    if folded is None:
        call.receive(own, 0)
    else:
        folded = memoryview(folded)
        end = counts[0] * size
        own[:] = folded[:end]
        for rank in range(1, call.size):
            begin, end = end, end + counts[rank] * size
            call.isend(folded[begin:end], rank)
        call.finish()
    call.confirm()


def even_shares(call, sendbuf, recvbuf, counts, op):
    """The arguments of Reduce_scatter_block."""
    return arguments.Shares.even(sendbuf, recvbuf, op, call.size, "Reduce_scatter_block")


def given_shares(call, sendbuf, recvbuf, counts, op):
    """The arguments of Reduce_scatter; without counts the members tell each other theirs."""
    what = "Reduce_scatter"
    shares = arguments.Shares(sendbuf, recvbuf, op, what)
    counts = arguments.shares_given(counts, call.size, what)
    if counts is None and shares.in_place:
        raise CountError(f"{what} in place needs the counts: the receive buffer of a rank does not "
                         "tell its share")
    if counts is None:
        mine = shares.own.nbytes // shares.datatype.size
        counts = [int.from_bytes(count, "little") for count in _all_of(call, mine.to_bytes(
            8, "little"))]
    shares.give(counts, call.rank)
    return shares


def _all_of(call, mine):
    """The bytes of every member, as many on each."""
    size = len(mine)
    everything = bytearray(size * call.size)
    whole = memoryview(everything)
    if call.rank:
        call.send(mine, 0)
    else:
        whole[:size] = mine
        for rank in range(1, call.size):
            call.collect(whole[rank * size:(rank + 1) * size], rank)
    share_buffer(call, whole, 0)
    return [whole[rank * size:(rank + 1) * size] for rank in range(call.size)]


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
