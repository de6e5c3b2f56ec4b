"""Barriers."""


def dissemination(plan):
    """Rank i tells i + 1, i + 2, i + 4, ... that it is here: ceil(log2(n)) rounds.

    D. Hensgen, R. Finkel and U. Manber, "Two algorithms for barrier synchronization", 1988.
    """
    distance = 1
    while distance < plan.size:
        plan.receive(None, (plan.rank - distance) % plan.size)
        plan.send(None, (plan.rank + distance) % plan.size)
        plan.then()
        distance *= 2
