# cython: language_level=3
"""Communicators as users see them: point-to-point messages and inquiries.

Collective operations are added by `pyrdv.collectives`.
"""
from pyrdv.api.core cimport CONTEXT_COLLECTIVE
from pyrdv.api.group cimport Members
from pyrdv.api.messages cimport ObjectMessages
from pyrdv.engine.engine cimport Engine

from pyrdv.api.constants import CONGRUENT, IDENT, SIMILAR, TAG_UB, UNEQUAL

#: Attribute keys of `Comm.Get_attr`.
KEY_TAG_UB = 1


cdef class Comm(ObjectMessages):
    """A group of processes and a private space for their messages."""

    @classmethod
    def world(cls, Engine engine):
        """The communicator of all ranks of `engine`."""
        return cls(engine, Members(range(engine.size), engine.rank, engine.size), 0, "COMM_WORLD")

    @classmethod
    def alone(cls, Engine engine):
        """The communicator of `engine`'s own rank only."""
        return cls(engine, Members([engine.rank], engine.rank, engine.size), 1, "COMM_SELF")

    def sibling(self, context, label=None):
        """The same members under context number `context`, agreed by all of them."""
        return type(self)(self.engine, self.members, context, label or f"{self.label} duplicate")

    def collective(self):
        """A view of this communicator for the messages of collective operations.

        They travel in a context of their own, so no receive or probe of the
        user, whatever its wildcards, can meet them (field case M07).
        """
        cdef Comm view
        self.ready()
        if self.inside is None:
            view = Comm(self.engine, self.members, 0, self.label)
            view.context = self.context + CONTEXT_COLLECTIVE
            self.inside = view
        return self.inside

    def Get_rank(self):
        """Rank of this process in the communicator."""
        return self.members.rank

    def Get_size(self):
        """Number of processes in the communicator."""
        return self.members.size

    @property
    def rank(self):
        """Rank of this process in the communicator."""
        return self.members.rank

    @property
    def size(self):
        """Number of processes in the communicator."""
        return self.members.size

    def Get_name(self):
        """Name of the communicator, as it appears in errors."""
        return self.label

    def Set_name(self, str name):
        """Name the communicator."""
        self.label = name

    @property
    def name(self):
        """Name of the communicator, as it appears in errors."""
        return self.label

    @name.setter
    def name(self, str name):
        self.label = name

    def Get_attr(self, int key):
        """Value of a predefined attribute (`TAG_UB`), or None."""
        return TAG_UB if key == KEY_TAG_UB else None

    def Is_inter(self):
        """False: there are no intercommunicators."""
        return False

    def Is_intra(self):
        """True."""
        return True

    def Compare(self, Comm other):
        """`IDENT`, `CONGRUENT`, `SIMILAR` or `UNEQUAL`."""
        if self.engine is not other.engine:
            return UNEQUAL
        mine, others = self.members.world_ranks(), other.members.world_ranks()
        if mine == others:
            return IDENT if self.context == other.context else CONGRUENT
        return SIMILAR if sorted(mine) == sorted(others) else UNEQUAL

    def __eq__(self, other):
        if not isinstance(other, Comm):
            return NotImplemented
        return (self.engine is (<Comm> other).engine and self.context == (<Comm> other).context
                and self.freed == (<Comm> other).freed)

    def __hash__(self):
        return hash((id(self.engine), self.context))

    def __bool__(self):
        return not self.freed

    def __repr__(self):
        state = "freed" if self.freed else f"rank {self.rank} of {self.size}"
        return f"<{type(self).__name__} {self.label}: {state}>"

    def Abort(self, int errorcode=1):
        """End all processes of the job; its exit status is `errorcode` (1 for 0)."""
        if self.engine.abort is None:
            raise SystemExit(errorcode or 1)
        self.engine.abort(errorcode)

    def mark_freed(self):
        """Refuse all further use."""
        self.ready()
        self.freed = True
