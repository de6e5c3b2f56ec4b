"""Reduction operations, on Python objects and on buffers.

The arithmetic is NumPy's: a buffer reduction is one ufunc over views of the two buffers. What MPI
leaves open is settled as follows.

- Integers wrap around, floats follow IEEE, without warnings: a warning turned into an exception
  on one rank would leave the others waiting.
- MAX and MIN hand on NaN, as ``numpy.maximum`` does.
- Logical types (``bool``): LAND, LOR, LXOR, and the bitwise forms and MAX and MIN, which mean the
  same. SUM and PROD are refused, since a count of true values does not fit into a bool.
- The logical operations give 0 or 1 in the type of the operands.
- MAXLOC and MINLOC take pairs; of equal values the lower location wins.
"""

import operator

import numpy as np

from pyrdv.api.buffers import parse_views
from pyrdv.api.datatypes import PREDEFINED
from pyrdv.api.naming import name_missing
from pyrdv.errors import CountError, DatatypeMismatchError, InvalidBufferError, OpError

_NUMBERS = ("integer", "floating")

# name -> (ufunc, groups of datatypes that MPI or the text above allows)
_UFUNCS = {
    "MAX": (np.maximum, (*_NUMBERS, "logical")),
    "MIN": (np.minimum, (*_NUMBERS, "logical")),
    "SUM": (np.add, (*_NUMBERS, "complex")),
    "PROD": (np.multiply, (*_NUMBERS, "complex")),
    "LAND": (np.logical_and, ("integer", "logical")),
    "LOR": (np.logical_or, ("integer", "logical")),
    "LXOR": (np.logical_xor, ("integer", "logical")),
    "BAND": (np.bitwise_and, ("integer", "byte", "logical")),
    "BOR": (np.bitwise_or, ("integer", "byte", "logical")),
    "BXOR": (np.bitwise_xor, ("integer", "byte", "logical")),
}

# What the operations on the left mean for truth values.
_ON_LOGICALS = {"MAX": "LOR", "MIN": "LAND", "BAND": "LAND", "BOR": "LOR", "BXOR": "LXOR"}


def _max(x, y):
    return y if y > x else x


def _min(x, y):
    return y if y < x else x


def _maxloc(x, y):
    (a, i), (b, j) = x, y
    if a == b:
        return a, min(i, j)
    return (a, i) if a > b else (b, j)


def _minloc(x, y):
    (a, i), (b, j) = x, y
    if a == b:
        return a, min(i, j)
    return (a, i) if a < b else (b, j)


def _no_op(x, y):
    return x


_ON_OBJECTS = {
    "MAX": _max,
    "MIN": _min,
    "SUM": operator.add,
    "PROD": operator.mul,
    "LAND": lambda x, y: bool(x) and bool(y),
    "LOR": lambda x, y: bool(x) or bool(y),
    "LXOR": lambda x, y: bool(x) != bool(y),
    "BAND": operator.and_,
    "BOR": operator.or_,
    "BXOR": operator.xor,
    "MAXLOC": _maxloc,
    "MINLOC": _minloc,
    "REPLACE": lambda x, y: y,
    "NO_OP": _no_op,
}


def _pairs(name, left, right):
    """MAXLOC or MINLOC of structured arrays, into `right`."""
    value, other = left["f0"], right["f0"]
    better = value > other if name == "MAXLOC" else value < other
    np.copyto(right, left, where=better | ((value == other) & (left["f1"] < right["f1"])))


def _by_name(name):
    """Return the predefined operation called `name`: what a pickled operation refers to."""
    return PREDEFINED_OPS[name]


@name_missing
class Op:
    """A reduction operation; ``op(x, y)`` applies it to two Python objects.

    Make your own with `Op.Create`. ``Op()`` is ``OP_NULL``; ``Op(other)`` equals `other`.
    """

    __slots__ = ("_name", "_function", "_commutes", "_predefined")

    def __init__(self, op=None):
        if op is not None and not isinstance(op, Op):
            raise TypeError(f"Op() takes an Op, not {type(op).__name__}; make one of a function "
                            "with Op.Create")
        self._name = op._name if op is not None else "OP_NULL"
        self._function = op._function if op is not None else None
        self._commutes = op._commutes if op is not None else False
        self._predefined = op._predefined if op is not None else True

    @classmethod
    def _make(cls, name, function, commutes, predefined):
        made = cls()
        made._name, made._function = name, function
        made._commutes, made._predefined = commutes, predefined
        return made

    @classmethod
    def Create(cls, function, commute=False):
        """Make an operation from a function.

        Parameters
        ----------
        function : callable
            ``function(inbuf, inoutbuf, datatype)``: combine the two memoryviews of bytes, which
            are of one length, into the second: ``inoutbuf = inbuf op inoutbuf``, element by
            element. For objects it is called as ``function(x, y, None)`` and returns the result.
            It must be associative and must not keep the memoryviews.
        commute : bool
            Whether the order of the operands does not matter.
        """
        if not callable(function):
            raise OpError(f"a reduction needs a callable, not {type(function).__name__}")
        return cls._make("user", function, bool(commute), False)

    def Free(self):
        """Turn a user-defined operation into ``OP_NULL``.

        Raises
        ------
        OpError
            For a predefined operation.
        """
        if self._predefined:
            raise OpError(f"{self!r} is predefined and cannot be freed")
        self.__init__()

    def free(self):
        """Turn a user-defined operation into ``OP_NULL``; nothing for a predefined one."""
        if not self._predefined:
            self.__init__()

    def Is_commutative(self):
        """Return whether the order of the operands does not matter."""
        return self._commutes

    @property
    def is_commutative(self):
        """Whether the order of the operands does not matter."""
        return self._commutes

    @property
    def is_predefined(self):
        """Whether this is one of MPI's operations, ``OP_NULL`` included."""
        return self._predefined

    def __bool__(self):
        return self._name != "OP_NULL"

    def __eq__(self, other):
        if not isinstance(other, Op):
            return NotImplemented
        return (self._name, self._function) == (other._name, other._function)

    def __hash__(self):
        return hash((self._name, self._function))

    def __repr__(self):
        if self._predefined:
            return f"MPI.{self._name}"
        return f"<user-defined Op {getattr(self._function, '__qualname__', self._function)}>"

    def __reduce__(self):
        if self._predefined:
            return _by_name, (self._name,)
        return Op.Create, (self._function, self._commutes)

    def __call__(self, x, y):
        if self._function is None:
            raise OpError("OP_NULL cannot be applied; name an operation such as MPI.SUM")
        if self._predefined:
            return self._function(x, y)
        return self._function(x, y, None)

    # --- buffers ---

    def check(self, datatype):
        """Refuse a datatype for which the operation is not defined.

        Parameters
        ----------
        datatype : Datatype
            The type of the elements.

        Raises
        ------
        OpError
            Names the operation, the datatype and what goes together.
        """
        if not self:
            raise OpError("OP_NULL cannot be applied; name an operation such as MPI.SUM")
        if not self._predefined or self._name in ("REPLACE", "NO_OP"):
            return
        if self._name in ("MAXLOC", "MINLOC"):
            allowed = ("pair",)
        else:
            allowed = _UFUNCS[self._name][1]
        if datatype.group not in allowed:
            raise OpError(_refusal(self._name, datatype, allowed))

    def loop(self, datatype):
        """How the loops in C name this operation on `datatype` (`pyrdv.api.reductions`).

        Returns
        -------
        tuple of str, str, int or None
            The name of the operation, and kind and bytes of the type as NumPy has them; None for an
            operation that is a function of Python, or has none but NumPy's.
        """
        if not self._predefined or self._name not in _UFUNCS:
            return None
        name = self._name
        if datatype.group == "logical":
            name = _ON_LOGICALS.get(name, name)
        return name, datatype.dtype.kind, datatype.size

    def reduce_local(self, inbuf, inoutbuf, datatype):
        """Compute ``inoutbuf = inbuf op inoutbuf``, element by element.

        Parameters
        ----------
        inbuf, inoutbuf : buffer
            Contiguous, of the same bytes, a multiple of the datatype's size; the second writable.
            They must not overlap unless they are the same memory.
        datatype : Datatype
            The type of the elements of both.

        Raises
        ------
        OpError
            If the operation is not defined for `datatype`.
        CountError
            If the sizes do not fit.
        """
        self.check(datatype)
        left, right = memoryview(inbuf).cast("B"), memoryview(inoutbuf).cast("B")
        if left.nbytes != right.nbytes or right.nbytes % datatype.size:
            raise CountError(
                f"a reduction of {left.nbytes} bytes into {right.nbytes} bytes of {datatype.name} "
                f"({datatype.size} bytes each): both must hold the same number of whole elements"
            )
        if right.readonly:
            raise InvalidBufferError(
                f"the second buffer of {self!r}, a {type(inoutbuf).__name__}, is read-only, but it "
                "takes the result; give a writable one"
            )
        if not self._predefined:
            self._function(left, right, datatype)
        elif right.nbytes and self._name != "NO_OP":
            self._apply(left, right, datatype)

    def _apply(self, left, right, datatype):
        if self._name == "REPLACE":
            right[:] = left
            return
        mine = np.frombuffer(left, datatype.dtype)
        result = np.frombuffer(right, datatype.dtype)
        if self._name in ("MAXLOC", "MINLOC"):
            _pairs(self._name, mine, result)
            return
        name = self._name
        if datatype.group == "logical":     # LOGICAL is stored in an int, where bits would mislead
            name = _ON_LOGICALS.get(name, name)
        with np.errstate(all="ignore"):
            _UFUNCS[name][0](mine, result, out=result, casting="unsafe")

    def Reduce_local(self, inbuf, inoutbuf):
        """Compute ``inoutbuf = inbuf op inoutbuf`` on two messages of this process.

        Parameters
        ----------
        inbuf, inoutbuf : buffer or list
            Messages as for ``Send`` and ``Recv``, of the same count and datatype.

        Raises
        ------
        OpError
            If the operation is not defined for the datatype.
        DatatypeError, CountError
            If types or counts of the two differ.
        """
        left, left_type = parse_views(inbuf)
        right, right_type = parse_views(inoutbuf, writable=True)
        if left_type != right_type:
            raise DatatypeMismatchError(
                f"a reduction of {left_type.name} into {right_type.name}: both buffers must have "
                "one datatype; name it, as in [buffer, MPI.DOUBLE]"
            )
        self.reduce_local(left, right, right_type)


def _refusal(name, datatype, allowed):
    """Say what is refused and what is there instead."""
    if allowed == ("pair",):
        takes = "pairs: " + " ".join(
            key for key, known in PREDEFINED.items() if known.group == "pair"
        )
    else:
        takes = f"{', '.join(allowed)} types"
    others = [other for other, (_, groups) in _UFUNCS.items() if datatype.group in groups]
    if datatype.group == "pair":
        others = ["MAXLOC", "MINLOC"]
    text = f"{name} is not defined for {datatype.name}; it takes {takes}"
    text += f". For {datatype.name} there are {' '.join((*others, 'REPLACE', 'NO_OP'))}"
    if datatype.group == "logical":
        text += ". To count true values, convert first: a.astype(numpy.intc)"
    return text


def _predefine():
    made = {"OP_NULL": Op()}
    for name, function in _ON_OBJECTS.items():
        commutes = name not in ("REPLACE", "NO_OP")
        made[name] = Op._make(name, function, commutes, True)
    return made


#: Every predefined operation by its public name.
PREDEFINED_OPS = _predefine()

OP_NULL = PREDEFINED_OPS["OP_NULL"]
MAX = PREDEFINED_OPS["MAX"]
MIN = PREDEFINED_OPS["MIN"]
SUM = PREDEFINED_OPS["SUM"]
PROD = PREDEFINED_OPS["PROD"]
LAND = PREDEFINED_OPS["LAND"]
BAND = PREDEFINED_OPS["BAND"]
LOR = PREDEFINED_OPS["LOR"]
BOR = PREDEFINED_OPS["BOR"]
LXOR = PREDEFINED_OPS["LXOR"]
BXOR = PREDEFINED_OPS["BXOR"]
MAXLOC = PREDEFINED_OPS["MAXLOC"]
MINLOC = PREDEFINED_OPS["MINLOC"]
REPLACE = PREDEFINED_OPS["REPLACE"]
NO_OP = PREDEFINED_OPS["NO_OP"]
