# cython: language_level=3, nonecheck=True
"""Predefined MPI datatypes and their mapping to NumPy dtypes, type codes and buffer formats.

What must hold:

1. A `Datatype` is immutable; two of them are equal only if they are the same MPI type. `FLOAT` and
   `FLOAT32_T` are one object, `INT` and `INT32_T` are not (as in MPI).
2. ``extent == size``, the padding of the pair types included: ``DOUBLE_INT`` is the C struct of 16
   bytes. Callers turn counts into byte counts by one multiplication.
3. Unpickling a datatype gives the very same object.
"""

import re

import numpy as np

from pyrdv.errors import ArgumentError, DatatypeError

cimport numpy as cnp

from pyrdv.api.naming cimport name_missing

cnp.import_array()

#: The groups that MPI's table of reductions distinguishes (see `pyrdv.api.ops`).
GROUPS = ("integer", "floating", "complex", "logical", "byte", "pair", "text")

cdef Datatype build(str key, str name, object code, object spelling, str group, Py_ssize_t size):
    cdef Datatype made = Datatype.__new__(Datatype)
    made.key = key
    made.name = name
    made.code = code
    made.spelling = spelling
    made.group = group
    made.size = size
    return made


def _by_name(key):
    """Return the predefined datatype called `key`: what a pickled datatype refers to."""
    return PREDEFINED[key]


cdef class Datatype:
    """An MPI datatype: what one element of a message is.

    Use the predefined ones (``MPI.DOUBLE``…) or ``Datatype.fromcode("d")``. ``Datatype()`` is
    ``DATATYPE_NULL``; ``Datatype(other)`` equals `other`. Derived datatypes are not offered.

    Attributes
    ----------
    name : str
        As in MPI: ``MPI_DOUBLE``.
    size : int
        Bytes of one element, padding included.
    group : str
        Which reductions it takes: one of `pyrdv.api.datatypes.GROUPS`.
    """

    def __cinit__(self, Datatype datatype=None):
        # build() fills the fields of predefined types itself; what a user makes is a copy.
        if datatype is None:
            self.key, self.name, self.group = "DATATYPE_NULL", "MPI_DATATYPE_NULL", ""
            self.code, self.spelling, self.size = "", None, 0
        else:
            self.key, self.name, self.group = datatype.key, datatype.name, datatype.group
            self.code, self.spelling, self.size = datatype.code, datatype.spelling, datatype.size

    def __eq__(self, other):
        if not isinstance(other, Datatype):
            return NotImplemented
        return self.key == (<Datatype>other).key

    def __hash__(self):
        return hash(self.key)

    def __bool__(self):
        return self.size != 0

    def __repr__(self):
        return f"MPI.{self.key}"

    def __reduce__(self):
        return _by_name, (self.key,)

    @property
    def dtype(self):
        """The NumPy dtype of one element (bytes for ``BYTE`` and ``PACKED``: ``uint8``).

        Raises
        ------
        DatatypeError
            For ``DATATYPE_NULL``, and for ``BFLOAT16_T`` where ``ml_dtypes`` is not installed.
        """
        if self.cached is None:
            if self.spelling is None:
                raise DatatypeError(f"{self.name} has no NumPy dtype")
            if self.spelling == "bfloat16":
                try:
                    from ml_dtypes import bfloat16
                except ImportError:
                    raise DatatypeError(
                        f"{self.name} needs the package ml_dtypes, which gives NumPy this type"
                    ) from None
                self.cached = np.dtype(bfloat16)
            else:
                self.cached = np.dtype(self.spelling, align=isinstance(self.spelling, list))
        return self.cached

    @property
    def extent(self):
        """Bytes from one element to the next; always equal to `size`."""
        return self.size

    @property
    def lb(self):
        """Lower bound in bytes: 0."""
        return 0

    @property
    def ub(self):
        """Upper bound in bytes: `size`."""
        return self.size

    @property
    def true_extent(self):
        """Bytes that one element spans; always equal to `size`."""
        return self.size

    @property
    def true_lb(self):
        """Where the bytes of an element begin: 0."""
        return 0

    @property
    def true_ub(self):
        """Where the bytes of an element end: `size`."""
        return self.size

    @property
    def is_named(self):
        """True: every datatype here is predefined."""
        return True

    @property
    def is_predefined(self):
        """True: every datatype here is predefined."""
        return True

    @property
    def typechar(self):
        """The one-character code of NumPy, or "" where there is none."""
        if not isinstance(self.spelling, str) or self.spelling == "bfloat16":
            return ""
        return self.spelling[0]

    @property
    def typestr(self):
        """Kind and bytes as in NumPy's array interface (``"f8"``), or "" where there is none."""
        if not isinstance(self.spelling, str) or self.spelling == "bfloat16":
            return ""
        return self.dtype.str[1:]

    def Get_size(self):
        """Return the bytes of one element."""
        return self.size

    def Get_extent(self):
        """Return ``(lower bound, extent)`` in bytes: ``(0, size)``."""
        return 0, self.size

    def Get_true_extent(self):
        """Return ``(true lower bound, true extent)`` in bytes: ``(0, size)``."""
        return 0, self.size

    def Get_name(self):
        """Return MPI's name of the type, such as ``"MPI_DOUBLE"``."""
        return self.name

    def Commit(self):
        """Return the datatype itself: predefined types need no commit."""
        return self

    def tocode(self):
        """Return the type code that `fromcode` maps to a type of this kind and size.

        Raises
        ------
        ArgumentError
            For pair types and ``DATATYPE_NULL``, which have no code.
        """
        if not self.code:
            raise ArgumentError(f"{self.name} has no type code")
        return self.code

    @staticmethod
    def fromcode(code):
        """Return the predefined datatype of a type code.

        Parameters
        ----------
        code : str
            A character of NumPy or of the struct module (``"d"``, ``"Zd"``), or kind and size
            (``"f8"``). Native byte order only, without a prefix.

        Raises
        ------
        ArgumentError
            If the code is unknown; the text lists the known ones.
        """
        return from_code(code)

    def Free(self):
        """Refuse: predefined datatypes cannot be freed."""
        raise ArgumentError(f"{self.name} is predefined and cannot be freed")


name_missing(Datatype)

# key, MPI name, type code, NumPy spelling, group. Where MPI has no name for a type that mpi4py
# names (FLOAT16_T), the name of the MPICH extension is used.
cdef list TABLE = [
    ("BYTE", "MPI_BYTE", "B", "B", "byte"),
    ("PACKED", "MPI_PACKED", "B", "B", ""),
    ("CHAR", "MPI_CHAR", "c", "c", "text"),
    ("WCHAR", "MPI_WCHAR", "U", "U1", "text"),
    ("SIGNED_CHAR", "MPI_SIGNED_CHAR", "b", "b", "integer"),
    ("SHORT", "MPI_SHORT", "h", "h", "integer"),
    ("INT", "MPI_INT", "i", "i", "integer"),
    ("LONG", "MPI_LONG", "l", "l", "integer"),
    ("LONG_LONG", "MPI_LONG_LONG_INT", "q", "q", "integer"),
    ("UNSIGNED_CHAR", "MPI_UNSIGNED_CHAR", "B", "B", "integer"),
    ("UNSIGNED_SHORT", "MPI_UNSIGNED_SHORT", "H", "H", "integer"),
    ("UNSIGNED", "MPI_UNSIGNED", "I", "I", "integer"),
    ("UNSIGNED_LONG", "MPI_UNSIGNED_LONG", "L", "L", "integer"),
    ("UNSIGNED_LONG_LONG", "MPI_UNSIGNED_LONG_LONG", "Q", "Q", "integer"),
    ("INT8_T", "MPI_INT8_T", "i1", "b", "integer"),
    ("INT16_T", "MPI_INT16_T", "i2", "h", "integer"),
    ("INT32_T", "MPI_INT32_T", "i4", "i", "integer"),
    ("INT64_T", "MPI_INT64_T", "i8", "l", "integer"),
    ("UINT8_T", "MPI_UINT8_T", "u1", "B", "integer"),
    ("UINT16_T", "MPI_UINT16_T", "u2", "H", "integer"),
    ("UINT32_T", "MPI_UINT32_T", "u4", "I", "integer"),
    ("UINT64_T", "MPI_UINT64_T", "u8", "L", "integer"),
    ("AINT", "MPI_AINT", "p", "p", "integer"),
    ("OFFSET", "MPI_OFFSET", "p", "p", "integer"),
    ("COUNT", "MPI_COUNT", "p", "p", "integer"),
    ("FLOAT16_T", "MPIX_C_FLOAT16", "e", "e", "floating"),
    ("BFLOAT16_T", "MPIX_BFLOAT16", "", "bfloat16", "floating"),
    ("FLOAT", "MPI_FLOAT", "f", "f", "floating"),
    ("DOUBLE", "MPI_DOUBLE", "d", "d", "floating"),
    ("LONG_DOUBLE", "MPI_LONG_DOUBLE", "g", "g", "floating"),
    ("C_BOOL", "MPI_C_BOOL", "?", "?", "logical"),
    ("CXX_BOOL", "MPI_CXX_BOOL", "?", "?", "logical"),
    ("C_COMPLEX", "MPI_C_COMPLEX", "F", "F", "complex"),
    ("C_DOUBLE_COMPLEX", "MPI_C_DOUBLE_COMPLEX", "D", "D", "complex"),
    ("C_LONG_DOUBLE_COMPLEX", "MPI_C_LONG_DOUBLE_COMPLEX", "G", "G", "complex"),
    ("CXX_FLOAT_COMPLEX", "MPI_CXX_FLOAT_COMPLEX", "F", "F", "complex"),
    ("CXX_DOUBLE_COMPLEX", "MPI_CXX_DOUBLE_COMPLEX", "D", "D", "complex"),
    ("CXX_LONG_DOUBLE_COMPLEX", "MPI_CXX_LONG_DOUBLE_COMPLEX", "G", "G", "complex"),
    ("SHORT_INT", "MPI_SHORT_INT", "", "hi", "pair"),
    ("TWOINT", "MPI_2INT", "", "ii", "pair"),
    ("LONG_INT", "MPI_LONG_INT", "", "li", "pair"),
    ("FLOAT_INT", "MPI_FLOAT_INT", "", "fi", "pair"),
    ("DOUBLE_INT", "MPI_DOUBLE_INT", "", "di", "pair"),
    ("LONG_DOUBLE_INT", "MPI_LONG_DOUBLE_INT", "", "gi", "pair"),
    ("CHARACTER", "MPI_CHARACTER", "c", "c", "text"),
    ("LOGICAL", "MPI_LOGICAL", "i", "i", "logical"),
    ("INTEGER", "MPI_INTEGER", "i", "i", "integer"),
    ("REAL", "MPI_REAL", "f", "f", "floating"),
    ("DOUBLE_PRECISION", "MPI_DOUBLE_PRECISION", "d", "d", "floating"),
    ("COMPLEX", "MPI_COMPLEX", "F", "F", "complex"),
    ("DOUBLE_COMPLEX", "MPI_DOUBLE_COMPLEX", "D", "D", "complex"),
    ("INTEGER1", "MPI_INTEGER1", "i1", "b", "integer"),
    ("INTEGER2", "MPI_INTEGER2", "i2", "h", "integer"),
    ("INTEGER4", "MPI_INTEGER4", "i4", "i", "integer"),
    ("INTEGER8", "MPI_INTEGER8", "i8", "l", "integer"),
    ("REAL2", "MPI_REAL2", "f2", "e", "floating"),
    ("REAL4", "MPI_REAL4", "f4", "f", "floating"),
    ("REAL8", "MPI_REAL8", "f8", "d", "floating"),
    ("COMPLEX8", "MPI_COMPLEX8", "c8", "F", "complex"),
    ("COMPLEX16", "MPI_COMPLEX16", "c16", "D", "complex"),
]

#: Second names for the same object.
ALIASES = {
    "BOOL": "C_BOOL", "INT_INT": "TWOINT", "UNSIGNED_INT": "UNSIGNED",
    "SIGNED_SHORT": "SHORT", "SIGNED_INT": "INT", "SIGNED_LONG": "LONG",
    "SIGNED_LONG_LONG": "LONG_LONG", "FLOAT32_T": "FLOAT", "FLOAT64_T": "DOUBLE",
    "SINT8_T": "INT8_T", "SINT16_T": "INT16_T", "SINT32_T": "INT32_T", "SINT64_T": "INT64_T",
    "C_FLOAT_COMPLEX": "C_COMPLEX", "F_BOOL": "LOGICAL", "F_INT": "INTEGER", "F_FLOAT": "REAL",
    "F_DOUBLE": "DOUBLE_PRECISION", "F_COMPLEX": "COMPLEX", "F_FLOAT_COMPLEX": "COMPLEX",
    "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}


cdef dict predefine():
    cdef dict found = {"DATATYPE_NULL": Datatype()}
    for key, name, code, spelling, group in TABLE:
        if group == "pair":
            spelling = [("f0", spelling[0]), ("f1", spelling[1])]
            size = np.dtype(spelling, align=True).itemsize
        elif spelling == "bfloat16":
            size = 2
        else:
            size = np.dtype(spelling).itemsize
        found[key] = build(key, name, code, spelling, group, size)
    for key, target in ALIASES.items():
        found[key] = found[target]
    return found


#: Every public name of this module that is a datatype, aliases and DATATYPE_NULL included.
PREDEFINED = predefine()
globals().update(PREDEFINED)

cdef Datatype byte = PREDEFINED["BYTE"]


cdef dict code_table():
    names = {
        "c": "CHAR", "S": "CHAR", "S1": "CHAR", "s": "CHAR", "U": "WCHAR", "U1": "WCHAR",
        "w": "WCHAR", "b": "SIGNED_CHAR", "h": "SHORT", "i": "INT", "l": "LONG", "q": "LONG_LONG",
        "B": "UNSIGNED_CHAR", "H": "UNSIGNED_SHORT", "I": "UNSIGNED", "L": "UNSIGNED_LONG",
        "Q": "UNSIGNED_LONG_LONG", "p": "AINT", "n": "COUNT", "P": "UNSIGNED_LONG",
        "N": "UNSIGNED_LONG", "?": "C_BOOL", "b1": "C_BOOL", "e": "FLOAT16_T", "f": "FLOAT",
        "d": "DOUBLE", "g": "LONG_DOUBLE", "F": "C_COMPLEX", "D": "C_DOUBLE_COMPLEX",
        "G": "C_LONG_DOUBLE_COMPLEX", "Zf": "C_COMPLEX", "Zd": "C_DOUBLE_COMPLEX",
        "Zg": "C_LONG_DOUBLE_COMPLEX", "m": "INT64_T", "M": "INT64_T", "m8": "INT64_T",
        "M8": "INT64_T", "i1": "INT8_T", "i2": "INT16_T", "i4": "INT32_T", "i8": "INT64_T",
        "u1": "UINT8_T", "u2": "UINT16_T", "u4": "UINT32_T", "u8": "UINT64_T",
        "f2": "FLOAT16_T", "f4": "FLOAT", "f8": "DOUBLE", "c8": "C_COMPLEX",
        "c16": "C_DOUBLE_COMPLEX",
    }
    wide = np.dtype("g").itemsize
    names.setdefault(f"f{wide}", "LONG_DOUBLE")
    names.setdefault(f"c{2 * wide}", "C_LONG_DOUBLE_COMPLEX")
    return {code: PREDEFINED[name] for code, name in names.items()}


cdef dict CODES = code_table()

# By NumPy's type number, 0 (bool) to 23 (half); None where from_dtype decides otherwise.
cdef list NUMBERS = [
    CODES.get(char) for char in "? b B h H i I l L q Q f d g F D G".split()
] + [None, None, None, None, PREDEFINED["INT64_T"], PREDEFINED["INT64_T"], PREDEFINED["FLOAT16_T"]]


cdef Datatype from_code(object code):
    found = CODES.get(code) if isinstance(code, str) else None
    if found is None:
        raise ArgumentError(
            f"no MPI datatype has the type code {code!r}; known codes: {' '.join(CODES)}"
        )
    return found


cdef Datatype from_spec(object spec):
    if isinstance(spec, Datatype):
        if (<Datatype>spec).size == 0:
            raise ArgumentError("the datatype of the message is DATATYPE_NULL; name a real one")
        return <Datatype>spec
    if isinstance(spec, str):
        return from_code(spec)
    if isinstance(spec, (np.dtype, type)):
        return from_dtype(np.dtype(spec))
    raise DatatypeError(
        f"the datatype of a message must be an MPI.Datatype, a type code such as 'd', or a "
        f"numpy.dtype, not {type(spec).__name__}"
    )


cpdef Datatype from_dtype(object dtype):
    """Return the datatype of arrays of `dtype`.

    Parameters
    ----------
    dtype : numpy.dtype
        Any dtype. ``datetime64`` and ``timedelta64`` give ``INT64_T``; ``S``, ``U``, ``V``,
        structured dtypes, foreign byte orders and unknown extension dtypes give ``BYTE``.

    Raises
    ------
    DatatypeError
        If elements hold references to Python objects or to memory elsewhere.
    """
    cdef cnp.dtype descr = dtype
    cdef int number = descr.type_num
    if dtype.hasobject or number == cnp.NPY_OBJECT or dtype.char == "T":
        raise DatatypeError(
            f"dtype {dtype} holds references, not data, so its bytes mean nothing to another "
            "process; use the lower-case methods (send, recv, bcast), which pickle"
        )
    if not dtype.isnative:
        return byte
    if 0 <= number < len(NUMBERS):
        found = NUMBERS[number]
        return byte if found is None else <Datatype>found
    return PREDEFINED["BFLOAT16_T"] if dtype.name == "bfloat16" else byte


cdef object FIELD_NAME = re.compile(":[^:]*:")
cdef str ORDERS = "@=^" + ("<" if np.little_endian else ">!")


cpdef Datatype from_format(object fmt, Py_ssize_t itemsize):
    """Return the datatype of a PEP 3118 format.

    Parameters
    ----------
    fmt : str or None
        The format; None, repeated, structured and foreign-order formats give ``BYTE``.
    itemsize : int
        Bytes per element. It decides where format and size disagree (ctypes marks its native
        8-byte long as ``"<l"``, which by the letter has 4).

    Raises
    ------
    DatatypeError
        If elements hold references to Python objects.
    """
    if fmt is None:
        return byte
    cdef str text = <str>fmt
    if "O" in text and "O" in FIELD_NAME.sub("", text):
        raise DatatypeError(
            f"buffer format {fmt!r} holds Python objects, not data; use the lower-case methods "
            "(send, recv, bcast), which pickle"
        )
    if text and text[0] in ORDERS:
        text = text[1:]
    found = CODES.get(text)
    if found is None:
        return byte
    cdef Datatype made = <Datatype>found
    if made.size == itemsize:
        return made
    return <Datatype>CODES.get(f"{made.typestr[:1]}{itemsize}", byte)
