"""Shapes by which data goes from rank to rank."""


def parent_and_children(rank, size, root):
    """Neighbours of `rank` in the binomial tree of the ranks relative to `root`.

    Returns
    -------
    (int or None, list of int)
        The parent, None for the root, and the children, that of the largest subtree first.
    """
    place = (rank - root) % size
    parent, bit = None, 1
    while bit < size:
        if place & bit:
            parent = (place - bit + root) % size
            break
        bit *= 2
    children = []
    bit //= 2
    while bit:
        if place + bit < size:
            children.append((place + bit + root) % size)
        bit //= 2
    return parent, children


def members_below(place, size):
    """How many ranks the subtree of `place` holds, itself included: ``place, place + 1, ...``.

    Places are ranks relative to the root, which is place 0.
    """
    return min(place & -place, size - place) if place else size
