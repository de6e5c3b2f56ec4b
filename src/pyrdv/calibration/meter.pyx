# cython: language_level=3
"""Timed loops on a bare fabric: what it costs without an engine above it.

Used for the figures of a device, and as the yardstick of the benchmarks.  Two ends call the same
methods with the same arguments, in the same order; the end that was made `active` asks, the other
answers, and both return only when both are through.  The clock is read outside the innermost loop.
"""
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pyrdv.calibration.region cimport Region
from pyrdv.fabrics.contract cimport (
    ACCESS_LOCAL, ACCESS_REMOTE_WRITE, EVENT_CLOSED, EVENT_LOST, EVENT_PACKET, FABRIC_AGAIN,
    FABRIC_FAILED, FABRIC_OK, WR_FENCE, WR_READ, WR_SEND, WR_SIGNALED, WR_WRITE, Fabric,
    completion, fabric_t, region, work_request)

import os


cdef extern from "ticks.h" nogil:
    int64_t ticks_clock_ns()


cdef extern from "<sched.h>" nogil:
    int sched_yield()


cdef enum:
    BATCH = 16                  # completions per poll
    POLLS_PER_LOOK = 256        # empty polls between two looks at connections and the clock
    PATIENCE = 1000             # empty polls without a system call
    HEADER = 16                 # bytes in front of every packet: an address and a key
    PIECES = 32                 # most transfers of one message, each of at most transfer_max bytes


cdef class Meter:
    """One of two ends of a measurement.

    Parameters
    ----------
    fabric : Fabric
        Nothing else may use it meanwhile.
    peer : int
        Rank of the other end in the fabric.
    active : bool
        Whether this end asks; the other end is made with the opposite.
    timeout : float
        Seconds without any event after which the other end is given up.
    """

    cdef readonly Fabric fabric
    cdef readonly uint32_t peer
    cdef readonly bint active
    cdef double timeout
    cdef fabric_t *f
    cdef unsigned long long packets         # of the other end that were taken
    cdef unsigned long long transfers       # of this end that are complete
    cdef unsigned long long awaited         # packets that were waited for
    cdef unsigned long long posted          # transfers that were posted
    cdef int64_t moved                      # when something happened last
    cdef unsigned int quiet                 # polls since
    cdef bint broken
    cdef bint late
    cdef bint refused                       # a registration
    cdef uint64_t place[2]                  # header of own packets: an address and a key
    cdef uint64_t other[2]                  # that of the last packet of the other end

    def __cinit__(self, Fabric fabric not None, uint32_t peer, bint active, double timeout=30):
        self.fabric = fabric
        self.f = fabric.handle
        self.peer = peer
        self.active = active
        self.timeout = timeout
        self.moved = ticks_clock_ns()
        memset(self.place, 0, sizeof(self.place))

    cdef bint turn(self) noexcept nogil:
        """One poll; False once there is no hope."""
        cdef completion out[BATCH]
        cdef int i
        cdef int taken = 0
        cdef int count = self.f.ops.poll(self.f, out, BATCH)
        for i in range(count):
            if out[i].kind == EVENT_PACKET:
                taken += 1
                if out[i].length >= HEADER:
                    memcpy(self.other, out[i].data, HEADER)
            elif out[i].kind == EVENT_CLOSED or out[i].kind == EVENT_LOST:
                self.broken = True
            else:
                self.transfers += 1
                if out[i].status != FABRIC_OK:
                    self.broken = True
        if taken:
            self.packets += taken
            self.f.ops.release(self.f, self.peer, taken)
        if count:
            self.quiet = 0
            return not self.broken
        self.quiet += 1
        if self.quiet > PATIENCE:
            # The other end, or a device in software, may want this processor.
            sched_yield()
        if self.quiet % POLLS_PER_LOOK == 0:
            self.look()
        return not (self.broken or self.late)

    cdef void look(self) noexcept nogil:
        cdef int64_t now = ticks_clock_ns()
        self.f.ops.maintain(self.f)
        if self.quiet == POLLS_PER_LOOK:
            self.moved = now
        elif now - self.moved > self.timeout * 1e9:
            self.late = True

    cdef bint post(self, const work_request *chain, int count) noexcept nogil:
        cdef int status
        while True:
            status = self.f.ops.post(self.f, self.peer, chain, count)
            if status == FABRIC_OK:
                return True
            if status != FABRIC_AGAIN:
                self.broken = True
                return False
            if not self.turn():
                return False

    cdef bint wait(self) noexcept nogil:
        """Wait for one more packet of the other end."""
        self.awaited += 1
        while self.packets < self.awaited:
            if not self.turn():
                return False
        return True

    cdef bint drain(self) noexcept nogil:
        """Wait until all own transfers are complete."""
        while self.transfers < self.posted:
            if not self.turn():
                return False
        return True

    cdef void notice(self, work_request *wr, void *payload, uint64_t length) noexcept nogil:
        memset(wr, 0, sizeof(work_request))
        wr.opcode = WR_SEND
        wr.header = self.place
        wr.header_length = HEADER
        wr.local = payload
        wr.length = length

    cdef int pieces(self, work_request *chain, uint8_t opcode, const region *mine, uint64_t remote,
                    uint64_t key, uint64_t length) noexcept nogil:
        """Make `chain` the transfers of a message, one for each transfer_max bytes; how many."""
        cdef uint64_t done = 0
        cdef int count = 0
        while done < length:
            memset(&chain[count], 0, sizeof(work_request))
            chain[count].opcode = opcode
            chain[count].flags = WR_SIGNALED
            chain[count].local = <char *> mine.address + done
            chain[count].local_key = mine.key
            chain[count].remote = remote + done
            chain[count].remote_key = key
            chain[count].length = min(length - done, self.f.transfer_max)
            done += chain[count].length
            count += 1
        return count

    cdef int message(self, work_request *chain, const region *source, uint64_t remote,
                     uint64_t key, uint64_t length) noexcept nogil:
        """Make `chain` a message: WRITEs and the packet that tells of them; its length."""
        cdef int count = self.pieces(chain, WR_WRITE, source, remote, key, length)
        self.notice(&chain[count], NULL, 0)
        chain[count].flags = WR_FENCE
        return count + 1

    cdef int fits(self, uint64_t length) except -1:
        if length == 0 or length > PIECES * self.f.transfer_max:
            raise ValueError(f"{length} bytes: give 1 to {PIECES * self.f.transfer_max}")
        return 0

    cdef int check(self, bint fine) except -1:
        if not fine:
            what = f"it has been silent for {self.timeout:g} s"
            if self.broken:
                tell = getattr(self.fabric, "failure_text", lambda peer: "")
                what = tell(self.peer) or "it broke or left"
            raise OSError(f"no measurement with rank {self.peer}: {what}")
        PyErr_CheckSignals()
        return 0

    def join(self):
        """Connect, and wait until the other end has, too.

        Raises
        ------
        OSError
            There is no connection, or no answer in time.
        """
        cdef int status
        cdef bint fine
        with nogil:
            fine = self.meet(&status)
        if status == FABRIC_FAILED:
            raise OSError(self.f.error, os.strerror(self.f.error))
        self.check(fine)

    def swap(self, unsigned long long first=0, unsigned long long second=0):
        """Give two numbers to the other end; its two, once it came here.  OSError: it is lost."""
        cdef work_request wr
        cdef bint fine
        self.place[0], self.place[1] = first, second
        self.notice(&wr, NULL, 0)
        with nogil:
            fine = self.post(&wr, 1) and self.wait()
        self.check(fine)
        return self.other[0], self.other[1]

    cdef bint meet(self, int *status) noexcept nogil:
        cdef work_request wr
        self.quiet = 0
        while True:
            status[0] = self.f.ops.connect(self.f, self.peer)
            if status[0] != FABRIC_AGAIN:
                break
            if not self.turn():
                return False
        self.broken = status[0] != FABRIC_OK
        self.notice(&wr, NULL, 0)
        return not self.broken and self.post(&wr, 1) and self.wait()

    cdef bint echo(self, const work_request *chain, int count, int turns, char *memory,
                   char *sink) noexcept nogil:
        """Send the chain there and back `turns` times.

        With `memory`, it is copied into what the chain writes, and out of `sink` once told.
        """
        cdef uint64_t length = 0
        cdef int i, _
        for i in range(count - 1):
            length += chain[i].length
        for _ in range(turns):
            if not self.active and not self.receive(memory, sink, length):
                return False
            if memory != NULL:
                memcpy(chain[0].local, memory, length)
            self.posted += count - 1
            if not self.post(chain, count):
                return False
            if self.active and not self.receive(memory, sink, length):
                return False
            # What is written is copied into again.
            if memory != NULL and not self.drain():
                return False
        return self.drain()

    cdef bint receive(self, char *memory, const char *sink, uint64_t length) noexcept nogil:
        if not self.wait():
            return False
        if memory != NULL:
            memcpy(memory, sink, length)
        return True

    cdef list echoes(self, const work_request *chain, int count, int turns, int samples,
                     char *memory, char *sink):
        cdef int64_t start
        cdef bint fine
        cdef int _
        times = []
        for _ in range(samples):
            with nogil:
                start = ticks_clock_ns()
                fine = self.echo(chain, count, turns, memory, sink)
                start = ticks_clock_ns() - start
            self.check(fine)
            times.append(start * 0.5e-9 / turns)
        return times

    def packets_back_and_forth(self, bytes payload not None, int turns, int samples):
        """Half round trips of one SEND with `payload`, which must fit a packet; as of WRITEs."""
        cdef work_request wr
        if len(payload) + HEADER > self.f.packet_max:
            raise ValueError(f"{len(payload)} bytes do not fit a packet of {self.f.packet_max}")
        self.notice(&wr, <char *> payload, len(payload))
        return self.echoes(&wr, 1, turns, samples, NULL, NULL)

    def writes_back_and_forth(self, Region source not None, uint64_t remote, uint64_t remote_key,
                              uint64_t length, int turns, int samples):
        """Half round trips of one WRITE of `length` bytes and the SEND behind it that tells of it.

        Returns
        -------
        list of float
            Seconds; per sample the mean of `turns`.
        """
        cdef work_request chain[PIECES + 1]
        cdef int count
        self.fits(length)
        count = self.message(chain, &source.which, remote, remote_key, length)
        return self.echoes(chain, count, turns, samples, NULL, NULL)

    cdef bint stream(self, const work_request *wr, int count, int64_t *inside) noexcept nogil:
        """Post `count` WRITEs, each as soon as there is room; ns spent in posts that succeeded."""
        cdef int64_t before
        cdef int status, _
        inside[0] = 0
        for _ in range(count):
            while True:
                before = ticks_clock_ns()
                status = self.f.ops.post(self.f, self.peer, wr, 1)
                if status == FABRIC_OK:
                    inside[0] += ticks_clock_ns() - before
                    break
                if status != FABRIC_AGAIN or not self.turn():
                    return False
        self.posted += count
        return self.drain()

    def writes_in_a_row(self, Region source not None, uint64_t remote, uint64_t remote_key,
                        uint64_t length, int count, int samples):
        """`count` WRITEs of `length` bytes, one behind the other, until all have arrived.

        Returns
        -------
        list of tuple of float
            On the active end, per sample: seconds per WRITE, and seconds of the thread per WRITE to
            post it.  Zeros on the other end.
        """
        cdef work_request wr
        cdef work_request told
        cdef int64_t start, inside
        cdef bint fine
        cdef int _
        if length > self.f.transfer_max:
            raise ValueError(f"{length} bytes: one WRITE has at most {self.f.transfer_max}")
        self.pieces(&wr, WR_WRITE, &source.which, remote, remote_key, length)
        self.notice(&told, NULL, 0)
        times = []
        for _ in range(samples):
            inside = 0
            with nogil:
                start = ticks_clock_ns()
                if self.active:
                    fine = (self.stream(&wr, count, &inside) and self.post(&told, 1)
                            and self.wait())
                else:
                    fine = self.wait() and self.post(&told, 1)
                start = ticks_clock_ns() - start
            self.check(fine)
            times.append((start * 1e-9 / count if self.active else 0.0, inside * 1e-9 / count))
        return times

    cdef bint fetch(self, const work_request *chain, int count, int turns) noexcept nogil:
        """READ a message `turns` times; each piece is posted when the one before is complete."""
        cdef int i, _
        for _ in range(turns):
            for i in range(count):
                self.posted += 1
                if not (self.post(&chain[i], 1) and self.drain()):
                    return False
        return True

    def reads_in_a_row(self, Region sink not None, uint64_t remote, uint64_t remote_key,
                       uint64_t length, int turns, int samples):
        """READs of `length` bytes, each from its post to its completion; the other end polls.

        Returns
        -------
        list of float
            Seconds on the active end; per sample the mean of `turns`.  Zeros on the other end.
        """
        cdef work_request chain[PIECES]
        cdef work_request told
        cdef int64_t start
        cdef bint fine
        cdef int count, _
        self.fits(length)
        count = self.pieces(chain, WR_READ, &sink.which, remote, remote_key, length)
        self.notice(&told, NULL, 0)
        times = []
        for _ in range(samples):
            with nogil:
                fine = self.wait() if self.active else self.post(&told, 1) and self.wait()
                start = ticks_clock_ns()
                fine = fine and (not self.active or self.fetch(chain, count, turns))
                start = ticks_clock_ns() - start
                fine = fine and (not self.active or self.post(&told, 1))
            self.check(fine)
            times.append(start * 1e-9 / turns if self.active else 0.0)
        return times

    cdef bint give(self, void *buffer, uint64_t length) noexcept nogil:
        """Send `buffer`, registered for it, into memory that the other end offers."""
        cdef region source
        cdef work_request chain[PIECES + 1]
        cdef int count
        cdef bint fine
        if not self.wait():
            return False
        if self.f.ops.register_memory(self.f, buffer, length, ACCESS_LOCAL, &source) != FABRIC_OK:
            self.refused = True
            return False
        count = self.message(chain, &source, self.other[0], self.other[1], length)
        self.posted += count - 1
        fine = self.post(chain, count) and self.drain()
        self.f.ops.deregister(self.f, &source)
        return fine

    cdef bint take(self, void *buffer, uint64_t length) noexcept nogil:
        """Offer `buffer`, registered for it, and wait until it is written."""
        cdef region sink
        cdef work_request told
        cdef bint fine
        if self.f.ops.register_memory(self.f, buffer, length, ACCESS_LOCAL | ACCESS_REMOTE_WRITE,
                                      &sink) != FABRIC_OK:
            self.refused = True
            return False
        self.place[0] = <uint64_t> buffer
        self.place[1] = sink.key
        self.notice(&told, NULL, 0)
        fine = self.post(&told, 1) and self.wait()
        self.f.ops.deregister(self.f, &sink)
        self.f.ops.maintain(self.f)
        return fine

    cdef bint carry(self, void *buffer, uint64_t length, int turns) noexcept nogil:
        cdef int _
        for _ in range(turns):
            if self.active:
                if not (self.give(buffer, length) and self.take(buffer, length)):
                    return False
            elif not (self.take(buffer, length) and self.give(buffer, length)):
                return False
        return True

    def registered_back_and_forth(self, memory, int turns, int samples):
        """Half round trips of `memory`, registered anew at both ends for every message.

        The receiver registers and tells where, the sender registers and writes, both deregister:
        what a library without a cache does.

        Parameters
        ----------
        memory : writable buffer
            Its first byte to its last; of the same length at both ends.

        Returns
        -------
        list of float
            Seconds; per sample the mean of `turns`.

        Raises
        ------
        OSError
            The system refuses to register it, or the other end is lost.
        """
        cdef Py_buffer view
        cdef int64_t start
        cdef bint fine
        PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE)
        times = []
        try:
            self.fits(view.len)
            for _ in range(samples):
                with nogil:
                    start = ticks_clock_ns()
                    fine = self.carry(view.buf, view.len, turns)
                    start = ticks_clock_ns() - start
                if self.refused:
                    raise OSError(self.f.error, f"{view.len} bytes cannot be registered: "
                                  f"{os.strerror(self.f.error)}")
                self.check(fine)
                times.append(start * 0.5e-9 / turns)
        finally:
            PyBuffer_Release(&view)
        return times

    def copied_back_and_forth(self, memory, Region source not None, Region sink not None,
                              uint64_t remote, uint64_t remote_key, int turns, int samples):
        """Half round trips of `memory`, copied whole into `source`, written, and out of `sink`.

        `remote` and `remote_key` name the `sink` of the other end.  Nothing overlaps.  Returns what
        `writes_back_and_forth` does.
        """
        cdef Py_buffer view
        cdef work_request chain[PIECES + 1]
        cdef int count
        PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE)
        try:
            self.fits(view.len)
            if view.len > min(source.which.length, sink.which.length):
                raise ValueError(f"{view.len} bytes do not fit the regions")
            count = self.message(chain, &source.which, remote, remote_key, view.len)
            return self.echoes(chain, count, turns, samples, <char *> view.buf,
                               <char *> sink.which.address)
        finally:
            PyBuffer_Release(&view)
