"""Objects of collective calls as they travel: ``(head, parts)`` of `pyrdv.api.objects.dumps`."""

from pyrdv.api import objects

#: Types whose objects nobody can change.
_CONSTANT = frozenset((int, float, complex, bool, str, bytes, type(None)))


def load(pickled):
    """The object of a pickle that was received."""
    head, parts = pickled
    return objects.loads(objects.parse_head(head)[0], parts)


def own(obj, pickled):
    """What this rank gets of its own object: a copy, as others get one."""
    return obj if type(obj) in _CONSTANT else objects.copy(*pickled)


def copy(pickled):
    """An object of a pickle that is needed again, or whose parts are memory of the user."""
    return objects.copy(*pickled)
