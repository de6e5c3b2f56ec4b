# cython: language_level=3
"""Python objects as messages: one head and, for large buffers, parts that travel beside it.

Contract: needs the GIL; runs the pickling code of users' classes, so any Python code, calls into
this library included. Never blocks by itself.

A sender calls `dumps`, sends the head as one message and, if there are parts, sends them under a
cookie that it writes into the head (`set_cookie`). A receiver gives the head to `parse_head`,
calls `allocate` for each part, lets the fabric write to the address, and calls `loads`.
"""

cdef enum part_kind:
    PART_WRITABLE = 0               # received into a new uint8 array
    PART_READONLY = 1               # the same; loads() shows it as read-only
    PART_BYTES = 2                  # becomes a bytes object as it is
    PART_BYTEARRAY = 3              # becomes a bytearray as it is

cdef enum:
    MAGIC_BYTES = 8
    HEAD_BYTES = 32                 # of a framed head before its table of parts
    PART_ENTRY_BYTES = 16


# (head, parts) of an object, by the module's `pickle`. Without parts `head` is bytes, the plain
# pickle; with parts it is a bytearray whose cookie is to be set. `parts` are flat memoryviews or
# bytes, each fit for buffers.acquire; they refer to the user's memory and keep it alive.
cpdef tuple dumps(object obj)

# `parts` of `dumps`, each in memory of its own; bytes, which nobody can change, as they are.
cdef list snapshots(list parts)

# Whether a head announces parts; if not, all of it is the pickle.
cdef bint framed(const char *head, size_t nbytes) noexcept

# (pickle view, cookie, sizes, kinds) of a head; every field checked, ArgumentError if malformed.
cpdef tuple parse_head(object head)

# Write the cookie of a framed head.
cpdef int set_cookie(bytearray head, unsigned long long cookie) except -1

# Uninitialized memory for one part; `address` is writable until the object goes to loads().
cdef object allocate(size_t nbytes, int kind, char **address)

# The object of a pickle and its parts, in order.
cpdef object loads(object pickled, list buffers)
