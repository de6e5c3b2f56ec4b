"""Every interleaving of API calls, packet deliveries and progress turns of one program.

A program is one list of steps per rank::

    (("send", dest, tag, size, sync), ("receive", source, tag, room), ("cancel", k),
     ("cancel send", k), ("take", source, tag), ("receive taken", room))

`cancel` takes back the k-th receive of its rank, `cancel send` the k-th send if it was not posted
yet; `take` is a matched probe, and if it found a message the next `receive taken` receives it.  A
*schedule* is a list of actions: ``call R`` (the next step of rank R), ``turn R`` (one turn of
progress of it) or an event of the network, by its id.  Between two actions everything stands still,
so a program and a schedule are one run, and running them again gives the same.

Engines cannot be copied, so the explorer goes back by running a prefix again.  It does not go on
from a state that it has seen: the engines' and the network's fingerprints, the places in the
program and what was received so far.

What is judged, with `tests.conformance.oracle` for MPI's matching rules:

- at the end of each receive: the right bytes of one message, and the rest untouched;
- after it: nobody touches the buffer any more; a send's buffer is overwritten once it is complete;
- where nothing moves any more: exactly-once, non-overtaking, no receive left without a message
  that it could have; then, everything cancelled and drained: no operation, message or region is
  left, no packet was refused as illegal, and nothing was read or written that was not registered.
"""

import itertools
from collections import deque

from pyrdv.engine.engine import Engine
from pyrdv.instruments.engine import ANY, CANCELLED, TRUNCATED, Driver
from pyrdv.instruments.sim.network import Network
from tests.conformance import oracle

EAGER, LARGE, LONG = 16, 64, 160    # sizes: eager; rendezvous; longer than any receive
SMALL, ROOM = 24, 96                # receives: predicted eager; predicted rendezvous
EAGER_MAX = 32
#: Parameters of engines that a program may choose.
ENGINE = {"speculation": "indexed", "adapt": 80, "windows": (8, 16, 2), "debug": False}
#: Parameters of engines that move large messages through bounce buffers: chunks of 24 bytes.
PIPELINE = {"protocol": "pipeline", "lane_bytes": 24, "lanes": 1, "lane_block": 16,
            "chunk_first": 24, "arrival": "notice"}
#: Parameters of engines that place messages (Z1-Z5) as soon as one came by rendezvous; what is
#: longer than a buffer goes by chunks, or by READs.
PLACING = {
    "pipeline": {**PIPELINE, "lane_bytes": 64, "chunk_first": 64, "standing_after": 1},
    "figures": {"lane_bytes": 64, "lane_block": 16, "lanes": 1, "standing_after": 1,
                "figures": [{"latency": 2e-6, "gap": 1e-7, "net": [[16, 1e-6], [64, 1e-6]],
                             "read": [[16, 2e-6], [64, 2e-6]],
                             "copy": [[16, 1e-8], [64, 1e-8]],
                             "registration": [[16, 1.0], [64, 1.0]]}]}}
OWN = (13, 16)                      # STAND, GRANT: with an address of the engine's own memory
ADDRESS = slice(40, 48)             # where it is
UNTOUCHED, RECEIVED, SENT = 0xAA, 0xEE, 0xDD
LEAKS = ("ops_in_use", "messages_in_use", "regions_in_use", "protocol_errors", "moving")
STEPS_MAX = 10_000


class Violation(AssertionError):
    """A broken rule, the program and the schedule that leads there."""

    def __init__(self, text, program, schedule):
        self.text, self.program, self.schedule = text, program, list(schedule)
        steps = "\n".join(f"    {action!r}," for action in self.schedule)
        super().__init__(f"{text}\nreplay({program!r}, [\n{steps}\n])")


def arrives_at(event):
    """The rank whose mailbox gets something by `event`; None: it only moves bytes."""
    return {"packet": event.dst, "completion": event.src}.get(event.kind)


class Run:
    """One program on its way; `buffers` keeps the memory of all runs of it at one place."""

    def __init__(self, program, buffers=None, **network):
        self.program = program
        self.size = len(program)
        parameters = {"slots": 16, "transfers": 4, "packet_max": 128, "chunk": 1 << 20} | network
        engine = {name: parameters.pop(name, usual) for name, usual in ENGINE.items()}
        pipeline = dict(PIPELINE if parameters.pop("pipeline", False) else {})
        pipeline |= PLACING.get(parameters.pop("placing", None), {})
        self.reuse = parameters.pop("reuse", False)     # operations, as soon as they are complete
        self.prompt = parameters.pop("prompt", False)
        self.network = Network(self.size, **parameters)
        self.engines = [Engine(rank, self.size, [self.network.fabric(rank)], eager_max=EAGER_MAX,
                               unexpected_max=1, **pipeline, **engine)
                        for rank in range(self.size)]
        self.drivers = [Driver(engine) for engine in self.engines]
        for rank, engine in enumerate(self.engines):
            for peer in range(self.size):
                if peer != rank and not parameters.get("lazy"):
                    engine.connect(peer)
        self.buffers = {} if buffers is None else buffers
        self.places = [0] * self.size
        self.dirty = [False] * self.size    # who may have something to do in a turn
        self.tight = parameters["slots"] < 8 or parameters["transfers"] < 4 or "lazy" in parameters
        self.waits = None               # the rank at which something just arrived
        self.messages, self.receives = [], []       # of the oracle, in order of the calls
        self.live = []                  # (Operation, Message or Receive, its buffer)
        self.complete = []              # Operations that are
        self.ended = []                 # (buffer, byte that fills it)
        self.taken = {}                 # (what a matched probe took, its Receive) by rank
        self.outcomes = ()
        self.given_up = set()
        self.schedule, self.used_before = [], 0     # RTRs

    def fail(self, text):
        raise Violation(text, self.program, self.schedule)

    def buffer(self, kind, rank, step, size, fill):
        key = (kind, rank, step)
        if key not in self.buffers:
            self.buffers[key] = bytearray(size)
        self.buffers[key][:] = bytes((fill,)) * size
        return self.buffers[key]

    @staticmethod
    def text(name, size):
        """The data of a message: no two of its pieces are alike."""
        return bytes((name + 37 * i) & 0xFF for i in range(size))

    # ------------------------------------------------------------- actions

    def actions(self):
        """What may happen next; a turn that could find nothing new is left out.

        What arrives at a rank is seen only by its own calls and turns, so it may as well
        arrive right before one: after an arrival the same rank goes on (`waits`).
        """
        ranks = range(self.size) if self.waits is None else (self.waits,)
        found = [f"call {rank}" for rank in ranks if self.places[rank] < len(self.program[rank])]
        found += [event.id for event in self.network.pending()
                  if self.waits in (None, arrives_at(event))]
        found += [f"turn {rank}" for rank in ranks if self.dirty[rank]]
        return found

    def do(self, action):
        """Let `action` happen; judge what it completed."""
        self.schedule.append(action)
        # What is measured decides, and a schedule must lead to one state, however fast it is run.
        for driver in self.drivers:
            driver.tell_time(1_000_000 * len(self.schedule))
        if isinstance(action, int):
            (event,) = [event for event in self.network.pending() if event.id == action]
            self.network.deliver(action)
            self.waits = arrives_at(event)
            if self.waits is not None:
                self.dirty[self.waits] = True
            elif self.tight:
                self.dirty = [True] * self.size
        else:
            kind, rank = action.split()
            self.waits = None
            getattr(self, kind)(int(rank))
            if self.prompt:
                self.move()
        for one in [one for one in self.live if one[0].ended()]:
            self.live.remove(one)
            self.judge(*one)
            if self.reuse:
                one[0].release()
            else:
                self.complete.append(one[0])

    def move(self):
        """Let all READs and WRITEs move their bytes."""
        while moves := [event.id for event in self.network.pending() if arrives_at(event) is None]:
            self.network.deliver(moves[0])

    def turn(self, rank):
        # A turn that only noted which pool ran dry is not the last one.
        before = self.drivers[rank].fingerprint()
        happened = self.drivers[rank].turn()
        self.acted(rank, bool(happened) or self.drivers[rank].fingerprint() != before)

    def acted(self, rank, something=True):
        """Rank `rank` did something, or found nothing to do."""
        self.dirty[rank] = something
        if something and self.tight:    # it may have made room for what others wait to post
            self.dirty = [True] * self.size

    def call(self, rank):
        step = self.places[rank]
        self.places[rank] += 1
        kind, *values = self.program[rank][step]
        getattr(self, kind.replace(" ", "_"))(rank, step, *values)
        self.acted(rank)

    def send(self, rank, step, dest, tag, size, sync):
        name = 16 * rank + step + 1     # begins its data, tells it apart
        message = oracle.Message(rank, dest, 0, tag, size, name)
        data = self.buffer("send", rank, step, size, name)
        data[:] = self.text(name, size)
        self.messages.append(message)
        self.live.append((self.drivers[rank].send(dest, tag, data, sync), message, data))

    def receive(self, rank, step, source, tag, room):
        receive = oracle.Receive(rank, 0, source, tag, step)
        data = self.buffer("receive", rank, step, room, UNTOUCHED)
        self.receives.append(receive)
        self.live.append((self.drivers[rank].receive(source, tag, data), receive, data))

    def take(self, rank, step, source, tag):
        taken = self.drivers[rank].take(source, tag)
        if taken is not None:
            self.taken[rank] = taken, oracle.Receive(rank, 0, source, tag, step)

    def receive_taken(self, rank, step, room):
        if rank in self.taken:
            taken, receive = self.taken.pop(rank)
            data = self.buffer("receive", rank, step, room, UNTOUCHED)
            self.receives.append(receive)
            self.live.append((self.drivers[rank].receive_taken(taken, data), receive, data))

    def cancel(self, rank, step, number):
        wanted = [step for step, (kind, *_) in enumerate(self.program[rank])
                  if kind == "receive"][number]
        for operation, what, _ in self.live:
            if isinstance(what, oracle.Receive) and (what.rank, what.order) == (rank, wanted):
                self.given_up.add(id(what))
                operation.cancel()

    def cancel_send(self, rank, step, number):
        wanted = [step for step, (kind, *_) in enumerate(self.program[rank])
                  if kind == "send"][number]
        for operation, what, _ in self.live:
            if isinstance(what, oracle.Message) and what.order == 16 * rank + wanted + 1:
                self.given_up.add(id(what))
                operation.cancel()

    # ------------------------------------------------------------- judging

    def judge(self, operation, what, data):
        """An operation ended: is its buffer as it must be?"""
        error, source, tag, size = operation.result
        if isinstance(what, oracle.Message):
            if error == CANCELLED and id(what) in self.given_up:
                self.messages.remove(what)
            elif error:
                self.fail(f"{what} ended with error {error}")
            self.ended.append((data, SENT))
            data[:] = bytes((SENT,)) * len(data)
            return
        if error == CANCELLED:
            if id(what) not in self.given_up:
                self.fail(f"{what} ended as cancelled, and nobody asked")
            what.cancelled = True
            self.ended.append((data, UNTOUCHED))
        else:
            what.message = self.received(what, data, error, source, tag, size)
            self.ended.append((data, RECEIVED))
            data[:] = bytes((RECEIVED,)) * len(data)
        self.outcomes += ((what.rank, what.order, what.message and what.message.name),)

    def received(self, what, data, error, source, tag, size):
        found = [one for one in self.messages
                 if (one.source, one.tag, one.size) == (source, tag, size)
                 and data[0] == one.order]
        if len(found) != 1:
            self.fail(f"{what} got ({source}, {tag}, {size} bytes) with data {bytes(data[:8])}")
        (message,) = found
        fits = min(size, len(data))
        if error != (TRUNCATED if size > len(data) else 0):
            self.fail(f"{what} of {len(data)} bytes got {message} and ended with error {error}")
        if data[:fits] != self.text(message.order, fits) or data[fits:].strip(b"\xaa"):
            self.fail(f"{what} got {message} with other data, or too much of it")
        return message

    @staticmethod
    def hide(src, dst, packet):
        """A packet without what is different in each run."""
        if packet[0] not in OWN:
            return packet
        return packet[:ADDRESS.start] + packet[ADDRESS.stop:]

    def fingerprint(self):
        return (*(probe.fingerprint() for probe in self.drivers),
                self.network.fingerprint(self.hide),
                self.waits, *self.places, frozenset(self.outcomes), frozenset(self.taken))

    def settle(self):
        """Turn and deliver in a fixed order until nothing moves."""
        for _ in range(STEPS_MAX):
            actions = [action for action in self.actions() if not str(action).startswith("call")]
            if not actions:
                return
            self.do(actions[0])
        self.fail("the ranks never come to rest")

    def finish(self):
        """Nothing moves any more: cancel, drain, and judge the whole."""
        idle = [what for _, what, _ in self.live if isinstance(what, oracle.Receive)]
        for operation, what, _ in list(self.live):
            if isinstance(what, oracle.Receive):
                what.idle = id(what) not in self.given_up
                self.given_up.add(id(what))
                operation.cancel()
                self.dirty = [True] * self.size
        self.settle()
        if late := [what for what in idle if what.message is not None]:
            self.fail(f"{late} got nothing until they were cancelled")
        for rank in range(self.size):
            self.drain(rank)
        self.settle()
        if self.live:
            self.fail(f"never complete: {[what for _, what, _ in self.live]}")
        for data, fill in self.ended:
            if data.strip(bytes((fill,))):
                self.fail("a buffer was touched after its operation was complete")
        if wrong := oracle.check(self.messages, self.receives):
            self.fail("; ".join(wrong))
        self.nothing_left()

    def drain(self, rank):
        number = 100
        while True:
            data = self.buffer("drain", rank, number, LONG, UNTOUCHED)
            operation = self.drivers[rank].look(ANY, ANY, data)
            if operation is None:
                return
            receive = oracle.Receive(rank, 0, ANY, ANY, number, drained=True)
            self.receives.append(receive)
            self.live.append((operation, receive, data))
            self.dirty = [True] * self.size
            self.settle()
            number += 1

    def nothing_left(self):
        for operation in self.complete:
            operation.release()
        for rank, engine in enumerate(self.engines):
            counters = {**engine.counters(), "moving": self.drivers[rank].moving}
            left = {name: counters[name] for name in LEAKS if counters[name]}
            if left or any(state not in ("self", "up", "new") for state in engine.peer_states()):
                self.fail(f"rank {rank} ends with {left}, {engine.peer_states()}")
        if self.network.faults or self.network.in_flight() != (0, 0):
            self.fail(f"{self.network.faults}, in flight: {self.network.in_flight()}")

    def close(self):
        for engine in self.engines:
            engine.close()

    def advised(self):
        """Which advices of the adaptation were given."""
        return {name for name in ("stops_sent", "resumes_sent")
                if any(engine.counters()[name] for engine in self.engines)}

    def used(self):
        """RTRs that were used."""
        return sum(engine.counters()["rtrs_used"] for engine in self.engines)

    def placed(self):
        """Messages that were placed."""
        return sum(engine.counters()["sends_placed"] for engine in self.engines)


class Explorer:
    """Explores programs; counts what it saw.

    Attributes
    ----------
    programs, states, runs, ends, used : int
        Programs, different states, runs of a prefix, states where nothing moved,
        and steps in which an RTR was used.
    placed : set of int
        How many messages had been placed at the ends.
    advised : set of str
        Of ``stops_sent`` and ``resumes_sent``, what some end had counted.
    """

    run = Run                       # what makes one run of a program

    def __init__(self, **network):
        self.network = network
        self.programs = self.states = self.runs = self.ends = self.used = 0
        self.advised, self.placed = set(), set()

    def shortest(self, program, start=()):
        """Like `explore`, but the `Violation` is the one with the fewest actions."""
        seen, buffers = set(), {}
        queue = deque([tuple(start)])
        self.programs += 1
        while queue:
            run = self.run(program, buffers, **self.network)
            self.runs += 1
            try:
                for action in queue.popleft():
                    run.do(action)
                if (state := run.fingerprint()) not in seen:
                    seen.add(state)
                    prefix = tuple(run.schedule)
                    actions, _ = self.changing(run, state)
                    queue.extend([(*prefix, action) for action in actions])
                    if not actions:
                        self.ends += 1
                        run.finish()
            finally:
                run.close()
        self.states += len(seen)

    @staticmethod
    def changing(run, state):
        """What may happen next but for turns that change nothing; the turn that was done, or None.

        A turn that changes nothing leads nowhere: it is tried here and now.
        """
        actions = run.actions()
        for action in [one for one in actions if str(one).startswith("turn")]:
            run.do(action)
            if run.fingerprint() != state:
                return actions, action
            run.schedule.pop()
            actions.remove(action)
        return actions, None

    def explore(self, program, start=()):
        """Every interleaving of `program` that begins with schedule `start`.

        Raises
        ------
        Violation
            At the first broken rule.
        """
        seen, buffers = set(), {}
        stack = [tuple(start)]
        self.programs += 1
        while stack:
            run = self.run(program, buffers, **self.network)
            self.runs += 1
            try:
                for action in stack.pop():
                    run.do(action)
                self.go_on(run, seen, stack)
            finally:
                run.close()
        self.states += len(seen)

    def go_on(self, run, seen, stack):
        """Follow one way from here until a known state; leave the others on the stack."""
        while (state := run.fingerprint()) not in seen:
            seen.add(state)
            prefix = tuple(run.schedule)
            actions, done = self.changing(run, state)
            if not actions:
                self.ends += 1
                self.advised |= run.advised()
                self.placed.add(run.placed())
                run.finish()
                return
            if done is None:
                done = actions[0]
                run.do(done)
            self.count(run)
            stack += [(*prefix, other) for other in actions if other != done]

    def count(self, run):
        self.used += run.used() > run.used_before
        run.used_before = run.used()


def settled(program, calls, **network):
    """The schedule by which these calls are made, and everything settles after each of them."""
    run = Run(program, **network)
    try:
        for call in calls:
            run.do(call)
            run.settle()
        return tuple(run.schedule)
    finally:
        run.close()


def walk(program, choices, **network):
    """One schedule, by `choices`: what to take of the actions that are possible; then judge."""
    run = Run(program, **network)
    try:
        for choice in itertools.chain(choices, itertools.repeat(0)):
            actions = run.actions()
            if not actions or len(run.schedule) > STEPS_MAX:
                break
            run.do(actions[choice % len(actions)])
        run.finish()
        return run.used()
    finally:
        run.close()


def replay(program, schedule, **network):
    """Run `program` by `schedule`, then judge it where it stands."""
    run = Run(program, **network)
    try:
        for action in schedule:
            run.do(action)
        if not any(isinstance(action, str) and action.startswith("call")
                   for action in run.actions()):
            run.settle()
            run.finish()
    finally:
        run.close()
