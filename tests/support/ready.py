"""Which descriptors are readable, whatever their numbers are (`select` knows those below 1024)."""

import select

__all__ = ["readable"]


def readable(source, seconds=None):
    """Whether `source` is readable, or becomes so within `seconds` (None: however long it takes).

    Parameters
    ----------
    source : int, object with a fileno, or list of them
        One of a list is enough.
    """
    poll = select.poll()
    for one in source if isinstance(source, list) else [source]:
        poll.register(one, select.POLLIN)
    return bool(poll.poll(None if seconds is None else 1000 * seconds))
