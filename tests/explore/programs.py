"""The small programs that are explored."""

import itertools
import random

from pyrdv.instruments.engine import ANY
from tests.explore.explorer import EAGER, LARGE, LONG, ROOM, SMALL, settled

#: Of a send: size and whether it is synchronous.
MESSAGES = ((EAGER, False), (LARGE, False), (LONG, False))
#: Of a receive: tag and room; a receive from anybody is one with tag None.
RECEIVES = ((1, ROOM), (2, ROOM), (ANY, ROOM), (1, SMALL))


def send(tag=1, size=LARGE, sync=False, dest=1):
    """One step: a send."""
    return ("send", dest, tag, size, sync)


def receive(tag=1, room=ROOM, source=0):
    """One step: a receive."""
    return ("receive", source, tag, room)


def cancel(number=0):
    """One step: cancel the receive of that number."""
    return ("cancel", number)


def cancel_send(number=0):
    """One step: cancel the send of that number, if it is not posted yet."""
    return ("cancel send", number)


def take(tag=1, source=0):
    """One step: a matched probe."""
    return ("take", source, tag)


def receive_taken(room=ROOM):
    """One step: receive what the probe before took, if it took something."""
    return ("receive taken", room)


def pairs(sends, receives):
    """All programs of rank 0 sending so often, and rank 1 receiving; the first send has tag 1."""
    kinds = [(tag, size, sync) for tag in (1, 2) for size, sync in MESSAGES]
    for first in itertools.product(kinds, repeat=sends):
        if first and first[0][0] == 1:
            for second in itertools.product(RECEIVES, repeat=receives):
                yield (tuple(send(*one) for one in first), tuple(receive(*one) for one in second))


def cancelled(programs):
    """Each program once per receive, which is cancelled at the end."""
    for first, second in programs:
        for number in range(len(second)):
            yield first, (*second, cancel(number))


#: Each looks at one thing; all are explored with bytes that move at any time.
CHOSEN = {
    "one message": ((send(),), (receive(),)),
    "synchronous": ((send(sync=True),), (receive(),)),
    "small and synchronous": ((send(1, EAGER, True),), (receive(),)),
    "too long": ((send(1, LONG),), (receive(),)),
    "from anybody": ((send(),), (receive(source=ANY),)),
    "cancel": ((send(),), (receive(), cancel())),
    "cancel, and again": ((send(),), (receive(), cancel(), receive())),
    "exchange": ((send(), receive(source=1)), (send(dest=0), receive())),
    "exchange, receives first": ((receive(source=1), send()), (receive(), send(dest=0))),
    "to itself": ((receive(source=0), send(dest=0), send()), (receive(),)),
    "two messages": ((send(), send()), (receive(), receive())),
}

#: The send that comes first is received last.
CROSSED = ((send(1), send(2)), (receive(2), receive(1)))

#: Those that are explored with large messages in chunks; each of them is many more steps then.
PIPED = ("one message", "synchronous", "too long", "from anybody", "cancel", "to itself")

#: By the first message, rank 0 gets buffers of rank 1.
GIVEN = ("call 1", "call 0")
#: Messages into standing buffers: program, network, and the calls after which it is explored.
PLACED = {
    "one": (((send(), send()), (receive(), receive())), {}),
    "synchronous": (((send(), send(sync=True)), (receive(), receive())), {}),
    "too small": (((send(), send()), (receive(), receive(1, SMALL))), {}),
    "from anybody": (((send(), send()), (receive(), receive(ANY, source=ANY))), {}),
    "cancel": (((send(), send()), (receive(), receive(), cancel(1))), {}),
    "found by a probe": (((send(), send()), (receive(), take(), receive_taken())), {}),
    "two": (((send(), send(), send()), (receive(), receive(), receive())), {"reuse": True}),
    "small before large": (
        ((send(), send(1, EAGER), send()), (receive(), receive(), receive())), {}),
    "little room": (
        ((send(), send(2, EAGER), send(2, EAGER), send(), cancel_send(3), send()),
         (receive(),)), {"slots": 2, "reuse": True, "prompt": True}),
    "crossed": (
        ((send(), send(1), send(2), send(2), send(1)),
         (receive(), receive(2), receive(2), receive(), receive())), {"prompt": True},
        (*GIVEN, "call 0", "call 0", "call 0")),
    "a fourth": (((send(),) * 5, (receive(),) * 2), {"prompt": True}),
    "behind a read": (
        ((send(), send(1, LONG), send(), send()), (receive(),) * 4),
        {"placing": "figures", "speculation": "off", "overtaking": True, "prompt": True}),
    "read or placed": (
        ((send(), send(), send(1, LONG)), (receive(),) * 3),
        {"placing": "figures", "speculation": "off"}),
    "completions that come late": (
        ((send(),) * 5, (receive(),) * 5), {"prompt": True}, (*("call 1",) * 5, "call 0")),
    "told with another message": (
        ((send(),) * 5, (receive(), send(1, EAGER, dest=0), receive())), {},
        (*GIVEN, "call 0", "call 0", "call 0")),
    "both ways": (
        ((send(), receive(source=1), send(), receive(source=1)),
         (receive(), send(dest=0), receive(), send(dest=0))), {"prompt": True},
        (*GIVEN, "call 1", "call 0")),
}


def placed(name, **further):
    """One of `PLACED`: program, network, and the schedule from where it is explored."""
    program, network, *calls = PLACED[name]
    network = {"placing": "pipeline", **network, **further}
    return program, network, settled(program, calls[0] if calls else GIVEN, **network)


#: Three receives or sends, or three ranks.
LARGER = {
    "from two, by anybody": (
        (receive(source=ANY), receive(source=1)), (send(dest=0),), (send(dest=0),)),
    "cancel a small one": ((send(), send()), (receive(1, SMALL), receive(), cancel(0))),
    "another tag before": ((send(2), send(1)), (receive(1), receive(1))),
    "from anybody between": (
        (receive(source=1), receive(source=ANY), receive(source=2)),
        (send(dest=0),), (send(dest=0),)),
    "cancel, and two messages": ((send(), send()), (receive(), cancel(0), receive())),
    "cancel the first": ((send(), send()), (receive(), receive(), cancel(0))),
    "more receives": ((send(), send()), (receive(), receive(), receive())),
    "wildcard between": ((send(), send(), send()), (receive(), receive(ANY), receive())),
    "small between": ((send(), send(1, EAGER), send()), (receive(), receive(), receive())),
    "small before large": ((send(1, EAGER), send(), send()), (receive(), receive(), receive())),
    "cancel, and receive again": ((send(), send()), (receive(), receive(), cancel(0), receive())),
    "tags crossed": ((send(1), send(2), send(1)), (receive(2), receive(1), receive(1))),
}


#: What only the classic pairing finds hard: an announcement meets a receive that sent no RTR, and
#: its data is still on its way when those behind it send theirs.  (Their names are in the tests.)
UNANSWERED = {
    "one too small": ((send(), send()), (receive(1, SMALL), receive(), receive())),
    "one of any tag": ((send(), send()), (receive(ANY), receive(), receive())),
    "one of any tag, taken late": ((send(), send()), (receive(), receive(ANY), receive())),
    "taken by a probe": ((send(), send()), (take(), receive(), receive_taken(), receive())),
    "too long, then one that fits": ((send(1, LONG), send()), (receive(), receive())),
    "cancel with one on its way": ((send(), send()), (receive(), receive(), cancel(0))),
}

#: Three ranks, of which two send to whoever asks.
FROM_ANYBODY = {
    "twice": ((receive(source=ANY), receive(source=ANY)), (send(dest=0),), (send(dest=0),)),
    "twice, of one and two": (
        (receive(source=ANY), receive(source=ANY), receive(source=1)),
        (send(dest=0), send(dest=0)), (send(dest=0),)),
    "small and large": (
        (receive(source=ANY), receive(source=1), receive(source=2)),
        (send(1, EAGER, dest=0), send(dest=0)), (send(dest=0),)),
    "behind one that is named": (
        (receive(source=1), receive(source=ANY)), (send(dest=0),), (send(dest=0),)),
    "cancelled": (
        (receive(source=ANY), receive(source=1), cancel(0)), (send(dest=0),), (send(dest=0),)),
    "of any tag": (
        (receive(ANY, source=ANY), receive(2, source=1), receive(1, source=2)),
        (send(2, dest=0),), (send(1, dest=0), send(2, dest=0))),
    "too small": (
        (receive(1, SMALL, ANY), receive(source=1), receive(source=2)),
        (send(dest=0),), (send(dest=0),)),
    "taken by a probe": (
        (take(source=ANY), receive(source=1), receive_taken(), receive(source=ANY)),
        (send(dest=0),), (send(dest=0),)),
    "round": ((receive(source=ANY), send(dest=1)), (receive(source=ANY), send(dest=2)),
              (receive(source=ANY), send(dest=0))),
}

#: Windows of the adaptation by which STOP and RESUME happen within a few messages: one RTR that is
#: not used, a trial in two receives, one trial that is used.
NARROW = (1, 2, 1)
#: Explored from where the first RTR was of no use, the second send has said STOP, one RTR was
#: withheld and a trial is on its way.
ADAPTING = ((send(1, LONG), send(), send(), send(), send()), (receive(),) * 4)
ADAPTING_START = ("call 1", 8, "call 0", "call 0", 4, 4, "turn 1", *("call 1",) * 3)

_STOPPED = (send(1, EAGER), send(), send(), send())
#: A small message, and large ones behind it, in one envelope: STOP-RTR, RESUME-RTR.  These are
#: explored from where a schedule has brought them: the program, the schedule, the network.
STOPPED = {
    "three RTRs before the stop": (
        (_STOPPED, (receive(),) * 5),
        (*("call 1",) * 3, "call 0", 8, 8, 8, "call 0", 4, 4, "turn 1", 24), {}),
    "two RTRs before the stop": (
        (_STOPPED, (receive(),) * 5),
        (*("call 1",) * 2, "call 0", 8, 8, "call 0", 4, 4, "turn 1", 24), {}),
    "two receives behind one that is cancelled": (
        ((send(), send()), (receive(), cancel(0), receive(), receive())),
        ("call 1", "call 1"), {"prompt": False}),
    "RTRs on their way at the stop": (
        (_STOPPED, (receive(),) * 3), ("call 1",) * 3 + ("call 0",) * 3, {"prompt": True}),
}

#: What the pairing as published gets wrong: program, where its schedule starts, and how that goes
#: on in the fewest actions.  The page docs/protocols.md tells the first one.
PUBLISHED = {
    "classic: only a receive that finds its RTS in its own call acknowledges": (
        UNANSWERED["one too small"], (),
        ("call 0", "call 1", 4, "call 1", "call 1", 8, 8, "call 0", 4, "turn 1")),
    "classic: STOP-RTR leaves the RTRs that were sent before": (
        *STOPPED["three RTRs before the stop"][:2],
        (8, "call 0", 4, "call 1", "call 1", 8, 8, "call 0", 4, "turn 1")),
}


def random_program(rng, ranks=2, most=6):
    """A longer program: up to `most` steps per rank, everything mixed."""
    program = []
    for rank in range(ranks):
        steps = []
        receives = 0
        for _ in range(rng.randrange(1, most + 1)):
            kind = rng.random()
            other = rng.choice([peer for peer in range(ranks) if peer != rank or rng.random() < .1])
            if kind < .45:
                size, sync = rng.choice(((EAGER, False), (LARGE, False), (LARGE, True),
                                         (LONG, False), (EAGER, True)))
                steps.append(send(rng.choice((1, 1, 2)), size, sync, other))
            elif kind < .9 or not receives:
                tag, room = rng.choice(RECEIVES)
                steps.append(receive(tag, room, rng.choice((other, other, ANY))))
                receives += 1
            else:
                steps.append(cancel(rng.randrange(receives)))
        program.append(tuple(steps))
    return tuple(program)


def shuffled(programs, seed, count):
    """`count` of `programs`, by chance but always the same ones."""
    every = list(programs)
    return random.Random(seed).sample(every, min(count, len(every)))
