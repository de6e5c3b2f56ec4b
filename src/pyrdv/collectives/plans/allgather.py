"""Allgathers: `into` are the places of the blocks, and `mine` is the block of this member; None: it
is in its place already.

Blocks that follow each other in memory on all members, for they are even, go in one message.
"""


def ring(plan, mine, into, even):
    """Each rank hands on to the next what came from the one before, p - 1 times."""
    for step in range(1, plan.size):
        plan.receive(into[(plan.rank - step) % plan.size], (plan.rank - 1) % plan.size)
        out = into[(plan.rank - step + 1) % plan.size]
        plan.send(mine if mine is not None and step == 1 else out, (plan.rank + 1) % plan.size)
        if step + 1 < plan.size:
            plan.then()
    _place_own(plan, mine, into)


def bruck(plan, mine, into, even):
    """In round k each rank sends its last 2**k blocks to the rank 2**k behind it.

    The blocks are even, and have a byte each at least, for their messages are marked as parts.
    J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal and D. Weathersby, "Efficient algorithms for all-to-all
    communications in multiport message-passing systems", 1997; but blocks lie where they belong
    from the start, so a message may be in two parts, and nothing is turned around in the end.

    In the first round it has the neighbours of `ring`: somewhere around the ring a member of the
    one follows one of the other, and notices the mark.
    """
    size, rank, held = plan.size, plan.rank, 1
    plan.parts = True
    while held < size:
        count = min(held, size - held)
        for part in _parts(into, rank - held - count + 1, count, size, even):
            plan.receive(part, (rank - held) % size)
        own = held == 1 and mine is not None
        for part in [mine] if own else _parts(into, rank - count + 1, count, size, even):
            plan.send(part, (rank + held) % size)
        if own:
            plan.copy(mine, into[rank])
        plan.then()
        held += count
    plan.parts = False
    if size == 1:
        _place_own(plan, mine, into)


def doubling(plan, mine, into, even):
    """In round k ranks whose bit k differs exchange what they have: 2**k blocks, in order.

    The number of ranks is a power of two.
    """
    size, rank, bit = plan.size, plan.rank, 1
    while bit < size:
        partner = rank ^ bit
        for part in _parts(into, partner & -bit, bit, size, even):
            plan.receive(part, partner)
        own = bit == 1 and mine is not None
        for part in [mine] if own else _parts(into, rank & -bit, bit, size, even):
            plan.send(part, partner)
        if own:
            plan.copy(mine, into[rank])
        plan.then()
        bit *= 2
    if size == 1:
        _place_own(plan, mine, into)


def _place_own(plan, mine, into):
    # Behind the messages: nobody waits for it.
    if mine is not None:
        plan.copy(mine, into[plan.rank])


def _parts(into, first, count, size, even):
    """The blocks ``first, first + 1, ...`` modulo `size` as messages, the same on all members."""
    first %= size
    if not even:
        return [into[(first + step) % size] for step in range(count)]
    straight = min(count, size - first)
    parts = [into.run(first, first + straight)]
    if straight < count:
        parts.append(into.run(0, count - straight))
    return parts
