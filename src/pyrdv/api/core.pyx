# cython: language_level=3
"""What every communicator is: an engine, members, contexts; and the checks of arguments."""
cimport cython
from libc.stdint cimport uint64_t
from posix.unistd cimport getpid

from pyrdv.engine.calls cimport engine_peer_finished
from pyrdv.engine.engine cimport Engine, own_process
from pyrdv.engine.state cimport OP_NO_MEMORY, OP_NOT_REGISTERED, OP_PEER_LOST, OP_TRUNCATED

from pyrdv.api.constants import TAG_UB
from pyrdv.errors import (
    CommunicatorError, FinalizedError, ForkedError, RankError, TagError, from_status)


cdef str hint(Engine engine):
    """A world of one is usually a forgotten launcher."""
    if engine.size > 1:
        return ""
    return "; this program runs alone: start it with `pyrdv run -n N program.py`"


@cython.no_gc_clear     # a request that ends with it still asks for its engine
cdef class CommBase:
    """A communicator without any way to communicate.

    Parameters
    ----------
    engine : Engine
    members : Members
    context : int
        Number of the communicator, the same on all members.
    label : str
        Its name in texts.

    Attributes
    ----------
    freed : bool
        Whether `Free` was called: the communicator cannot be used any more.
    """

    def __cinit__(self, Engine engine, Members members, uint32_t context, str label=""):
        self.engine = engine
        self.members = members
        self.context = context * CONTEXTS
        self.label = label

    @property
    def context_number(self):
        """Number of this communicator, the same on all its members."""
        return self.context // CONTEXTS

    cdef int ready(self) except -1:
        if self.freed:
            raise CommunicatorError(f"communicator {self.label!r} was freed; "
                                    "use it before Free() or make a new one with Dup()")
        if self.engine.closed:
            raise FinalizedError("messages after Finalize(): this process's world has ended")
        return self.check_process()

    cdef int check_process(self) except -1:
        if not own_process(self.engine):
            raise ForkedError(
                f"process {getpid()} was forked from rank {self.engine.rank} (process "
                f"{self.engine.creator}) and is not a rank itself; communicate in the parent, "
                "or start children with multiprocessing's 'spawn' method")
        return 0

    cdef int check_dest(self, long long rank) except -1:
        self.ready()
        if not 0 <= rank < self.members.size and rank != PROC_NULL_:
            raise RankError(
                f"destination rank {rank} is not in {self.label or 'the communicator'}, which has "
                f"ranks 0..{self.members.size - 1} (or PROC_NULL){hint(self.engine)}", rank=rank)
        return 0

    cdef int check_source(self, long long rank) except -1:
        self.ready()
        if not 0 <= rank < self.members.size and rank != PROC_NULL_ and rank != ANY_SOURCE_:
            raise RankError(
                f"source rank {rank} is not in {self.label or 'the communicator'}, which has "
                f"ranks 0..{self.members.size - 1} (or ANY_SOURCE, PROC_NULL){hint(self.engine)}",
                rank=rank)
        return 0

    cdef int check_tag(self, long long tag) except -1:
        if not 0 <= tag <= 0x7FFFFFFF:
            raise TagError(f"tag {tag} of a send is not in 0..{TAG_UB} (TAG_UB)", tag=tag)
        return 0

    cdef int check_match_tag(self, long long tag) except -1:
        if not 0 <= tag <= 0x7FFFFFFF and tag != ANY_TAG_NUMBER:
            raise TagError(f"tag {tag} of a receive is not in 0..{TAG_UB} (TAG_UB) "
                           "and is not ANY_TAG", tag=tag)
        return 0

    cdef object failure(self, int error, int peer, int tag, uint64_t total, uint64_t room):
        if error == OP_TRUNCATED:
            return from_status(error, message_bytes=total, buffer_bytes=room, source=peer, tag=tag)
        if error == OP_PEER_LOST:
            return from_status(error, peer=peer, reason=self.why(peer))
        if error == 3:
            return from_status(error, source=peer, tag=tag)
        if error == OP_NO_MEMORY:
            return from_status(error, wanted_bytes=room)
        if error == OP_NOT_REGISTERED:
            return from_status(OP_NO_MEMORY, wanted_bytes=room, registering=True,
                               what=f"a message with rank {peer}")
        return from_status(
            error, what=f"message of {total} bytes, tag {tag}, with rank {peer}: its memory "
            "could not be read; was the sender's buffer unmapped, or has the receiver an error "
            "of its own?")

    cdef str why(self, int peer):
        if peer < 0:
            return "all other ranks have finished"
        if engine_peer_finished(self.engine.c, self.members.to_world(peer)):
            return "it has finished"
        return self.engine.reason(self.members.to_world(peer)) or "it died, or its connection broke"
