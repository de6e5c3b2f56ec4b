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

TAG_BARRIER, TAG_BCAST, TAG_REDUCE, TAG_LEAVE, TAG_BLOCKS = 1, 2, 3, 4, 5
_TOKEN = b""


def check_root(comm, root):
    """Refuse a root that is no member."""
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
    check_root(comm, root)
    inside = comm.collective()
    parent, children = _parent_and_children(comm, root)
    if parent is not None:
        inside.Recv(buf, parent, TAG_BCAST)
    requests = [inside.Isend(buf, child, TAG_BCAST) for child in children]
    Request.Waitall(requests)


def bcast_object(comm, obj, root):
    """Binomial broadcast of a pickle, made once at the root."""
    check_root(comm, root)
    inside = comm.collective()
    parent, children = _parent_and_children(comm, root)
    # Passed on as received: large buffers stay beside the pickle, uncopied, on every rank.
    head, parts = objects.dumps(obj) if parent is None else inside.recv_pickled(parent, TAG_BCAST)
    Request.Waitall([inside.isend_pickled(head, parts, child, TAG_BCAST) for child in children])
    if parent is None:
        return obj
    return objects.loads(objects.parse_head(head)[0], parts)


def reduce_object(comm, obj, op, root):
    """Fold of the members' objects in rank order, on `root`; None elsewhere."""
    check_root(comm, root)
    inside = comm.collective()
    if comm.rank != root:
        inside.send(obj, root, TAG_REDUCE)
        return None
    # In rank order, whichever rank is the root.
    folded = None
    for rank in range(comm.size):
        other = obj if rank == root else inside.recv(None, rank, TAG_REDUCE)
        folded = op(folded, other) if rank else other
    return folded


def allreduce_object(comm, obj, op):
    """Fold of the members' objects in rank order."""
    return bcast_object(comm, reduce_object(comm, obj, op, 0), 0)


def scan_object(comm, obj, op, inclusive):
    """Fold of the objects of the members up to this one, itself included or not."""
    inside = comm.collective()
    before = inside.recv(None, comm.rank - 1, TAG_REDUCE) if comm.rank else None
    upto = op(before, obj) if comm.rank else obj
    if comm.rank + 1 < comm.size:
        inside.send(upto, comm.rank + 1, TAG_REDUCE)
    return upto if inclusive else before


def fold_buffers(comm, mine, datatype, op, root):
    """Fold of the members' bytes in rank order, on `root`; None elsewhere."""
    inside = comm.collective()
    if comm.rank != root:
        inside.Send(mine, root, TAG_REDUCE)
        return None
    folded = None
    for rank in range(comm.size):
        other = bytearray(mine)
        if rank != root:
            inside.Recv(other, rank, TAG_REDUCE)
        if rank:
            op.reduce_local(folded, other, datatype)
        folded = other
    return folded


def operands(sendbuf, recvbuf, op, what):
    """``(bytes to send, bytes to receive into, datatype)`` of a reduction on every member."""
    result, datatype = parse_views(recvbuf, writable=True)
    op.check(datatype)
    if sendbuf is IN_PLACE:
        return result, result, datatype
    mine, mine_type = parse_views(sendbuf)
    same_elements(mine, mine_type, result, datatype, what)
    return mine, result, datatype


def allreduce_buffer(comm, sendbuf, recvbuf, op):
    """Fold of the members' buffers in rank order on rank 0, then a broadcast."""
    mine, result, datatype = operands(sendbuf, recvbuf, op, "Allreduce")
    folded = fold_buffers(comm, mine, datatype, op, 0)
    if folded is not None:
        result[:] = folded
    bcast_buffer(comm, result, 0)


def reduce_buffer(comm, sendbuf, recvbuf, op, root):
    """Fold of the members' buffers in rank order, on `root`."""
    check_root(comm, root)
    if comm.rank == root:
        mine, result, datatype = operands(sendbuf, recvbuf, op, "Reduce")
        result[:] = fold_buffers(comm, mine, datatype, op, root)
    else:
        mine, datatype = parse_views(sendbuf)
        op.check(datatype)
        fold_buffers(comm, mine, datatype, op, root)


def scan_buffer(comm, sendbuf, recvbuf, op, inclusive):
    """Fold of the buffers of the members up to this one, itself included or not."""
    inside = comm.collective()
    mine, result, datatype = operands(sendbuf, recvbuf, op, "Scan")
    upto = bytearray(mine)
    if comm.rank:
        before = bytearray(mine.nbytes)
        inside.Recv(before, comm.rank - 1, TAG_REDUCE)
        op.reduce_local(before, upto, datatype)
    if comm.rank + 1 < comm.size:
        inside.Send(upto, comm.rank + 1, TAG_REDUCE)
    if inclusive:
        result[:] = upto
    elif comm.rank:
        result[:] = before


def same_elements(mine, mine_type, result, datatype, what):
    """Refuse two operands that differ in type or size."""
    if mine_type != datatype:
        raise DatatypeError(
            f"{what} from {mine_type.name} into {datatype.name}: both buffers must have one "
            "datatype; name it, as in [buffer, MPI.DOUBLE]")
    if mine.nbytes != result.nbytes:
        raise CountError(
            f"{what} from {mine.nbytes} bytes into {result.nbytes} bytes of {datatype.name}: "
            "both buffers must hold the same number of elements")
