"""Hints: strings by name.  None of them has an effect here."""

from pyrdv.api.naming import name_missing
from pyrdv.errors import InfoError

#: The longest key and value in characters, as in MPICH.
MAX_INFO_KEY = 255
MAX_INFO_VAL = 1024


@name_missing
class Info:
    """Hints, as a mapping of str to str.

    Parameters
    ----------
    info : Info, optional
        Makes another handle of the same hints; ``INFO_NULL`` when not given.
    """

    __slots__ = ("_held",)

    def __init__(self, info=None):
        if info is not None and not isinstance(info, Info):
            raise TypeError(f"an Info is made from an Info, not {type(info).__name__}")
        self._held = None if info is None else info._held

    @classmethod
    def Create(cls, items=None):
        """New hints.

        Parameters
        ----------
        items : Info, mapping or iterable of pairs, optional
            Where to begin.
        """
        made = cls()
        made._held = {}
        if items:
            made.update(items)
        return made

    def _hints(self):
        if self._held is None:
            raise InfoError("the Info is INFO_NULL, or was freed; make one with Info.Create()")
        return self._held

    def Free(self):
        """Turn this handle into ``INFO_NULL``."""
        self._hints()
        self._held = None

    free = Free

    def Dup(self):
        """New hints of the same names and values."""
        return type(self).Create(self)

    copy = Dup

    def Set(self, key, value):
        """Note `value` under `key`."""
        if not 0 < len(key) <= MAX_INFO_KEY or len(value) > MAX_INFO_VAL:
            raise InfoError(f"info key of {len(key)} and value of {len(value)} characters: keys "
                            f"have 1..{MAX_INFO_KEY}, values up to {MAX_INFO_VAL}")
        self._hints()[key] = value

    def Get(self, key):
        """The value of `key`, or None."""
        return self._hints().get(key)

    def Delete(self, key):
        """Forget `key`.

        Raises
        ------
        InfoError
            It is not there.
        """
        if key not in self._hints():
            raise InfoError(f"info key {key!r} is not there; its keys are {self.keys()}")
        del self._held[key]

    def Get_nkeys(self):
        """How many hints there are."""
        return len(self._hints())

    def Get_nthkey(self, n):
        """The key that was noted as number `n`, from 0."""
        if not 0 <= n < self.Get_nkeys():
            raise InfoError(f"info key number {n} is not there: there are {self.Get_nkeys()}")
        return list(self._held)[n]

    def keys(self):
        """The keys, in the order in which they were noted."""
        return list(self._held or ())

    def values(self):
        """The values, in the order of the keys."""
        return list((self._held or {}).values())

    def items(self):
        """Pairs of key and value."""
        return list((self._held or {}).items())

    def get(self, key, default=None):
        """The value of `key`, or `default`."""
        return (self._held or {}).get(key, default)

    def pop(self, key, *default):
        """Remove `key` and return its value, or `default`."""
        return self._hints().pop(key, *default)

    def popitem(self):
        """Remove some key and return it with its value."""
        return self._hints().popitem()

    def clear(self):
        """Forget all hints."""
        if self._held is not None:
            self._held.clear()

    def update(self, items=(), **more):
        """Note all of `items`, an Info, mapping or iterable of pairs, and those named."""
        if hasattr(items, "items"):
            items = items.items()
        for key, value in (*items, *more.items()):
            self.Set(key, value)

    def __len__(self):
        return len(self._held or ())

    def __iter__(self):
        return iter(self.keys())

    def __contains__(self, key):
        return key in (self._held or ())

    def __getitem__(self, key):
        return self._hints()[key]

    def __setitem__(self, key, value):
        self.Set(key, value)

    def __delitem__(self, key):
        del self._hints()[key]

    def __bool__(self):
        return self._held is not None

    def __eq__(self, other):
        return self._held is other._held if isinstance(other, Info) else NotImplemented

    def __hash__(self):
        return hash(id(self._held))

    def __reduce__(self):
        if self._held is None:
            return Info, ()
        return Info.Create, (self.items(),)

    def __repr__(self):
        return "<Info: null>" if self._held is None else f"<Info: {self._held}>"


INFO_NULL = Info()
INFO_ENV = Info.Create()
