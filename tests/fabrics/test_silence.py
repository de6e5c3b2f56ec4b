"""The peer timeout holds in both directions (fabrics/verbs/silence.pyx); the clock is ours."""

import pytest

from pyrdv.fabrics.verbs.silence import judge, transport

LIMITS = (0.5, 1.0, 5.0, 60.0)
# In parts of the peer timeout: a longer silence is noticed by then (docs/fabrics.md).
BOUND = {False: 1.25, True: 2.5}


def story(timeout, iwarp, begin, end, answer, tick=0.01):
    """When a link that is heard of all the time, but from `begin` to `end`, is given up, or None.

    `answer(asked)`: when the answer to a question comes that was put while nothing passes.
    """
    heard, probed, comes = 0.0, 0.0, None
    for step in range(1, round(end / tick) + 2):
        now = step * tick
        if now < begin or comes is not None and now >= comes:
            heard, probed, comes = now, 0.0, None
        verdict = judge(now, heard, probed, timeout, iwarp)
        if verdict == "ask":
            probed = now
            comes = answer(now)
        elif verdict == "lost":
            return now
    return None


@pytest.mark.parametrize("timeout", LIMITS)
@pytest.mark.parametrize("iwarp", [False, True])
def test_longer_is_noticed(timeout, iwarp):
    """Nothing comes any more: noticed after the timeout, and by the bound."""
    tick = timeout / 200
    gone = story(timeout, iwarp, timeout, 5 * timeout, lambda asked: 1e9, tick)
    assert timeout < gone - timeout <= BOUND[iwarp] * timeout + 2 * tick


@pytest.mark.parametrize("timeout", LIMITS)
@pytest.mark.parametrize("part", [0.1, 0.5, 0.75, 0.8, 0.99])
@pytest.mark.parametrize("idle", [0.0, 0.1, 0.24])
def test_shorter_ends_nothing(timeout, part, idle):
    """A cut for less than the timeout; the question waits for its end (a transport that repeats
    often)."""
    begin, tick = timeout * (1 - idle), timeout / 200
    cut = timeout + part * timeout
    assert story(timeout, False, begin, 3 * timeout, lambda asked: max(asked, cut), tick) is None


@pytest.mark.parametrize("timeout", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.8, 0.99])
def test_shorter_ends_nothing_with_ever_longer_pauses(timeout, part):
    """Q2: TCP repeats 0.2 s after the question, then after twice as long, and so on."""
    cut, tick = timeout * (1 + part), timeout / 200

    def answer(asked):
        pause, at = 0.2, asked
        while at < cut:
            at += pause
            pause *= 2
        return at

    assert story(timeout, True, timeout, 5 * timeout, answer, tick) is None


@pytest.mark.parametrize("timeout", [*LIMITS, 600.0, 43200.0])
def test_transport_does_not_give_up_before(timeout):
    """Q3: all its tries take longer than a silence that ends nothing; not many times as long."""
    wait, retries = transport(timeout)
    assert retries == 7
    assert 1.25 * timeout < 8 * wait <= max(2.5 * timeout, 1)
    # Where it never gives up, it repeats several times within the timeout.
    wait, retries = transport(timeout, True)
    assert retries == 7
    assert wait <= max(timeout / 6, 0.07)
