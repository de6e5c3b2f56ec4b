"""Communicators with collective operations."""

from pyrdv.api.ops import SUM
from pyrdv.collectives import blocks, making, simple
from pyrdv.collectives.turns import in_turn


class Intracomm(making.MakingComm):
    """A communicator whose members can act together.

    Every collective call must be made by all members, in the same order.
    Buffers are given as in `Send`; the calls whose names end with ``v`` take
    counts and displacements per member.
    """

    __slots__ = ()

    def Barrier(self):
        """Wait until all members have called it."""
        simple.barrier(self)

    def Bcast(self, buf, root=0):
        """Copy `buf` of `root` into `buf` of all members.

        Parameters
        ----------
        buf : buffer specification
            The same number of bytes on all members.
        root : int

        Raises
        ------
        RootError
        TruncationError
            The root sent more bytes than `buf` holds.
        """
        simple.bcast_buffer(self, buf, root)

    def Gather(self, sendbuf, recvbuf, root=0):
        """Put `sendbuf` of all members side by side into `recvbuf` of `root`."""
        blocks.gather(self, sendbuf, recvbuf, root, True, "Gather")

    def Gatherv(self, sendbuf, recvbuf, root=0):
        """`Gather` with a count and displacement per member."""
        blocks.gather(self, sendbuf, recvbuf, root, False, "Gatherv")

    def Scatter(self, sendbuf, recvbuf, root=0):
        """Cut `sendbuf` of `root` into one block for `recvbuf` of each member."""
        blocks.scatter(self, sendbuf, recvbuf, root, True, "Scatter")

    def Scatterv(self, sendbuf, recvbuf, root=0):
        """`Scatter` with a count and displacement per member."""
        blocks.scatter(self, sendbuf, recvbuf, root, False, "Scatterv")

    def Allgather(self, sendbuf, recvbuf):
        """`Gather` whose result all members get."""
        blocks.allgather(self, sendbuf, recvbuf, True, "Allgather")

    def Allgatherv(self, sendbuf, recvbuf):
        """`Gatherv` whose result all members get."""
        blocks.allgather(self, sendbuf, recvbuf, False, "Allgatherv")

    def Alltoall(self, sendbuf, recvbuf):
        """Send one block of `sendbuf` to each member, and receive one from each."""
        blocks.alltoall(self, sendbuf, recvbuf, True, "Alltoall")

    def Alltoallv(self, sendbuf, recvbuf):
        """`Alltoall` with a count and displacement per member."""
        blocks.alltoall(self, sendbuf, recvbuf, False, "Alltoallv")

    def Reduce(self, sendbuf, recvbuf, op=SUM, root=0):
        """`Allreduce` whose result only `root` gets."""
        simple.reduce_buffer(self, sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf, recvbuf, op=SUM):
        """Combine `sendbuf` of all members element by element into `recvbuf`.

        Parameters
        ----------
        sendbuf : buffer specification or IN_PLACE
            `IN_PLACE` takes the values in `recvbuf`.
        recvbuf : buffer specification
            As many elements of the same type.
        op : Op

        Notes
        -----
        Values are combined in rank order on rank 0, so all members get the
        same bits.
        """
        simple.allreduce_buffer(self, sendbuf, recvbuf, op)

    def Reduce_scatter_block(self, sendbuf, recvbuf, op=SUM):
        """Combine `sendbuf` of all members; each gets an even block of the result."""
        blocks.reduce_scatter(self, sendbuf, recvbuf, None, op, "Reduce_scatter_block")

    def Reduce_scatter(self, sendbuf, recvbuf, recvcounts=None, op=SUM):
        """Combine `sendbuf` of all members; member i gets a block of ``recvcounts[i]`` elements."""
        blocks.reduce_scatter(self, sendbuf, recvbuf, recvcounts, op, "Reduce_scatter")

    def Scan(self, sendbuf, recvbuf, op=SUM):
        """Combine `sendbuf` of the members up to this one into `recvbuf`."""
        simple.scan_buffer(self, sendbuf, recvbuf, op, True)

    def Exscan(self, sendbuf, recvbuf, op=SUM):
        """Combine `sendbuf` of the members before this one; rank 0 gets nothing."""
        simple.scan_buffer(self, sendbuf, recvbuf, op, False)

    # --- objects

    @in_turn
    def barrier(self):
        """Wait until all members have called it."""
        simple.barrier(self)

    @in_turn
    def bcast(self, obj, root=0):
        """Return `obj` of `root` on all members; it is pickled once."""
        return simple.bcast_object(self, obj, root)

    @in_turn
    def gather(self, sendobj, root=0):
        """Return the list of `sendobj` of all members on `root`, None elsewhere."""
        return blocks.gather_objects(self, sendobj, root)

    @in_turn
    def scatter(self, sendobj, root=0):
        """Return this member's item of the sequence `sendobj` of `root`."""
        return blocks.scatter_objects(self, sendobj, root)

    @in_turn
    def allgather(self, sendobj):
        """Return the list of `sendobj` of all members."""
        return simple.bcast_object(self, blocks.gather_objects(self, sendobj, 0), 0)

    @in_turn
    def alltoall(self, sendobj):
        """Return the list of what each member has for this one in its sequence `sendobj`."""
        return blocks.alltoall_objects(self, sendobj)

    @in_turn
    def reduce(self, sendobj, op=SUM, root=0):
        """Return ``op`` over `sendobj` of all members, in rank order, on `root`."""
        return simple.reduce_object(self, sendobj, op, root)

    @in_turn
    def allreduce(self, sendobj, op=SUM):
        """Return ``op`` over `sendobj` of all members, in rank order."""
        return simple.allreduce_object(self, sendobj, op)

    @in_turn
    def scan(self, sendobj, op=SUM):
        """Return ``op`` over `sendobj` of the members up to this one."""
        return simple.scan_object(self, sendobj, op, True)

    @in_turn
    def exscan(self, sendobj, op=SUM):
        """Return ``op`` over `sendobj` of the members before this one; None on rank 0."""
        return simple.scan_object(self, sendobj, op, False)
