# cython: language_level=3
"""Names that mpi4py's classes have and ours have not: in the classes, for whoever asks for them.

Contract: `name_missing` needs the GIL and is called once for a class, right after it is made and
before classes are derived from it. A class that was named must live for ever, as a module's does.
"""


cpdef object name_missing(object cls)
