# cython: language_level=3
"""Taking back what a call has started."""
from pyrdv.api.request cimport Request
from pyrdv.engine.calls cimport engine_cancel
from pyrdv.engine.state cimport OP_CANCELLING


cdef bint take_back(Request request) except -1:
    cdef Request root = request.root()
    root.Cancel()
    while root.origin is not None:
        root = root.origin
    if root.op != NULL and root.op.flags & OP_CANCELLING:
        root.block()        # its peer, which has been offered the buffer, says that it lets go
    if not root.poll() or not root.was_cancelled:
        return False
    request.report(None)
    return True


cdef int withdraw(Request request) except -1:
    if request.op != NULL and request.comm.engine.closed:
        return 0
    if request.op != NULL and not engine_cancel(request.comm.engine.c, request.op):
        # Matched: its data is on the way into the caller's buffer, so it must land first.  Or its
        # peer may write there and is asked to let go; a second interrupt does not wait for that.
        request.block()
    request.settle()
    return 0
