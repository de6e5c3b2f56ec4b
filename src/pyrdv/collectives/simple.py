"""Collective operations in their simplest correct form.

Barrier by dissemination, broadcast down a binomial tree, reductions in rank
order on rank 0.  All messages travel in the communicator's collective
context, where no receive of the user can meet them; within one communicator
collective calls come in the same order everywhere, so one tag per operation
is enough.
"""


from pyrdv.api import objects
from pyrdv.api.buffers import IN_PLACE, parse_views
from pyrdv.api.request import Request
from pyrdv.errors import CountError, DatatypeError, RootError

TAG_BARRIER, TAG_BCAST, TAG_REDUCE = 1, 2, 3
_TOKEN = b""


def _check_root(comm, root):
    if not 0 <= root < comm.size:
        raise RootError(f"root {root} is not in {comm.name}, which has ranks 0..{comm.size - 1}",
                        rank=root)


def barrier(comm):
    """Dissemination barrier: ceil(log2(n)) rounds of one message each way."""
    inside = comm.collective()
    distance = 1
    while distance < comm.size:
        send = inside.Isend(_TOKEN, (comm.rank + distance) % comm.size, TAG_BARRIER)
        inside.Recv(bytearray(0), (comm.rank - distance) % comm.size, TAG_BARRIER)
        send.Wait()
        distance *= 2


def _parent_and_children(comm, root):
    """Neighbours in the binomial tree of ranks relative to `root`."""
    size, place = comm.size, (comm.rank - root) % comm.size
    parent, bit = None, 1
    while bit < size:
        if place & bit:
            parent = (place - bit + root) % size
            break
        bit *= 2
    children = []
    bit //= 2
    while bit:
        if place + bit < size:
            children.append((place + bit + root) % size)
        bit //= 2
    return parent, children


def bcast_buffer(comm, buf, root):
    """Binomial broadcast of a buffer."""
    _check_root(comm, root)
    inside = comm.collective()
    parent, children = _parent_and_children(comm, root)
    if parent is not None:
        inside.Recv(buf, parent, TAG_BCAST)
    requests = [inside.Isend(buf, child, TAG_BCAST) for child in children]
    Request.Waitall(requests)


def bcast_object(comm, obj, root):
    """Binomial broadcast of a pickle, made once at the root."""
    _check_root(comm, root)
    inside = comm.collective()
    parent, children = _parent_and_children(comm, root)
    # Passed on as received: large buffers stay beside the pickle, uncopied, on every rank.
    head, parts = objects.dumps(obj) if parent is None else inside.recv_pickled(parent, TAG_BCAST)
    Request.Waitall([inside.isend_pickled(head, parts, child, TAG_BCAST) for child in children])
    if parent is None:
        return obj
    return objects.loads(objects.parse_head(head)[0], parts)


def allreduce_object(comm, obj, op):
    """Fold of the members' objects in rank order."""
    inside = comm.collective()
    if comm.rank:
        inside.send(obj, 0, TAG_REDUCE)
        return bcast_object(comm, None, 0)
    for rank in range(1, comm.size):
        obj = op(obj, inside.recv(None, rank, TAG_REDUCE))
    return bcast_object(comm, obj, 0)


def allreduce_buffer(comm, sendbuf, recvbuf, op):
    """Fold of the members' buffers in rank order on rank 0, then a broadcast."""
    inside = comm.collective()
    result, datatype = parse_views(recvbuf, writable=True)
    op.check(datatype)
    if sendbuf is IN_PLACE:
        mine = result
    else:
        mine, mine_type = parse_views(sendbuf)
        _same(mine, mine_type, result, datatype)
    if comm.rank:
        inside.Send(mine, 0, TAG_REDUCE)
    else:
        folded = bytearray(mine)
        for rank in range(1, comm.size):
            other = bytearray(result.nbytes)
            inside.Recv(other, rank, TAG_REDUCE)
            op.reduce_local(folded, other, datatype)
            folded = other
        result[:] = folded
    bcast_buffer(comm, result, 0)


def _same(mine, mine_type, result, datatype):
    if mine_type != datatype:
        raise DatatypeError(
            f"Allreduce from {mine_type.name} into {datatype.name}: both buffers must have one "
            "datatype; name it, as in [buffer, MPI.DOUBLE]")
    if mine.nbytes != result.nbytes:
        raise CountError(
            f"Allreduce from {mine.nbytes} bytes into {result.nbytes} bytes of {datatype.name}: "
            "both buffers must hold the same number of elements")
