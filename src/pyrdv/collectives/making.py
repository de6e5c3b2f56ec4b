"""Communicators made from others: what the methods of `Intracomm` do."""

from pyrdv.api.communicator import Comm
from pyrdv.api.constants import (
    COMM_TYPE_HW_GUIDED,
    COMM_TYPE_HW_UNGUIDED,
    COMM_TYPE_RESOURCE_GUIDED,
    COMM_TYPE_SHARED,
    UNDEFINED,
)
from pyrdv.api.groups import members_of
from pyrdv.collectives import blocks, contexts, kinds
from pyrdv.collectives.calls import run
from pyrdv.errors import ArgumentError, CommunicatorError, GroupError

#: The info key that names a kind of hardware, and the one kind that is known.
RESOURCE = "mpi_hw_resource_type"
SHARED_MEMORY = "mpi_shared_memory"
#: COMM_SELF's number, in which groups without a communicator agree.
NO_COMM = 1
_SPLIT_TYPES = (COMM_TYPE_SHARED, COMM_TYPE_HW_GUIDED, COMM_TYPE_HW_UNGUIDED,
                COMM_TYPE_RESOURCE_GUIDED, UNDEFINED)


def duplicate(comm, info):
    """Another communicator of the same members."""
    made = comm.of(comm.engine, comm.members.world_ranks(), contexts.agree(comm),
                   f"{comm.name} duplicate")
    return _noted(made, comm.identity.info if info is None else info)


def _noted(comm, info):
    if info:
        comm.Set_info(info)
    return comm


def split(comm, color_of, key):
    """One communicator for each color; `color_of` raises if this member can give none."""
    pairs = run(_pairs, comm, kinds.SPLIT, color_of, key)
    number = contexts.agree(comm)
    color = pairs[comm.rank][0]
    if color == UNDEFINED:
        contexts.release(comm.engine, number)
        return Comm()
    ranks = sorted((rank for rank, (other, _) in enumerate(pairs) if other == color),
                   key=lambda rank: pairs[rank][1])
    world = comm.members.world_ranks()
    return comm.of(comm.engine, [world[rank] for rank in ranks], number,
                   f"{comm.name} color {color}")


def _pairs(call, color_of, key):
    """``(color, key)`` of all members."""
    color = color_of()
    if color < 0 and color != UNDEFINED:
        raise ArgumentError(f"the color {color} of Split is negative and not UNDEFINED")
    return blocks.allgather_objects(call, (int(color), int(key)))


def split_type(comm, kind, key, info):
    """One communicator for those that share hardware."""
    made = split(comm, lambda: _near(comm, kind, info), key)
    if kind == COMM_TYPE_HW_UNGUIDED:
        if made.size == comm.size:
            made.Free()
            return Comm()
        if info:
            info.Set(RESOURCE, SHARED_MEMORY)
    return made


def _near(comm, kind, info):
    """The color of Split_type."""
    if kind not in _SPLIT_TYPES:
        raise ArgumentError(f"split type {kind} is none of the COMM_TYPE_ constants")
    guided = kind in (COMM_TYPE_HW_GUIDED, COMM_TYPE_RESOURCE_GUIDED)
    if kind == UNDEFINED or guided and (not info or info.Get(RESOURCE) != SHARED_MEMORY):
        return UNDEFINED
    return min(comm.engine.neighbours or [comm.engine.rank])


def of_group(comm, group):
    """That of `group`; all members of `comm` call it."""
    number = contexts.agree(comm, lambda: _check_group(comm, group))
    if group.own not in group.members:
        contexts.release(comm.engine, number)
        return Comm()
    return comm.of(group.engine, group.members, number, f"{comm.name} group")


def by_group(comm, group, tag):
    """That of `group`; only its members call it."""
    _check_group(comm, group)
    if group.own not in group.members:
        return Comm()
    return comm.of(group.engine, group.members, _agree(group, comm.context_number, tag),
                   f"{comm.name} group")


def from_group(kind, group, name, tag, info):
    """A `kind` of communicator of `group`, without one that holds all its members."""
    if group.own not in members_of(group):
        raise GroupError("Create_from_group is called by the members of the group; this "
                         "process is none")
    return _noted(kind.of(group.engine, group.members, _agree(group, NO_COMM, tag), name), info)


def _agree(group, number, tag):
    """The number that the members of `group` agree on, by messages in number `number`."""
    view = Comm.of(group.engine, group.members, number, "a new communicator",
                   borrowed=True).gathering()
    return contexts.agree_among(view, tag)


def _check_group(comm, group):
    comm.collective()
    mine = set(comm.members.world_ranks())
    strange = [rank for rank in members_of(group) if rank not in mine]
    if strange:
        raise GroupError(f"the group holds {len(strange)} processes that are no members of "
                         f"{comm.name}, such as world rank {strange[0]}")


def free(comm):
    """Give `comm` up."""
    number = comm.context_number
    if number <= NO_COMM:
        comm.collective()
        raise CommunicatorError(
            f"{comm.name} cannot be freed: it is there until Finalize(); Free() is for what "
            "Dup, Split or Create made")
    contexts.leave(comm)
    comm.mark_freed()
    contexts.release(comm.engine, number)
