"""Every exception of the package, and the one place where engine statuses become exceptions.

Invariants, on which callers rely:

E1. All exceptions of the package derive from `Error`; `pyrdv.MPI.Exception` is the same class.
E2. Each class has an MPI error class (`Error.error_class`); the text names the offending values
    (sizes, ranks, tags) and what to do about them.
E3. The engine reports a small integer; `from_status` is the only function that turns it into an
    exception. The integers are those of ``engine/state.pxd``.
E4. This module imports nothing but `pyrdv.error_codes` when it is loaded, so every layer may
    import it; later only `pyrdv.shortage`. Both keep the same rule.
"""

from pyrdv.error_codes import (
    CLASS_TEXT,
    ERR_ARG,
    ERR_BUFFER,
    ERR_COMM,
    ERR_COUNT,
    ERR_GROUP,
    ERR_INFO,
    ERR_INTERN,
    ERR_LASTCODE,
    ERR_NO_MEM,
    ERR_OP,
    ERR_OTHER,
    ERR_PENDING,
    ERR_PROC_FAILED,
    ERR_RANK,
    ERR_REQUEST,
    ERR_REVOKED,
    ERR_ROOT,
    ERR_TAG,
    ERR_TRUNCATE,
    ERR_TYPE,
    ERR_UNKNOWN,
    ERR_UNSUPPORTED_OPERATION,
    SUCCESS,
)


def error_class(code):
    """The error class of an error code: they are the same, and checked.

    Parameters
    ----------
    code : int
        One of the ``ERR_*`` constants, `SUCCESS`, or an `Error`.

    Returns
    -------
    int

    Raises
    ------
    ArgumentError
        There is no such code.
    """
    number = int(code)
    if number not in CLASS_TEXT:
        raise ArgumentError(
            f"error code {number} is not known; codes are {SUCCESS} to {ERR_REVOKED} and "
            f"{ERR_LASTCODE}")
    return number


def error_string(code):
    """Describe an MPI error class or code in a few words.

    Parameters
    ----------
    code : int
        One of the ``ERR_*`` constants or `SUCCESS`.

    Returns
    -------
    str
    """
    return CLASS_TEXT[error_class(code)]


class Error(RuntimeError):
    """Base of every error of the package (``MPI.Exception``).

    As in mpi4py it stands for the number of its error class: it compares with numbers and other
    errors by it, hashes by it, and is false if it is `SUCCESS`.

    Parameters
    ----------
    what : str or int
        The text, or, as in mpi4py, an error class whose standard text is used; a negative one
        counts as `ERR_UNKNOWN`.
    **facts
        Values that a handler may want (ranks, sizes, tags); kept as attributes.

    Attributes
    ----------
    error_class : int
        The MPI error class.
    """

    error_class = ERR_OTHER

    def __init__(self, what=SUCCESS, **facts):
        if hasattr(what, "__index__"):
            self.error_class = int(what) if what >= SUCCESS else ERR_UNKNOWN
            what = CLASS_TEXT.get(self.error_class, f"error code {what}, which is not known")
        super().__init__(what)
        self.__dict__.update(facts)

    @property
    def error_code(self):
        """The same as `error_class`: there are no finer codes."""
        return self.error_class

    @property
    def error_string(self):
        """The text of this error."""
        return str(self)

    def Get_error_class(self):
        """Return the MPI error class."""
        return self.error_class

    def Get_error_code(self):
        """Return the error code, which is the error class."""
        return self.error_class

    def Get_error_string(self):
        """Return the text of this error."""
        return str(self)

    def __repr__(self):
        plain = type(self) is Error and "error_class" in self.__dict__
        return f"MPI.Exception({self.error_class})" if plain else super().__repr__()

    def __int__(self):
        return self.error_class

    def __bool__(self):
        return self.error_class != SUCCESS

    def __hash__(self):
        return hash(self.error_class)

    def __eq__(self, other):
        return self.error_class == other

    def __ne__(self, other):
        return self.error_class != other

    def __lt__(self, other):
        return self.error_class < other

    def __le__(self, other):
        return self.error_class <= other

    def __gt__(self, other):
        return self.error_class > other

    def __ge__(self, other):
        return self.error_class >= other


# --- arguments ------------------------------------------------------------------------------


class ArgumentError(Error, ValueError):
    """An argument has a value that the call cannot accept."""

    error_class = ERR_ARG


class RankError(ArgumentError):
    """A rank outside the communicator."""

    error_class = ERR_RANK


class RootError(RankError):
    """A root outside the communicator."""

    error_class = ERR_ROOT


class TagError(ArgumentError):
    """A tag outside 0..TAG_UB, or a wildcard where none is allowed."""

    error_class = ERR_TAG


class CountError(ArgumentError):
    """A count or displacement that is negative or does not fit the buffer."""

    error_class = ERR_COUNT


class DatatypeError(Error, TypeError):
    """A datatype that is unknown, or does not fit the buffer or the operation."""

    error_class = ERR_TYPE


class DatatypeMismatchError(DatatypeError, ValueError):
    """Two buffers of one call whose datatypes differ."""


class InvalidBufferError(Error, BufferError):
    """A buffer that cannot be used: read-only, not contiguous, of the wrong size or kind."""

    error_class = ERR_BUFFER


class CommunicatorError(Error, ValueError):
    """A communicator that is null or was freed."""

    error_class = ERR_COMM


class GroupError(Error, ValueError):
    """A group that is null, or cannot be used so."""

    error_class = ERR_GROUP


class InfoError(Error, ValueError):
    """Hints that are null, or a key or value that they cannot have."""

    error_class = ERR_INFO


class OpError(Error, ValueError):
    """A reduction operation that does not exist for the datatype."""

    error_class = ERR_OP


class RequestError(Error, ValueError):
    """A request or message that is null, was completed or belongs to another process."""

    error_class = ERR_REQUEST


class UnsupportedError(Error, NotImplementedError):
    """Something that MPI has and this version has not."""

    error_class = ERR_UNSUPPORTED_OPERATION


# --- the outcome of operations ----------------------------------------------------------------


class TruncationError(Error):
    """A message was longer than the receive buffer; the buffer holds none or part of it."""

    error_class = ERR_TRUNCATE


class MessageKindError(Error, TypeError):
    """A receive of a buffer met an object, or a receive of an object met a buffer."""

    error_class = ERR_TYPE


class PeerLostError(Error):
    """The peer of an operation ended or cannot be reached; attribute ``peer`` is its rank.

    That is its rank in the communicator whose number is ``communicator`` (None where that does not
    matter), negative if all possible sources are gone.  ``finished`` is True if the peer, or each
    of them, ended in good order: nothing that it sent is lost.
    """

    error_class = ERR_PROC_FAILED
    communicator = None
    finished = False


class CollectiveError(Error):
    """A collective call failed on another rank; attributes ``rank`` and ``cause`` (a text).

    Where a call that does not block was led to fail, ``rank`` is whoever led it, and ``cause`` is
    empty: the rank that failed first has told its own program.

    It is also of the class of the cause, if that is one of Python's or of this package, so that
    programs can handle the failure alike on all ranks.
    """

    error_class = ERR_OTHER


class CancelledError(Error):
    """The operation was cancelled before it matched."""

    error_class = ERR_PENDING


class NoMemoryError(Error, MemoryError):
    """Memory for an operation could not be had."""

    error_class = ERR_NO_MEM


class ResourceError(Error):
    """This process lacks what an operation needs, such as a descriptor, or may not have it.

    The text names the call that the system refused, its error, the limit and the remedy.  Nothing
    is lost: an operation that was refused can be tried again, and a request that is under way goes
    on, once the resource is there.  Attribute ``peer`` is the rank of the other side, or
    ANY_SOURCE.  A call that sends and receives at once has taken its send back; attribute
    ``received`` is there if its message had come before, and is the message.
    """

    error_class = ERR_OTHER


class DeadlockError(Error):
    """An operation can never complete, such as a blocking send to oneself that nobody receives."""

    error_class = ERR_OTHER


class InternalError(Error):
    """A broken invariant inside the package: please report it with its text."""

    error_class = ERR_INTERN


# --- the life of a process ---------------------------------------------------------------------


class StateError(Error):
    """A call at a time when it cannot work."""


class FinalizedError(StateError):
    """The world of this process has ended."""


class ForkedError(StateError):
    """A call in a forked child, which is not a rank of its parent's job."""


class ConfigError(Error, ValueError):
    """An environment variable or option has a value that is not allowed."""

    error_class = ERR_ARG


class LaunchError(Error):
    """A job cannot be started, or its launcher is gone."""


class BootstrapError(LaunchError):
    """The exchange between ranks and launcher at start-up failed."""


class VersionError(BootstrapError):
    """Two processes of one job run versions that cannot work together."""


# --- engine status -> exception ------------------------------------------------------------------

STATUS_TRUNCATED = 1
STATUS_PEER_LOST = 2
STATUS_CANCELLED = 3
STATUS_NO_MEMORY = 4
STATUS_INVALID = 5
STATUS_LACKING = 7      # 6 is a memory that could not be registered, which is status 4 here
STATUS_FINALIZED = 8
STATUS_MET_OBJECT = 9
STATUS_MET_BUFFER = 10
STATUS_SHORT = 11
STATUS_FAILED_THERE = 12


def _truncated(message_bytes, buffer_bytes, source, tag):
    return TruncationError(
        f"message of {message_bytes} bytes from rank {source} with tag {tag} does not fit the "
        f"receive buffer of {buffer_bytes} bytes; give a buffer of at least {message_bytes} bytes, "
        "or learn the size first with Probe/Mprobe and Status.Get_count",
        message_bytes=message_bytes, buffer_bytes=buffer_bytes, source=source, tag=tag,
    )


def _peer_lost(peer, reason=""):
    because = f" ({reason})" if reason else ""
    who = f"rank {peer}" if peer >= 0 else "every possible source"
    return PeerLostError(
        f"{who} is gone{because}: the operation cannot complete; operations with other "
        "ranks go on",
        peer=peer, reason=reason,
    )


def _cancelled(source=None, tag=None):
    which = "" if source is None else f" (peer {source}, tag {tag})"
    return CancelledError(f"the operation{which} was cancelled", source=source, tag=tag)


def _no_memory(wanted_bytes=0, what="an operation", registering=False):
    size = f" ({wanted_bytes} bytes)" if wanted_bytes else ""
    # Only here: see E4.
    from pyrdv import shortage

    if registering:
        text = (f"memory for {what}{size} could not be registered for RDMA: "
                f"{shortage.locked_memory()}")
    else:
        text = (f"no memory for {what}{size}: {shortage.memory()}; completing outstanding requests "
                "before posting more needs less of it")
    return NoMemoryError(text, wanted_bytes=wanted_bytes)


def _lacking(peer, reason):
    return ResourceError(f"{reason}; operations that need nothing new go on, and this one can be "
                         "tried again", peer=peer, reason=reason)


def _invalid(what="", **facts):
    values = ", ".join(f"{name} {value}" for name, value in facts.items())
    detail = ": ".join(part for part in (what, values) if part) or "no detail"
    return InternalError(f"the engine refused an operation ({detail}); please report this", **facts)


def _finalized(what="the operation"):
    return FinalizedError(
        f"{what} had not ended when this process called Finalize(), and never will; complete what "
        "other threads wait for before the world ends")


def _met(found, senders, receivers):
    def make(message_bytes, source, tag):
        return MessageKindError(
            f"the message of {message_bytes} bytes from rank {source} with tag {tag} is {found}, "
            f"sent by {senders}; receive it with {receivers}", source=source, tag=tag)

    return make


def _short(message_bytes, buffer_bytes, source, tag):
    if message_bytes == buffer_bytes:
        return CountError(
            f"the vector of rank {source} has another length than that of this rank, and is cut "
            "into other parts; give the same number of elements of the same datatype on both",
            message_bytes=message_bytes, buffer_bytes=buffer_bytes, source=source)
    return CountError(
        f"rank {source} sends a block of {message_bytes} bytes where this rank expects "
        f"{buffer_bytes}; give the same number of elements of the same datatype on both",
        message_bytes=message_bytes, buffer_bytes=buffer_bytes, source=source)


def _failed_there(source, **_facts):
    return CollectiveError(
        f"the call has failed on rank {source}, or that rank was led to fail; the rank that failed "
        "first says why", rank=source, cause="")


_FROM_STATUS = {
    STATUS_TRUNCATED: _truncated,
    STATUS_PEER_LOST: _peer_lost,
    STATUS_CANCELLED: _cancelled,
    STATUS_NO_MEMORY: _no_memory,
    STATUS_INVALID: _invalid,
    STATUS_LACKING: _lacking,
    STATUS_FINALIZED: _finalized,
    STATUS_MET_OBJECT: _met("a Python object", "send, isend or the like (lower case)",
                            "recv, irecv or mrecv"),
    STATUS_MET_BUFFER: _met("a buffer", "Send, Isend or the like (upper case)",
                            "Recv, Irecv or Mrecv"),
    STATUS_SHORT: _short,
    STATUS_FAILED_THERE: _failed_there,
}


def from_status(code, **facts):
    """Make the exception for an engine status (not raised here).

    Parameters
    ----------
    code : int
        1 truncated, 2 peer lost, 3 cancelled, 4 no memory, 5 invalid, 7 lacking, 8 finalized, 9 a
        receive of a buffer met an object, 10 the other way round, 11 a block of a collective call
        was shorter than its receiver expects, or cut otherwise, 12 its sender has failed.
    **facts
        What the text needs. 1: ``message_bytes, buffer_bytes, source, tag`` (bytes, ranks);
        2: ``peer, reason=""``; 3: ``source=None, tag=None``; 4: ``wanted_bytes=0, what=""``,
        and ``registering=True`` where registration failed; 5: ``what=""`` and any others;
        7: ``peer, reason``; 8: ``what=""``; 9 and 10: ``message_bytes, source, tag``; 11: as 1;
        12: ``source``.

    Returns
    -------
    Error
        An instance of the class that fits.
    """
    maker = _FROM_STATUS.get(code)
    if maker is None:
        return InternalError(f"the engine returned status {code}, which is not known; "
                             "please report this", status=code)
    return maker(**facts)
