# cython: language_level=3
"""Drives any fabric from Python, one operation at a time, for tests and tools.

Every method is one call of the contract with checked arguments and copied
results; statuses come back as the contract's numbers.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from pyrdv.calibration.region cimport Region
from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_READ, ACCESS_REMOTE_WRITE, EVENT_CLOSED, EVENT_LOST, EVENT_PACKET,
    EVENT_READ, EVENT_WRITE, FABRIC_AGAIN, FABRIC_FAILED, FABRIC_INVALID, FABRIC_LOST, FABRIC_OK,
    CAP_BEHIND, CAP_FREE_SINK, WR_BEHIND, WR_FENCE, WR_READ, WR_SEND, WR_SIGNALED, WR_WRITE, Fabric,
    completion, work_request)

from pyrdv.calibration.region import region_of

OK = FABRIC_OK
AGAIN = FABRIC_AGAIN
LOST = FABRIC_LOST
INVALID = FABRIC_INVALID
FAILED = FABRIC_FAILED
PACKET = EVENT_PACKET
READ = EVENT_READ
WRITE = EVENT_WRITE
CLOSED = EVENT_CLOSED
PEER_LOST = EVENT_LOST
LOCAL = ACCESS_LOCAL
REMOTE_READ = ACCESS_REMOTE_READ
REMOTE_WRITE = ACCESS_REMOTE_WRITE
FENCE = WR_FENCE
BEHIND = WR_BEHIND
SIGNALED = WR_SIGNALED

cdef enum:
    CHAIN_MAX = 80
    POLL_MAX = 256


cdef class Driver:
    """One end of a fabric, step by step.

    Parameters
    ----------
    fabric : Fabric
        The end to drive; nothing else may use it meanwhile.
    """

    cdef readonly Fabric fabric

    def __cinit__(self, Fabric fabric not None):
        self.fabric = fabric

    @property
    def able_behind(self):
        """Whether SENDs may be behind WRITEs (F9)."""
        return self.fabric.handle.capabilities & CAP_BEHIND != 0

    @property
    def free_sinks(self):
        """Whether the sink of a READ needs no region."""
        return self.fabric.handle.capabilities & CAP_FREE_SINK != 0

    @property
    def calm(self):
        """Whether no connection comes up or ends, as far as the last `maintain` saw."""
        return self.fabric.handle.calm != 0

    @property
    def packet_max(self):
        """Largest header and payload of one SEND, bytes."""
        return self.fabric.handle.packet_max

    @property
    def eager_max(self):
        """Payload up to which eager is the better protocol, bytes."""
        return self.fabric.handle.eager_max

    @property
    def transfer_max(self):
        """Largest READ or WRITE, bytes."""
        return self.fabric.handle.transfer_max

    @property
    def error(self):
        """errno of the last FAILED."""
        return self.fabric.handle.error

    def connect(self, peer):
        """Start or continue the connection; a status."""
        return self.fabric.handle.ops.connect(self.fabric.handle, peer)

    def disconnect(self, peer):
        """Say goodbye to `peer`."""
        self.fabric.handle.ops.disconnect(self.fabric.handle, peer)

    def maintain(self):
        """Number of things that happened."""
        return self.fabric.handle.ops.maintain(self.fabric.handle)

    def arm(self):
        """OK: sleep on ``wake_fd``; AGAIN: poll first."""
        return self.fabric.handle.ops.arm(self.fabric.handle)

    def disarm(self):
        """Take the arming back."""
        self.fabric.handle.ops.disarm(self.fabric.handle)

    @property
    def wake_fd(self):
        """Descriptor to sleep on."""
        return self.fabric.handle.wake_fd

    def register(self, buffer, access=ACCESS_LOCAL | ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE):
        """Register a buffer; a `Region`.  ValueError if the fabric refuses."""
        return region_of(self.fabric, buffer, access)

    @staticmethod
    def send_request(header, payload=b"", flags=0):
        """A SEND for `post`."""
        return (WR_SEND, flags, bytes(header), bytes(payload))

    @staticmethod
    def read_request(Region sink not None, offset, remote, remote_key, length, ident=0,
                     flags=WR_SIGNALED):
        """A READ of `length` bytes at `remote` into `sink` for `post`."""
        return (WR_READ, flags, sink, offset, remote, remote_key, length, ident)

    @staticmethod
    def write_request(Region source not None, offset, remote, remote_key, length, ident=0,
                      flags=WR_SIGNALED):
        """A WRITE of `length` bytes of `source` to `remote` for `post`."""
        return (WR_WRITE, flags, source, offset, remote, remote_key, length, ident)

    def post(self, peer, *requests):
        """Post the requests as one chain; a status."""
        cdef work_request chain[80]
        cdef int count = <int> len(requests)
        cdef int i
        cdef bytes header, payload
        cdef Region local
        if count > CHAIN_MAX:
            raise ValueError(f"a chain of {count} requests: give at most {CHAIN_MAX}")
        memset(chain, 0, sizeof(chain))
        for i in range(count):
            request = requests[i]
            chain[i].opcode = request[0]
            chain[i].flags = request[1]
            if request[0] == WR_SEND:
                header = request[2]
                payload = request[3]
                chain[i].header = <const char *> header
                chain[i].header_length = <uint32_t> len(header)
                chain[i].local = <char *> payload
                chain[i].length = <uint64_t> len(payload)
                continue
            local = request[2]
            chain[i].local = <char *> local.which.address + <uint64_t> request[3]
            chain[i].local_key = local.which.key
            chain[i].remote = request[4]
            chain[i].remote_key = request[5]
            chain[i].length = request[6]
            chain[i].id = request[7]
        return self.fabric.handle.ops.post(self.fabric.handle, peer, chain, count)

    def send(self, peer, header, payload=b""):
        """Post one SEND; a status."""
        return self.post(peer, self.send_request(header, payload))

    def read(self, peer, Region sink not None, remote, remote_key, length, ident=0, offset=0):
        """Post one signaled READ; a status."""
        return self.post(peer, self.read_request(sink, offset, remote, remote_key, length, ident))

    def write(self, peer, Region source not None, remote, remote_key, length, ident=0, offset=0):
        """Post one signaled WRITE; a status."""
        return self.post(
            peer, self.write_request(source, offset, remote, remote_key, length, ident))

    def discard(self, peer, ident):
        """Whether READ `ident` touches no local memory any more."""
        return (self.fabric.handle.ops.discard != NULL
                and self.fabric.handle.ops.discard(self.fabric.handle, peer, ident))

    def poll(self, limit=POLL_MAX, release=True):
        """Events as tuples.

        Parameters
        ----------
        limit : int
            At most so many, up to 256.
        release : bool
            Release all packets at once; otherwise use `release`.

        Returns
        -------
        list of tuple
            ``(PACKET, peer, bytes)``, ``(READ | WRITE, peer, id, status)`` or
            ``(CLOSED | PEER_LOST, peer)``.
        """
        cdef completion out[256]
        cdef int i, count
        if not 0 <= limit <= POLL_MAX:
            raise ValueError(f"limit {limit}: give 0 to {POLL_MAX}")
        count = self.fabric.handle.ops.poll(self.fabric.handle, out, limit)
        events = []
        packets = {}
        for i in range(count):
            peer = out[i].peer
            if out[i].kind == EVENT_PACKET:
                if <uintptr_t> out[i].data & 7:
                    raise AssertionError("a packet that is not aligned to 8 bytes")
                data = PyBytes_FromStringAndSize(<const char *> out[i].data, out[i].length)
                events.append((EVENT_PACKET, peer, data))
                packets[peer] = packets.get(peer, 0) + 1
            elif out[i].kind == EVENT_READ or out[i].kind == EVENT_WRITE:
                events.append((out[i].kind, peer, out[i].id, out[i].status))
            else:
                events.append((out[i].kind, peer))
        if release:
            for peer, number in packets.items():
                self.release(peer, number)
        return events

    def release(self, peer, count):
        """Release the first `count` packets of `peer` that the last poll gave."""
        self.fabric.handle.ops.release(self.fabric.handle, peer, count)
