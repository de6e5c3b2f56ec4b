# cython: language_level=3
"""Opens libibverbs and librdmacm when they are first needed."""

cdef verbs_calls table  # written by the first `load`, constant from then on
cdef bint tried = False


cdef const verbs_calls *verbs_table() noexcept nogil:
    return &table


def problem():
    """Why the libraries cannot be used; None if they can.  Opens them on first use."""
    global tried
    if not tried:
        if verbs_open(&table) == 0:
            verbs_prepare_for_fork(&table)
        tried = True
    return table.problem.decode(errors="replace") or None


def load():
    """Open the libraries.

    Raises
    ------
    OSError
        If one of them or one of their functions is missing.
    """
    text = problem()
    if text is not None:
        raise OSError(f"RDMA verbs are not available: {text}; install rdma-core "
                      "(Debian: libibverbs1 librdmacm1 ibverbs-providers)")
