"""Who failed first, and by itself: what decides the exit status of a job.

A failure makes others fail: whoever needed a rank that is gone ends, too, and often sooner, for a
Python process takes a while to end. So the order in which processes end proves nothing. Each rank
reports instead (`Report`) which others it was told are gone, at the moment it is told, and that it
ends, at the moment it knows. Rules:

V1. A rank that was told that another is gone comes after it; so does all that the other came after.
V2. Who came after a rank that failed is its victim. The job fails by one that is no victim.
V3. Of several the first decides, by the time that each gives, or at which its end was seen.
V4. While a culprit has not ended nothing is decided, until the caller says that time is up.
"""

import struct
from time import monotonic_ns

from pyrdv.launch.frames import MAX_REPORT, FrameError

_HEAD = struct.Struct("!BQ")
_MOST_GONE = (MAX_REPORT - _HEAD.size) // 4
_ENDS, _RAISED = 1, 2


class Report:
    """What a rank says of itself.

    Attributes
    ----------
    gone : sequence of int
        Ranks of which an error told it that they are gone.
    ends : bool
        Whether it is about to end.
    raised : bool
        Whether an exception ends it.
    when : int
        Since when, in ns of CLOCK_MONOTONIC.
    """

    __slots__ = ("gone", "ends", "raised", "when")

    def __init__(self, gone, ends=False, raised=False, when=None):
        self.gone = gone
        self.ends = ends
        self.raised = raised
        self.when = monotonic_ns() if when is None else when

    def pack(self):
        """The report as bytes."""
        gone = list(self.gone)[:_MOST_GONE]
        return (_HEAD.pack(_ENDS * self.ends | _RAISED * self.raised, self.when)
                + struct.pack(f"!{len(gone)}I", *gone))

    @staticmethod
    def unpack(body):
        """Undo `pack`; FrameError if `body` is none."""
        if len(body) < _HEAD.size or (len(body) - _HEAD.size) % 4:
            raise FrameError(f"a report of {len(body)} bytes")
        flags, when = _HEAD.unpack_from(body)
        gone = struct.unpack_from(f"!{(len(body) - _HEAD.size) // 4}I", body, _HEAD.size)
        return Report(gone, bool(flags & _ENDS), bool(flags & _RAISED), when)


class _Rank:
    """What is known of one rank."""

    __slots__ = ("gone", "when", "ends", "raised", "status", "code")

    def __init__(self):
        self.gone = set()
        self.when = None
        self.ends = self.raised = False
        self.status = None  # of its process
        self.code = None    # of its Abort

    @property
    def failed(self):
        return bool(self.status) or self.code is not None


class Failures:
    """What the launcher knows about the failures of a job.

    Times are clamped between the begin of the job and now: ranks of another time namespace, or
    with wrong clocks, still get a place in the order.
    """

    def __init__(self, size):
        self._size = size
        self._begin = monotonic_ns()
        self._ranks = {}

    def _of(self, rank):
        return self._ranks.setdefault(rank, _Rank())

    def _time(self, known, when):
        if known.when is None:
            known.when = min(max(when, self._begin), monotonic_ns())

    def reported(self, rank, report):
        """Take note of a report."""
        known = self._of(rank)
        # After it has said that it ends, it is told of those that end because of it.
        if not known.ends:
            known.gone.update(peer for peer in report.gone if peer < self._size and peer != rank)
        if report.ends:
            self._time(known, report.when)
            known.ends = True
            known.raised |= report.raised

    def aborted(self, rank, code):
        """Take note that `rank` called Abort."""
        known = self._of(rank)
        if known.code is None:
            known.code = code
            self._time(known, monotonic_ns())

    def ended(self, rank, status):
        """Take note of the end of a process; `status` is -s if signal s killed it."""
        known = self._of(rank)
        known.status = status
        self._time(known, monotonic_ns())

    def ends(self, rank):
        """Whether the rank has said that it ends."""
        return rank in self._ranks and self._ranks[rank].ends

    def code(self, rank):
        """What the rank gave to Abort, or None."""
        return self._ranks[rank].code if rank in self._ranks else None

    def failed(self):
        """Ranks that failed, in order."""
        return sorted(rank for rank, known in self._ranks.items() if known.failed)

    def before(self, rank):
        """All ranks after which `rank` came (V1)."""
        found, look = set(), [rank]
        while look:
            known = self._ranks.get(look.pop())
            fresh = (known.gone if known is not None else set()) - found
            found |= fresh
            look += fresh
        return found

    def first(self, final=False):
        """The rank that failed first and by itself.

        Parameters
        ----------
        final : bool
            Decide by what is known (V4).

        Returns
        -------
        int or None
            None: nobody has failed, or it cannot be told yet.
        """
        failed = self.failed()
        before = {rank: self.before(rank) for rank in failed}
        # In a circle everybody came after everybody.
        alone = [rank for rank in failed
                 if not any(other in before and rank not in before[other]
                            for other in before[rank])]
        found = min(alone, key=self._order, default=None)
        if final or found is None or not self._open(found, before[found]):
            return found
        return None

    def _open(self, found, before):
        """Whether somebody may turn out to have failed earlier than `found`."""
        for rank in before:
            known = self._ranks.get(rank)
            if known is None or (known.status is None and known.code is None):
                return True
        return any(known.raised and known.status is None and known.code is None
                   and self._order(rank) < self._order(found)
                   for rank, known in self._ranks.items())

    def _order(self, rank):
        known = self._ranks[rank]
        # What a signal ended comes before the exits that it may have caused.
        return known.when, (known.status or 0) >= 0, rank


def exit_status(code):
    """What a process ends with that is to end with `code`: eight bits, and never success."""
    return code & 0xFF or 1
