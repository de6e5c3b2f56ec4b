"""Persistent, combined and generalized requests, second handles, and buffered sends."""

import threading

import numpy as np

from pyrdv import MPI
from tests.support.cases import raises, run


def around(comm):
    """(right neighbour, left neighbour)."""
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def case_started_many_times(comm):
    """Small and large, eager and not; the buffers are read anew by each start."""
    right, left = around(comm)
    for size in (1, 1000, 300_000):
        out, into = np.zeros(size, np.int32), np.zeros(size, np.int32)
        pair = [comm.Recv_init(into, left, 2), comm.Send_init(out, right, 2)]
        for turn in range(20):
            out[:] = turn * 10 + comm.rank
            MPI.Prequest.Startall(pair)
            MPI.Request.Waitall(pair)
            assert (into == turn * 10 + left).all()
        for request in pair:
            request.Free()
            assert request == MPI.REQUEST_NULL
            with raises(MPI.Exception, "null"):
                request.Start()


def case_active_is_not_started_again(comm):
    right, left = around(comm)
    request = comm.Recv_init(bytearray(1), left, 2)
    assert request and request.Test() and request != MPI.REQUEST_NULL
    request.Start()
    with raises(MPI.Exception, "active", "tag 2"):
        request.Start()
    comm.Send(b"x", right, 2)
    request.Wait()
    request.Free()


def case_inactive_ones_are_passed_over(comm):
    right, left = around(comm)
    idle = comm.Send_init(b"", right, 1)
    assert MPI.Request.Waitany([idle]) == MPI.UNDEFINED
    assert MPI.Request.Waitsome([idle]) is None and MPI.Request.Testsome([idle]) is None
    assert MPI.Request.Testall([idle]) and MPI.Request.Testany([idle]) == (MPI.UNDEFINED, True)
    live = comm.Irecv(bytearray(1), left, 3)
    comm.Send(b"x", right, 3)
    assert MPI.Request.Waitany([idle, live]) == 1
    idle.Free()


def case_freed_while_active(comm):
    """What was started goes on to its end; the engine keeps the buffer."""
    right, left = around(comm)
    out, into = np.full(200_000, 7.0), np.zeros(200_000)
    send = comm.Send_init(out, right, 2)
    receive = comm.Irecv(into, left, 2)
    send.Start()
    send.Free()
    del out
    receive.Wait()
    assert (into == 7).all()


def case_wrong_arguments_are_told_when_made(comm):
    with raises(MPI.Exception, comm.size):
        comm.Send_init(b"", comm.size)
    with raises(MPI.Exception, "read-only"):
        comm.Recv_init(b"x", 0)
    with raises(MPI.Exception, -3):
        comm.Ssend_init(b"", 0, -3)


def case_second_handles(comm):
    right, left = around(comm)
    into = np.zeros(1)
    first = comm.Irecv(into, left, 4)
    second = MPI.Request(first)
    assert second == first and second
    comm.Send(np.ones(1), right, 4)
    status = MPI.Status()
    second.Wait(status)
    assert (status.source, status.tag, into[0]) == (left, 4, 1)
    assert not first and not second and first == MPI.REQUEST_NULL
    preq = comm.Send_init(b"", MPI.PROC_NULL)
    found = MPI.Prequest.fromhandle(preq.handle)
    found.Start()
    assert MPI.Request.Waitany([MPI.Request(preq)]) == 0
    found.Free()
    assert not preq
    with raises(MPI.Exception, "handle"):
        MPI.Prequest.fromhandle(-5)
    with raises(NotImplementedError, "handle"):
        print(first.handle)


def case_send_and_receive_as_one(comm):
    right, left = around(comm)
    for size in (0, 5, 200_000):
        out, into = np.full(size, comm.rank), np.full(size, -1)
        status = MPI.Status()
        comm.Isendrecv(out, right, 1, into, left, 1).Wait(status)
        assert (into == left).all() and status.source == left and status.Get_count(MPI.LONG) == size
        comm.Isendrecv_replace(out, right, 1, left, 1).Wait()
        assert (out == left).all()
    with raises(MPI.Exception, comm.size):
        comm.Isendrecv(b"", comm.size, 1, bytearray(1), left, 1)
    with raises(MPI.Exception, "float"):
        comm.Isendrecv(3.5, right, 1, bytearray(1), left, 1)


def case_query_leaves_requests_alone(comm):
    right, left = around(comm)
    requests = [comm.Irecv(bytearray(1), left, tag) for tag in range(2)]
    for tag in range(2):
        comm.Send(b"x", right, tag)
    statuses = []
    while not MPI.Request.Get_status_all(requests, statuses):
        pass
    assert [status.tag for status in statuses] == [0, 1] and all(requests)
    assert MPI.Request.Get_status_any(requests) == (0, True)
    assert MPI.Request.Get_status_some(requests) == [0, 1]
    MPI.Request.Waitall(requests)
    assert not any(requests)


def case_generalized_from_another_thread(comm):
    """Complete wakes who waits; callbacks fill the status and say goodbye."""
    seen = []

    def query(status, number):
        status.source, status.tag = number, 2 * number

    request = MPI.Grequest.Start(query, lambda number: seen.append("free"),
                                 lambda completed, number: seen.append(completed), (21,))
    assert not request.Test()
    request.Cancel()
    thread = threading.Timer(0.05, request.Complete)
    thread.start()
    status = MPI.Status()
    never = comm.Irecv(bytearray(1), comm.rank, 99)
    assert MPI.Request.Waitany([never, request], status) == 1
    assert (status.source, status.tag) == (21, 42) and seen == [False, "free"] and not request
    thread.join()
    never.Cancel()
    never.Wait()
    with raises(MPI.Exception, "once"):
        request.Complete()


def case_buffers_of_communicators(comm):
    """A communicator's own buffer bounds its sends; others have that of the process."""
    right, left = around(comm)
    other = comm.Dup()
    comm.Attach_buffer(bytearray(MPI.BSEND_OVERHEAD + 4))
    MPI.Attach_buffer(bytearray(10))
    comm.Bsend(b"1234", right, 1)
    with raises(MPI.Exception, "no room for 5 bytes"):
        comm.Bsend(b"12345", right, 1)
    with raises(MPI.Exception, "10 bytes"):
        other.Bsend(b"", right, 1)
    with raises(MPI.Exception, "attached already"):
        comm.Attach_buffer(MPI.BUFFER_AUTOMATIC)
    comm.Recv(bytearray(4), left, 1)
    comm.Iflush_buffer().Wait()
    assert len(comm.Detach_buffer()) == MPI.BSEND_OVERHEAD + 4 and comm.Detach_buffer() is None
    assert len(MPI.Detach_buffer()) == 10
    other.Free()


def case_memory(comm):
    memory = MPI.Alloc_mem(8)
    assert (memory.nbytes, len(memory), memory.readonly) == (8, 8, False)
    right, left = around(comm)
    comm.Sendrecv(bytes(range(8)), right, 1, memory, left, 1)
    assert memory.tobytes() == bytes(range(8)) and memory[3] == 3 and memory[2:4].nbytes == 2
    again = MPI.buffer.fromaddress(memory.address, 8)
    again[0] = 9
    assert memory[0] == 9 and again.toreadonly().readonly
    MPI.Free_mem(memory)
    assert memory.nbytes == 0


run(globals())
