"""Groups as users see them: ordered sets of processes."""

from pyrdv.api.constants import IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from pyrdv.api.naming import name_missing
from pyrdv.errors import GroupError, RankError


@name_missing
class Group:
    """An ordered set of processes; it costs nothing and no message is sent to make one.

    Parameters
    ----------
    group : Group, optional
        Makes another handle of the same group; ``GROUP_NULL`` when not given.
    """

    __slots__ = ("_held",)

    def __init__(self, group=None):
        if group is not None and not isinstance(group, Group):
            raise TypeError(f"a group is made from a Group, not {type(group).__name__}")
        self._held = None if group is None else group._held

    @classmethod
    def of(cls, engine, members, own):
        """The group of world ranks `members`, for the process whose world rank is `own`."""
        made = cls()
        made._held = (engine, tuple(members), own)
        return made

    def _parts(self):
        if self._held is None:
            raise GroupError("the group is GROUP_NULL, or was freed; make one with "
                             "Comm.Get_group()")
        return self._held

    @property
    def engine(self):
        """The engine of this process; None for ``GROUP_EMPTY``."""
        return self._parts()[0]

    @property
    def members(self):
        """World rank of each member, in order."""
        return self._parts()[1]

    @property
    def own(self):
        """World rank of this process."""
        return self._parts()[2]

    def Get_size(self):
        """Number of members."""
        return len(self.members)

    def Get_rank(self):
        """Rank of this process in the group, or `UNDEFINED`."""
        return self.members.index(self.own) if self.own in self.members else UNDEFINED

    @property
    def size(self):
        """Number of members."""
        return self.Get_size()

    @property
    def rank(self):
        """Rank of this process in the group, or `UNDEFINED`."""
        return self.Get_rank()

    def Compare(self, other):
        """`IDENT`, `SIMILAR` (another order) or `UNEQUAL`."""
        others = members_of(other)
        if self.members == others:
            return IDENT
        return SIMILAR if sorted(self.members) == sorted(others) else UNEQUAL

    def _like(self, members, other=None):
        """A new group; GROUP_EMPTY knows no engine, so `other` may have to."""
        engine, _, own = self._parts()
        if engine is None and other is not None:
            engine, _, own = other._parts()
        return type(self).of(engine, members, own)

    def _check(self, ranks):
        ranks = list(ranks)
        for rank in ranks:
            if not 0 <= rank < self.size:
                raise RankError(f"rank {rank} is not in the group, which has ranks "
                                f"0..{self.size - 1}", rank=rank)
        if len(set(ranks)) != len(ranks):
            raise RankError(f"ranks {ranks} of a group must differ from each other")
        return ranks

    def Dup(self):
        """Another group of the same members."""
        return self._like(self.members)

    def Union(self, other):
        """The members of this group, then those of `other` that are not in it."""
        mine, others = self.members, members_of(other)
        return self._like((*mine, *(rank for rank in others if rank not in mine)), other)

    def Intersection(self, other):
        """The members of this group that are in `other` too."""
        others = members_of(other)
        return self._like([rank for rank in self.members if rank in others], other)

    def Difference(self, other):
        """The members of this group that are not in `other`."""
        others = members_of(other)
        return self._like([rank for rank in self.members if rank not in others], other)

    Intersect = Intersection

    def Incl(self, ranks):
        """The members at `ranks`, in that order."""
        return self._like([self.members[rank] for rank in self._check(ranks)])

    def Excl(self, ranks):
        """All members but those at `ranks`."""
        left = set(self._check(ranks))
        return self._like([world for rank, world in enumerate(self.members) if rank not in left])

    def Range_incl(self, ranks):
        """`Incl` of the ranks in triples ``(first, last, step)``, last included."""
        return self.Incl(_spread(ranks))

    def Range_excl(self, ranks):
        """`Excl` of the ranks in triples ``(first, last, step)``, last included."""
        return self.Excl(_spread(ranks))

    def Translate_ranks(self, ranks=None, group=None):
        """Where members of this group are in another one.

        Parameters
        ----------
        ranks : sequence of int, optional
            Ranks of this group; all of them when not given.
        group : Group, optional
            The other group; that of ``COMM_WORLD`` when not given.

        Returns
        -------
        list of int
            `UNDEFINED` for what is not in the other group; `PROC_NULL` stays.
        """
        ranks = list(range(self.size) if ranks is None else ranks)
        self._check(set(ranks) - {PROC_NULL})
        place = None if group is None else {
            world: i for i, world in enumerate(members_of(group))}
        found = []
        for rank in ranks:
            if rank == PROC_NULL:
                found.append(PROC_NULL)
            else:
                world = self.members[rank]
                found.append(world if place is None else place.get(world, UNDEFINED))
        return found

    def Free(self):
        """Turn this handle into ``GROUP_NULL``."""
        self._parts()
        self._held = None

    def __bool__(self):
        return self._held is not None

    def __eq__(self, other):
        return self._held is other._held if isinstance(other, Group) else NotImplemented

    def __hash__(self):
        return hash(id(self._held))

    def __reduce__(self):
        raise GroupError("a group cannot be pickled: its members mean nothing to another job; "
                         "send the ranks instead")

    def __repr__(self):
        if self._held is None:
            return "<Group: null>"
        return f"<Group: {len(self.members)} members>"


def members_of(group):
    """World ranks of the members of `group`; TypeError if it is no group."""
    if not isinstance(group, Group):
        raise TypeError(f"a Group is needed here, not {type(group).__name__}")
    return group.members


def _spread(ranges):
    """All ranks of triples (first, last, step), last included."""
    ranks = []
    for first, last, step in ranges:
        if step == 0:
            raise RankError(f"the range {(first, last, step)} of a group has a step of 0")
        ranks += range(first, last + (1 if step > 0 else -1), step)
    return ranks


GROUP_NULL = Group()
GROUP_EMPTY = Group.of(None, (), None)
