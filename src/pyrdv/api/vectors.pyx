# cython: language_level=3, nonecheck=True
"""Messages of one block per rank, as the vector collectives take them.

As in mpi4py, in elements of the datatype::

    buf                                 split as evenly as whole elements allow
    [buf, type]  [buf, counts]  [buf, counts, type]  [buf, (counts, displs), type]
    [buf, counts, displs, type]

`counts` is a sequence (not a tuple, unless `displs` is given apart) or one integer for all ranks;
`displs` a sequence, one integer as the stride, or left out for blocks without gaps.
"""

from pyrdv.api.buffers cimport acquire_buffer, bad_list, integer, names_type, own_type, span
from pyrdv.api.datatypes cimport Datatype, from_spec

from pyrdv.errors import CountError


cdef class VectorMessage:
    """A message of one block per rank."""


cdef tuple split_vector(object spec):
    """``(buf, counts, displs, type)``; a tuple in place of the counts is (counts, displs)."""
    cdef Py_ssize_t items
    counts = displs = datatype = None
    if not isinstance(spec, (list, tuple)):
        return spec, None, None, None
    items = len(spec)
    if items == 2:
        if names_type(spec[1]):
            datatype = spec[1]
        else:
            counts = spec[1]
    elif items == 3:
        counts, datatype = spec[1], spec[2]
    elif items == 4:
        counts, displs, datatype = spec[1], spec[2], spec[3]
    else:
        raise bad_list(items)
    if isinstance(counts, tuple) and displs is None and items < 4:
        if len(counts) != 2:
            raise CountError(
                f"a tuple in place of the counts must be (counts, displacements), not {counts!r}; "
                "give counts alone as a list"
            )
        counts, displs = counts
    return spec[0], counts, displs, datatype


cdef list per_rank(object values, str what, Py_ssize_t blocks):
    """A sequence of one integer per rank, as a list of int."""
    cdef list made = [integer(value, what) for value in values]
    if len(made) != blocks:
        raise CountError(f"{len(made)} {what}s for {blocks} ranks; give one per rank")
    return made


cdef list default_counts(object buf, size_t nbytes, Datatype datatype, Py_ssize_t blocks):
    """Everything in the buffer, as evenly as whole elements allow, the first ranks one more."""
    if nbytes % <size_t>datatype.size:
        raise CountError(
            f"{type(buf).__name__} has {nbytes} bytes, not a multiple of the {datatype.size} bytes "
            f"of {datatype.name}; give the counts"
        )
    cdef Py_ssize_t total = <Py_ssize_t>(nbytes // <size_t>datatype.size)
    return [total // blocks + (1 if rank < total % blocks else 0) for rank in range(blocks)]


cdef list running(list counts, object stride):
    """Displacements of blocks one after the other, or `stride` elements apart."""
    cdef list made = []
    cdef object at = 0
    for count in counts:
        made.append(at)
        at += count if stride is None else stride
    return made


cdef VectorMessage vector_message(object spec, bint writable, Py_ssize_t blocks):
    cdef VectorMessage made = VectorMessage.__new__(VectorMessage)
    cdef span at
    cdef Py_ssize_t rank
    if blocks < 1:
        raise CountError(f"a message for {blocks} ranks; there is at least one")
    buf, counts, displs, datatype = split_vector(spec)
    made.keeper = acquire_buffer(buf, writable, &at)
    made.datatype = own_type(made.keeper) if datatype is None else from_spec(datatype)
    made.address = at.address
    made.nbytes = at.nbytes
    if counts is None:
        made.counts = default_counts(buf, at.nbytes, made.datatype, blocks)
    elif hasattr(counts, "__index__") and not hasattr(counts, "__len__"):
        made.counts = [integer(counts, "count")] * blocks
    else:
        made.counts = per_rank(counts, "count", blocks)
    if displs is None:
        made.displs = running(made.counts, None)
    elif hasattr(displs, "__index__") and not hasattr(displs, "__len__"):
        made.displs = running(made.counts, integer(displs, "displacement"))
    else:
        made.displs = per_rank(displs, "displacement", blocks)
    for rank in range(blocks):
        check_block(made, buf, rank)
    return made


cdef int check_block(VectorMessage made, object buf, Py_ssize_t rank) except -1:
    count, displ = made.counts[rank], made.displs[rank]
    if count < 0 or displ < 0:
        raise CountError(
            f"block {rank} has the count {count} and displacement {displ}; neither can be negative"
        )
    if count > 0 and (count + displ) * made.datatype.size > made.nbytes:
        raise CountError(
            f"block {rank} ({count} elements of {made.datatype.name} behind {displ}) ends at byte "
            f"{(count + displ) * made.datatype.size}, but {type(buf).__name__} holds {made.nbytes}"
        )
    return 0


def parse_vector(spec, blocks, *, writable=False):
    """Read a message of one block per rank; for tools and tests.

    Returns
    -------
    tuple
        ``(address, bytes, counts, displacements, datatype, keeper)``; errors as `parse`.
    """
    cdef VectorMessage made = vector_message(spec, writable, blocks)
    return (
        <size_t>made.address, made.nbytes, made.counts, made.displs, made.datatype, made.keeper
    )
