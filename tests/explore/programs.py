"""The small programs that are explored."""

import itertools
import random

from pyrdv.engine.probe import ANY
from tests.explore.explorer import EAGER, LARGE, LONG, ROOM, SMALL

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
