"""Every interleaving of small programs (R3-R6), and longer programs by chance.

`make explore` looks at more of both.
"""

import os

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyrdv.instruments.engine import ANY
from tests.explore import programs
from tests.explore.explorer import EAGER, LARGE, LONG, Explorer, Run, Violation, replay, walk

LONGER = "EXPLORE_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("EXPLORE_EXAMPLES", "300"))


#: Steps as a call makes them, and by themselves first, as a signal would (PYRDV_DEBUG).
STEPS = pytest.mark.parametrize("debug", [False, True], ids=["of calls", "by themselves"])


@STEPS
@pytest.mark.parametrize("name", programs.CHOSEN)
def test_bytes_that_move_at_any_time(name, debug):
    """R1, R3, R5: READs and WRITEs move their bytes, and report it, at any later time."""
    explorer = Explorer(debug=debug)
    explorer.explore(programs.CHOSEN[name])
    assert explorer.ends


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.LARGER)
def test_three_of_something(name):
    explorer = Explorer(prompt=True)
    explorer.explore(programs.LARGER[name])
    assert explorer.ends


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.FROM_ANYBODY)
def test_three_ranks_and_anybody(name):
    """R4: what two ranks send may come in any order, and a wildcard stands before others."""
    explorer = Explorer(prompt=True)
    explorer.explore(programs.FROM_ANYBODY[name])
    assert explorer.ends


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["indexed", "classic"])
def test_adaptation(policy):
    """A1, A2, G1: STOP and RESUME, or stops and trials, come in any order with everything else."""
    explorer = Explorer(prompt=True, speculation=policy, windows=programs.NARROW)
    explorer.explore(programs.ADAPTING, programs.ADAPTING_START)
    if policy == "classic":     # what is withheld bars the trial behind it
        assert explorer.advised == {"stops_sent"}
    else:
        assert explorer.used and explorer.advised == set()


def explore_all(found, least, **network):
    """Explore `found`; each program was really run, and RTRs were used in many."""
    explorer = Explorer(prompt=True, **network)
    for program in found:
        explorer.explore(program)
    assert explorer.ends >= explorer.programs >= least
    return explorer


@STEPS
@pytest.mark.parametrize("sends, receives, least", [(1, 1, 12), (1, 2, 48), (2, 1, 72)])
def test_all_programs(sends, receives, least, debug):
    """R1, R3-R6: mixed sizes around the threshold, any tags, wildcards, truncation."""
    assert explore_all(programs.pairs(sends, receives), least, debug=debug).used


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_programs_of_two_and_two(part):
    found = list(programs.pairs(2, 2))[part::4]
    assert explore_all(found, 72).used


@pytest.mark.slow
@pytest.mark.parametrize("sends, receives", [(1, 1), (1, 2), (2, 1)])
def test_all_cancels(sends, receives):
    """W1-W3: any receive is cancelled, at any time after it was posted."""
    assert explore_all(programs.cancelled(programs.pairs(sends, receives)), 12).used


@pytest.mark.parametrize("network", [{"slots": 2}, {"lazy": True}, {"speculation": "off"},
                                     {"transfers": 1}, {"overtaking": True}],
                         ids=lambda network: next(iter(network)))
def test_other_networks(network):
    """Little room, connections that come up late, no speculation, fences that are passed."""
    explore_all([programs.CHOSEN["exchange, receives first"],
                 *programs.shuffled(programs.pairs(2, 2), 1, 12)], 13, **network)


@STEPS
@pytest.mark.parametrize("name", programs.PIPED)
def test_pipelines(name, debug):
    """Q1-Q4, B2: chunks, their packets, their bytes and their completions in every order."""
    explorer = Explorer(pipeline=True, debug=debug)
    explorer.explore(programs.CHOSEN[name])
    assert explorer.states > 1000 and explorer.ends


@STEPS
@pytest.mark.parametrize("name", programs.PLACED)
def test_placed(name, debug):
    """Z1-Z4: messages, counts of buffers, WRITEs and their completions in every order."""
    program, network, start = programs.placed(name, debug=debug)
    explorer = Explorer(**network)
    explorer.explore(program, start)
    assert explorer.ends and all(explorer.placed)


def test_buffers_that_are_given_meanwhile():
    """Z5: STAND comes in any order with what else happens; the next message is placed or not."""
    explorer = Explorer(placing="pipeline", prompt=True)
    explorer.explore(programs.CHOSEN["two messages"])
    assert explorer.placed == {0, 1}


@pytest.mark.slow
def test_all_programs_by_pipeline():
    explorer = Explorer(pipeline=True, prompt=True)
    for program in programs.pairs(1, 1):
        explorer.explore(program)
    assert explorer.ends >= explorer.programs >= 12


tags = st.sampled_from((1, 1, 2))
rooms = st.sampled_from(programs.RECEIVES)
sizes = st.sampled_from((EAGER, LARGE, LARGE, LONG))


def program_of(ranks):
    """Programs of `ranks` ranks, everything mixed."""
    peers = st.integers(0, ranks - 1)
    receive = st.builds(lambda one, source: programs.receive(*one, source), rooms,
                        peers | st.just(ANY))
    step = st.one_of(st.builds(programs.send, tags, sizes, st.booleans(), peers), receive,
                     receive, st.builds(programs.cancel, st.integers(0, 3)))
    return st.tuples(*[st.lists(step, max_size=6).map(cancel_what_was_posted)] * ranks)


def cancel_what_was_posted(steps):
    """Leave out a cancel of a receive that comes later."""
    kept = []
    for step in steps:
        posted = sum(one[0] == "receive" for one in kept)
        if step[0] != "cancel" or step[1] < posted:
            kept.append(step)
    return tuple(kept)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck),
          **({"database": None} if LONGER else {"derandomize": True}))
@given(data=st.data())
def test_longer_programs(ranks, data):
    """R3-R6: by chance; what fails is shrunk to a program and a schedule that `replay` runs."""
    program = data.draw(program_of(ranks))
    choices = data.draw(st.lists(st.integers(0, 7), max_size=120))
    network = data.draw(st.sampled_from(({}, {"slots": 2, "transfers": 1}, {"lazy": True},
                                         {"overtaking": True}, {"pipeline": True},
                                         {"pipeline": True, "slots": 2, "overtaking": True},
                                         {"placing": "pipeline", "reuse": True},
                                         {"placing": "figures", "overtaking": True,
                                          "transfers": 1, "reuse": True})))
    policy = data.draw(st.sampled_from(("indexed", "classic")))
    walk(program, choices, speculation=policy, **network)


# What the explorer itself promises.

def test_a_schedule_runs_again():
    """The same program and schedule reach the same state."""
    program = programs.CHOSEN["exchange, receives first"]
    prints = []
    for _ in range(2):
        run = Run(program)
        for _ in range(25):
            actions = run.actions()
            run.do(actions[len(run.schedule) % len(actions)])
        prints.append((run.fingerprint(), run.schedule))
        run.close()
    # Addresses are in the packets: without them the states are the same.
    assert prints[0][0][:2] == prints[1][0][:2]
    assert prints[0][1] == prints[1][1]
    replay(program, prints[0][1])


def test_what_is_broken_is_told_with_its_schedule():
    """A receive that nothing comes for is no fault; one that got other data is."""
    run = Run(programs.CHOSEN["one message"])
    for action in ("call 1", "call 0"):
        run.do(action)
    run.buffers["send", 0, 0][:] = bytes(LARGE)
    with pytest.raises(Violation, match=r"(?s)with data.*replay\(.*'call 1',\n.*'call 0'"):
        run.settle()
    run.close()
