"""Every interleaving of collective calls that do not block.

A program is one list of calls per rank, all alike: ``("barrier",)``, ``("bcast", root, bytes)``,
``("allreduce", bytes)``; ``("refused", bytes)`` is an allreduce that this rank cannot start.

What is judged: the right bytes at the end of each call, and the buffers untouched after it; a
barrier ends on no rank before all have called it; a refused call ends on all ranks; where nothing
moves any more, no call is under way, and nothing is left.
"""

from pyrdv.api.ops import SUM
from pyrdv.collectives import aftermath, kinds
from pyrdv.collectives.intracomm import Intracomm
from pyrdv.collectives.plans import barrier, chosen
from pyrdv.collectives.plans.starting import Plan
from pyrdv.errors import CollectiveError
from tests.explore.explorer import RECEIVED, UNTOUCHED, Explorer, Run


class Same(Plan):
    """A plan whose scratch memory is the same in every run of a program."""

    __slots__ = ("made", "memory")

    def scratch(self, nbytes):
        self.made += 1
        return memoryview(self.memory.setdefault(self.made, bytearray(nbytes)))


class Call:
    """A call under way."""

    def __init__(self, plan, step, data, right):
        self.plan, self.step, self.data, self.right = plan, step, data, right
        self.request = plan.launch()

    def ended(self):
        return self.plan.is_over

    def release(self):
        """Nothing: it is given back when it is judged."""


class CollectiveRun(Run):
    """One program on its way."""

    def __init__(self, program, buffers=None, **network):
        super().__init__(program, buffers, **network)
        self.comms = [Intracomm.of(engine) for engine in self.engines]
        self.failed = set()         # numbers of calls that some rank cannot start

    def plan(self, rank, kind, step):
        plan = Same(self.comms[rank], kind)
        plan.made, plan.memory = 0, self.buffers.setdefault(("memory", rank, step), {})
        return plan

    def start(self, rank, step, kind, build, data, right, *args):
        plan = self.plan(rank, kind, step)
        build(plan, *args)
        self.live.append((Call(plan, step, data, right), rank, data))

    def told(self, rank, step):
        if step not in self.failed:
            self.fail(f"rank {rank} was told of a failure of call {step}, which had none")
        self.outcomes += ((rank, step, None),)

    def barrier(self, rank, step):
        self.start(rank, step, kinds.IBARRIER, barrier.dissemination, b"", None)

    def bcast(self, rank, step, root, size):
        right = self.text(16 * step + 5, size)
        data = self.buffer("data", rank, step, size, UNTOUCHED)
        if rank == root:
            data[:] = right
        self.start(rank, step, kinds.IBCAST, chosen.bcast, data, right, data, root)

    def allreduce(self, rank, step, size):
        mine = self.buffer("mine", rank, step, size, rank + 1)
        data = self.buffer("data", rank, step, size, UNTOUCHED)
        right = bytes((self.size * (self.size + 1) // 2,)) * size
        self.start(rank, step, kinds.IALLREDUCE, chosen.allreduce, data, right,
                   mine, data, SUM)

    def refused(self, rank, step, size):
        self.failed.add(step)
        self.plan(rank, kinds.IALLREDUCE, step).refuse(TypeError("planted"))

    def turn(self, rank):
        """As a wait makes it: who waits looks for alarms, too."""
        super().turn(rank)
        for one, other, _ in self.live:
            if other == rank and one.plan.called():
                one.plan.alarmed()
                self.acted(rank)

    def judge(self, one, rank, data):
        try:
            if not one.request.Test():
                self.fail(f"call {one.step} of rank {rank} is over, and its request is not")
        except CollectiveError:
            self.told(rank, one.step)
        else:
            if one.right is None and min(self.places) <= one.step:
                self.fail(f"rank {rank} left barrier {one.step} before all have called it")
            if one.right is not None and data != one.right:
                self.fail(f"call {one.step} of rank {rank} gave {bytes(data[:8])}")
            self.outcomes += ((rank, one.step, True),)
        self.ended.append((data, RECEIVED))
        if data:
            data[:] = bytes((RECEIVED,)) * len(data)

    def finish(self):
        """Nothing moves any more: judge the whole."""
        self.settle()
        if self.live:
            self.fail(f"never complete: {[(rank, one.step) for one, rank, _ in self.live]}")
        for data, fill in self.ended:
            if data.strip(bytes((fill,))):
                self.fail("a buffer was touched after its call was complete")
        self.complete.clear()
        for _ in range(3 if self.failed else 0):    # as the next calls do
            for comm in self.comms:
                aftermath.sweep(comm.collective())
            self.dirty = [True] * self.size
            self.settle()
        self.nothing_left()


class CollectiveExplorer(Explorer):
    """Explores programs of collective calls."""

    run = CollectiveRun
