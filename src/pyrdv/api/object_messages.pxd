# cython: language_level=3
"""Messages of Python objects."""
from pyrdv.api.object_request cimport ObjectRecv
from pyrdv.api.persistent cimport PersistentMessages
from pyrdv.api.request cimport Request
from pyrdv.engine.calls cimport piece_t


cdef class ObjectMessages(PersistentMessages):
    # Start a send.  `returns`: the call does before the data has left, so it sends a snapshot.
    cdef Request post_object(self, object obj, long long dest, long long tag, bint sync,
                             bint returns)
    cdef ObjectRecv post_match(self, long long source, long long tag)
    cdef Request post_pickled(self, object head, object parts, long long dest, long long tag,
                              bint sync)
    cdef Request post_pieces(self, list data, piece_t *pieces, long long dest, long long tag)
    cdef int send_object(self, object obj, long long dest, long long tag, bint sync) except -1
