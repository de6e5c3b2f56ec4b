"""Reduction operations against NumPy and plain Python."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyrdv import errors
from pyrdv.api import datatypes, ops
from pyrdv.api.datatypes import PREDEFINED, from_dtype

INTEGERS = "bBhHiIlLqQ"
FLOATS = "efdg"
COMPLEX = "FDG"


def reduced(op, left, right):
    """`right` after ``right = left op right``; `left` must stay as it is."""
    before = left.copy()
    result = right.copy()
    op.Reduce_local(left, result)
    assert left.tobytes() == before.tobytes()
    return result


def operands(char, rng):
    dtype = np.dtype(char)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return (rng.integers(info.min, info.max, 257, dtype, endpoint=True) for _ in range(2))
    if dtype.kind == "c":
        return ((rng.normal(size=257) + 1j * rng.normal(size=257)).astype(dtype) for _ in range(2))
    return (rng.normal(size=257).astype(dtype) for _ in range(2))


@pytest.mark.parametrize("char", INTEGERS + FLOATS)
def test_numbers(char):
    x, y = operands(char, np.random.default_rng(1))
    with np.errstate(all="ignore"):
        expected = {ops.SUM: x + y, ops.PROD: x * y, ops.MAX: np.where(x > y, x, y),
                    ops.MIN: np.where(x < y, x, y)}
    for op, value in expected.items():
        assert np.array_equal(reduced(op, x, y), value), op


@pytest.mark.parametrize("char", COMPLEX)
def test_complex(char):
    x, y = operands(char, np.random.default_rng(2))
    assert np.array_equal(reduced(ops.SUM, x, y), x + y)
    assert np.allclose(reduced(ops.PROD, x, y), x * y)
    for op in (ops.MAX, ops.MIN, ops.LAND, ops.BOR):
        with pytest.raises(errors.OpError, match="SUM PROD"):
            op.Reduce_local(x, y)


@pytest.mark.parametrize("char", INTEGERS)
def test_bits_and_logic_of_integers(char):
    x, y = operands(char, np.random.default_rng(3))
    x[:100] = 0
    y[50:150] = 0
    assert np.array_equal(reduced(ops.BAND, x, y), x & y)
    assert np.array_equal(reduced(ops.BOR, x, y), x | y)
    assert np.array_equal(reduced(ops.BXOR, x, y), x ^ y)
    p, q = x != 0, y != 0
    assert np.array_equal(reduced(ops.LAND, x, y), (p & q).astype(char))
    assert np.array_equal(reduced(ops.LOR, x, y), (p | q).astype(char))
    assert np.array_equal(reduced(ops.LXOR, x, y), (p ^ q).astype(char))


def test_booleans():  # B11
    x = np.array([0, 0, 1, 1], np.bool_)
    y = np.array([0, 1, 0, 1], np.bool_)
    conjunction, disjunction, difference = [0, 0, 0, 1], [0, 1, 1, 1], [0, 1, 1, 0]
    for op in (ops.LAND, ops.BAND, ops.MIN):
        assert reduced(op, x, y).tolist() == conjunction
    for op in (ops.LOR, ops.BOR, ops.MAX):
        assert reduced(op, x, y).tolist() == disjunction
    for op in (ops.LXOR, ops.BXOR):
        assert reduced(op, x, y).tolist() == difference
    for op in (ops.SUM, ops.PROD):
        with pytest.raises(errors.OpError, match=r"MPI_C_BOOL.*LAND LOR.*astype"):
            reduced(op, x, y)


def test_fortran_logicals_are_truth_values():
    x = np.array([2, 2, 0], np.intc)
    y = np.array([1, 0, 0], np.intc)
    for op, expected in ((ops.BAND, [1, 0, 0]), (ops.LAND, [1, 0, 0]), (ops.BOR, [1, 1, 0]),
                         (ops.BXOR, [0, 1, 0])):
        result = y.copy()
        op.reduce_local(x, result, datatypes.LOGICAL)
        assert result.tolist() == expected


def test_half_precision():  # B12
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=1000).astype(np.float16) for _ in range(2))
    exact = x.astype(np.float64) + y.astype(np.float64)
    error = np.abs(reduced(ops.SUM, x, y).astype(np.float64) - exact)
    assert np.all(error <= np.abs(exact) * 2.0**-11 + 2.0**-25)
    assert np.array_equal(reduced(ops.MAX, x, y), np.maximum(x, y))
    big = np.full(2, 60000, np.float16)
    assert np.all(np.isinf(reduced(ops.SUM, big, big)))     # quietly, as MPI


def test_bfloat16():  # B12
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        with pytest.raises(TypeError, match="ml_dtypes"):
            ops.SUM.reduce_local(bytes(4), bytearray(4), datatypes.BFLOAT16_T)
        return
    x, y = np.array([1, 2, 3], bfloat16), np.array([0.5, -2, 100], bfloat16)
    assert np.array_equal(reduced(ops.SUM, x, y), x + y)
    assert np.array_equal(reduced(ops.MAX, x, y), np.maximum(x, y))


@pytest.mark.parametrize("key", ["SHORT_INT", "TWOINT", "LONG_INT", "FLOAT_INT", "DOUBLE_INT",
                                 "LONG_DOUBLE_INT"])
@pytest.mark.parametrize("op", [ops.MAXLOC, ops.MINLOC])
def test_locations(key, op):
    datatype = PREDEFINED[key]
    rng = np.random.default_rng(5)
    x, y = (np.zeros(200, datatype.dtype) for _ in range(2))
    for array in (x, y):
        array["f0"] = rng.integers(-3, 3, 200)      # many ties
        array["f1"] = rng.integers(0, 5, 200)
    result = y.copy()
    op.Reduce_local([x, datatype], [result, datatype])
    for left, right, got in zip(x.tolist(), y.tolist(), result.tolist(), strict=True):
        if left[0] == right[0]:
            expected = (left[0], min(left[1], right[1]))
        elif op == ops.MAXLOC:
            expected = max(left, right)
        else:
            expected = min(left, right)
        assert got == expected == op(left, right)


def test_dates_are_integers():
    x = np.array(["2024-01-01", "2020-01-01"], "M8[D]")
    y = np.array(["2023-01-01", "2021-01-01"], "M8[D]")
    assert np.array_equal(reduced(ops.MAX, x, y), np.maximum(x, y))


@pytest.mark.parametrize("op, spelling, names", [
    (ops.BAND, "d", "MPI_DOUBLE.*integer, byte.*SUM"), (ops.LAND, "f", "MPI_FLOAT"),
    (ops.SUM, "S3", "MPI_BYTE.*BAND BOR BXOR"), (ops.MAXLOC, "d", "pairs: .*DOUBLE_INT"),
    (ops.MAX, "D", "MPI_C_DOUBLE_COMPLEX"), (ops.SUM, ">f8", "MPI_BYTE"),
    (ops.OP_NULL, "d", "OP_NULL"),
])
def test_undefined_combinations_are_refused_before_anything_is_written(op, spelling, names):
    x, y = np.ones(3, spelling), np.zeros(3, spelling)
    kept = y.tobytes()
    with pytest.raises(errors.OpError, match=names):
        op.Reduce_local(x, y)
    assert y.tobytes() == kept


def test_every_combination_works_or_is_refused():
    for op, datatype in itertools.product(ops.PREDEFINED_OPS.values(), PREDEFINED.values()):
        if not datatype or datatype == datatypes.BFLOAT16_T:
            continue
        inbuf, inout = bytes(3 * datatype.size), bytearray(3 * datatype.size)
        try:
            op.check(datatype)
        except errors.OpError as error:
            assert datatype.name in str(error) or not op
            with pytest.raises(errors.OpError):
                op.reduce_local(inbuf, inout, datatype)
        else:
            op.reduce_local(inbuf, inout, datatype)
            assert inout == bytes(3 * datatype.size)    # every operation keeps zeros


def test_replace_and_no_op_take_any_type():
    x, y = np.array([b"1", b"2", b""], "S4"), np.array([b"ab", b"cd", b"ef"], "S4")
    assert np.array_equal(reduced(ops.REPLACE, x, y), x)
    assert np.array_equal(reduced(ops.NO_OP, x, y), y)


def test_nan_goes_through():
    x, y = np.array([np.nan, 1.0]), np.array([1.0, np.nan])
    assert np.all(np.isnan(reduced(ops.MAX, x, y)))
    assert np.all(np.isnan(reduced(ops.MIN, x, y)))


def test_no_warning_and_no_exception_from_arithmetic():
    with np.errstate(all="raise"):
        assert np.isinf(reduced(ops.SUM, np.array([1e308]), np.array([1e308])))[0]
        assert reduced(ops.SUM, np.array([127], np.int8), np.array([1], np.int8))[0] == -128


def test_user_operation_on_buffers():
    calls = []

    def weighted(inbuf, inoutbuf, datatype):
        calls.append(datatype)
        x = np.frombuffer(inbuf, datatype.dtype)
        y = np.frombuffer(inoutbuf, datatype.dtype)
        y[:] = 2 * x + y

    op = ops.Op.Create(weighted, commute=False)
    assert not op.Is_commutative() and not op.is_predefined
    assert ops.Op.Create(weighted, commute=True).Is_commutative()
    x, y = np.arange(4.0), np.ones(4)
    op.Reduce_local(x, y)
    assert y.tolist() == [1, 3, 5, 7]
    assert calls == [datatypes.DOUBLE]
    op.Reduce_local([x, 2], [y, 2])
    assert y.tolist() == [1, 5, 5, 7]
    op.Free()
    assert op == ops.OP_NULL and not op
    with pytest.raises(errors.OpError):
        op.Reduce_local(x, y)


def test_user_operation_on_objects():
    op = ops.Op.Create(lambda x, y, datatype: (x, y, datatype))
    assert op("a", "b") == ("a", "b", None)
    with pytest.raises(errors.OpError, match="int"):
        ops.Op.Create(5)


def test_an_exception_in_a_user_operation_reaches_the_caller():
    def fail(inbuf, inoutbuf, datatype):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ops.Op.Create(fail).Reduce_local(np.ones(1), np.ones(1))


@given(st.integers(-99, 99), st.integers(-99, 99))
def test_predefined_on_objects(x, y):
    assert ops.MAX(x, y) == max(x, y) and ops.MIN(x, y) == min(x, y)
    assert ops.SUM(x, y) == x + y and ops.PROD(x, y) == x * y
    assert ops.BAND(x, y) == x & y and ops.BOR(x, y) == x | y and ops.BXOR(x, y) == x ^ y
    assert ops.LAND(x, y) is (bool(x) and bool(y))
    assert ops.LOR(x, y) is (bool(x) or bool(y))
    assert ops.LXOR(x, y) is (bool(x) != bool(y))
    assert ops.REPLACE(x, y) == y and ops.NO_OP(x, y) == x
    assert ops.SUM([x], [y]) == [x, y]


def test_order_on_objects():
    assert ops.MAXLOC((3, 5), (3, 2)) == (3, 2)
    assert ops.MINLOC([1, "a"], [0, "b"]) == (0, "b")
    with pytest.raises(errors.OpError):
        ops.OP_NULL(1, 2)


def test_identity():
    assert ops.Op() == ops.OP_NULL and not ops.OP_NULL and ops.SUM
    assert ops.Op(ops.SUM) == ops.SUM and hash(ops.Op(ops.SUM)) == hash(ops.SUM)
    assert len(set(ops.PREDEFINED_OPS.values())) == 15
    for name, op in ops.PREDEFINED_OPS.items():
        assert pickle.loads(pickle.dumps(op)) == op
        assert repr(op) == f"MPI.{name}"
        assert op.is_predefined
        with pytest.raises(ValueError, match=name):
            op.Free()
    assert not ops.REPLACE.Is_commutative() and not ops.NO_OP.Is_commutative()
    assert ops.SUM.Is_commutative() and ops.MAXLOC.is_commutative


def _module_level(inbuf, inoutbuf, datatype):
    return None


def test_user_operation_pickles_by_its_function():
    op = ops.Op.Create(_module_level, True)
    again = pickle.loads(pickle.dumps(op))
    assert again == op and again.Is_commutative()


def test_mismatches():
    x = np.ones(3)
    with pytest.raises(errors.CountError, match="24 bytes into 16"):
        ops.SUM.Reduce_local(x, np.ones(2))
    with pytest.raises(errors.DatatypeError, match="MPI_DOUBLE into MPI_FLOAT"):
        ops.SUM.Reduce_local(x, np.ones(3, "f"))
    with pytest.raises(errors.CountError, match="whole elements"):
        ops.SUM.reduce_local(bytes(7), bytearray(7), from_dtype(np.dtype("d")))
    with pytest.raises(BufferError, match="read-only"):
        ops.SUM.reduce_local(bytes(8), bytes(8), datatypes.DOUBLE)
    ops.SUM.Reduce_local(np.ones(0), np.ones(0))
