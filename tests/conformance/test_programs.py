"""Random programs of sends, receives, probes and cancels, judged by an oracle (R3-R6).

Each message has a size of its own, which tells it apart even when it has no data.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from .oracle import ANY, Message, Model, Receive, check
from .worlds import MPI, pattern

RANKS = 3
BASES = (0, 1000, 3000, 6000, 80_000)
ROOM = 81_000

ranks = st.integers(0, RANKS - 1)
sources = st.one_of(st.just(ANY), ranks)
tags = st.integers(0, 2)
receive_tags = st.one_of(st.just(ANY), tags)
contexts = st.integers(0, 1)
operations = st.one_of(
    st.tuples(st.just("send"), ranks, ranks, tags, st.sampled_from(BASES), contexts),
    st.tuples(st.just("ssend"), ranks, ranks, tags, st.sampled_from(BASES), contexts),
    st.tuples(st.just("recv"), ranks, sources, receive_tags, contexts),
    st.tuples(st.just("recv"), ranks, sources, receive_tags, contexts),
    st.tuples(st.just("probe"), ranks, sources, receive_tags, contexts),
    st.tuples(st.just("improbe"), ranks, sources, receive_tags, contexts),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
)
programs = st.lists(operations, max_size=60)


class Runner:
    """Runs one program; `settled` lets every call take full effect at once."""

    def __init__(self, w, settled):
        self.w = w
        self.settled = settled
        self.comms = [w.comms, w.dup()]
        self.model = Model() if settled else None
        self.messages = []
        self.sends = []
        self.receives = []
        self.live = {}          # id of a Receive -> (request, room)
        self.expected = {}      # id of a Receive -> Message, by the model
        self.given_up = set()   # ids of Receives that the program cancelled

    def envelope(self, operation):
        _, rank, source, tag, context = operation
        return Receive(rank, context, source, tag, len(self.receives))

    def do(self, operation):
        getattr(self, operation[0])(operation)
        if self.settled:
            self.w.settle()
        else:
            for _ in range(self.w.rng.randrange(3)):
                self.w.step()

    def send(self, operation):
        kind, source, dest, tag, base, context = operation
        index = len(self.messages)
        message = Message(source, dest, context, tag, base + index, index)
        comm = self.comms[context][source]
        call = comm.Issend if kind == "ssend" else comm.Isend
        self.messages.append(message)
        self.sends.append(call(pattern(message.size, index), dest=dest, tag=tag))
        if self.model:
            receive = self.model.send(message)
            if receive:
                self.expected[id(receive)] = message

    ssend = send

    def recv(self, operation):
        receive = self.envelope(operation)
        self.receives.append(receive)
        room = np.zeros(ROOM, np.uint8)
        comm = self.comms[receive.context][receive.rank]
        request = comm.Irecv(room, source=self.source(receive), tag=self.tag(receive))
        self.live[id(receive)] = (request, room)
        if self.model:
            message = self.model.receive(receive)
            if message:
                self.expected[id(receive)] = message

    def source(self, receive):
        return MPI.ANY_SOURCE if receive.source == ANY else receive.source

    def tag(self, receive):
        return MPI.ANY_TAG if receive.tag == ANY else receive.tag

    def look(self, status):
        """The message that a status describes."""
        size = status.Get_count(MPI.BYTE)
        (message,) = [m for m in self.messages if m.size == size]
        assert (message.source, message.tag) == (status.Get_source(), status.Get_tag())
        return message

    def probe(self, operation):
        receive = self.envelope(operation)
        status = MPI.Status()
        comm = self.comms[receive.context][receive.rank]
        found = comm.Iprobe(source=self.source(receive), tag=self.tag(receive), status=status)
        if found:
            assert receive.takes(self.look(status))
        if self.model:
            expected = self.model.probe(receive)
            assert found == (expected is not None)
            assert not found or self.look(status) is expected

    def improbe(self, operation):
        receive = self.envelope(operation)
        status = MPI.Status()
        comm = self.comms[receive.context][receive.rank]
        handle = comm.Improbe(source=self.source(receive), tag=self.tag(receive), status=status)
        expected = self.model.probe(receive) if self.model else None
        if handle is not None:
            self.receives.append(receive)
            room = np.zeros(ROOM, np.uint8)
            self.live[id(receive)] = (handle.Irecv(room), room)
            if self.model:
                self.expected[id(receive)] = expected
                self.model.unexpected.remove(expected)
        if self.model:
            assert (handle is not None) == (expected is not None)

    def cancel(self, operation):
        receives = [r for r in self.receives if id(r) in self.live]
        if not receives:
            return
        receive = receives[operation[1] % len(receives)]
        self.live[id(receive)][0].Cancel()
        self.given_up.add(id(receive))
        if self.model:
            self.model.cancel(receive)

    def collect(self, receive):
        """Wait for a receive that must end, and note what it got."""
        request, room = self.live.pop(id(receive))
        status = MPI.Status()
        self.w.until(lambda: request.Test(status))
        if status.Is_cancelled():
            receive.cancelled = True
            assert not room.any()
            return
        receive.message = self.look(status)
        size = receive.message.size
        assert np.array_equal(room[:size], pattern(size, receive.message.order))
        assert not room[size:].any()

    def finish(self):
        """Cancel what was not matched, drain what was not received, judge."""
        self.w.settle()
        for receive in self.receives:
            if id(receive) in self.live:
                self.live[id(receive)][0].Cancel()
                self.collect(receive)
                receive.idle = receive.cancelled and id(receive) not in self.given_up
        for receive in self.receives:
            if self.model:
                assert receive.message is self.expected.get(id(receive)), receive
        left = len(self.messages) - sum(r.message is not None for r in self.receives)
        while left:
            left -= self.w.until(self.drain)
        self.w.run(*self.sends)
        assert check(self.messages, self.receives) == []

    def drain(self):
        before = len(self.receives)
        for context in range(2):
            for rank in range(RANKS):
                self.improbe_late(rank, context)
        for receive in self.receives[before:]:
            self.collect(receive)
        return len(self.receives) - before

    def improbe_late(self, rank, context):
        handle = self.comms[context][rank].Improbe(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
        if handle is not None:
            receive = Receive(rank, context, ANY, ANY, len(self.receives), drained=True)
            self.receives.append(receive)
            room = np.zeros(ROOM, np.uint8)
            self.live[id(receive)] = (handle.Irecv(room), room)


def common(examples):
    return settings(max_examples=examples, deadline=None, derandomize=True,
                    suppress_health_check=list(HealthCheck))


@common(60)
@given(program=programs, seed=st.integers(0, 1000))
def test_settled_programs(world, program, seed):
    """R4, R6: with every call taking effect at once, MPI leaves exactly one outcome."""
    with world(RANKS, seed=seed) as w:
        runner = Runner(w, settled=True)
        for operation in program:
            runner.do(operation)
        runner.finish()


@common(150)
@given(program=programs, seed=st.integers(0, 100_000))
def test_racing_programs(world, program, seed):
    """R3, R4, R6: in any order of events nothing is lost, doubled or overtaken."""
    with world(RANKS, seed=seed, slots=4) as w:
        runner = Runner(w, settled=False)
        for operation in program:
            runner.do(operation)
        runner.finish()


@pytest.mark.parametrize("seed", range(8))
def test_long_programs(world, seed):
    """R3, R4, R6: a few hundred operations with little room."""
    with world(RANKS, seed=seed, slots=3, unexpected_max=1) as w:
        runner = Runner(w, settled=False)
        rng = w.rng
        for _ in range(400):
            kind = rng.choice(("send", "send", "ssend", "recv", "recv", "probe", "improbe",
                               "cancel"))
            rank, tag, context = rng.randrange(RANKS), rng.randrange(3), rng.randrange(2)
            if "send" in kind:
                runner.do((kind, rank, rng.randrange(RANKS), tag, rng.choice(BASES),
                           context))
            elif kind == "cancel":
                runner.do((kind, rng.randrange(400)))
            else:
                source = rng.choice((ANY, *range(RANKS)))
                runner.do((kind, rank, source, rng.choice((ANY, tag)), context))
        runner.finish()


def planted(change):
    """A correct history of two messages and two receives, with one thing changed."""
    messages = [Message(0, 1, 0, 5, 10, 0), Message(0, 1, 0, 5, 11, 1)]
    receives = [Receive(1, 0, 0, 5, 0, messages[0]), Receive(1, 0, ANY, ANY, 1, messages[1])]
    change(messages, receives)
    return check(messages, receives)


def swap(messages, receives):
    receives[0].message, receives[1].message = receives[1].message, receives[0].message


def lose(messages, receives):
    receives[1].message = None


def double(messages, receives):
    receives[1].message = messages[0]


def mismatch(messages, receives):
    receives[0].tag = 6


def test_oracle_accepts_what_is_right():
    assert planted(lambda messages, receives: None) == []


def strand(messages, receives):
    receives.insert(0, Receive(1, 0, 0, ANY, -1, idle=True, cancelled=True))
    receives[2].drained = True


@pytest.mark.parametrize("change", [swap, lose, double, mismatch, strand])
def test_oracle_finds_planted_faults(change):
    assert planted(change)
