"""Which algorithm a collective call takes: one table, and nothing that runs.

It imports nothing of the package, so the knob, the doctor and the trace read the same table as the
calls do.  `pyrdv.collectives.plans.chosen` has the function of each row.  What must hold:

1. A choice depends only on what is equal on all members: the kind of call, how many members there
   are, whether all share memory, the bytes that all of them know, whether the order of operands
   counts, and PYRDV_COLLECTIVES.  Ranks that differ in the last refuse at start (`pyrdv.ways`).
2. The first row that fits is taken; for each kind one fits any call.
3. Members that give different lengths by mistake may take different rows.  None of them may get a
   wrong result in silence, or wait for good.  So rows among which bytes decide are such that of any
   mixture some member gets a message that it does not expect: of another length, or marked as a
   part where it expects none, or not where it does (L9 of ``engine/schedule/schedule.pyx``).  That
   ends its call, and it tells all others.  Why some member gets one:

   - bcast: in both rows each member first receives from the same parent.
   - allgather: in both rows each member first receives from the rank before it and sends to the one
     behind it, and ``bruck`` marks all it sends; somewhere around the ring a member of the one
     follows one of the other.  alltoall: likewise, where ``bruck`` is asked for.
   - allreduce: the partners of doubling are those of the first half of ``halving``, which marks.
   - The other kinds: bytes decide nothing.

   A part is not empty.  So a row that marks is not taken where some part would be (`Way.whole`).
"""

import functools
from math import inf
from typing import NamedTuple

#: Of what the table counts bytes, by kind.
MEASURES = {
    "bcast": "in all",
    "gather": "of a block",
    "scatter": "of a block",
    "allgather": "of all blocks",
    "alltoall": "of a block",
    "allreduce": "of the vector",
    "reduce_scatter": "of all shares",
}


class Way(NamedTuple):
    """A row of the table: one algorithm of one kind of call, and when it is taken.

    Attributes
    ----------
    kind, name : str
        As in PYRDV_COLLECTIVES.
    why : str
        Why it is taken then, in a few words.
    source : str
        Where its limits are from.
    most : int or None
        Bytes up to which it is taken (`MEASURES`); None: there is no limit.
    ranks : int
        Members from which on it is taken.
    near : bool or None
        It is taken only if all members share memory, or only if they do not.
    asked : bool
        It is taken only if PYRDV_COLLECTIVES asks for it.
    powers : bool
        It cannot be taken unless the members are a power of two.
    ordered : bool
        It combines operands in the order of ranks.
    uneven : bool
        It moves blocks whose lengths not all members know.
    whole : bool
        It marks its messages as parts, and so cannot be taken if there is less than one element, or
        byte, for each member.
    cut : bool
        How many messages there are depends on the bytes.
    """

    kind: str
    name: str
    why: str
    source: str
    most: int | None = None
    ranks: int = 1
    near: bool | None = None
    asked: bool = False
    powers: bool = False
    ordered: bool = True
    uneven: bool = True
    whole: bool = False
    cut: bool = False

    def can(self, size, ordered, uneven):
        """Whether it does what a call of `size` members wants."""
        return ((self.ordered or not ordered) and (self.uneven or not uneven)
                and (not self.powers or size & size - 1 == 0))

    def may(self, size, near):
        """Whether it is taken with `size` members, if the bytes are right."""
        return not self.asked and size >= self.ranks and self.near in (None, near)

    def when(self):
        """When it is taken, in words."""
        words = [self._limit()] if self.most is not None else []
        if self.ranks > 1:
            words.append(f"from {self.ranks} ranks on")
        if self.near is not None:
            words.append("within one host" if self.near else "across hosts")
        if self.powers:
            words.append("ranks that are a power of two")
        if not self.ordered:
            words.append("operations that commute")
        if not self.uneven:
            words.append("even blocks")
        if self.whole:
            words.append("an element for each rank at least")
        if self.asked:
            words.insert(0, "only if asked for")
        return ", ".join(words) or "any other"

    def reason(self):
        """Why a call took it, in a few words."""
        return self.why if self.most is None else f"{self._limit()}: {self.why}"

    def _limit(self):
        kib = self.most >> 10
        return f"up to {kib} KiB" if kib else f"up to {self.most} bytes"


_MPICH = "MPICH, ``MPIR_CVAR_{}``".format
_HERE = "measured, {} ranks of one host".format

TABLE = (
    Way("bcast", "binomial", "the fewest rounds", _MPICH("BCAST_LONG_MSG_SIZE"), most=512 << 10),
    Way("bcast", "scatter", "longer: no link carries much more than the data once",
        _MPICH("BCAST_MIN_PROCS"), ranks=8, near=False, whole=True),
    Way("bcast", "binomial", "few ranks, or memory that they share", _HERE("4 and 8")),
    Way("bcast", "chain", "", "", asked=True, cut=True),
    Way("gather", "linear", "each block goes once", _HERE("4 and 8")),
    Way("gather", "binomial", "", "", asked=True, uneven=False),
    Way("scatter", "linear", "each block goes once", "as gather"),
    Way("scatter", "binomial", "", "", asked=True, uneven=False),
    Way("allgather", "bruck", "the fewest rounds",
        _MPICH("ALLGATHER_SHORT_MSG_SIZE") + "; the same was measured, 4 ranks of one host",
        most=80 << 10, uneven=False, whole=True),
    Way("allgather", "ring", "longer: each rank hears one other", _HERE("2, 4 and 8")),
    Way("allgather", "doubling", "", "", asked=True, powers=True),
    Way("alltoall", "spread", "each block goes once, many at a time", _HERE("2, 4 and 8")),
    Way("alltoall", "bruck", "", "", asked=True, uneven=False, whole=True),
    Way("alltoall", "pairwise", "", "", asked=True),
    Way("allreduce", "doubling", "the fewest rounds", _HERE("2 and 4"), most=16 << 10),
    Way("allreduce", "halving", "longer: each rank combines a part", _HERE("2 and 4"),
        ordered=False, whole=True),
    Way("allreduce", "doubling", "in order, or less than an element for each rank", "no choice"),
    Way("allreduce", "ring", "", "", asked=True, ordered=False),
    Way("reduce_scatter", "spread", "each share goes once, and is combined in the order of ranks",
        _HERE("2, 4 and 8")),
    Way("reduce_scatter", "halving", "", "", asked=True, ordered=False),
)

#: The kinds for which it counts whether all members share memory.
BY_HOSTS = frozenset(way.kind for way in TABLE if way.near is not None)
#: The knob's words: kind -> names, as PYRDV_COLLECTIVES takes them.
NAMES = {kind: tuple(dict.fromkeys(way.name for way in TABLE if way.kind == kind))
         for kind in MEASURES}

# In events of the engine a row is a number; those below are protocols and reasons of messages.
_FIRST = 64
_ASKED, _UNKNOWN = _FIRST + len(TABLE), _FIRST + len(TABLE) + 1
#: What the numbers mean: which algorithm, and why that one.
WORDS = {number: f"{way.kind} {way.name}" for number, way in enumerate(TABLE, _FIRST)}
REASONS = {
    **{number: way.reason() for number, way in enumerate(TABLE, _FIRST) if not way.asked},
    _ASKED: "PYRDV_COLLECTIVES",
    _UNKNOWN: "not all ranks know the bytes",
}


class Choice(NamedTuple):
    """The algorithm of a call.

    Attributes
    ----------
    way : Way
        The row.
    name : str
        Its kind and name, one of `WORDS`.
    number, reason : int
        Keys of `WORDS` and `REASONS`.
    mixed : bool
        Members whose lengths differ by mistake may have other rounds (rule 3).
    most : float
        Bytes up to which it is taken, or infinity.
    """

    way: Way
    name: str
    number: int
    reason: int
    mixed: bool
    most: float

    @property
    def why(self):
        """Why it was taken, in words."""
        return REASONS[self.reason]


def choose(kind, size, nbytes, near=False, ordered=False, elements=None, preferred=None):
    """The algorithm of a call.

    Parameters
    ----------
    kind : str
        A key of `MEASURES`.
    size : int
        Members.
    nbytes : int or None
        What the table counts for this kind, the same on all members; None: they do not all know.
    near : bool
        All members share memory.
    ordered : bool
        Operands must be combined in the order of ranks.
    elements : int, optional
        Into how many pieces what is moved can be cut; by default `nbytes`.
    preferred : dict of str to str, optional
        Kind -> name that PYRDV_COLLECTIVES asks for.

    Returns
    -------
    Choice
    """
    uneven = nbytes is None
    count = 0 if uneven else nbytes
    pieces = count if elements is None else elements
    for choice in candidates(kind, size, near, ordered, uneven,
                             preferred.get(kind) if preferred else None):
        if count <= choice.most and (pieces >= size or not choice.way.whole):
            return choice
    raise AssertionError(f"no algorithm for {kind}")        # rule 2


@functools.lru_cache(256)
def candidates(kind, size, near, ordered, uneven, asked):
    """What `choose` may return if all but the bytes is known: the first that fits."""
    able = [(number, way) for number, way in enumerate(TABLE, _FIRST)
            if way.kind == kind and way.can(size, ordered, uneven)]
    wanted = [(number, way, _ASKED) for number, way in able if way.name == asked][:1]
    unknown = uneven and any(way.most is not None for way in TABLE if way.kind == kind)
    usual = [(number, way, _UNKNOWN if unknown else number) for number, way in able
             if way.may(size, near)]
    # Whom other bytes would have led elsewhere.
    found = wanted if wanted and not wanted[0][1].whole else [*wanted, *usual]
    several = not uneven and len({way.name for _, way, _ in found}) > 1
    return [Choice(way, WORDS[number], number, reason, several or way.cut,
                   inf if reason == _ASKED or way.most is None else way.most)
            for number, way, reason in found]
