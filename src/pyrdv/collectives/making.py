"""Communicators made from others."""

from zlib import crc32

from pyrdv.api.communicator import Comm
from pyrdv.api.constants import (
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED,
    TAG_UB,
    UNDEFINED,
)
from pyrdv.api.groups import members_of
from pyrdv.api.persistent import completed
from pyrdv.collectives import blocks, contexts, kinds
from pyrdv.collectives.calls import run
from pyrdv.errors import ArgumentError, CommunicatorError, GroupError

#: The info key that names a kind of hardware, and the one kind that is known.
RESOURCE = "mpi_hw_resource_type"
SHARED_MEMORY = "mpi_shared_memory"
#: COMM_SELF's number, in which groups without a communicator agree.
_NO_COMM = 1
_SPLIT_TYPES = (COMM_TYPE_SHARED, COMM_TYPE_HW_GUIDED, COMM_TYPE_HW_UNGUIDED,
                COMM_TYPE_RESOURCE_GUIDED, UNDEFINED)


def _noted(comm, info):
    if info:
        comm.Set_info(info)
    return comm


def _pairs(call, color_of, key):
    """``(color, key)`` of all members; `color_of` raises if this one can give none."""
    color = color_of()
    if color < 0 and color != UNDEFINED:
        raise ArgumentError(f"the color {color} of Split is negative and not UNDEFINED")
    return blocks.allgather_objects(call, (int(color), int(key)))


class MakingComm(Comm):
    """A communicator that others can be made from.

    Every call but `Create_group` and `Create_from_group` must be made by all members.
    """

    __slots__ = ()

    def ready_for_all(self):
        """Refuse a communicator that cannot be used."""
        self.collective()

    def Dup(self, info=None):
        """A communicator of the same members with a message space of its own.

        Parameters
        ----------
        info : Info, optional
            Hints to note instead of this communicator's.
        """
        made = self.sibling(contexts.agree(self))
        return _noted(made, self.identity.info if info is None else info)

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
        return self._split(lambda: color, key)

    def _split(self, color_of, key):
        pairs = run(_pairs, self, kinds.SPLIT, color_of, key)
        number = contexts.agree(self)
        color = pairs[self.rank][0]
        if color == UNDEFINED:
            contexts.release(self.engine, number)
            return Comm()
        ranks = sorted((rank for rank, (other, _) in enumerate(pairs) if other == color),
                       key=lambda rank: pairs[rank][1])
        return self.among(ranks, number, f"{self.name} color {color}")

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
        made = self._split(lambda: self._near(split_type, info), key)
        if split_type == COMM_TYPE_HW_UNGUIDED:
            if made.size == self.size:
                made.Free()
                return Comm()
            if info:
                info.Set(RESOURCE, SHARED_MEMORY)
        return made

    def _near(self, split_type, info):
        """The color of Split_type."""
        if split_type not in _SPLIT_TYPES:
            raise ArgumentError(f"split type {split_type} is none of the COMM_TYPE_ constants")
        guided = split_type in (COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED)
        if split_type == UNDEFINED or guided and (not info or info.Get(RESOURCE) != SHARED_MEMORY):
            return UNDEFINED
        return min(self.engine.neighbours or [self.engine.rank])

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
        number = contexts.agree(self, lambda: self._check_group(group))
        if group.own not in group.members:
            contexts.release(self.engine, number)
            return Comm()
        return type(self).of_group(group, number, f"{self.name} group")

    def Create_group(self, group, tag=0):
        """`Create` that only the members of `group` call.

        Parameters
        ----------
        group : Group
        tag : int
            Tells calls apart that are made at the same time by groups with common members.
        """
        self._check_group(group)
        if group.own not in group.members:
            return Comm()
        view = Comm.gathering(group, self.context_number)
        return type(self).of_group(group, contexts.agree_among(view, tag), f"{self.name} group")

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
        if group.own not in members_of(group):
            raise GroupError("Create_from_group is called by the members of the group; this "
                             "process is none")
        view = Comm.gathering(group, _NO_COMM)
        number = contexts.agree_among(view, crc32(stringtag.encode()) & TAG_UB)
        return _noted(cls.of_group(group, number, f"group {stringtag!r}"), info)

    def _check_group(self, group):
        self.ready_for_all()
        mine = set(self.members.world_ranks())
        strange = [rank for rank in members_of(group) if rank not in mine]
        if strange:
            raise GroupError(f"the group holds {len(strange)} processes that are no members of "
                             f"{self.name}, such as world rank {strange[0]}")

    def Free(self):
        """Give the communicator up.  All members call it.

        Raises
        ------
        CommunicatorError
            It is null, was freed, or is ``COMM_WORLD`` or ``COMM_SELF``, which last until
            `Finalize`.
        """
        number = self.context_number
        if number <= _NO_COMM:
            self.ready_for_all()
            raise CommunicatorError(
                f"{self.name} cannot be freed: it is there until Finalize(); Free() is for what "
                "Dup, Split or Create made")
        contexts.leave(self)
        self.mark_freed()
        contexts.release(self.engine, number)

    def free(self):
        """`Free`, unless it is null, freed, or made by the library."""
        if self and self.context_number > _NO_COMM:
            self.Free()
