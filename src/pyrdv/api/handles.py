"""Numbers for objects, as mpi4py's `handle`: a number is found again while its object lives."""

from itertools import count
from weakref import WeakKeyDictionary, WeakValueDictionary

from pyrdv.api.missing import UnsupportedAttribute
from pyrdv.errors import RequestError

_fresh = count(1)
_numbers = WeakKeyDictionary()
_objects = WeakValueDictionary()


def number(thing):
    """The number of `thing`, the same as long as it lives.

    Raises
    ------
    UnsupportedAttribute
        Objects of this kind have none.
    """
    try:
        found = _numbers.get(thing)
    except TypeError:
        raise UnsupportedAttribute(
            f"{type(thing).__name__}.handle is not offered: only persistent and generalized "
            "requests have handles") from None
    if found is None:
        found = _numbers[thing] = next(_fresh)
        _objects[found] = thing
    return found


def find(handle):
    """The object whose number is `handle`.

    Raises
    ------
    RequestError
        It does not exist any more.
    """
    found = _objects.get(handle)
    if found is None:
        raise RequestError(f"there is no request with the handle {handle}; a handle lives as long "
                           "as its request")
    return found
