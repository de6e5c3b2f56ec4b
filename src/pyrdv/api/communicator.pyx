# cython: language_level=3, nonecheck=True
"""The communicator: all that a program can ask of one, but for what all its members do together.

A method has the signature and the text for users, and calls the function of the part that does the
work, which is where the section says.  Collective operations are added by `pyrdv.collectives`.
"""
from libc.stdint cimport uint32_t

from pyrdv.api cimport object_messages, p2p, persistent, probe
from pyrdv.api.core cimport (
    ANY_SOURCE_, ANY_TAG_NUMBER, CONTEXT_COLLECTIVE, CONTEXT_GROUP, CommBase)
from pyrdv.api.naming cimport name_missing
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport SEND_SYNC

from pyrdv.api.buffered import pool_of
from pyrdv.api.constants import CONGRUENT, IDENT, SIMILAR, TAG_UB, UNDEFINED, UNEQUAL
from pyrdv.api.groups import Group
from pyrdv.api.info import Info

#: Attribute keys of `Comm.Get_attr`.
KEY_TAG_UB = 1


cdef class Comm(CommBase):
    """A group of processes and a private space for their messages.

    A buffer is given as ``buf``, ``[buf, type]``, ``[buf, count]`` or ``[buf, count, type]``; see
    `pyrdv.api.buffers`.

    Parameters
    ----------
    comm : Comm, optional
        Makes another handle of the same communicator; a null handle when not given.

    Attributes
    ----------
    engine, members, identity
        Of no use to programs.
    """

    # --- messages of buffers: p2p.pyx

    def Isend(self, buf, long long dest, long long tag=0):
        """Start sending `buf` to `dest`.

        Parameters
        ----------
        buf : buffer specification
            Must not change until the request is complete.
        dest : int
            Rank in this communicator, or `PROC_NULL`.
        tag : int
            0 … `TAG_UB`.

        Returns
        -------
        Request

        Raises
        ------
        RankError, TagError, InvalidBufferError, CountError, DatatypeError
            An argument is wrong; nothing was sent.
        PeerLostError
            The destination is gone.
        """
        return p2p.post_send(self, buf, dest, tag, 0)

    def Issend(self, buf, long long dest, long long tag=0):
        """`Isend` whose request completes only once the receive was matched."""
        return p2p.post_send(self, buf, dest, tag, SEND_SYNC)

    def Send(self, buf, long long dest, long long tag=0):
        """Send `buf` to `dest`; returns when the buffer may be changed again.

        Small messages are handed over at once; a large one waits for its receive.  Arguments and
        errors are those of `Isend`.
        """
        p2p.send(self, buf, dest, tag, 0)

    def Ssend(self, buf, long long dest, long long tag=0):
        """Send `buf`; returns once the receive was matched and the buffer is free."""
        p2p.send(self, buf, dest, tag, SEND_SYNC)

    def Irecv(self, buf, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER):
        """Start receiving into `buf`; returns a `Request`.

        Parameters
        ----------
        buf : buffer specification
            Writable; at least as large as the message.
        source : int
            Rank, `ANY_SOURCE` or `PROC_NULL`.
        tag : int
            Tag or `ANY_TAG`.
        """
        return p2p.post_recv(self, buf, source, tag, False)

    def Recv(self, buf, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
             Status status=None):
        """Receive into `buf`; returns when the data is there.

        Parameters
        ----------
        buf : buffer specification
        source, tag : int
            As for `Irecv`.
        status : Status, optional
            Filled with source, tag and size.

        Raises
        ------
        TruncationError
            The message is longer than `buf`.
        MessageKindError
            It is an object, sent by `send` or its like; what `buf` holds now means nothing.
        PeerLostError
            The source is gone.
        KeyboardInterrupt or what a signal handler raises
            The receive is withdrawn; if its message was matched already, the data has landed in
            `buf`.
        """
        p2p.receive(self, buf, source, tag, status)

    def Sendrecv(self, sendbuf, long long dest, long long sendtag=0, recvbuf=None,
                 long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER,
                 Status status=None):
        """Send and receive at once, without deadlock; buffers must not overlap.

        Raises
        ------
        ResourceError
            One half lacks something.  The send was taken back if it had not left yet, and the
            receive unless its message had come: then the error's attribute ``received`` is
            `recvbuf`.  So the call, or what is left of it, can be tried again.
        """
        p2p.sendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)

    def Sendrecv_replace(self, buf, long long dest, long long sendtag=0,
                         long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER,
                         Status status=None):
        """Send `buf` and receive another message into it.

        Raises
        ------
        ResourceError
            As of `Sendrecv`; `buf` is as it was, and ``received`` is a copy of the message.
        """
        p2p.sendrecv_replace(self, buf, dest, sendtag, source, recvtag, status)

    # The promise of the ready mode, that the receive is posted, is not needed here.
    Rsend = Send
    Irsend = Isend

    # --- buffered sends: p2p.pyx, buffered.py

    def Ibsend(self, buf, long long dest, long long tag=0):
        """Start a send from a copy of `buf`, which may be changed at once.

        The copy counts against the buffer that is attached to this communicator, or else against
        the process's (`MPI.Attach_buffer`), if there is one.

        Raises
        ------
        InvalidBufferError
            The attached buffer has no room for it.
        """
        return p2p.post_buffered(self, buf, dest, tag, 0)

    def Bsend(self, buf, long long dest, long long tag=0):
        """Send a copy of `buf`; returns at once."""
        p2p.post_buffered(self, buf, dest, tag, 0)

    def Attach_buffer(self, buf):
        """Bound buffered sends of this communicator by the size of `buf`.

        Parameters
        ----------
        buf : buffer, BUFFER_AUTOMATIC or None
            Without a size (the last two) there is no bound.

        Raises
        ------
        InvalidBufferError
            Another one is attached.
        """
        self.ready()
        pool_of(self.identity).attach(buf)

    def Detach_buffer(self):
        """Wait for buffered sends; returns what was attached."""
        self.Flush_buffer()
        return pool_of(self.identity).detach()

    def Flush_buffer(self):
        """Wait for the buffered sends of this communicator."""
        self.ready()
        pool_of(self.identity).flush()

    def Iflush_buffer(self):
        """A request that is complete when the buffered sends so far are."""
        self.ready()
        return persistent.all_of(self, pool_of(self.identity).requests())

    # --- persistent requests, and both ways as one request: persistent.pyx

    def Send_init(self, buf, long long dest, long long tag=0):
        """A persistent `Send`; arguments and errors are those of `Isend`."""
        return persistent.prepare(self, persistent.START_SEND, buf, dest, tag)

    def Ssend_init(self, buf, long long dest, long long tag=0):
        """A persistent `Ssend`."""
        return persistent.prepare(self, persistent.START_SSEND, buf, dest, tag)

    def Bsend_init(self, buf, long long dest, long long tag=0):
        """A persistent `Bsend`."""
        return persistent.prepare(self, persistent.START_BSEND, buf, dest, tag)

    def Recv_init(self, buf, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER):
        """A persistent `Recv`; arguments and errors are those of `Irecv`."""
        return persistent.prepare(self, persistent.START_RECV, buf, source, tag)

    Rsend_init = Send_init

    def Isendrecv(self, sendbuf, long long dest, long long sendtag=0, recvbuf=None,
                  long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER):
        """Start sending and receiving at once, as one request; buffers must not overlap.

        Raises
        ------
        ResourceError
            One half lacks something; nothing was started.
        """
        return persistent.isendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag)

    def Isendrecv_replace(self, buf, long long dest, long long sendtag=0,
                          long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER):
        """Start sending a copy of `buf` and receiving another message into it."""
        return persistent.isendrecv_replace(self, buf, dest, sendtag, source, recvtag)

    # --- probes: probe.pyx

    def Iprobe(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
               Status status=None):
        """Whether a message has arrived; makes progress, does not wait.

        Its size in `status` is final.  Arguments are those of `Irecv`.
        """
        return probe.glance(self, source, tag, status)

    def Probe(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
              Status status=None):
        """Wait until a message has arrived; returns True."""
        return probe.wait_for(self, source, tag, status)

    def Improbe(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
                Status status=None):
        """Take a message out of the queue if one has arrived; a `Message`, or None."""
        return probe.glance_taking(self, source, tag, status)

    def Mprobe(self, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
               Status status=None):
        """Wait for a message and take it out of the queue; returns a `Message`.

        Only the holder of the `Message` can receive it, so threads do not take each other's
        messages.
        """
        return probe.wait_taking(self, source, tag, status)

    # Lower-case names look for objects in the same queues.
    iprobe = Iprobe
    probe = Probe
    improbe = Improbe
    mprobe = Mprobe

    # --- messages of objects: object_messages.pyx

    def isend(self, obj, long long dest, long long tag=0):
        """Start sending an object; returns a `Request`.

        Parameters
        ----------
        obj : object
            Anything that pickles.  It may be changed as soon as the call returns: large buffers
            inside it (arrays) are copied, but for those of bytes objects.
        dest, tag : int
            As for `Isend`.
        """
        return object_messages.post_object(self, obj, dest, tag, False, True)

    def issend(self, obj, long long dest, long long tag=0):
        """`isend` whose request completes only once the receive has started."""
        return object_messages.post_object(self, obj, dest, tag, True, True)

    def ibsend(self, obj, long long dest, long long tag=0):
        """`isend`, counted against the attached buffer."""
        return object_messages.post_buffered(self, obj, dest, tag)

    def send(self, obj, long long dest, long long tag=0):
        """Send an object; returns when it may be changed again."""
        object_messages.send(self, obj, dest, tag, False)

    def ssend(self, obj, long long dest, long long tag=0):
        """Send an object; returns once its receive has started."""
        object_messages.send(self, obj, dest, tag, True)

    def bsend(self, obj, long long dest, long long tag=0):
        """Send a copy of an object; returns at once."""
        object_messages.post_buffered(self, obj, dest, tag)

    rsend = send
    irsend = isend

    def irecv(self, buf=None, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER):
        """Start receiving an object; ``wait()`` of the request returns it.

        `buf` is there for mpi4py's sake and not needed: sizes are never guessed.
        """
        return object_messages.post_recv(self, source, tag)

    def recv(self, buf=None, long long source=ANY_SOURCE_, long long tag=ANY_TAG_NUMBER,
             Status status=None):
        """Receive an object and return it.

        Parameters
        ----------
        buf : buffer, optional
            There for mpi4py's sake; not needed.
        source, tag : int
            As for `Irecv`.
        status : Status, optional
            Filled with source, tag and the size of the head.

        Raises
        ------
        MessageKindError
            The message is a buffer that holds no pickle, sent by `Send` or its like; it is gone.
        PeerLostError
            The source is gone.

        Warns
        -----
        UserWarning
            A `buf` was given.
        """
        return object_messages.receive(self, buf, source, tag, status)

    def sendrecv(self, sendobj, long long dest, long long sendtag=0, recvbuf=None,
                 long long source=ANY_SOURCE_, long long recvtag=ANY_TAG_NUMBER,
                 Status status=None):
        """Send one object and receive another; returns it.

        Raises
        ------
        ResourceError
            One half lacks something.  The send was taken back if it had not left yet, and the
            receive unless its message had come: then ``received`` of the error is the object.
        """
        return object_messages.sendrecv(self, sendobj, dest, sendtag, recvbuf, source, recvtag,
                                        status)

    # --- what it is

    def Get_rank(self):
        """Rank of this process in the communicator."""
        self.exists()
        return self.members.rank

    def Get_size(self):
        """Number of processes in the communicator."""
        self.exists()
        return self.members.size

    @property
    def rank(self):
        """Rank of this process in the communicator."""
        self.exists()
        return self.members.rank

    @property
    def size(self):
        """Number of processes in the communicator."""
        self.exists()
        return self.members.size

    def Get_group(self):
        """The group of its members; `Free` it when it is not needed."""
        self.exists()
        return Group.of(self.engine, self.members.world_ranks(), self.engine.rank)

    def Get_name(self):
        """Name of the communicator, as it appears in errors."""
        return self.identity.label

    def Set_name(self, str name not None):
        """Name the communicator."""
        self.exists()
        self.identity.label = name

    def Get_info(self):
        """A copy of the hints that `Set_info` gave; none has an effect."""
        self.exists()
        return Info.Create(self.identity.info)

    def Set_info(self, info):
        """Note hints (an `Info`); none has an effect."""
        noted = self.Get_info()
        noted.update(info)
        self.identity.info = noted

    def Get_topology(self):
        """`UNDEFINED`: there are no topologies."""
        self.exists()
        return UNDEFINED

    def Get_attr(self, int key):
        """Value of a predefined attribute (`TAG_UB`), or None."""
        return TAG_UB if key == KEY_TAG_UB else None

    @staticmethod
    def Get_parent():
        """A null intercommunicator: no process was started by another one."""
        return Intercomm()

    def Is_inter(self):
        """False: there are no intercommunicators."""
        return False

    def Is_intra(self):
        """True."""
        return True

    group = property(Get_group)
    name = property(Get_name, Set_name)
    info = property(Get_info, Set_info)
    topology = property(Get_topology)
    is_topo = property(Is_inter, doc="False: there are no topologies.")
    is_inter = property(Is_inter)
    is_intra = property(Is_intra)

    def Compare(self, Comm other not None):
        """`IDENT`, `CONGRUENT`, `SIMILAR` or `UNEQUAL`."""
        self.exists()
        other.exists()
        if self.engine is not other.engine:
            return UNEQUAL
        mine, others = self.members.world_ranks(), other.members.world_ranks()
        if mine == others:
            return IDENT if self.context == other.context else CONGRUENT
        return SIMILAR if sorted(mine) == sorted(others) else UNEQUAL

    def Abort(self, int errorcode=1):
        """End all processes of the job; its exit status is `errorcode` (1 for 0)."""
        self.exists()
        if self.engine.abort is None:
            raise SystemExit(errorcode or 1)
        self.engine.abort(errorcode)

    # --- for the package

    def collective(self):
        """A view of this communicator for the messages of collective operations.

        They travel in a context of their own, so no receive or probe of the user, whatever its
        wildcards, can meet them (field case M07).
        """
        self.ready()
        if self.inside is None:
            self.inside = view_of(self, CONTEXT_COLLECTIVE)
        return self.inside

    def gathering(self):
        """A view for some of the members to agree among themselves."""
        return view_of(self, CONTEXT_GROUP)


cdef Comm view_of(Comm comm, uint32_t kind):
    cdef Comm view = Comm(comm)
    view.context += kind
    return view


cdef class Intercomm(Comm):
    """A communicator of two groups.  There is none: only null handles are made."""


name_missing(Comm)
name_missing(Intercomm)
