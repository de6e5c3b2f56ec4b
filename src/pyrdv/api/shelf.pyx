# cython: language_level=3
"""Schedules that are over, kept for the next call of the same shape.

Most programs make the same collective call over and over, with buffers of the same type and size.
To build its schedule anew takes longer than a small message.  What must hold:

1. The shape of a call is all that its builder may look at, but for where its buffers lie: kind,
   numbers, operation, and for each buffer datatype and bytes.  Only plain arrays have one, also in
   a list with their own datatype; so does no call whose buffers have memory in common.
2. Each action of a shaped schedule works on memory of one buffer of the call, at the same place in
   each call, or on scratch memory of its own.
3. A schedule on the shelf keeps no memory of the user alive, and no communicator.
4. It comes there when nothing of it is under way, and is taken by one call at a time.
"""
from cpython.bool cimport PyBool_Check
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport malloc

cimport numpy as cnp

from pyrdv.api.buffers cimport own_type, simple, span
from pyrdv.api.communicator cimport Comm
from pyrdv.api.datatypes cimport Datatype
from pyrdv.api.owners cimport named_owner
from pyrdv.api.schedule cimport Schedule, place_t
from pyrdv.engine.schedule.plan cimport ACTION_RECV, ACTION_SEND, action_t

from pyrdv.api.buffers import IN_PLACE
from pyrdv.api.ops import Op

cnp.import_array()


cdef enum:
    BUFFERS = 2                 # of a call, at most
    NOWHERE = 0x7FFFFFFF        # an action without memory
    SHAPES = 64                 # on one shelf
    ALIKE = 4                   # schedules of one shape
    SCRATCH_MAX = 16 << 20      # bytes on one shelf


cdef object unlisted(object arg):
    """The array of a list, such as ``[array, MPI.DOUBLE]``, that says what it says by itself."""
    cdef span at
    if len(arg) == 2 and isinstance(arg[1], Datatype) \
            and simple(arg[0], False, &at) and own_type(arg[0]) is arg[1]:
        return arg[0]
    return arg


cdef object shape_of(int kind, tuple args):
    """What a call has in common with those that have the same schedule; None: it has no shape."""
    cdef list shape = [kind]
    cdef span at
    for arg in args:
        if cnp.PyArray_CheckExact(arg):
            if not simple(arg, False, &at):
                return None
            shape.append((cnp.PyArray_TYPE(<cnp.ndarray> arg), at.nbytes))
        elif arg is IN_PLACE or arg is None:
            shape.append(None)
        elif PyLong_CheckExact(arg) or PyBool_Check(arg) or isinstance(arg, Op):
            shape.append(arg)
        else:
            return None
    return tuple(shape)


cdef int find_buffers(tuple args, span *found, list arrays) except -1:
    """The buffers of a call that has a shape; -2: they meet, or are too many."""
    cdef int count = 0
    cdef int i
    for arg in args:
        if cnp.PyArray_CheckExact(arg):
            if count == BUFFERS:
                return -2
            simple(arg, False, &found[count])
            for i in range(count):
                if found[i].address < found[count].address + found[count].nbytes \
                        and found[count].address < found[i].address + found[i].nbytes:
                    return -2
            arrays.append(arg)
            count += 1
    return count


cdef int32_t place_of(const char *at, size_t length, const span *spans, int count) noexcept:
    cdef int i
    for i in range(count):
        if spans[i].address <= at and at + length <= spans[i].address + spans[i].nbytes:
            return i
    return NOWHERE


cdef bint lay_out(Schedule plan, const span *buffers, int count) except? False:
    """Note where each action's memory lies; False: some is in no buffer."""
    cdef span spans[BUFFERS + 8]
    cdef int whole = count
    cdef uint32_t i
    cdef action_t *a
    cdef place_t *p
    if plan.calls or len(plan.owned) > 8:
        return False
    for i in range(<uint32_t> count):
        spans[i] = buffers[i]
    for scratch in plan.owned:
        simple(scratch, True, &spans[whole])
        whole += 1
    plan.places = <place_t *> malloc((plan.s.action_count + 1) * sizeof(place_t))
    if plan.places == NULL:
        return False
    for i in range(plan.s.action_count):
        a, p = &plan.actions[i], &plan.places[i]
        p.buffer = p.origin = NOWHERE
        if a.length == 0:
            continue
        p.buffer = place_of(a.buffer, a.length, spans, whole)
        if p.buffer == NOWHERE:
            return False
        p.buffer_at = a.buffer - spans[p.buffer].address
        if a.kind != ACTION_SEND and p.buffer < count:
            plan.written |= 1 << p.buffer
        if a.kind != ACTION_SEND and a.kind != ACTION_RECV:
            p.origin = place_of(a.origin, a.length, spans, whole)
            if p.origin == NOWHERE:
                return False
            p.origin_at = a.origin - spans[p.origin].address
    plan.buffers = count
    return True


cdef bint renew(Schedule plan, Comm comm, tuple args) except? False:
    """Have a schedule of the shelf work on the buffers of another call; False: it cannot."""
    cdef span spans[BUFFERS + 8]
    cdef list arrays = []
    cdef int count = find_buffers(args, spans, arrays)
    cdef int i
    cdef uint32_t j
    cdef action_t *a
    cdef const place_t *p
    if count != plan.buffers:
        return False
    for i in range(count):
        if plan.written & 1 << i and not simple(arrays[i], True, &spans[i]):
            return False            # its builder says why it is refused
    for scratch in plan.owned:
        simple(scratch, True, &spans[count])
        arrays.append(scratch)
        count += 1
    plan.enroll(comm)
    plan.keepers = tuple(arrays)
    for j in range(plan.s.action_count):
        a, p = &plan.actions[j], &plan.places[j]
        if p.buffer == NOWHERE:
            continue
        a.buffer = spans[p.buffer].address + p.buffer_at
        if p.origin != NOWHERE:
            a.origin = spans[p.origin].address + p.origin_at
        if a.kind == ACTION_SEND or a.kind == ACTION_RECV:
            a.owner = named_owner(plan.engine, arrays[p.buffer], &spans[p.buffer])
            plan.named = True
    return True


cdef class Shelf:
    """The schedules of one communicator that wait for another call."""

    def __cinit__(self):
        self.idle = {}

    def __len__(self):
        return sum(map(len, self.idle.values()))

    def clear(self):
        """Keep none of them."""
        self.idle.clear()
        self.scratch = 0

    def keep(self, Schedule plan not None):
        """Keep a schedule that is over, for the next call of its shape."""
        cdef size_t scratch = scratch_of(plan)
        alike = self.idle.get(plan.shape)
        if scratch > SCRATCH_MAX or alike is not None and len(alike) == ALIKE:
            return
        if self.scratch + scratch > SCRATCH_MAX or alike is None and len(self.idle) == SHAPES:
            self.clear()
            alike = None
        if alike is None:
            alike = self.idle.setdefault(plan.shape, [])
        self.scratch += scratch
        alike.append(plan)


cdef size_t scratch_of(Schedule plan) noexcept:
    cdef size_t found = 0
    for array in plan.owned:
        found += cnp.PyArray_NBYTES(<cnp.ndarray> array)
    return found


cdef Schedule taken(Comm comm, object shape, tuple args):
    """A schedule of this shape from the shelf, for this call; None if there is none."""
    cdef Shelf shelf = comm.identity.shelf
    cdef Schedule plan
    if shelf is None:
        return None
    alike = shelf.idle.get(shape)
    if not alike:
        return None
    plan = alike.pop()
    shelf.scratch -= scratch_of(plan)
    return plan if renew(plan, comm, args) else None


def schedule_of(factory, build, Comm comm not None, int kind, tuple args):
    """The schedule of a call: one from the shelf, or a new one of ``factory(build, comm, kind,
    *args)``."""
    cdef Schedule plan
    cdef span spans[BUFFERS + 1]
    cdef int count
    comm.ready()
    for arg in args:
        if isinstance(arg, (list, tuple)):
            args = tuple([unlisted(one) if isinstance(one, (list, tuple)) else one for one in args])
            break
    shape = shape_of(kind, args)
    if shape is not None:
        plan = taken(comm, shape, args)
        if plan is not None:
            return plan
    plan = factory(build, comm, kind, *args)
    if shape is not None:
        if comm.identity.shelf is None:
            comm.identity.shelf = Shelf()
        count = find_buffers(args, spans, [])
        if count >= 0 and lay_out(plan, spans, count):
            plan.shape = shape
    return plan
