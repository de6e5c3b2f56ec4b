"""Adaptation by regret (G1-G5): what offers cost against what missing ones cost."""

import time

import numpy as np
import pytest

from pyrdv.engine.engine import Engine
from pyrdv.instruments.engine import Driver
from pyrdv.instruments.sim.network import Network

EAGER, SMALL, LARGE = 4096, 16 << 10, 1 << 20
FEW, SILENT, TRIAL_EVERY, TRIALS = 3, 3, 16, 2
MOVE_S = 5e-3           # far longer than an offer takes to make


def figures(seconds):
    """Of a network that takes `seconds` for each message, whatever its size."""
    sizes = (EAGER, LARGE)
    return {"latency": 1e-6, "gap": 1e-7, "buffer": 0,
            **{name: [[size, seconds * (1 + number * 1e-3)] for number, size in enumerate(sizes)]
               for name in ("net", "read", "copy", "registration")}}


class Two:
    """Rank 0 sends to rank 1 over a network that delivers when it is told to."""

    def __init__(self, seconds=None, **options):
        known = {} if seconds is None else {"figures": (figures(seconds),)}
        self.network = Network(2)
        self.engines = [Engine(rank, 2, [self.network.fabric(rank)], eager_max=EAGER,
                               **{"speculation": "indexed", "protocol": "get", **known,
                                  **options})
                        for rank in range(2)]
        self.ends = [Driver(engine) for engine in self.engines]
        for rank, engine in enumerate(self.engines):
            engine.connect(1 - rank)
        self.settle()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for engine in self.engines:
            engine.close()

    def deliver(self):
        while events := self.network.pending():
            self.network.deliver(events[0].id)

    def settle(self):
        for _ in range(6):
            self.deliver()
            for end in self.ends:
                end.turn()

    def count(self, name):
        return sum(engine.counters()[name] for engine in self.engines)

    def end(self, *operations):
        self.settle()
        for operation in operations:
            assert operation.ended() and operation.result[0] == 0
            operation.release()

    def receive(self, size, tag=1, **how):
        return self.ends[1].receive(0, tag, np.zeros(size, np.uint8), **how)

    def send(self, size, tag=1):
        return self.ends[0].send(1, tag, np.ones(size, np.uint8))

    def crossing(self, size, tag=1):
        """Both call before they hear of each other: an offer is of no use."""
        send = self.send(size, tag)
        self.end(send, self.receive(size, tag))

    def receiver_first(self, size, tag=1):
        """The receiver came long ago; whether its offer was used."""
        before = self.count("rtrs_used")
        receive = self.receive(size, tag)
        self.deliver()
        self.end(self.send(size, tag), receive)
        return self.count("rtrs_used") > before

    def missed(self, size, tag=1, when="later"):
        """The receiver computes, and waits while the message moves.

        `when`: it finds the announcement in its wait, or in a call before that (``earlier``), or it
        waits from the start (``always``), or at least before the message is sent (``soon``).
        """
        receive = self.receive(size, tag, waits=when == "always")
        self.deliver()
        if when == "soon":
            self.away()
            receive.wanted()
            self.ends[1].turn()
        send = self.send(size, tag)
        self.deliver()
        self.away()
        if when == "later":
            receive.wanted()
        self.ends[1].turn()
        if when == "earlier":
            receive.wanted()
        self.away()
        self.end(send, receive)

    @staticmethod
    def away(seconds=MOVE_S):
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass

    def stopped(self, size, tag=1):
        """Have the envelope stopped."""
        for _ in range(FEW):
            self.crossing(size, tag)
        before = self.count("rtrs_sent")
        self.crossing(size, tag)
        assert self.count("rtrs_sent") == before and self.count("rtrs_withheld") == 1


def test_a_message_that_takes_long_is_always_offered():
    """G3: a thousand that cross cost less than the first one that does not."""
    with Two(seconds=1) as two:
        for _ in range(1000):
            two.crossing(LARGE)
        assert (two.count("rtrs_sent"), two.count("rtrs_withheld")) == (1000, 0)
        assert two.receiver_first(LARGE)


def test_a_short_one_in_lock_step_is_offered_a_few_times():
    """G3, G4: then there are trials."""
    with Two(seconds=1e-9) as two:
        for _ in range(FEW + TRIAL_EVERY - 1):
            two.crossing(SMALL)
        assert (two.count("rtrs_sent"), two.count("rtrs_withheld")) == (FEW, TRIAL_EVERY - 1)
        for _ in range(TRIALS + 1):
            two.crossing(SMALL)
        assert two.count("rtrs_sent") == FEW + TRIALS


def test_small_messages_take_no_offer():
    """G3: what goes eager does not move while anybody waits."""
    with Two(seconds=1) as two:
        for _ in range(FEW + 1):
            receive = two.receive(LARGE)
            two.settle()
            two.end(two.send(8), receive)
        assert (two.count("rtrs_sent"), two.count("rtrs_withheld")) == (FEW, 1)


def test_a_used_trial_resumes():
    """G2"""
    with Two(seconds=1e-9) as two:
        two.stopped(SMALL)
        for _ in range(TRIAL_EVERY - 2):
            two.crossing(SMALL)
        assert not two.receiver_first(SMALL)        # the sender does not look yet (G5)
        assert two.count("rtrs_sent") == FEW + 1
        assert two.receiver_first(SMALL) and two.receiver_first(SMALL)
        assert two.count("rtrs_sent") == FEW + 3


@pytest.mark.parametrize("before", [0, SILENT])
@pytest.mark.parametrize("when", ["later", "earlier"])
def test_one_missed_message_resumes(when, before):
    """G4, G5: of a changed program three messages pay at most: one, and one more if the sender
    does not look any more."""
    with Two(seconds=1e-9) as two:
        two.stopped(SMALL)
        for _ in range(before):
            two.crossing(SMALL)
        two.missed(SMALL, when=when)
        sent = two.count("rtrs_sent")
        used = [two.receiver_first(SMALL) for _ in range(4)]
        assert used == [not before, True, True, True] and two.count("rtrs_sent") == sent + 4


def test_resumptions_that_fail_make_patient():
    """G4: one, two, three missed messages, and no more than three."""
    with Two(seconds=1e-9) as two:
        two.stopped(SMALL)
        counts = []
        for _ in range(4):
            missed = 0
            sent = two.count("rtrs_sent")
            while two.count("rtrs_sent") == sent:
                two.missed(SMALL, when="earlier")   # its whole time would count for offers
                missed += 1
                two.crossing(SMALL)
            for _ in range(TRIALS - 1):
                two.crossing(SMALL)
            counts.append(missed)
        assert counts == [1, 2, 3, 3]


@pytest.mark.parametrize("when", ["always", "soon"])
def test_who_waits_all_the_time_misses_nothing(when):
    """G4: an RTS that comes meanwhile was not there before."""
    with Two(seconds=1e-9) as two:
        two.stopped(SMALL)
        for _ in range(5):
            two.missed(SMALL, when=when)
        assert two.count("rtrs_withheld") == 6


def test_a_sender_that_hears_nothing_does_not_look():
    """G5: no turn before a large send, when the last ones found no RTR; any RTR ends that."""
    with Two(seconds=1) as two:
        for _ in range(SILENT):
            send = two.send(LARGE)
            two.settle()
            two.end(send, two.receive(LARGE))
        assert two.count("rtrs_sent") == 0
        assert [two.receiver_first(LARGE) for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize("envelopes", [5000])
def test_there_is_a_record_for_each_envelope(envelopes):
    """G1: their number is bounded by memory, not by the luck of a hash."""
    with Two(seconds=1e-9) as two:
        for _ in range(FEW + 1):
            for tag in range(envelopes):
                two.crossing(SMALL, tag)
        assert two.count("rtrs_sent") == FEW * envelopes
        assert two.count("rtrs_withheld") == envelopes


def test_a_threshold_of_zero_never_stops():
    with Two(seconds=1e-9, adapt=0) as two:
        for _ in range(40):
            two.crossing(SMALL)
        assert two.count("rtrs_sent") == 40
