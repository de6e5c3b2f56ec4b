# cython: language_level=3, nonecheck=True
"""Communicators as users see them: point-to-point messages and inquiries.

Collective operations are added by `pyrdv.collectives`.
"""
from libc.stdint cimport uint32_t

from pyrdv.api.core cimport CONTEXT_COLLECTIVE, CONTEXT_GROUP, CommBase
from pyrdv.api.members cimport Members
from pyrdv.api.naming cimport name_missing
from pyrdv.api.object_messages cimport ObjectMessages
from pyrdv.engine.engine cimport Engine

from pyrdv.api.constants import CONGRUENT, IDENT, SIMILAR, TAG_UB, UNDEFINED, UNEQUAL
from pyrdv.api.groups import Group
from pyrdv.api.info import Info

#: Attribute keys of `Comm.Get_attr`.
KEY_TAG_UB = 1


cdef CommBase assemble(kind, Engine engine, Members members, uint32_t context, str label):
    cdef CommBase made = kind.__new__(kind)
    made.become(engine, members, context, label)
    return made


cdef class Comm(ObjectMessages):
    """A group of processes and a private space for their messages.

    Parameters
    ----------
    comm : Comm, optional
        Makes another handle of the same communicator; a null handle when not given.

    Attributes
    ----------
    engine, members, identity
        Of no use to programs.
    """

    @classmethod
    def world(cls, Engine engine not None):
        """The communicator of all ranks of `engine`."""
        members = Members(range(engine.size), engine.rank, engine.size)
        return assemble(cls, engine, members, 0, "MPI_COMM_WORLD")

    @classmethod
    def alone(cls, Engine engine not None):
        """The communicator of `engine`'s own rank only."""
        members = Members([engine.rank], engine.rank, engine.size)
        return assemble(cls, engine, members, 1, "MPI_COMM_SELF")

    def sibling(self, context, label=None):
        """The same members under context number `context`, agreed by all of them."""
        return assemble(type(self), self.engine, self.members, context,
                        label or f"{self.identity.label} duplicate")

    def among(self, ranks, context, label):
        """`ranks` of this communicator, in that order, under number `context` they agreed on."""
        members = Members([self.members.to_world(rank) for rank in ranks], self.engine.rank,
                          self.engine.size)
        return assemble(type(self), self.engine, members, context, label)

    @classmethod
    def of_group(cls, group, context, label):
        """The members of `group` under number `context`, agreed by all of them."""
        members = Members(group.members, group.own, group.engine.size)
        return assemble(cls, group.engine, members, context, label)

    def collective(self):
        """A view of this communicator for the messages of collective operations.

        They travel in a context of their own, so no receive or probe of the
        user, whatever its wildcards, can meet them (field case M07).
        """
        cdef Comm view
        self.ready()
        if self.inside is None:
            view = Comm(self)
            view.context += CONTEXT_COLLECTIVE
            self.inside = view
        return self.inside

    @staticmethod
    def gathering(group, context):
        """A view for the members of `group` to agree among themselves, in number `context`."""
        cdef Comm view = Comm.of_group(group, context, "a new communicator")
        view.context += CONTEXT_GROUP
        return view

    cdef int exists(self) except -1:
        """Inquiries work after Finalize and in forked children, but not on null handles."""
        if self.freed:
            self.refuse()
        return 0

    def Get_rank(self):
        """Rank of this process in the communicator."""
        self.exists()
        return self.members.rank

    def Get_size(self):
        """Number of processes in the communicator."""
        self.exists()
        return self.members.size

    @property
    def rank(self):
        """Rank of this process in the communicator."""
        self.exists()
        return self.members.rank

    @property
    def size(self):
        """Number of processes in the communicator."""
        self.exists()
        return self.members.size

    def Get_group(self):
        """The group of its members; `Free` it when it is not needed."""
        self.exists()
        return Group.of(self.engine, self.members.world_ranks(), self.engine.rank)

    @property
    def group(self):
        """The group of its members."""
        return self.Get_group()

    def Get_name(self):
        """Name of the communicator, as it appears in errors."""
        return self.identity.label

    def Set_name(self, str name not None):
        """Name the communicator."""
        self.exists()
        self.identity.label = name

    @property
    def name(self):
        """Name of the communicator, as it appears in errors."""
        return self.identity.label

    @name.setter
    def name(self, str name not None):
        self.Set_name(name)

    def Get_info(self):
        """A copy of the hints that `Set_info` gave; none has an effect."""
        self.exists()
        return Info.Create(self.identity.info)

    def Set_info(self, info):
        """Note hints; none has an effect.

        Parameters
        ----------
        info : Info
        """
        self.exists()
        noted = self.Get_info()
        noted.update(info)
        self.identity.info = noted

    @property
    def info(self):
        """The hints that were noted."""
        return self.Get_info()

    @info.setter
    def info(self, info):
        self.Set_info(info)

    def Get_topology(self):
        """`UNDEFINED`: there are no topologies."""
        self.exists()
        return UNDEFINED

    @property
    def topology(self):
        """`UNDEFINED`: there are no topologies."""
        return self.Get_topology()

    @property
    def is_topo(self):
        """False: there are no topologies."""
        return False

    def Get_attr(self, int key):
        """Value of a predefined attribute (`TAG_UB`), or None."""
        return TAG_UB if key == KEY_TAG_UB else None

    @staticmethod
    def Get_parent():
        """A null intercommunicator: no process was started by another one."""
        return Intercomm()

    def Is_inter(self):
        """False: there are no intercommunicators."""
        return False

    def Is_intra(self):
        """True."""
        return True

    @property
    def is_inter(self):
        """False: there are no intercommunicators."""
        return False

    @property
    def is_intra(self):
        """True."""
        return True

    def Compare(self, Comm other not None):
        """`IDENT`, `CONGRUENT`, `SIMILAR` or `UNEQUAL`."""
        self.exists()
        other.exists()
        if self.engine is not other.engine:
            return UNEQUAL
        mine, others = self.members.world_ranks(), other.members.world_ranks()
        if mine == others:
            return IDENT if self.context == other.context else CONGRUENT
        return SIMILAR if sorted(mine) == sorted(others) else UNEQUAL

    def __eq__(self, other):
        if not isinstance(other, Comm):
            return NotImplemented
        if self.freed or (<Comm> other).freed:
            return self.freed == (<Comm> other).freed
        return self.identity is (<Comm> other).identity

    def __hash__(self):
        return hash(None if self.freed else self.identity)

    def __bool__(self):
        return not self.freed

    def __repr__(self):
        if self.engine is None:
            return f"<{type(self).__name__}: null>"
        state = "freed" if self.freed else f"rank {self.members.rank} of {self.members.size}"
        return f"<{type(self).__name__} {self.identity.label}: {state}>"

    def Abort(self, int errorcode=1):
        """End all processes of the job; its exit status is `errorcode` (1 for 0)."""
        self.exists()
        if self.engine.abort is None:
            raise SystemExit(errorcode or 1)
        self.engine.abort(errorcode)

    def mark_freed(self):
        """Refuse all further use."""
        self.ready()
        self.free_all()


cdef class Intercomm(Comm):
    """A communicator of two groups.  There is none: only null handles are made."""


name_missing(Comm)
name_missing(Intercomm)
