# cython: language_level=3
"""Several requests at once: what the class methods of `Request` are made of."""
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport LARGE, engine_wanted
from pyrdv.progress.polling cimport end_hopeless, patience_reset, patience_t, wait_turn

from pyrdv.api.constants import UNDEFINED


cdef int wait_for_all(requests) except -1:
    cdef Request request
    if len(requests) > 1:
        want_all(requests)
    for request in requests:
        request.block()
    return 0


cdef list make_room(statuses, Py_ssize_t wanted):
    """`wanted` statuses: a list is made long enough, of a tuple those that are there are filled."""
    if statuses is None:
        return [None] * wanted
    if isinstance(statuses, list):
        statuses.extend(Status() for _ in range(wanted - len(statuses)))
    found = list(statuses)
    return found + [None] * (wanted - len(found))


cdef int report_all(requests, statuses) except -1:
    cdef Request request
    cdef Status status
    failure = None
    for request, status in zip(requests, make_room(statuses, len(requests))):
        try:
            request.report(status)
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return 0


cdef int describe_all(requests, statuses) except -1:
    cdef Request request
    cdef Status status
    for request, status in zip(requests, make_room(statuses, len(requests))):
        if status is not None:
            request.describe(status)
    return 0


cdef int want_all(requests) except -1:
    """Tell the engine that all are waited for, not just the first one."""
    cdef Request request
    for request in requests:
        request = request.root()
        if request.op != NULL and request.op.length > LARGE:
            engine_wanted(request.comm.engine.c, request.op, request.generation)
    return 0


cdef bint any_pending(requests):
    cdef Request request
    for request in requests:
        if request.pending():
            return True
    return False


cdef bint all_complete(requests) except -1:
    cdef Request request
    for request in requests:
        if not request.poll():
            return False
    return True


cdef list complete_ones(requests):
    cdef Request request
    indices = []
    for i, request in enumerate(requests):
        if request.pending() and request.poll():
            indices.append(i)
    return indices


cdef list results(requests):
    cdef Request request
    return [request.result() for request in requests]


cdef tuple look_for_any(requests):
    cdef Request request
    some = False
    for i, request in enumerate(requests):
        if request.pending():
            some = True
            if request.poll():
                return i, True
    return UNDEFINED, not some


cdef int end_all_hopeless(requests) except -1:
    """Receives from anybody that nobody can serve any more end; see `wait`."""
    cdef Request request
    for request in requests:
        request = request.root()
        if request.op != NULL:
            end_hopeless(request.comm.engine, request.op, request.generation, True)
    return 0


cdef object wait_for_any(requests):
    cdef patience_t patience
    cdef Request request = None
    patience_reset(&patience)
    for request in requests:
        if request.pending():
            break
    while True:
        if request is not None and request.comm is not None:
            patience.epoch = request.comm.engine.c.epoch
        index, flag = look_for_any(requests)
        if flag:
            return index
        if wait_turn(request.comm.engine, &patience):
            end_all_hopeless(requests)
