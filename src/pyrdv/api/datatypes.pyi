"""Predefined MPI datatypes and their mapping to NumPy dtypes, type codes and buffer formats."""

from typing import Any

import numpy as np

from .naming import Offers

GROUPS: tuple[str, ...]
ALIASES: dict[str, str]
PREDEFINED: dict[str, Datatype]

class Datatype(metaclass=Offers):
    def __new__(cls, datatype: Datatype | None = None) -> Datatype: ...
    @property
    def size(self) -> int: ...
    @property
    def extent(self) -> int: ...
    @property
    def lb(self) -> int: ...
    @property
    def ub(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def typechar(self) -> str: ...
    @property
    def typestr(self) -> str: ...
    @property
    def true_extent(self) -> int: ...
    @property
    def true_lb(self) -> int: ...
    @property
    def true_ub(self) -> int: ...
    @property
    def is_named(self) -> bool: ...
    @property
    def is_predefined(self) -> bool: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def Get_size(self) -> int: ...
    def Get_extent(self) -> tuple[int, int]: ...
    def Get_true_extent(self) -> tuple[int, int]: ...
    def Get_name(self) -> str: ...
    def Commit(self) -> Datatype: ...
    def tocode(self) -> str: ...
    @staticmethod
    def fromcode(code: str) -> Datatype: ...
    def Free(self) -> None: ...

def from_dtype(dtype: np.dtype[Any]) -> Datatype: ...
def from_format(fmt: str | None, itemsize: int) -> Datatype: ...

DATATYPE_NULL: Datatype
BYTE: Datatype
PACKED: Datatype
CHAR: Datatype
WCHAR: Datatype
SIGNED_CHAR: Datatype
SHORT: Datatype
INT: Datatype
LONG: Datatype
LONG_LONG: Datatype
UNSIGNED_CHAR: Datatype
UNSIGNED_SHORT: Datatype
UNSIGNED: Datatype
UNSIGNED_LONG: Datatype
UNSIGNED_LONG_LONG: Datatype
INT8_T: Datatype
INT16_T: Datatype
INT32_T: Datatype
INT64_T: Datatype
UINT8_T: Datatype
UINT16_T: Datatype
UINT32_T: Datatype
UINT64_T: Datatype
AINT: Datatype
OFFSET: Datatype
COUNT: Datatype
FLOAT16_T: Datatype
BFLOAT16_T: Datatype
FLOAT: Datatype
DOUBLE: Datatype
LONG_DOUBLE: Datatype
C_BOOL: Datatype
CXX_BOOL: Datatype
C_COMPLEX: Datatype
C_DOUBLE_COMPLEX: Datatype
C_LONG_DOUBLE_COMPLEX: Datatype
CXX_FLOAT_COMPLEX: Datatype
CXX_DOUBLE_COMPLEX: Datatype
CXX_LONG_DOUBLE_COMPLEX: Datatype
SHORT_INT: Datatype
TWOINT: Datatype
LONG_INT: Datatype
FLOAT_INT: Datatype
DOUBLE_INT: Datatype
LONG_DOUBLE_INT: Datatype
CHARACTER: Datatype
LOGICAL: Datatype
INTEGER: Datatype
REAL: Datatype
DOUBLE_PRECISION: Datatype
COMPLEX: Datatype
DOUBLE_COMPLEX: Datatype
INTEGER1: Datatype
INTEGER2: Datatype
INTEGER4: Datatype
INTEGER8: Datatype
REAL2: Datatype
REAL4: Datatype
REAL8: Datatype
COMPLEX8: Datatype
COMPLEX16: Datatype
BOOL: Datatype
INT_INT: Datatype
UNSIGNED_INT: Datatype
SIGNED_SHORT: Datatype
SIGNED_INT: Datatype
SIGNED_LONG: Datatype
SIGNED_LONG_LONG: Datatype
FLOAT32_T: Datatype
FLOAT64_T: Datatype
SINT8_T: Datatype
SINT16_T: Datatype
SINT32_T: Datatype
SINT64_T: Datatype
C_FLOAT_COMPLEX: Datatype
F_BOOL: Datatype
F_INT: Datatype
F_FLOAT: Datatype
F_DOUBLE: Datatype
F_COMPLEX: Datatype
F_FLOAT_COMPLEX: Datatype
F_DOUBLE_COMPLEX: Datatype
