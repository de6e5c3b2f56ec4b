# cython: language_level=3, nonecheck=True
"""What every communicator is: an engine, members, contexts; and the checks of arguments.

Requests and the parts of `Comm` take a `CommBase`, so that none of them imports the communicator,
which imports them all.
"""
cimport cython
from libc.stdint cimport uint32_t, uint64_t
from posix.unistd cimport getpid

from pyrdv.engine.calls cimport engine_peer_finished
from pyrdv.engine.engine cimport Engine, own_process
from pyrdv.engine.lacking cimport lack, reason
from pyrdv.engine.state cimport (
    OP_CANCELLED, OP_FAILED_THERE, OP_FINALIZED, OP_LACKING, OP_NO_MEMORY, OP_NOT_REGISTERED,
    OP_PEER_LOST, OP_SHORT, OP_TRUNCATED)
from pyrdv.engine.traced cimport note_line

from weakref import ref

from pyrdv.api.constants import TAG_UB
from pyrdv.errors import (
    CommunicatorError, FinalizedError, ForkedError, RankError, TagError, from_status)


PURPOSES = ("messages", "collective", "parts", "group")      # by CONTEXT_P2P and so on


def contexts_of(uint32_t number):
    """First and count of the engine's contexts that communicator `number` has."""
    return number * CONTEXTS, CONTEXTS


def purpose(context):
    """What an engine's context is for.

    Parameters
    ----------
    context : int

    Returns
    -------
    int, str
        Number of the communicator; ``messages``, ``collective``, ``parts`` (of objects) or
        ``group``.
    """
    return context // CONTEXTS, PURPOSES[context % CONTEXTS]


cdef str hint(Engine engine):
    """A world of one is usually a forgotten launcher."""
    if engine.size > 1:
        return ""
    return "; this program runs alone: start it with `pyrdv run -n N program.py`"


cdef class Identity:
    """What all handles of one communicator share.

    Attributes
    ----------
    locks : dict of str to lock
        One per kind of collective call on objects, made on first use.
    info : Info or None
        Hints of the user.
    aftermath : object
        What the collectives remember of calls that failed; None as long as none has.
    """

    def is_begun(self, int kind, uint32_t number):
        """Whether this process began collective call `number` of a kind; numbers wrap around."""
        return 0 < (self.begun[kind] - number) % CALLS <= CALLS // 2

    def is_over(self, int kind, uint32_t number):
        """Whether it began that call and is not in it any more."""
        cdef uint32_t behind = (self.begun[kind] - number) % CALLS
        return self.is_begun(kind, number) and (self.within[kind] == 0 or behind > 1)

    def is_idle(self, int kind):
        """Whether no call of a kind goes on in this process."""
        return self.within[kind] == 0

    def ring(self):
        """Have every wait in a collective call of the communicator look at `aftermath`."""
        self.rung += 1


# The identity of all null handles: it never changes.
cdef Identity NOWHERE = Identity.__new__(Identity)
NOWHERE.label = "MPI_COMM_NULL"
cdef Members NOBODY = Members((), 0, 1)


@cython.no_gc_clear     # a request that ends with it still asks for its engine
cdef class CommBase:
    """A communicator without any way to communicate.

    Parameters
    ----------
    comm : CommBase, optional
        The communicator to be another handle of; a null handle when not given.

    Attributes
    ----------
    freed : bool
        Whether `Free` was called, or it is null: the communicator cannot be used.
    engine : Engine or None
        Whose messages they are; None for a null handle.
    members : Members
    identity : Identity
        What all handles of the communicator share.
    """

    def __cinit__(self, CommBase comm=None):
        if comm is None:
            self.members = NOBODY
            self.identity = NOWHERE
            self.freed = True
        else:
            self.engine = comm.engine
            self.members = comm.members
            self.context = comm.context
            self.identity = comm.identity
            self.freed = comm.freed
            if not self.freed:
                self.identity.handles.append(ref(self, self.identity.handles.remove))

    @classmethod
    def of(cls, Engine engine not None, ranks=None, uint32_t number=0, str label="MPI_COMM_WORLD",
           bint borrowed=False):
        """That of world ranks `ranks`, in that order, who agreed on its number; of all ranks.

        `borrowed`: the number is another communicator's, and its waits for anybody stay so.
        """
        cdef CommBase made = cls.__new__(cls)
        members = range(engine.size) if ranks is None else ranks
        made.become(engine, Members(members, engine.rank, engine.size), number, label, borrowed)
        return made

    cdef int become(self, Engine engine, Members members, uint32_t context, str label,
                    bint borrowed) except -1:
        self.engine = engine
        self.members = members
        self.context = context * CONTEXTS
        if members.size < engine.size and not borrowed:
            # So that a wait for anybody ends when its members have ended, and others go on.
            ranks = members.world_ranks()
            for kind in range(CONTEXTS):
                engine.groups[self.context + kind] = ranks
        self.identity = Identity.__new__(Identity)
        self.identity.label = label
        self.identity.locks = {}
        self.identity.handles = []
        self.identity.handles.append(ref(self, self.identity.handles.remove))
        self.freed = False
        return 0

    def mark_freed(self):
        """Have all handles of this communicator refuse further use."""
        cdef CommBase handle
        self.ready()
        self.freed = True
        for kind in range(CONTEXTS):
            self.engine.groups.pop(self.context + kind, None)
        for reference in self.identity.handles:
            handle = reference()
            if handle is not None:
                handle.freed = True
        self.identity.handles = []

    @property
    def context_number(self):
        """Number of this communicator, the same on all its members."""
        return self.context // CONTEXTS

    def __eq__(self, other):
        if not isinstance(other, CommBase):
            return NotImplemented
        if self.freed or (<CommBase> other).freed:
            return self.freed == (<CommBase> other).freed
        return self.identity is (<CommBase> other).identity

    def __hash__(self):
        return hash(None if self.freed else self.identity)

    def __bool__(self):
        return not self.freed

    def __repr__(self):
        if self.engine is None:
            return f"<{type(self).__name__}: null>"
        state = "freed" if self.freed else f"rank {self.members.rank} of {self.members.size}"
        return f"<{type(self).__name__} {self.identity.label}: {state}>"

    cdef int refuse(self) except -1:
        """Raise the reason for which the communicator is not usable."""
        if self.engine is None:
            raise CommunicatorError("the communicator is COMM_NULL; this process is no member of "
                                    "what was made here, or nothing was")
        if self.freed:
            raise CommunicatorError(f"communicator {self.identity.label!r} was freed; "
                                    "use it before Free() or make a new one with Dup()")
        if self.engine.ending:
            raise FinalizedError("messages after Finalize(): this process's world has ended")
        if self.engine.lines is not None:
            note_line(self.engine)
        return self.check_process()

    cdef int exists(self) except -1:
        """Inquiries work after Finalize and in forked children, but not on null handles."""
        if self.freed:
            self.refuse()
        return 0

    cdef int check_process(self) except -1:
        if not own_process(self.engine):
            raise ForkedError(
                f"process {getpid()} was forked from rank {self.engine.rank} (process "
                f"{self.engine.creator}) and is not a rank itself; communicate in the parent, "
                "or start children with multiprocessing's 'spawn' method")
        return 0

    cdef int examine_send(self, long long dest, long long tag) except -1:
        self.ready()
        if not 0 <= dest < self.members.size and dest != PROC_NULL_:
            raise RankError(
                f"destination rank {dest} is not in {self.identity.label}, which has "
                f"ranks 0..{self.members.size - 1} (or PROC_NULL){hint(self.engine)}", rank=dest)
        if not 0 <= tag <= TAG_LAST:
            raise TagError(f"tag {tag} of a send is not in 0..{TAG_UB} (TAG_UB)", tag=tag)
        return 0

    cdef int examine_receive(self, long long source, long long tag) except -1:
        self.ready()
        if not 0 <= source < self.members.size and source not in (PROC_NULL_, ANY_SOURCE_):
            raise RankError(
                f"source rank {source} is not in {self.identity.label}, which has "
                f"ranks 0..{self.members.size - 1} (or ANY_SOURCE, PROC_NULL){hint(self.engine)}",
                rank=source)
        if not 0 <= tag <= TAG_LAST and tag != ANY_TAG_NUMBER:
            raise TagError(f"tag {tag} of a receive is not in 0..{TAG_UB} (TAG_UB) "
                           "and is not ANY_TAG", tag=tag)
        return 0

    cdef object failure(self, int error, int peer, int tag, uint64_t total, uint64_t room):
        if error == OP_TRUNCATED or error == OP_SHORT or error == OP_FAILED_THERE:
            return from_status(error, message_bytes=total, buffer_bytes=room, source=peer, tag=tag)
        if error == OP_PEER_LOST:
            if self.engine.blamed is not None:
                self.engine.blamed(self.members.to_world(peer) if peer >= 0 else -1)
            lost = from_status(error, peer=peer, reason=self.why(peer))
            lost.communicator = self.context // CONTEXTS
            lost.finished = self.finished(peer)
            return lost
        if error == OP_CANCELLED:
            return from_status(error, source=peer, tag=tag)
        if error == MET_OBJECT or error == MET_BUFFER:
            return from_status(error, message_bytes=total, source=peer, tag=tag)
        if error == OP_FINALIZED:
            return from_status(error, what=f"an operation with rank {peer}" if peer >= 0
                               else "a receive from any source")
        if error == OP_NO_MEMORY:
            return from_status(error, wanted_bytes=room, what=f"a message with rank {peer}")
        if error == OP_LACKING:
            return lack(self.engine, self.members.to_world(peer), False)
        if error == OP_NOT_REGISTERED:
            return from_status(OP_NO_MEMORY, wanted_bytes=room, registering=True,
                               what=f"a message with rank {peer}")
        return from_status(
            error, what=f"message of {total} bytes, tag {tag}, with rank {peer}: its memory "
            "could not be read; was the sender's buffer unmapped, could the sender not register "
            "it, or has the receiver an error of its own?")

    cdef bint finished(self, int peer):
        """Whether `peer`, or every other rank if it is negative, ended in good order."""
        cdef int other
        if peer >= 0:
            return engine_peer_finished(self.engine.c, self.members.to_world(peer))
        for other in range(self.members.size):
            if other != self.members.rank and not engine_peer_finished(
                    self.engine.c, self.members.to_world(other)):
                return False
        return True

    cdef str why(self, int peer):
        if peer < 0:
            return ("all other ranks have finished" if self.finished(peer)
                    else "all other ranks have ended, not all of them in good order")
        if self.finished(peer):
            return "it has finished"
        return (reason(self.engine, self.members.to_world(peer))
                or "its process ended, or its connection broke")
