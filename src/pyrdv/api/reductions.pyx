# cython: language_level=3
# distutils: sources = csrc/reduce.c
"""The loops of ``csrc/reduce.c``, for schedules, whose steps cannot call NumPy."""
from pyrdv.api.buffers cimport acquire, span
from pyrdv.engine.schedule.plan cimport reduce_t

from pyrdv.errors import CountError, OpError


cdef extern from "reduce.h" nogil:
    int REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, REDUCE_PROD, REDUCE_LAND, REDUCE_LOR, REDUCE_LXOR
    int REDUCE_BAND, REDUCE_BOR, REDUCE_BXOR
    reduce_t reduce_find(int op, char kind, int size, int right)


NUMBERS = {
    "MAX": REDUCE_MAX, "MIN": REDUCE_MIN, "SUM": REDUCE_SUM, "PROD": REDUCE_PROD,
    "LAND": REDUCE_LAND, "LOR": REDUCE_LOR, "LXOR": REDUCE_LXOR, "BAND": REDUCE_BAND,
    "BOR": REDUCE_BOR, "BXOR": REDUCE_BXOR,
}


cdef reduce_t find_loop(op, datatype, bint right) except? NULL:
    name = op.loop(datatype)
    if name is None:
        return NULL
    return reduce_find(NUMBERS[name[0]], <char> ord(name[1]), name[2], right)


def has_loop(op, datatype):
    """Whether a loop in C reduces messages of `datatype` by `op`."""
    return find_loop(op, datatype, False) != NULL


def reduce(op, datatype, other, into, bint right=False):
    """Combine two messages by the loop in C.

    Parameters
    ----------
    op : Op
    datatype : Datatype
        Of the elements of both.
    other, into : buffer specification
        Of as many bytes, a whole number of elements; they must not overlap.
    right : bool
        ``into = into op other``, else ``into = other op into``.

    Raises
    ------
    OpError
        There is no such loop.
    CountError
        The sizes do not fit.
    """
    cdef span left
    cdef span target
    cdef reduce_t loop = find_loop(op, datatype, right)
    _others = acquire(other, False, &left)
    _own = acquire(into, True, &target)
    if loop == NULL:
        raise OpError(f"there is no loop for {op!r} on {datatype.name}")
    if left.nbytes != target.nbytes or target.nbytes % <size_t> datatype.size:
        raise CountError(f"a reduction of {left.nbytes} bytes into {target.nbytes} bytes of "
                         f"{datatype.name} ({datatype.size} bytes each)")
    loop(left.address, target.address, target.nbytes // <size_t> datatype.size)
