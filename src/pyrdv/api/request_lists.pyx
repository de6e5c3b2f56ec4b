# cython: language_level=3, nonecheck=True
"""Several requests at once: what the class methods of `Request` are made of."""
from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.calls cimport LARGE, engine_wanted
from pyrdv.progress.beside cimport end_hopeless
from pyrdv.progress.pausing cimport patience_looks, patience_reset, patience_t
from pyrdv.progress.waiting cimport wait_turn

from pyrdv.api.constants import UNDEFINED


cdef str said(thing):
    return "None" if thing is None else f"an object of type {type(thing).__name__}"


cdef list entries_of(things, type kind, str what):
    """What the user gave as a sequence of `kind`, as a list."""
    try:
        entries = list(things)
    except TypeError:
        raise TypeError(f"{what} must be a sequence of {kind.__name__} objects, not "
                        f"{said(things)}") from None
    for i, entry in enumerate(entries):
        if not isinstance(entry, kind):
            raise TypeError(f"{what}[{i}] is {said(entry)}, not a {kind.__name__}"
                            + ("; REQUEST_NULL stands for no request" if kind is Request else ""))
    return entries


cdef tuple requests_of(requests):
    cdef tuple given
    if type(requests) is tuple:
        given = <tuple> requests
    elif type(requests) is list:
        given = tuple(requests)
    else:
        return tuple(entries_of(requests, Request, "requests"))
    for entry in given:
        if not isinstance(entry, Request):
            entries_of(given, Request, "requests")
    return given


cdef object statuses_of(statuses):
    if statuses is not None:
        entries_of(statuses, Status, "statuses")
    return statuses


cdef tuple chosen(tuple requests, list indices):
    return tuple([requests[i] for i in indices])


cdef int wait_for_all(tuple requests) except -1:
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


cdef int report_all(tuple requests, statuses) except -1:
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


cdef int describe_all(tuple requests, statuses) except -1:
    cdef Request request
    cdef Status status
    for request, status in zip(requests, make_room(statuses, len(requests))):
        if status is not None:
            request.describe(status)
    return 0


cdef int want_all(tuple requests) except -1:
    """Tell the engine that all are waited for, not just the first one."""
    cdef Request request
    for request in requests:
        request = request.root()
        if request.op != NULL and request.op.length > LARGE:
            engine_wanted(request.comm.engine.c, request.op, request.generation)
    return 0


cdef bint any_pending(tuple requests):
    cdef Request request
    for request in requests:
        if request.pending():
            return True
    return False


cdef bint all_complete(tuple requests) except -1:
    cdef Request request
    for request in requests:
        if not request.poll():
            return False
    return True


cdef list complete_ones(tuple requests):
    cdef Request request
    indices = []
    for i, request in enumerate(requests):
        if request.pending() and request.poll():
            indices.append(i)
    return indices


cdef list results(tuple requests):
    cdef Request request
    return [request.result() for request in requests]


cdef tuple look_for_any(tuple requests):
    cdef Request request
    some = False
    for i, request in enumerate(requests):
        if request.pending():
            some = True
            if request.poll():
                return i, True
    return UNDEFINED, not some


cdef int end_all_hopeless(tuple requests) except -1:
    """Receives from anybody that nobody can serve any more end; see `wait`."""
    cdef Request request
    for request in requests:
        request = request.root()
        if request.op != NULL:
            end_hopeless(request.comm.engine, request.op, request.generation, True)
    return 0


cdef object wait_for_any(tuple requests):
    cdef patience_t patience
    cdef Request request = None
    patience_reset(&patience)
    for request in requests:
        if request.pending():
            break
    while True:
        if request is not None and request.comm is not None:
            patience_looks(request.comm.engine.c, &patience)
        index, flag = look_for_any(requests)
        if flag:
            return index
        if wait_turn(request.comm.engine, &patience):
            end_all_hopeless(requests)
