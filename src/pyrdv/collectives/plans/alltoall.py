"""Alltoalls: `sources` are the blocks to send and `into` the places of those that come, apart."""

#: Ranks with which one exchanges blocks at a time.
WINDOW = 32


def spread(plan, sources, into):
    """Rank i sends to i + 1, i + 2, ..., so many at a time that no rank is flooded."""
    exchange(plan, sources, into, WINDOW)


def pairwise(plan, sources, into):
    """As `spread`, with one rank at a time: nobody gets two large blocks at once."""
    exchange(plan, sources, into, 1)


def exchange(plan, sources, into, window):
    """Blocks with `window` ranks at a time."""
    for step in range(1, plan.size):
        source = (plan.rank - step) % plan.size
        dest = (plan.rank + step) % plan.size
        plan.receive(into[source], source)
        plan.send(sources[dest], dest)
        if step % window == 0:
            plan.then()
    plan.copy(sources[plan.rank], into[plan.rank])


def bruck(plan, sources, into):
    """In round k each rank sends to the rank 2**k behind it all blocks that have still to go so
    far: those whose distance has bit k, half of them.

    J. Bruck et al., 1997; see `allgather.bruck`, also for the marks.
    """
    plan.parts = True
    size, rank, unit = plan.size, plan.rank, len(into[plan.rank])
    room = plan.scratch(size * unit)                    # by distance that is left at the start
    packed = plan.scratch(2 * (size // 2) * unit)       # to send, and what comes
    held = [room[step * unit:(step + 1) * unit] for step in range(size)]
    half = size // 2 * unit
    for step in range(1, size):
        plan.copy(sources[(rank + step) % size], held[step])
    distance = 1
    while distance < size:
        moved = [step for step in range(1, size) if step & distance]
        length = len(moved) * unit
        for number, step in enumerate(moved):
            plan.copy(held[step], packed[number * unit:(number + 1) * unit])
        plan.receive(packed[half:half + length], (rank - distance) % size)
        plan.send(packed[:length], (rank + distance) % size)
        for number, step in enumerate(moved):
            plan.copy(packed[half + number * unit:half + (number + 1) * unit], held[step])
        distance *= 2
    plan.parts = False
    for step in range(1, size):
        plan.copy(held[step], into[(rank - step) % size])
    plan.copy(sources[rank], into[rank])
