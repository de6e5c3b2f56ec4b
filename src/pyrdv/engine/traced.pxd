# cython: language_level=3
"""What the trace tells, for Python."""
from pyrdv.engine.engine cimport Engine

# Note the line of the program that calls the library, for what is posted next; if `Engine.lines`.
cdef int note_line(Engine engine) except -1
