# cython: language_level=3
"""Memory of objects that offer only ``__cuda_array_interface__``.

Contract: needs the GIL; calls into the producer, so it may run any Python code.
"""


# A NumPy array over the memory of `obj`, which it keeps alive; None if `obj` does not offer the
# interface.  InvalidBufferError for memory that the CPU cannot reach.
cdef object host_array(object obj)
