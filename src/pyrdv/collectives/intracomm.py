"""Communicators with collective operations."""

from zlib import crc32

from pyrdv.api.communicator import Comm
from pyrdv.api.constants import TAG_UB
from pyrdv.api.descriptors import own_methods
from pyrdv.api.ops import SUM
from pyrdv.api.persistent import completed
from pyrdv.collectives import arguments, blocks, kinds, making, simple
from pyrdv.collectives.calls import run
from pyrdv.collectives.plans import barrier, chosen, reductions
from pyrdv.collectives.plans.starting import carry_out, carry_out_and_ask, confirmed, prepare, start
from pyrdv.collectives.turns import in_turn

#: Builders of calls that block, and end on all members or on none.
(_GATHER, _SCATTER, _ALLGATHER, _ALLTOALL, _REDUCE, _PREFIX, _SHARES, _SHARES_BLOCK) = map(
    confirmed, (chosen.gather, chosen.scatter, chosen.allgather, chosen.alltoall,
                reductions.binomial, reductions.prefix, chosen.reduce_scatter,
                chosen.reduce_scatter_block))


@own_methods
class Intracomm(Comm):
    """A communicator whose members can act together.

    Every collective call must be made by all members, in the same order; so must what makes a
    communicator, but for `Create_group` and `Create_from_group`.
    Buffers are given as in `Send`; where one block per member is moved, a count
    is that of one block.  The calls whose names end with ``v`` take counts and
    displacements per member.  What a call returns never shares memory with its
    arguments.

    If a call fails on one rank, that rank raises its own error and the others
    `CollectiveError`, or `PeerLostError` if a member is gone.
    """

    __slots__ = ()

    def Barrier(self):
        """Wait until all members have called it."""
        run(simple.barrier, self, kinds.BARRIER)

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
        TruncationError, CountError
            The root sent more or fewer bytes than `buf` holds.
        """
        carry_out_and_ask(chosen.bcast, self, kinds.BCAST, buf, root)

    def Gather(self, sendbuf, recvbuf, root=0):
        """Put `sendbuf` of all members side by side into `recvbuf` of `root`."""
        carry_out(_GATHER, self, kinds.GATHER, sendbuf, recvbuf, root, True)

    def Gatherv(self, sendbuf, recvbuf, root=0):
        """`Gather` with a count and displacement per member."""
        carry_out(_GATHER, self, kinds.GATHER, sendbuf, recvbuf, root, False)

    def Scatter(self, sendbuf, recvbuf, root=0):
        """Cut `sendbuf` of `root` into one block for `recvbuf` of each member."""
        carry_out(_SCATTER, self, kinds.SCATTER, sendbuf, recvbuf, root, True)

    def Scatterv(self, sendbuf, recvbuf, root=0):
        """`Scatter` with a count and displacement per member."""
        carry_out(_SCATTER, self, kinds.SCATTER, sendbuf, recvbuf, root, False)

    def Allgather(self, sendbuf, recvbuf):
        """`Gather` whose result all members get."""
        carry_out(_ALLGATHER, self, kinds.ALLGATHER, sendbuf, recvbuf, True)

    def Allgatherv(self, sendbuf, recvbuf):
        """`Gatherv` whose result all members get."""
        carry_out(_ALLGATHER, self, kinds.ALLGATHER, sendbuf, recvbuf, False)

    def Alltoall(self, sendbuf, recvbuf):
        """Send one block of `sendbuf` to each member, and receive one from each."""
        carry_out(_ALLTOALL, self, kinds.ALLTOALL, sendbuf, recvbuf, True)

    def Alltoallv(self, sendbuf, recvbuf):
        """`Alltoall` with a count and displacement per member."""
        carry_out(_ALLTOALL, self, kinds.ALLTOALL, sendbuf, recvbuf, False)

    def Reduce(self, sendbuf, recvbuf, op=SUM, root=0):
        """`Allreduce` whose result only `root` gets."""
        carry_out(_REDUCE, self, kinds.REDUCE, sendbuf, recvbuf, op, root)

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
        Values are combined in rank order, in pairs: all members get the same
        bits, and the same in each run.
        """
        carry_out(chosen.allreduce, self, kinds.ALLREDUCE, sendbuf, recvbuf, op)

    def Reduce_scatter_block(self, sendbuf, recvbuf, op=SUM):
        """Combine `sendbuf` of all members; each gets an even block of the result."""
        carry_out(_SHARES_BLOCK, self, kinds.REDUCE_SCATTER, sendbuf, recvbuf, op)

    def Reduce_scatter(self, sendbuf, recvbuf, recvcounts=None, op=SUM):
        """Combine `sendbuf` of all members; member i gets a block of ``recvcounts[i]`` elements."""
        recvcounts = self._told_shares(sendbuf, recvbuf, recvcounts)
        carry_out(_SHARES, self, kinds.REDUCE_SCATTER, sendbuf, recvbuf, recvcounts, op)

    def Scan(self, sendbuf, recvbuf, op=SUM):
        """Combine `sendbuf` of the members up to this one into `recvbuf`."""
        carry_out(_PREFIX, self, kinds.SCAN, sendbuf, recvbuf, op, True)

    def Exscan(self, sendbuf, recvbuf, op=SUM):
        """Combine `sendbuf` of the members before this one; rank 0 gets nothing."""
        carry_out(_PREFIX, self, kinds.EXSCAN, sendbuf, recvbuf, op, False)

    # --- without blocking: plans/

    def Ibarrier(self):
        """Start a `Barrier`.

        Returns
        -------
        Request
            Complete when all members have made the call.

        Notes
        -----
        This holds for all calls with ``I``.  Members make them in the order of their other
        collective calls; any number may be under way, and complete in any order.  Buffers must not
        be changed, nor read if they are received into, until the request is complete.

        What goes wrong is raised by `Request.Wait` and `Request.Test`; that a member is gone on
        each other one, anything else only where it happened.  A member that refuses its arguments
        leaves the others waiting.  The request cannot be cancelled.
        """
        return start(barrier.dissemination, self, kinds.IBARRIER)

    def Ibcast(self, buf, root=0):
        """Start a `Bcast`; see `Ibarrier`."""
        return start(chosen.bcast, self, kinds.IBCAST, buf, root)

    def Igather(self, sendbuf, recvbuf, root=0):
        """Start a `Gather`; see `Ibarrier`."""
        return start(chosen.gather, self, kinds.IGATHER, sendbuf, recvbuf, root, True)

    def Igatherv(self, sendbuf, recvbuf, root=0):
        """Start a `Gatherv`; see `Ibarrier`."""
        return start(chosen.gather, self, kinds.IGATHER, sendbuf, recvbuf, root, False)

    def Iscatter(self, sendbuf, recvbuf, root=0):
        """Start a `Scatter`; see `Ibarrier`."""
        return start(chosen.scatter, self, kinds.ISCATTER, sendbuf, recvbuf, root, True)

    def Iscatterv(self, sendbuf, recvbuf, root=0):
        """Start a `Scatterv`; see `Ibarrier`."""
        return start(chosen.scatter, self, kinds.ISCATTER, sendbuf, recvbuf, root, False)

    def Iallgather(self, sendbuf, recvbuf):
        """Start an `Allgather`; see `Ibarrier`."""
        return start(chosen.allgather, self, kinds.IALLGATHER, sendbuf, recvbuf, True)

    def Iallgatherv(self, sendbuf, recvbuf):
        """Start an `Allgatherv`; see `Ibarrier`."""
        return start(chosen.allgather, self, kinds.IALLGATHER, sendbuf, recvbuf, False)

    def Ialltoall(self, sendbuf, recvbuf):
        """Start an `Alltoall`; see `Ibarrier`."""
        return start(chosen.alltoall, self, kinds.IALLTOALL, sendbuf, recvbuf, True)

    def Ialltoallv(self, sendbuf, recvbuf):
        """Start an `Alltoallv`; see `Ibarrier`."""
        return start(chosen.alltoall, self, kinds.IALLTOALL, sendbuf, recvbuf, False)

    def Ireduce(self, sendbuf, recvbuf, op=SUM, root=0):
        """Start a `Reduce`; see `Ibarrier` and `Iallreduce`."""
        return start(reductions.binomial, self, kinds.IREDUCE, sendbuf, recvbuf, op, root)

    def Iallreduce(self, sendbuf, recvbuf, op=SUM):
        """Start an `Allreduce`; see `Ibarrier`.

        Notes
        -----
        Values are combined in rank order, but not from one end to the other.  All members get the
        same bits.  The predefined operations on booleans, integers of 8 to 64 bits, floats of 32
        and 64 bits and complex numbers of those need no Python; others are computed by the next
        call of this process that waits or looks at a request.
        """
        return start(chosen.allreduce, self, kinds.IALLREDUCE, sendbuf, recvbuf, op)

    def Ireduce_scatter_block(self, sendbuf, recvbuf, op=SUM):
        """Start a `Reduce_scatter_block`; see `Ibarrier` and `Iallreduce`."""
        return start(chosen.reduce_scatter_block, self, kinds.IREDUCE_SCATTER, sendbuf, recvbuf, op)

    def Ireduce_scatter(self, sendbuf, recvbuf, recvcounts=None, op=SUM):
        """Start a `Reduce_scatter`; see `Ibarrier` and `Iallreduce`.

        Notes
        -----
        Without `recvcounts` the members first tell each other how much their receive buffers hold,
        and that waits for all of them, as in mpi4py.
        """
        recvcounts = self._told_shares(sendbuf, recvbuf, recvcounts)
        return start(chosen.reduce_scatter, self, kinds.IREDUCE_SCATTER, sendbuf, recvbuf,
                     recvcounts, op)

    def _told_shares(self, sendbuf, recvbuf, recvcounts):
        if recvcounts is not None:
            return recvcounts
        told = self.allgather(arguments.share_told(sendbuf, recvbuf))
        return None if None in told else told

    def Iscan(self, sendbuf, recvbuf, op=SUM):
        """Start a `Scan`; see `Ibarrier` and `Iallreduce`."""
        return start(reductions.prefix, self, kinds.ISCAN, sendbuf, recvbuf, op, True)

    def Iexscan(self, sendbuf, recvbuf, op=SUM):
        """Start an `Exscan`; see `Ibarrier` and `Iallreduce`."""
        return start(reductions.prefix, self, kinds.IEXSCAN, sendbuf, recvbuf, op, False)

    # --- made once, started often: plans/

    def Barrier_init(self, info=None):
        """A persistent `Barrier`.

        Returns
        -------
        Prequest

        Notes
        -----
        This holds for all calls with ``_init``.  Members make them in the order of their other
        collective calls, and start each as often; starts of several may be in any order, each once
        the one before is complete.  The rounds are made once, and buffers are held until the
        request is freed or dropped.  `info` is not looked at.
        """
        return prepare(barrier.dissemination, self, kinds.IBARRIER)

    def Bcast_init(self, buf, root=0, info=None):
        """A persistent `Bcast`; see `Barrier_init`."""
        return prepare(chosen.bcast, self, kinds.IBCAST, buf, root)

    def Gather_init(self, sendbuf, recvbuf, root=0, info=None):
        """A persistent `Gather`; see `Barrier_init`."""
        return prepare(chosen.gather, self, kinds.IGATHER, sendbuf, recvbuf, root, True)

    def Gatherv_init(self, sendbuf, recvbuf, root=0, info=None):
        """A persistent `Gatherv`; see `Barrier_init`."""
        return prepare(chosen.gather, self, kinds.IGATHER, sendbuf, recvbuf, root, False)

    def Scatter_init(self, sendbuf, recvbuf, root=0, info=None):
        """A persistent `Scatter`; see `Barrier_init`."""
        return prepare(chosen.scatter, self, kinds.ISCATTER, sendbuf, recvbuf, root, True)

    def Scatterv_init(self, sendbuf, recvbuf, root=0, info=None):
        """A persistent `Scatterv`; see `Barrier_init`."""
        return prepare(chosen.scatter, self, kinds.ISCATTER, sendbuf, recvbuf, root, False)

    def Allgather_init(self, sendbuf, recvbuf, info=None):
        """A persistent `Allgather`; see `Barrier_init`."""
        return prepare(chosen.allgather, self, kinds.IALLGATHER, sendbuf, recvbuf, True)

    def Allgatherv_init(self, sendbuf, recvbuf, info=None):
        """A persistent `Allgatherv`; see `Barrier_init`."""
        return prepare(chosen.allgather, self, kinds.IALLGATHER, sendbuf, recvbuf, False)

    def Alltoall_init(self, sendbuf, recvbuf, info=None):
        """A persistent `Alltoall`; see `Barrier_init`."""
        return prepare(chosen.alltoall, self, kinds.IALLTOALL, sendbuf, recvbuf, True)

    def Alltoallv_init(self, sendbuf, recvbuf, info=None):
        """A persistent `Alltoallv`; see `Barrier_init`."""
        return prepare(chosen.alltoall, self, kinds.IALLTOALL, sendbuf, recvbuf, False)

    def Reduce_init(self, sendbuf, recvbuf, op=SUM, root=0, info=None):
        """A persistent `Reduce`; see `Barrier_init`."""
        return prepare(reductions.binomial, self, kinds.IREDUCE, sendbuf, recvbuf, op, root)

    def Allreduce_init(self, sendbuf, recvbuf, op=SUM, info=None):
        """A persistent `Allreduce`; see `Barrier_init`."""
        return prepare(chosen.allreduce, self, kinds.IALLREDUCE, sendbuf, recvbuf, op)

    def Reduce_scatter_block_init(self, sendbuf, recvbuf, op=SUM, info=None):
        """A persistent `Reduce_scatter_block`; see `Barrier_init`."""
        return prepare(chosen.reduce_scatter_block, self, kinds.IREDUCE_SCATTER, sendbuf, recvbuf,
                       op)

    def Reduce_scatter_init(self, sendbuf, recvbuf, recvcounts=None, op=SUM, info=None):
        """A persistent `Reduce_scatter`; see `Barrier_init` and `Ireduce_scatter`."""
        recvcounts = self._told_shares(sendbuf, recvbuf, recvcounts)
        return prepare(chosen.reduce_scatter, self, kinds.IREDUCE_SCATTER, sendbuf, recvbuf,
                     recvcounts, op)

    def Scan_init(self, sendbuf, recvbuf, op=SUM, info=None):
        """A persistent `Scan`; see `Barrier_init`."""
        return prepare(reductions.prefix, self, kinds.ISCAN, sendbuf, recvbuf, op, True)

    def Exscan_init(self, sendbuf, recvbuf, op=SUM, info=None):
        """A persistent `Exscan`; see `Barrier_init`."""
        return prepare(reductions.prefix, self, kinds.IEXSCAN, sendbuf, recvbuf, op, False)

    # --- objects

    @in_turn
    def barrier(self):
        """Wait until all members have called it."""
        run(simple.barrier, self, kinds.BARRIER)

    @in_turn
    def bcast(self, obj, root=0):
        """Return `obj` of `root` on all members; it is pickled once."""
        return run(simple.bcast_object, self, kinds.BCAST_OBJECT, obj, root)

    @in_turn
    def gather(self, sendobj, root=0):
        """Return the list of `sendobj` of all members on `root`, None elsewhere."""
        return run(blocks.gather_objects, self, kinds.GATHER_OBJECTS, sendobj, root)

    @in_turn
    def scatter(self, sendobj, root=0):
        """Return this member's item of the sequence `sendobj` of `root`; None if that is None."""
        return run(blocks.scatter_objects, self, kinds.SCATTER_OBJECTS, sendobj, root)

    @in_turn
    def allgather(self, sendobj):
        """Return the list of `sendobj` of all members."""
        return run(blocks.allgather_objects, self, kinds.ALLGATHER_OBJECTS, sendobj)

    @in_turn
    def alltoall(self, sendobj):
        """Return the list of what each member has for this one in its sequence `sendobj`."""
        return run(blocks.alltoall_objects, self, kinds.ALLTOALL_OBJECTS, sendobj)

    @in_turn
    def reduce(self, sendobj, op=SUM, root=0):
        """Return ``op`` over `sendobj` of all members, in rank order, on `root`."""
        return run(simple.reduce_object, self, kinds.REDUCE_OBJECTS, sendobj, op, root)

    @in_turn
    def allreduce(self, sendobj, op=SUM):
        """Return ``op`` over `sendobj` of all members, in rank order."""
        return run(simple.allreduce_object, self, kinds.ALLREDUCE_OBJECTS, sendobj, op)

    @in_turn
    def scan(self, sendobj, op=SUM):
        """Return ``op`` over `sendobj` of the members up to this one."""
        return run(simple.scan_object, self, kinds.SCAN_OBJECTS, sendobj, op, True)

    @in_turn
    def exscan(self, sendobj, op=SUM):
        """Return ``op`` over `sendobj` of the members before this one; None on rank 0."""
        return run(simple.scan_object, self, kinds.EXSCAN_OBJECTS, sendobj, op, False)

    # --- other communicators: making.py

    def Dup(self, info=None):
        """A communicator of the same members with a message space of its own.

        Parameters
        ----------
        info : Info, optional
            Hints to note instead of this communicator's.
        """
        return making.duplicate(self, info)

    Clone = Dup

    def Dup_with_info(self, info):
        """`Dup` with these hints."""
        return self.Dup(info)

    def Idup(self, info=None):
        """`Dup` as ``(communicator, request)``; the request is complete already."""
        return self.Dup(info), completed(self)

    def Idup_with_info(self, info):
        """`Idup` with these hints."""
        return self.Idup(info)

    def Split(self, color=0, key=0):
        """One communicator for each `color`, its ranks in the order of `key`.

        Parameters
        ----------
        color : int
            Who gives the same color comes together; `UNDEFINED` stays out.
        key : int
            Of equal keys the lower rank of this communicator comes first.

        Returns
        -------
        Intracomm
            A null handle, equal to ``COMM_NULL``, for `UNDEFINED`.
        """
        return making.split(self, lambda: color, key)

    def Split_type(self, split_type, key=0, info=None):
        """One communicator for those that share hardware.

        Parameters
        ----------
        split_type : int
            `COMM_TYPE_SHARED`: those that share memory.  `COMM_TYPE_HW_GUIDED` and
            `COMM_TYPE_RESOURCE_GUIDED`: the same if `info` has ``mpi_shared_memory`` under
            ``mpi_hw_resource_type``, else nobody.  `COMM_TYPE_HW_UNGUIDED`: the next smaller part
            of the hardware, and its kind noted in `info`.  `UNDEFINED`: this one stays out.
        key : int
            As for `Split`.
        info : Info, optional

        Returns
        -------
        Intracomm
            A null handle, equal to ``COMM_NULL``, for who stays out.
        """
        return making.split_type(self, split_type, key, info)

    def Create(self, group):
        """A communicator of the members of `group`; all members of this one call it.

        Parameters
        ----------
        group : Group
            Some of the members; different callers may give groups that have nobody in common.

        Returns
        -------
        Intracomm
            A null handle, equal to ``COMM_NULL``, for who is not in the group.
        """
        return making.of_group(self, group)

    def Create_group(self, group, tag=0):
        """`Create` that only the members of `group` call.

        Parameters
        ----------
        group : Group
        tag : int
            Tells calls apart that are made at the same time by groups with common members.
        """
        return making.by_group(self, group, tag)

    @classmethod
    def Create_from_group(cls, group, stringtag="org.pyrdv", info=None, errhandler=None):
        """A communicator of the members of `group`, without one that holds them all.

        Parameters
        ----------
        group : Group
        stringtag : str
            Tells calls apart that are made at the same time by groups with common members.
        info : Info, optional
            Hints to note.
        errhandler : optional
            There for mpi4py's sake: errors are exceptions.
        """
        return making.from_group(cls, group, f"group {stringtag!r}",
                                 crc32(stringtag.encode()) & TAG_UB, info)

    def Free(self):
        """Give the communicator up.  All members call it.

        Raises
        ------
        CommunicatorError
            It is null, was freed, or is ``COMM_WORLD`` or ``COMM_SELF``, which last until
            `Finalize`.
        """
        making.free(self)

    def free(self):
        """`Free`, unless it is null, freed, or made by the library."""
        if self and self.context_number > making.NO_COMM:
            self.Free()
