"""Every interleaving of small programs whose ranks make no calls but those of the program.

What a turn is elsewhere is here a signal of the rank's parasite: a real one, which comes only if it
would, by its timer or its descriptor (`pyrdv.instruments.strikes`).  Besides those of `explorer`,
programs have these steps:

``("wait", k)``, ``("loop", k)``
    Wait for the k-th receive, in a thread or in an event loop: make a turn, fall asleep, wake up
    when a descriptor tells.  The thread's signals come meanwhile, too.

Where nothing moves any more, nothing was lost: if an operation needs a trigger or somebody sleeps,
a step finds nothing to do.  With ``alone``, all data is where it belongs by then, and collective
calls are over.  Only then the ranks make turns, as calls do, and the whole is judged as elsewhere.

A call can be *struck*: ``call 1 at 7`` is one that is interrupted at its 7th point, where its
handler runs; ``call 1 at 0`` is interrupted at each.  Points are told only by the copy of the
package that `strikes` builds, compiled so that each access to memory is told.  Why so, and not by
single steps of the processor: a step costs 20 to 100 µs on a virtual machine, so one call would
take as long as a thousand programs; and between two accesses nothing can change for a handler.
"""

import gc
import select

from pyrdv.engine.listener import Listener
from pyrdv.instruments.engine import ANY
from pyrdv.instruments.strikes import Striker
from pyrdv.progress.parasite import Parasite
from tests.conformance import oracle
from tests.explore.collectives import CollectiveRun
from tests.explore.explorer import EAGER, LARGE, LONG, UNTOUCHED, Explorer, Run
from tests.explore.programs import cancel, receive, send


class Signals(Run):
    """A run with a parasite per rank; `trigger` and `alone` as above."""

    def __init__(self, program, buffers=None, *, trigger="timer", alone=False, whole=False,
                 **network):
        super().__init__(program, buffers, **network)
        # No share of the time, and no number of turns, ends a flow: times are not explored.
        modes = [Parasite(engine, turn_limit=1 << 30, share=1 << 30, by_hand=True,
                          trigger=trigger) for engine in self.engines]
        for mode, engine in zip(modes, self.engines, strict=True):
            mode.begin(engine)
        self.strikers = [Striker(*pair) for pair in zip(modes, self.engines, strict=True)]
        self.loops = [Listener(engine) for engine in self.engines]
        self.alone, self.whole = alone, whole
        self.asleep = [None] * self.size    # the kind of wait in which a rank sleeps
        self.inside = [False] * self.size   # of a wait
        self.looking = False                # calls may be made beside the program's
        self.action = None                  # the call under way that is struck
        self.struck = False                 # the last action was, at its point
        self.refused = 0                    # signals of it that found the lock taken

    # ------------------------------------------------------------- actions

    def actions(self):
        return [action for action in super().actions()
                if not (str(action).startswith("call") and self.sleeps(int(action.split()[1])))]

    def sleeps(self, rank):
        """Whether it is asleep, and nothing wakes it."""
        return self.asleep[rank] is not None and not self.wakes(rank)

    def wakes(self, rank):
        """Whether something wakes it."""
        sleeper = (self.loops if self.asleep[rank] == "loop" else self.strikers)[rank]
        return bool(select.select(sleeper.fds, [], [], 0)[0])

    def fail(self, text):
        if self.action:
            self.schedule[-1] = self.action
        super().fail(text)

    def do(self, action):
        self.struck = False
        plain, _, point = str(action).partition(" at ")
        if not point:
            super().do(action)
            return
        striker = self.strikers[int(plain.split()[1])]
        refused = striker.refused
        striker.aim(int(point), self.whole)
        self.action = action
        gc.disable()                    # engines of other runs would end here, and tell points
        try:
            super().do(plain)
        finally:
            struck, wrong = striker.rest()
            gc.enable()
        if wrong:
            self.fail(wrong)
        self.schedule[-1], self.action = action, None
        self.struck = struck > 0
        self.refused = striker.refused - refused

    def turn(self, rank):
        """A signal, if one would come; where the whole is judged, as elsewhere."""
        if self.looking:
            super().turn(rank)
            return
        before = self.state(rank)
        if wrong := self.strikers[rank].fire():
            self.fail(wrong)
        self.acted(rank, self.state(rank) != before)

    def state(self, rank):
        return self.drivers[rank].fingerprint(), self.strikers[rank].words()

    def wait(self, rank, step, number, kind="wait"):
        if self.asleep[rank]:
            self.wake(rank)
        elif waited := self.waited(rank, number):
            if kind == "wait" and not self.inside[rank]:
                self.inside[rank] = True
                self.strikers[rank].enters()
            epoch = self.strikers[rank].look()
            if not waited.ended():
                asleep = (self.loops[rank].arm(epoch) if kind == "loop"
                          else self.strikers[rank].sleep())
                self.asleep[rank] = kind if asleep else None
        else:
            self.leave(rank)
            return
        self.places[rank] = step        # it is still there

    def loop(self, rank, step, number):
        """The same in an event loop."""
        self.wait(rank, step, number, "loop")

    def waited(self, rank, number):
        wanted = [step for step, (kind, *_) in enumerate(self.program[rank])
                  if kind == "receive"][number]
        for operation, what, _ in self.live:
            if isinstance(what, oracle.Receive) and (what.rank, what.order) == (rank, wanted):
                return operation
        return None

    def wake(self, rank):
        if self.asleep[rank] == "loop":
            self.loops[rank].disarm()
        else:
            self.strikers[rank].wake()
        self.asleep[rank] = None

    def leave(self, rank):
        if self.inside[rank]:
            self.inside[rank] = False
            self.strikers[rank].leaves()

    def fingerprint(self):
        return (*super().fingerprint(), *(striker.words() for striker in self.strikers),
                *self.asleep, *self.inside)

    # ------------------------------------------------------------- judging

    def finish(self):
        """Nothing moves any more: was anything left that a signal should have done?"""
        for rank, driver in enumerate(self.drivers):
            needed = self.strikers[rank].needed()
            if driver.step() > 0 and (needed or self.asleep[rank]):
                self.fail(f"rank {rank} has something to do, and no signal or wake-up comes")
        if self.alone:
            self.moved()
        self.looking = True
        for rank in range(self.size):
            if self.asleep[rank]:
                self.wake(rank)
            self.leave(rank)
        self.dirty = [True] * self.size
        self.settle()
        super().finish()

    def moved(self):
        for _, what, data in self.live:
            if isinstance(what, oracle.Receive) and data[0] == UNTOUCHED:
                self.fail(f"{what} has no data before a call is made")


class SignalsOfCollectives(Signals, CollectiveRun):
    """The same for collective calls."""

    def judge(self, one, rank, data):
        """Not before all is at rest, for it asks the request, which may make turns."""
        if self.looking:
            super().judge(one, rank, data)
        else:
            self.live.append((one, rank, data))

    def moved(self):
        for one, rank, _ in self.live:
            if not one.ended():
                self.fail(f"call {one.step} of rank {rank} is not over before a call is made")


class SignalExplorer(Explorer):
    """Explores programs with signals between any two actions; `within`: and within calls.

    Attributes
    ----------
    strikes : int
        Calls that were interrupted at a point.
    refused : int
        Of the signals that came within calls, those that found the lock taken.
    """

    run = Signals

    def __init__(self, within=False, **network):
        super().__init__(**network)
        self.within, self.strikes, self.refused = within, 0, 0

    def go_on(self, run, seen, stack):
        if run.struck:
            self.strikes += 1
            self.refused += run.refused
            *prefix, (call, point) = *run.schedule[:-1], run.schedule[-1].split(" at ")
            if point != "0":
                stack.append((*prefix, f"{call} at {int(point) + 1}"))
        super().go_on(run, seen, stack)

    def changing(self, run, state):
        actions, done = super().changing(run, state)
        if self.within:
            actions += [f"{action} at {point}" for action in actions
                        if str(action).startswith("call") for point in (0, 1)]
        return actions, done


OFF = {"speculation": "off"}
ELSE = receive(2, source=ANY)   # from anybody: it needs a trigger, whatever the others do
#: Program, network.
PROGRAMS = {
    "late or early receive": (((send(),), (receive(),)), {"alone": True, **OFF}),
    "late or early, each access": (
        ((send(),), (receive(),)), {"alone": True, "whole": True, **OFF}),
    "from anybody": (((send(),), (receive(source=ANY),)), {"alone": True}),
    "offers": (((send(),), (ELSE, receive())), {}),
    "crossing": (((send(), receive(source=1)), (send(dest=0), receive())), {"alone": True, **OFF}),
    "by chunks": (((send(1, LONG),), (receive(),)), {"alone": True, "pipeline": True, **OFF}),
    "by chunks, beside another": (
        ((send(),), (ELSE, receive())), {"pipeline": True, "prompt": True}),
    "cancelled": (((send(),), (ELSE, receive(), cancel(1))), {}),
    "a small one that nobody awaits": (((send(2, EAGER), send()), (receive(),)), {**OFF}),
    "wait": (((send(),), (receive(), ("wait", 0))), {**OFF}),
    "wait, each access": (((send(),), (receive(), ("wait", 0))), {"whole": True, **OFF}),
    "wait for another": (((send(), send(2)), (receive(), receive(2), ("wait", 0))),
                         {"alone": True, "prompt": True, **OFF}),
    "loop": (((send(),), (receive(), ("loop", 0))), {**OFF}),
    "loop for another": (((send(), send(2)), (receive(), receive(2), ("loop", 0))),
                         {"alone": True, "prompt": True, **OFF}),
}
#: The same of collective calls.
CALLS = {
    "barrier": (((("barrier",),),) * 2, {"alone": True}),
    "allreduce": (((("allreduce", EAGER),),) * 2, {"alone": True}),
    "large bcast": (((("bcast", 0, LARGE),),) * 2, {"alone": True}),
    "two barriers": (((("barrier",),) * 2,) * 2, {"alone": True, "prompt": True}),
}


class CollectiveSignals(SignalExplorer):
    """The same of programs of collective calls."""

    run = SignalsOfCollectives


def explorations(**how):
    """Each program with each trigger; its name, the trigger, an explorer of `how`, and it."""
    for every, explorer in ((PROGRAMS, SignalExplorer), (CALLS, CollectiveSignals)):
        for name, (program, network) in every.items():
            for trigger in ("timer", "event"):
                yield name, trigger, explorer(trigger=trigger, **how, **network), program
