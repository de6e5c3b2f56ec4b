"""Predefined datatypes: names, sizes, and the mapping to dtypes, type codes and formats."""

import copy
import ctypes
import pickle

import numpy as np
import pytest

from pyrdv import errors
from pyrdv.api import datatypes
from pyrdv.api.datatypes import PREDEFINED, Datatype, from_dtype, from_format

PAIRS = ["SHORT_INT", "TWOINT", "LONG_INT", "FLOAT_INT", "DOUBLE_INT", "LONG_DOUBLE_INT"]
CODED = sorted({key for key, known in PREDEFINED.items() if known and known.typechar})

# C's own sizes, from an independent source.
SIZES = {
    "BYTE": 1, "PACKED": 1, "CHAR": 1, "WCHAR": ctypes.sizeof(ctypes.c_wchar),
    "SIGNED_CHAR": 1, "UNSIGNED_CHAR": 1, "SHORT": ctypes.sizeof(ctypes.c_short),
    "INT": ctypes.sizeof(ctypes.c_int), "LONG": ctypes.sizeof(ctypes.c_long),
    "LONG_LONG": ctypes.sizeof(ctypes.c_longlong), "UNSIGNED_INT": ctypes.sizeof(ctypes.c_uint),
    "FLOAT": 4, "DOUBLE": 8, "LONG_DOUBLE": ctypes.sizeof(ctypes.c_longdouble), "C_BOOL": 1,
    "INT8_T": 1, "INT16_T": 2, "INT32_T": 4, "INT64_T": 8, "UINT8_T": 1, "UINT16_T": 2,
    "UINT32_T": 4, "UINT64_T": 8, "C_FLOAT_COMPLEX": 8, "C_DOUBLE_COMPLEX": 16,
    "C_LONG_DOUBLE_COMPLEX": 2 * ctypes.sizeof(ctypes.c_longdouble),
    "AINT": ctypes.sizeof(ctypes.c_void_p), "OFFSET": 8, "COUNT": 8, "FLOAT16_T": 2,
    "BFLOAT16_T": 2, "LOGICAL": 4, "INTEGER": 4, "REAL": 4, "DOUBLE_PRECISION": 8,
}


@pytest.mark.parametrize("key", SIZES)
def test_size_and_extent(key):
    datatype = getattr(datatypes, key)
    assert datatype.size == datatype.Get_size() == datatype.extent == datatype.ub == SIZES[key]
    assert datatype.Get_extent() == datatype.Get_true_extent() == (0, SIZES[key])
    assert datatype.lb == 0
    assert datatype.is_named and datatype.is_predefined
    assert datatype.Commit() is datatype


@pytest.mark.parametrize("key", PAIRS)
def test_pairs_are_c_structs(key):
    class Pair(ctypes.Structure):
        letter = {"S": ctypes.c_short, "T": ctypes.c_int, "F": ctypes.c_float,
                  "D": ctypes.c_double}.get(key[0], ctypes.c_long)
        if key == "LONG_DOUBLE_INT":
            letter = ctypes.c_longdouble
        _fields_ = [("value", letter), ("location", ctypes.c_int)]

    datatype = PREDEFINED[key]
    assert datatype.size == datatype.dtype.itemsize == ctypes.sizeof(Pair)
    assert datatype.dtype.fields["f1"][1] == Pair.location.offset
    with pytest.raises(ValueError, match=datatype.name):
        datatype.tocode()


def test_aliases_are_the_same_object():
    for key, target in datatypes.ALIASES.items():
        assert PREDEFINED[key] is PREDEFINED[target]
    assert datatypes.FLOAT32_T is datatypes.FLOAT
    assert datatypes.C_BOOL is datatypes.BOOL
    assert datatypes.INT != datatypes.INT32_T
    assert datatypes.BYTE != datatypes.UNSIGNED_CHAR


@pytest.mark.parametrize("key", sorted(PREDEFINED))
def test_pickle_and_copy_give_the_same_object(key):
    datatype = PREDEFINED[key]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(datatype, protocol)) is datatype
    assert copy.deepcopy(datatype) is datatype
    assert eval(repr(datatype), {"MPI": datatypes}) is datatype
    assert Datatype(datatype) == datatype
    assert hash(Datatype(datatype)) == hash(datatype)


def test_null():
    assert not datatypes.DATATYPE_NULL
    assert datatypes.INT
    assert Datatype() == datatypes.DATATYPE_NULL
    assert datatypes.DATATYPE_NULL != datatypes.INT
    assert datatypes.INT != "i"
    with pytest.raises(TypeError, match="MPI_DATATYPE_NULL"):
        _ = datatypes.DATATYPE_NULL.dtype


@pytest.mark.parametrize("key", CODED)
def test_codes_round_trip(key):
    datatype = PREDEFINED[key]
    again = Datatype.fromcode(datatype.tocode())
    assert again.dtype == datatype.dtype
    assert len(datatype.typechar) == 1
    assert np.dtype(datatype.typestr).itemsize == datatype.size


@pytest.mark.parametrize("code, key", [
    ("d", "DOUBLE"), ("f8", "DOUBLE"), ("i", "INT"), ("i4", "INT32_T"), ("l", "LONG"),
    ("q", "LONG_LONG"), ("p", "AINT"), ("n", "COUNT"), ("w", "WCHAR"), ("U", "WCHAR"),
    ("S", "CHAR"), ("c", "CHAR"), ("?", "C_BOOL"), ("b1", "C_BOOL"), ("e", "FLOAT16_T"),
    ("f2", "FLOAT16_T"), ("Zd", "C_DOUBLE_COMPLEX"), ("F", "C_COMPLEX"), ("g", "LONG_DOUBLE"),
    ("B", "UNSIGNED_CHAR"), ("M", "INT64_T"),
])
def test_fromcode_as_mpi4py(code, key):
    assert Datatype.fromcode(code) is PREDEFINED[key]


@pytest.mark.parametrize("code", ["O", "", "zz", ">f8", "float64", "V8", "T{i:a:}", None, 5])
def test_unknown_codes_are_named(code):
    with pytest.raises(ValueError) as caught:
        Datatype.fromcode(code)
    assert repr(code) in str(caught.value)
    assert isinstance(caught.value, errors.Error)


@pytest.mark.parametrize("dtype, key", [
    ("?", "C_BOOL"), ("b", "SIGNED_CHAR"), ("B", "UNSIGNED_CHAR"), ("h", "SHORT"),
    ("H", "UNSIGNED_SHORT"), ("i", "INT"), ("I", "UNSIGNED"), ("l", "LONG"),
    ("L", "UNSIGNED_LONG"), ("q", "LONG_LONG"), ("Q", "UNSIGNED_LONG_LONG"), ("e", "FLOAT16_T"),
    ("f", "FLOAT"), ("d", "DOUBLE"), ("g", "LONG_DOUBLE"), ("F", "C_COMPLEX"),
    ("D", "C_DOUBLE_COMPLEX"), ("G", "C_LONG_DOUBLE_COMPLEX"), ("M8[ns]", "INT64_T"),
    ("m8[s]", "INT64_T"), ("S5", "BYTE"), ("U5", "BYTE"), ("V7", "BYTE"), ("i4,f8", "BYTE"),
    (">f8", "BYTE"), (">i2", "BYTE"), ("S0", "BYTE"),
])
def test_from_dtype(dtype, key):
    assert from_dtype(np.dtype(dtype)) is PREDEFINED[key]


@pytest.mark.parametrize("dtype", [np.dtype("O"), np.dtype("i4,O"), np.dtype(("O", 3))] + (
    [np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else []
))
def test_dtypes_with_references_are_refused(dtype):
    with pytest.raises(TypeError, match="lower-case methods"):
        from_dtype(dtype)


@pytest.mark.parametrize("fmt, itemsize, key", [
    ("d", 8, "DOUBLE"), ("<d", 8, "DOUBLE"), ("@i", 4, "INT"), ("=i", 4, "INT"),
    (">d", 8, "BYTE"), ("!h", 2, "BYTE"), (None, 1, "BYTE"), ("<l", 8, "LONG"),
    ("<l", 4, "INT32_T"), ("=L", 4, "UINT32_T"), ("5s", 5, "BYTE"), ("T{i:a:d:b:}", 16, "BYTE"),
    ("T{i:O:}", 4, "BYTE"), ("?", 1, "C_BOOL"), ("<?", 1, "C_BOOL"), ("Zd", 16, "C_DOUBLE_COMPLEX"),
    ("<Zf", 8, "C_COMPLEX"), ("e", 2, "FLOAT16_T"), ("c", 1, "CHAR"), ("P", 8, "UNSIGNED_LONG"),
    ("w", 4, "WCHAR"),
])
def test_from_format(fmt, itemsize, key):
    if np.little_endian or not (fmt or "").startswith(("<", ">", "!")):
        assert from_format(fmt, itemsize) is PREDEFINED[key]


@pytest.mark.parametrize("fmt", ["O", "T{O:a:}", "T{i:a:O:b:}"])
def test_formats_with_references_are_refused(fmt):
    with pytest.raises(TypeError, match="Python objects"):
        from_format(fmt, 8)


@pytest.mark.parametrize("ctype", [
    ctypes.c_bool, ctypes.c_byte, ctypes.c_ubyte, ctypes.c_short, ctypes.c_int, ctypes.c_uint,
    ctypes.c_long, ctypes.c_ulong, ctypes.c_longlong, ctypes.c_float, ctypes.c_double,
    ctypes.c_longdouble,
])
def test_formats_of_ctypes(ctype):
    view = memoryview((ctype * 3)())
    datatype = from_format(view.format, view.itemsize)
    assert datatype.size == ctypes.sizeof(ctype)
    assert datatype.group == from_dtype(np.dtype(ctype)).group


@pytest.mark.parametrize("name, arguments", [
    ("Dup", ()), ("Create_dup", ()), ("Create_contiguous", (2,)), ("Create_vector", (2, 1, 3)),
    ("Create_hvector", (2, 1, 24)), ("Create_indexed", ([1], [0])),
    ("Create_hindexed", ([1], [0])), ("Create_indexed_block", (1, [0])),
    ("Create_hindexed_block", (1, [0])), ("Create_struct", ([1], [0], [datatypes.INT])),
    ("Create_subarray", ([4], [2], [1])), ("Create_resized", (0, 16)),
    ("Create_darray", (1, 0, [4], [0], [0], [1])),
])
def test_derived_types_are_refused_by_name(name, arguments):
    with pytest.raises(NotImplementedError, match=name):
        getattr(datatypes.INT, name)(*arguments)


def test_predefined_types_are_not_freed():
    with pytest.raises(ValueError, match="MPI_INT"):
        datatypes.INT.Free()


def test_bfloat16():
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(TypeError, match="ml_dtypes"):
            _ = datatypes.BFLOAT16_T.dtype
        return
    assert from_dtype(np.dtype(ml_dtypes.bfloat16)) is datatypes.BFLOAT16_T
    assert datatypes.BFLOAT16_T.dtype == ml_dtypes.bfloat16
    assert from_dtype(np.dtype(ml_dtypes.float8_e5m2)) is datatypes.BYTE
