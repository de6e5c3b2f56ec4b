# cython: language_level=3
"""The loops of ``csrc/reduce.c`` that reduce messages.  Needs the GIL."""
from pyrdv.engine.schedule.plan cimport reduce_t

# The loop of operation `op` on elements of `datatype`, or NULL: Python does it.  `right`: what is
# taken in is the right operand, else the left one.
cdef reduce_t find_loop(op, datatype, bint right) except? NULL
