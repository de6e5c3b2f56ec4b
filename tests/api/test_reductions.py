"""The loops in C compute what NumPy does, for every operation and type, in both orders."""

import numpy as np
import pytest

from pyrdv.api.datatypes import PREDEFINED
from pyrdv.api.ops import PREDEFINED_OPS
from pyrdv.api.reductions import NUMBERS, has_loop, reduce
from pyrdv.errors import CountError, OpError

#: Types that must have loops: by MPI's names, one of each size and kind.
TYPES = ("C_BOOL", "INT8_T", "INT16_T", "INT32_T", "INT64_T", "UINT8_T", "UINT16_T", "UINT32_T",
         "UINT64_T", "FLOAT", "DOUBLE", "C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "BYTE", "INT",
         "LOGICAL")
COUNTS = (0, 1, 2, 3, 7, 16, 31, 1001)


def operands(datatype, count, seed):
    """Any bits for whole numbers; for the others also infinities, NaN and both zeros."""
    rng = np.random.default_rng(seed)
    dtype = datatype.dtype
    if dtype.kind == "b" or datatype.group == "logical":
        return rng.integers(0, 2, count).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    one = rng.standard_normal(count)
    one[rng.random(count) < 0.2] = rng.choice((np.inf, -np.inf, np.nan, 0.0, -0.0))
    if dtype.kind == "c":
        # Whole numbers: NumPy rounds some products once instead of three times.
        return (rng.integers(-9, 9, count) + 1j * rng.integers(-9, 9, count)).astype(dtype)
    return one.astype(dtype)


def allowed():
    for key in TYPES:
        datatype = PREDEFINED[key]
        for name in NUMBERS:
            try:
                PREDEFINED_OPS[name].check(datatype)
            except OpError:
                continue
            yield pytest.param(name, datatype, id=f"{name}-{key}")


@pytest.mark.parametrize("right", (False, True), ids=("left", "right"))
@pytest.mark.parametrize("name, datatype", list(allowed()))
def test_loops_agree_with_numpy(name, datatype, right):
    op = PREDEFINED_OPS[name]
    for count in COUNTS:
        for shift in (0, 1):        # at an odd address, too
            other, mine = operands(datatype, count, count), operands(datatype, count, count + 5)
            memory = np.zeros(mine.nbytes + 1, np.uint8)
            into = memory[shift:shift + mine.nbytes]
            into[:] = mine.view(np.uint8)
            reduce(op, datatype, other.view(np.uint8), into, right)
            # `reduce_local` gives NumPy's result, into the right operand.
            expected = (other if right else mine).copy()
            op.reduce_local((mine if right else other).view(np.uint8), expected.view(np.uint8),
                            datatype)
            found = np.frombuffer(into.tobytes(), datatype.dtype)
            if datatype.dtype.kind in "fc":
                np.testing.assert_array_equal(found, expected)
            else:
                assert found.tobytes() == expected.tobytes()
            assert memory[-1 if shift == 0 else 0] == 0


def test_the_order_of_operands_shows():
    """Of zeros of two signs MAX takes the left one, whichever that is."""
    left, right = np.array([0.0]), np.array([-0.0])
    for swapped, (other, into) in ((False, (left, right)), (True, (right, left))):
        into = into.copy()
        reduce(PREDEFINED_OPS["MAX"], PREDEFINED["DOUBLE"], other, into, swapped)
        assert not np.signbit(into[0])


def test_what_has_no_loop():
    for name, key in (("SUM", "LONG_DOUBLE"), ("MAXLOC", "DOUBLE_INT"), ("REPLACE", "INT")):
        op, datatype = PREDEFINED_OPS[name], PREDEFINED[key]
        assert not has_loop(op, datatype)
        with pytest.raises(OpError, match="no loop"):
            reduce(op, datatype, bytes(datatype.size), bytearray(datatype.size))


def test_sizes_are_checked():
    with pytest.raises(CountError):
        reduce(PREDEFINED_OPS["SUM"], PREDEFINED["INT"], bytes(8), bytearray(4))
    with pytest.raises(CountError):
        reduce(PREDEFINED_OPS["SUM"], PREDEFINED["INT"], bytes(6), bytearray(6))
