"""A large message moves while its ranks compute, whoever comes first (programs/overlap.py).

What is judged is how many bytes have moved while nobody called the library, not how long it took.
"""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.verbs

PROGRAM = Path(__file__).parent / "programs" / "overlap.py"
SIZE = 1 << 20
MESSAGES = 6
#: Messages of a scene that a busy machine may have held up: after each the other side waits longer.
LATE = 2
SCENES = [f"{first}, {side}" for first in ("receiver", "sender")
          for side in ("receiver", "sender", "both")]
#: Messages that may pay when a program changes its ways (engine/speculation/regret.pyx).
PAY = 3


def moved(jobs, *, messages=MESSAGES, crossing=0, **knobs):
    """Bytes of each message that moved while its side computed, by scene."""
    shell = "; ".join(f"export {name}={value}" for name, value in knobs.items())
    outcome = jobs.run([PROGRAM], 2, first=shell, args=[str(messages), str(crossing)])
    found = json.loads(outcome.ok().out)
    assert list(found) == SCENES and {len(each) for each in found.values()} == {messages}
    return found


def still(messages):
    """How many of the messages have not moved as a whole."""
    return sum(bytes_ < SIZE for bytes_ in messages)


def test_defaults(jobs):
    """Messages move as a whole, whoever comes first and whoever computes."""
    found = moved(jobs)
    assert all(still(found[scene]) <= LATE for scene in SCENES), found


def test_right_after_crossing_messages(jobs):
    """1000 messages of the envelope that crossed have taught it nothing that lasts."""
    found = moved(jobs, crossing=1000)
    for scene in SCENES:
        assert still(found[scene]) <= (PAY if scene.startswith("receiver") else LATE), found


@pytest.mark.parametrize("knob, first", [("PYRDV_SPECULATION", "receiver"),
                                         ("PYRDV_INITIAL_TURN", "sender")])
def test_a_loss_would_be_seen(jobs, knob, first):
    """Without what moves them, messages stand still, more than the tests above let pass."""
    messages = 4
    found = moved(jobs, messages=messages, PYRDV_PROGRESS="polling",
                  **{knob: "off"})[f"{first}, receiver"]
    # A call that is made for another reason may happen to make the turn that is missing.
    assert still(found) >= messages - 1 > LATE and 0 in found, found
