"""The arguments of collective calls, read in full before anything is sent.

As in mpi4py, None does for `IN_PLACE` where that may stand, and is right for whatever is not looked
at: the receive buffer of ranks that are not the root of a gather or reduction, the send buffer of
those that are not the root of a scatter.
"""

import operator

import numpy as np

from pyrdv.api.buffers import IN_PLACE, parse_views
from pyrdv.api.ops import Op
from pyrdv.api.vectors import parse_blocks
from pyrdv.errors import ArgumentError, CountError, DatatypeMismatchError, RootError


def check_root(call, root):
    """Refuse a root that is no member."""
    if not 0 <= operator.index(root) < call.size:
        raise RootError(f"root {root} is not in {call.view.name}, which has ranks "
                        f"0..{call.size - 1}", rank=root)


def in_place(buf):
    """Whether a buffer that may be `IN_PLACE` is."""
    return buf is None or buf is IN_PLACE


class Blocks:
    """One block per member of a message; ``blocks[rank]`` is a view of its bytes.

    `even`: all are as long, one after the other, and a count is that of one block.
    """

    __slots__ = ("whole", "bounds", "datatype", "address")

    def __init__(self, spec, count, even, writable):
        self.whole, self.bounds, self.datatype, self.address = parse_blocks(
            spec, count, even=even, writable=writable)

    def __getitem__(self, rank):
        begin, end = self.bounds[rank]
        return self.whole[begin:end]

    def run(self, first, end):
        """The even blocks of ranks ``first .. end - 1`` as one view."""
        return self.whole[self.bounds[first][0]:self.bounds[end - 1][1]]

    def all(self):
        """Even blocks as one view."""
        return self.run(0, len(self.bounds))

    def total(self):
        """Bytes of all blocks."""
        return sum(end - begin for begin, end in self.bounds)

    def meets(self, other):
        """Whether two buffers have memory in common."""
        return (self.address < other.address + other.whole.nbytes
                and other.address < self.address + self.whole.nbytes)


def block(spec):
    """`Blocks` of one, to be sent."""
    return Blocks(spec, 1, True, False)


def same_length(target, source, what):
    """Refuse the block that a rank has for itself if it is longer or shorter than its place."""
    if target.nbytes != source.nbytes:
        raise CountError(f"{what}: a rank sends {source.nbytes} bytes to itself and receives "
                         f"{target.nbytes}; both must be as long")


def own_block(into, sendbuf, call):
    """What this member sends to itself, apart from the memory it receives into; None: in place."""
    if in_place(sendbuf):
        return None
    mine = block(sendbuf)
    same_length(into[call.rank], mine.all(), call.name)
    return call.private(mine.all()) if mine.meets(into) else mine.all()


def exchanged(sendbuf, recvbuf, call, even):
    """``(blocks to send, Blocks to receive into)``, one per member and apart in memory."""
    into = Blocks(recvbuf, call.size, even, True)
    sources = into
    if not in_place(sendbuf):
        sources = Blocks(sendbuf, call.size, even, False)
        same_length(into[call.rank], sources[call.rank], call.name)
    if sources.meets(into):
        sources = [call.private(sources[rank]) for rank in range(call.size)]
    return sources, into


def check_op(op, datatype=None):
    """Refuse what is no operation, or an operation that is not defined for `datatype`.

    A reduction of objects, which has no datatype, also takes any function of two objects.
    """
    if isinstance(op, Op):
        if datatype is not None:
            op.check(datatype)
    elif datatype is not None or not callable(op):
        raise TypeError(f"a reduction needs an operation such as MPI.SUM, not {type(op).__name__}")


def operands(sendbuf, recvbuf, op, what):
    """``(bytes to send, bytes to receive into, datatype)`` of a reduction on every member."""
    result, datatype = parse_views(recvbuf, writable=True)
    check_op(op, datatype)
    if in_place(sendbuf):
        return result, result, datatype
    mine, mine_type = parse_views(sendbuf)
    same_elements(mine, mine_type, result, datatype, what)
    return mine, result, datatype


def apart(mine, result, plan):
    """`mine` as memory that may be read while `result` is written; `result` if it is the same."""
    if mine is result or mine.nbytes == 0:
        return mine
    here, there = (np.frombuffer(view, np.uint8).ctypes.data for view in (mine, result))
    if here == there:
        return result
    return plan.private(mine) if abs(here - there) < mine.nbytes else mine


def contribution(sendbuf, op):
    """``(bytes to send, datatype)`` of a reduction on a member that gets no result."""
    mine, datatype = parse_views(sendbuf)
    check_op(op, datatype)
    return mine, datatype


def same_elements(mine, mine_type, result, datatype, what):
    """Refuse two operands that differ in type or size."""
    if mine_type != datatype:
        raise DatatypeMismatchError(
            f"{what} from {mine_type.name} into {datatype.name}: both buffers must have one "
            "datatype; name it, as in [buffer, MPI.DOUBLE]")
    if mine.nbytes != result.nbytes:
        raise CountError(
            f"{what} from {mine.nbytes} bytes into {result.nbytes} bytes of {datatype.name}: "
            "both buffers must hold the same number of elements")


class Shares:
    """The operands of a reduction whose result is scattered.

    Attributes
    ----------
    mine : memoryview
        What this member contributes.
    own : memoryview
        Its receive buffer.
    counts : list of int or None
        Elements of each member's share; None if it is what each one's receive buffer holds.
    datatype : Datatype
    what : str
        The name of the call.
    """

    __slots__ = ("mine", "own", "in_place", "counts", "datatype", "what")

    def __init__(self, sendbuf, recvbuf, op, what):
        self.what = what
        self.counts = None
        self.in_place = in_place(sendbuf)
        self.own, self.datatype = parse_views(recvbuf, writable=True)
        check_op(op, self.datatype)
        self.mine = self.own
        if not self.in_place:
            self.mine, mine_type = parse_views(sendbuf)
            if mine_type != self.datatype:
                raise DatatypeMismatchError(
                    f"{what} from {mine_type.name} into {self.datatype.name}: both buffers must "
                    "have one datatype; name it, as in [buffer, MPI.DOUBLE]")

    @classmethod
    def even(cls, sendbuf, recvbuf, op, size, what):
        """Those of Reduce_scatter_block, where a count is that of one share."""
        made = cls.__new__(cls)
        made.what, made.in_place = what, in_place(sendbuf)
        if made.in_place:
            blocks = Blocks(recvbuf, size, True, True)
            made.own = blocks.all()
        else:
            blocks = Blocks(sendbuf, size, True, False)
            made.own, datatype = parse_views(recvbuf, writable=True)
            same_elements(blocks[0], blocks.datatype, made.own, datatype, what)
        made.mine, made.datatype = blocks.all(), blocks.datatype
        check_op(op, made.datatype)
        made.counts = [len(blocks[0]) // made.datatype.size] * size
        return made

    def give(self, counts, rank):
        """Note each member's share, and refuse what does not fit."""
        self.counts = counts
        size, total = self.datatype.size, sum(counts)
        if self.mine.nbytes != total * size:
            raise CountError(
                f"{self.what} of {self.mine.nbytes // size} elements of {self.datatype.name}, but "
                f"the shares are {total} together ({_shown(counts)})")
        if not self.in_place and self.own.nbytes != counts[rank] * size:
            raise CountError(
                f"{self.what} gives rank {rank} {counts[rank]} elements of {self.datatype.name}, "
                f"but its receive buffer holds {self.own.nbytes // size}")


def _shown(counts):
    return ", ".join(map(str, counts[:8])) + (", …" if len(counts) > 8 else "")


def shares_given(recvcounts, size, what):
    """`recvcounts` of Reduce_scatter as a list of int; None if not given."""
    if recvcounts is None:
        return None
    counts = [int(count) for count in recvcounts]
    if len(counts) != size:
        raise CountError(f"{what} with {len(counts)} counts for {size} ranks; give one each")
    if min(counts) < 0:
        raise CountError(f"{what} with the count {min(counts)}; none can be negative")
    return counts


def share_told(sendbuf, recvbuf):
    """Elements of the receive buffer of Reduce_scatter; 0 if it cannot be used, which its owner
    learns when it is.
    """
    if in_place(sendbuf):
        return None
    try:
        view, datatype = parse_views(recvbuf, writable=True)
    except Exception:
        return 0
    return view.nbytes // datatype.size


def items_for_all(objs, size, what):
    """The objects for all members; None for each if there are none."""
    items = [None] * size if objs is None else list(objs)
    if len(items) != size:
        raise ArgumentError(f"{what} of {len(items)} objects over {size} ranks; give one for each")
    return items
