"""Greetings: by which members that take different algorithms find out (`choosing`, rule 3)."""

import functools

from pyrdv.collectives.trees import parent_and_children

#: Lengths, bytes: such as arrays of numbers do not have.
GREETING, OTHER_GREETING = 13, 17


def greeting(build, length=GREETING):
    """`build`, and in the first round `length` bytes from each member to the next."""
    @functools.wraps(build)
    def greeted(plan, *args):
        if plan.size > 1:
            tokens = plan.scratch(2 * length)
            plan.receive(tokens[length:], (plan.rank - 1) % plan.size)
            plan.send(tokens[:length], (plan.rank + 1) % plan.size)
        build(plan, *args)
    return greeted


def greeted_down(plan, root):
    """Receive what comes down the binomial tree, in this round.

    Returns
    -------
    (memoryview, list of int)
        What is to be sent, before anything else and in a round behind this one, and to whom.
    """
    parent, children = parent_and_children(plan.rank, plan.size, root)
    token = plan.scratch(GREETING)
    if parent is not None:
        plan.receive(token, parent)
    return token, children


def greet_up(plan, root):
    """Up the binomial tree, in the first round."""
    parent, children = parent_and_children(plan.rank, plan.size, root)
    tokens = plan.scratch(GREETING * (len(children) + 1))
    for number, child in enumerate(children, 1):
        plan.receive(tokens[GREETING * number:GREETING * (number + 1)], child)
    if parent is not None:
        plan.send(tokens[:GREETING], parent)
