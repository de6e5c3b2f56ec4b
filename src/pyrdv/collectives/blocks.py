"""Collective operations that move one block per member, in their simplest correct form.

A root sends to and receives from each member by itself; where all exchange with all, every member
posts its receives before it sends.  All messages have one tag: between two members they come in
order, and collective calls come in the same order everywhere.
"""

from pyrdv.api.buffers import IN_PLACE, parse_views
from pyrdv.api.request import Request
from pyrdv.api.vectors import parse_vector
from pyrdv.collectives import simple
from pyrdv.errors import ArgumentError, CountError

_TAG = simple.TAG_BLOCKS


class _Blocks:
    """One block per member of a message.

    Even ones are all as long: a message for all members is cut into as many pieces.
    """

    def __init__(self, spec, count, even, writable):
        if even:
            self.whole, self.datatype = parse_views(spec, writable=writable)
            if self.whole.nbytes % count:
                raise CountError(
                    f"{self.whole.nbytes} bytes for {count} ranks cannot be split evenly; give "
                    "as many elements for each rank, or use the call whose name ends with v")
            size = self.whole.nbytes // count
            self.bounds = [(size * rank, size * (rank + 1)) for rank in range(count)]
            return
        _, nbytes, counts, displs, self.datatype, keeper = parse_vector(
            spec, count, writable=writable)
        buf = spec[0] if isinstance(spec, (list, tuple)) else spec
        self.whole, _ = parse_views([buf, "B"] if nbytes else None, writable=writable)
        size = self.datatype.size
        self.bounds = [(displ * size, (displ + count) * size)
                       for displ, count in zip(displs, counts, strict=True)]

    def __getitem__(self, rank):
        begin, end = self.bounds[rank]
        return self.whole[begin:end]


def _copy(target, source, what):
    if target.nbytes != source.nbytes:
        raise CountError(f"{what}: a rank sends {source.nbytes} bytes to itself and receives "
                         f"{target.nbytes}; both must be as long")
    target[:] = source


def gather(comm, sendbuf, recvbuf, root, even, what):
    """Blocks of all members, side by side on `root`."""
    simple.check_root(comm, root)
    inside = comm.collective()
    if comm.rank != root:
        inside.Send(parse_views(sendbuf)[0], root, _TAG)
        return
    blocks = _Blocks(recvbuf, comm.size, even, True)
    requests = [inside.Irecv(blocks[rank], rank, _TAG)
                for rank in range(comm.size) if rank != root]
    if sendbuf is not IN_PLACE:
        _copy(blocks[root], parse_views(sendbuf)[0], what)
    Request.Waitall(requests)


def scatter(comm, sendbuf, recvbuf, root, even, what):
    """To each member its block of the message of `root`."""
    simple.check_root(comm, root)
    inside = comm.collective()
    if comm.rank != root:
        inside.Recv(parse_views(recvbuf, writable=True)[0], root, _TAG)
        return
    blocks = _Blocks(sendbuf, comm.size, even, False)
    requests = [inside.Isend(blocks[rank], rank, _TAG)
                for rank in range(comm.size) if rank != root]
    if recvbuf is not IN_PLACE:
        _copy(parse_views(recvbuf, writable=True)[0], blocks[root], what)
    Request.Waitall(requests)


def allgather(comm, sendbuf, recvbuf, even, what):
    """Blocks of all members, side by side on every member."""
    inside = comm.collective()
    blocks = _Blocks(recvbuf, comm.size, even, True)
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    requests = [inside.Irecv(blocks[rank], rank, _TAG) for rank in others]
    mine = blocks[comm.rank]
    if sendbuf is not IN_PLACE:
        mine = parse_views(sendbuf)[0]
        _copy(blocks[comm.rank], mine, what)
    requests += [inside.Isend(mine, rank, _TAG) for rank in others]
    Request.Waitall(requests)


def alltoall(comm, sendbuf, recvbuf, even, what):
    """From each member the block that it has for this one."""
    inside = comm.collective()
    into = _Blocks(recvbuf, comm.size, even, True)
    if sendbuf is IN_PLACE:
        sources = [bytes(into[rank]) for rank in range(comm.size)]
    else:
        sources = _Blocks(sendbuf, comm.size, even, False)
    others = [(comm.rank + step) % comm.size for step in range(1, comm.size)]
    requests = [inside.Irecv(into[rank], rank, _TAG) for rank in reversed(others)]
    requests += [inside.Isend(sources[rank], rank, _TAG) for rank in others]
    if sendbuf is not IN_PLACE:
        _copy(into[comm.rank], sources[comm.rank], what)
    Request.Waitall(requests)


def reduce_scatter(comm, sendbuf, recvbuf, counts, op, what):
    """The fold of the members' buffers, and to each member its block of it.

    `counts` gives the elements per member; None means as many as `recvbuf` holds.
    """
    own, datatype = parse_views(recvbuf, writable=True)
    op.check(datatype)
    size = datatype.size
    if sendbuf is IN_PLACE:
        mine = own
    else:
        mine, mine_type = parse_views(sendbuf)
    if counts is None:
        counts = [mine.nbytes // size // comm.size] * comm.size
    counts = list(counts)
    if len(counts) != comm.size:
        raise CountError(f"{what} with {len(counts)} counts for {comm.size} ranks; give one each")
    total = sum(counts) * size
    if sendbuf is not IN_PLACE:
        simple.same_elements(mine, mine_type, mine[:total], datatype, what)
    folded = simple.fold_buffers(comm, mine[:total], datatype, op, 0)
    block = own[:counts[comm.rank] * size]
    if block.nbytes != counts[comm.rank] * size:
        raise CountError(f"{what} gives this rank {counts[comm.rank]} elements of "
                         f"{datatype.name}, but the receive buffer holds {own.nbytes} bytes")
    spec = None if folded is None else [folded, (counts, None), datatype]
    scatter(comm, spec, block, 0, False, what)


# --- objects --------------------------------------------------------------------------------


def gather_objects(comm, obj, root):
    """The objects of all members, a list on `root` and None elsewhere."""
    simple.check_root(comm, root)
    inside = comm.collective()
    if comm.rank != root:
        inside.send(obj, root, _TAG)
        return None
    requests = {rank: inside.irecv(None, rank, _TAG) for rank in range(comm.size) if rank != root}
    return [obj if rank == root else requests[rank].wait() for rank in range(comm.size)]


def scatter_objects(comm, objs, root):
    """To each member its object of the sequence of `root`."""
    simple.check_root(comm, root)
    inside = comm.collective()
    if comm.rank != root:
        return inside.recv(None, root, _TAG)
    items = list(objs if objs is not None else ())
    if len(items) != comm.size:
        raise ArgumentError(f"scatter of {len(items)} objects over {comm.size} ranks; give one "
                            "for each")
    Request.waitall([inside.isend(items[rank], rank, _TAG)
                     for rank in range(comm.size) if rank != root])
    return items[root]


def alltoall_objects(comm, objs):
    """From each member the object that it has for this one."""
    inside = comm.collective()
    items = list(objs)
    if len(items) != comm.size:
        raise ArgumentError(f"alltoall of {len(items)} objects over {comm.size} ranks; give one "
                            "for each")
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    receives = {rank: inside.irecv(None, rank, _TAG) for rank in others}
    sends = [inside.isend(items[rank], rank, _TAG) for rank in others]
    found = [items[rank] if rank == comm.rank else receives[rank].wait()
             for rank in range(comm.size)]
    Request.waitall(sends)
    return found
