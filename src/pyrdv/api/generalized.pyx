# cython: language_level=3, nonecheck=True
"""Generalized requests: the user says when they are complete."""
cimport cython

from pyrdv.api.request cimport Request
from pyrdv.api.status cimport Status
from pyrdv.engine.sleeping cimport have_all_look
from pyrdv.progress.pausing cimport patience_looks, patience_reset, patience_t
from pyrdv.progress.waiting cimport wait_turn

import traceback

from pyrdv.errors import Error, RequestError


cdef int call(function, before, args, kwargs) except -1:
    """Call a function of the user; its errors are shown here, for their traceback is the user's."""
    if function is None:
        return 0
    try:
        function(*before, *args, **kwargs)
    except Error:
        traceback.print_exc()
        raise
    except Exception as error:
        traceback.print_exc()
        raise Error(f"a function of a generalized request raised {error!r}") from error
    return 0


@cython.no_gc_clear
cdef class Grequest(Request):
    """An operation of the user's own, to be waited for together with others.

    Parameters
    ----------
    request : Grequest, optional
        Makes another handle of the same one; a null request when not given.
    """

    cdef Grequest twin              # the request whose second handle this is; None
    cdef object query_fn
    cdef object free_fn
    cdef object cancel_fn
    cdef object obj                 # what wait() returns
    cdef object args
    cdef object kwargs
    cdef bint completed
    cdef object __weakref__

    #: The communicator whose waits it takes part in; set by who names the world.
    home = None

    def __cinit__(self, Request request=None):
        if request is not None:
            root = request.root()
            if not isinstance(root, Grequest):
                raise TypeError(f"a Grequest is made from a Grequest, not {type(root).__name__}")
            self.twin = self.origin = root

    @classmethod
    def Start(cls, query_fn=None, free_fn=None, cancel_fn=None, args=None, kwargs=None):
        """A new one, to be completed with `Complete`.

        Parameters
        ----------
        query_fn : callable, optional
            ``query_fn(status, *args, **kwargs)`` fills the status when it is waited for.
        free_fn : callable, optional
            ``free_fn(*args, **kwargs)`` is called when nobody can ask for it any more.
        cancel_fn : callable, optional
            ``cancel_fn(completed, *args, **kwargs)`` is what `Cancel` calls.
        args, kwargs : optional
            What the functions get besides.

        Returns
        -------
        Grequest
        """
        cdef Grequest made = cls()
        made.start(cls.home, NULL, None, False)
        made.query_fn, made.free_fn, made.cancel_fn = query_fn, free_fn, cancel_fn
        made.args, made.kwargs = tuple(args or ()), dict(kwargs or {})
        return made

    def Complete(self):
        """Say that the operation is complete; any thread may."""
        if self.twin is not None:
            self.twin.Complete()
            return
        if self.completed or not self.active:
            raise RequestError("a generalized request is completed once, after Start")
        self.completed = True
        have_all_look(self.comm.engine.c)

    def complete(self, obj=None):
        """`Complete`, with an object that ``wait()`` returns."""
        if self.twin is not None:
            self.twin.complete(obj)
            return
        self.Complete()
        self.obj = obj

    cdef object result(self):
        if self.twin is not None:
            return self.twin.result()
        obj, self.obj = self.obj, None
        return obj

    cdef Request root(self):
        return self if self.twin is None else self.twin

    cdef bint poll(self) except -1:
        if self.twin is not None:
            return self.twin.poll()
        return self.completed or not self.active

    cdef int block(self) except -1:
        cdef patience_t patience
        if self.twin is not None:
            return self.twin.block()
        patience_reset(&patience)
        while True:
            if self.active:
                patience_looks(self.comm.engine.c, &patience)
            if self.poll():
                return 0
            wait_turn(self.comm.engine, &patience)

    cdef int report(self, Status status) except -1:
        if self.twin is not None:
            return self.twin.report(status)
        if not self.active:
            return Request.report(self, status)
        if status is None:
            status = Status()
        Request.report(self, status)
        failed = None
        try:
            call(self.query_fn, (status,), self.args, self.kwargs)
        except Error as error:
            failed = error
        self.drop()
        if failed is not None:
            raise failed
        return 0

    def Cancel(self):
        """Call the user's function for that."""
        if self.twin is not None:
            self.twin.Cancel()
        elif self.active:
            call(self.cancel_fn, (self.completed,), self.args, self.kwargs)

    cancel = Cancel

    def Free(self):
        """Become null, and call the user's function for that."""
        if self.twin is not None:
            self.twin.Free()
        elif self.active:
            self.retire()
            self.drop()

    cdef int drop(self) except -1:
        free_fn, self.free_fn = self.free_fn, None
        self.query_fn = self.cancel_fn = None
        call(free_fn, (), self.args, self.kwargs)
        return 0
