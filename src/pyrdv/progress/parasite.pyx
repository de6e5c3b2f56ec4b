# cython: language_level=3
"""A signal borrows the thread that posted an operation which still needs a trigger.

After the *parasite execution flow* of Zounmevo and Afsahi.  A call that does not wait posts, say, a
receive whose announcement is not there, and returns to a program that computes.  A one-shot timer
then interrupts that very thread; the handler makes one step, by which the announcement is found and
the transfer starts, and arms the timer again while anything is left to trigger.

When it fires: `phase` after a request, then after `period`, which grows by the factor `decay` with
each turn in vain; a turn with a hit and a new request take it back.  After `turn_limit` turns in
vain the flow gives up until the next request.

Invariants:

P1  The handler gets the engine's lock by trying, or leaves.  So it never runs a step within a call
    of the thread that it interrupts, nor of any other.  It comes again then, each time after twice
    as long: a signal may cost more than a period, and who has the lock must get on.
P2  With the lock it makes one step by itself (step.pyx, S1), which calls sleepers if it must
    (sleeping.pyx, S8).  It allocates nothing, takes no other lock and touches no Python object;
    that steps find what they need is what `unattended` is for (calls.pyx, reserve).
P3  A flow belongs to one thread, whose handler and calls are the only ones to write what is not
    said to belong to the lock.  Both may meet: the handler stands between any two instructions of
    the call.  `armed` is set before the timer is, and cleared first by the handler; so if it is
    set, a turn is to come.  If it is clear, one may come in vain.
P4  `watched` belongs to the lock.  The handler, which has it or nothing, finds the list whole.
P5  There is one flow per thread, however many operations it posts.  It lives while one of them
    needs a trigger (needing.pxd).
P6  While its thread waits in the library, a flow sleeps: a turn that comes meanwhile arms nothing,
    and `leaves` does, if anything is left.
P7  The share: a turn costs what was measured at first use and, if it was in vain, the time of its
    step.  Before `rest` times as much has passed, the thread is not interrupted again.
P8  Signals of a thread that has ended reach nobody.  Its flow rests when the next new one begins;
    its operations go on by calls, and by the flows of others, for a step is the engine's.
P9  `stops` takes the mode from the engine under the lock, then lets every flow rest (parasite.h,
    Z4).

With trigger `event` no timer asks: the descriptor that a message makes readable signals the thread
itself.  A turn is then the same, and these hold:

E1  While a flow outside of the library needs a trigger, the fabrics are armed (`watch`) and their
    descriptors signal its thread, the owner; or its timer is set.  The handler arms at the end of
    its turn, then looks once more; what it finds, or cannot know by a descriptor, is the timer's.
E2  A call may take what the fabrics were armed for.  Its end arms anew (sleeping.pyx, S6 and S9).
    So does a sleeper that wakes up and takes the arming back.
E3  A wait of the owner's thread needs no signals, for it looks itself: nobody arms for it, and
    `leaves` does again.  Meanwhile another flow is the owner, if it needs a trigger.
E4  Each arming is good for one signal of a channel.  The handler that finds the lock taken sets
    the timer (P1), so a signal is never spent for nothing.
E5  With the last need the descriptors signal nobody.  If one cannot signal, the timer serves.
E6  P7 holds in the long run: a flow may take SAVED at once, so a few messages need not wait.  While
    the share is used up, the fabrics are not armed, and the timer is set to the end of that.
    P3 changes by this: holders of the lock set the timers of other threads, too.  Such a thread's
    handler may stand before its try, after which it sets the timer itself, or makes a turn.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from pyrdv.engine.calls cimport engine_lock, engine_lock_try, engine_unlock
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.peer cimport eager_limit
from pyrdv.engine.sleeping cimport step_alone, watch_begins, watch_ends, watch_fabrics
from pyrdv.engine.state cimport OP_POSTED, OP_RECV, engine_t, op_t
from pyrdv.fabrics.contract cimport FABRIC_OK, WATCHED
from pyrdv.progress.contract cimport PROGRESS_PARASITE, progress_t
from pyrdv.progress.needing cimport (
    needing_add, needing_free, needing_left, needs, transfers_moved)


cdef extern from "order.h" nogil:
    uint8_t glance8(const uint8_t *where)
    uint32_t glance32(const uint32_t *where)
    void note8(uint8_t *where, uint8_t value)
    void note32(uint32_t *where, uint32_t value)

cdef extern from "parasite.h" nogil:
    int pulse_watch_forks()
    pulse_t *pulse_begin(size_t size)
    void pulse_guard()
    void pulse_open(pulse_t *p)
    void pulse_rest(pulse_t *p)
    void pulse_arm(pulse_t *p, int64_t ns)
    bint pulse_orphaned(const pulse_t *p)
    bint pulse_owned()
    int64_t pulse_cost(pulse_t *p, const uint32_t *beats)
    int pulse_signal
    unsigned int pulse_forks

cdef extern from "signals.h" nogil:
    bint descriptor_readable(int fd)

cdef extern from "ticks.h" nogil:
    int64_t ticks_clock_ns()


cdef enum:
    NS = 1000                   # per µs, of the knobs
    SOONEST = 1000              # ns that a timer is set to at least: 0 would disarm it
    LONGEST = 1 << 30           # ns that a period grows to at most
    DOUBLINGS = 10              # of a period, while the lock is found taken
    SAVED = 20_000_000          # ns that a flow may take at once; see P7
    NEVER = 1 << 20             # s: that timer is set, as who plays signals can see


if pulse_watch_forks():
    raise MemoryError("pthread_atfork")


cdef inline flow_t *mine(parasite_t *self) noexcept nogil:
    """The flow of this thread, or NULL."""
    cdef flow_t *f = self.flows
    cdef uint64_t thread = pulse_thread()
    while f != NULL and f.pulse.thread != thread:
        f = f.next
    return f


cdef inline bint left(flow_t *f) noexcept nogil:
    """locked.  Whether anything of it needs a trigger (P5)."""
    return needing_left(f.mode.engine, &f.watched)


cdef void arm(flow_t *f, int64_t now, int64_t delay) noexcept nogil:
    cdef int64_t due = max(now + max(delay, <int64_t> SOONEST), f.rested)
    if glance8(&f.armed) and f.due <= due:
        return
    f.due = due
    note8(&f.armed, True)
    pulse_arm(&f.pulse, <int64_t> NEVER << 30 if f.mode.by_hand else due - now)


cdef void spend(flow_t *f, int64_t now, int64_t spent) noexcept nogil:
    """A turn ends that has cost its thread `spent` ns (P7)."""
    cdef double rest = f.mode.rest
    if not f.mode.event:
        f.rested = now + <int64_t> (rest * <double> spent)
        return
    f.saved += <int64_t> (<double> (now - f.counted) / (rest + 1))
    f.saved = min(f.saved, <int64_t> SAVED) - spent
    f.counted = now
    f.rested = now if f.saved >= 0 else now + <int64_t> (<double> -f.saved * (rest + 1))


cdef void slower(flow_t *f) noexcept nogil:
    f.period = min(f.period * <int64_t> f.mode.decay, <int64_t> LONGEST)


cdef flow_t *in_need(parasite_t *self, flow_t *first) noexcept nogil:
    """locked.  A flow outside of the library that needs a trigger, `first` if it does; or NULL."""
    cdef flow_t *f = self.flows
    if first != NULL and not glance32(&first.inside) and left(first):
        return first
    while f != NULL:
        if not glance32(&f.inside) and left(f) and not pulse_orphaned(&f.pulse):
            return f
        f = f.next
    return NULL


cdef void own(parasite_t *self, flow_t *f) noexcept nogil:
    """locked.  Descriptors signal the thread of `f` from now on; NULL: nobody.  If one cannot, the
    mode goes on by the timer."""
    cdef engine_t *e = self.engine
    cdef int tid = f.pulse.tid if f != NULL else 0
    cdef bint can = True
    cdef int i
    if self.owner != f and not self.by_hand:
        for i in range(e.fabric_count):
            can &= e.fabrics[i].ops.signals(e.fabrics[i], tid, pulse_signal) == FABRIC_OK
    self.owner = f
    if f != NULL and not can:
        self.event = False
        own(self, NULL)


cdef void watch_on(parasite_t *self, flow_t *first, int64_t now, bint settled) noexcept nogil:
    """locked.  See to it that whatever comes next is noticed (E1)."""
    cdef flow_t *f = in_need(self, first)
    cdef int64_t wait
    if f != NULL and not self.by_hand and not pulse_owned():
        f = NULL                # the program has taken the signal (parasite.h, Z1)
    own(self, f)
    if f == NULL or not self.event:
        watch_ends(self.engine)
        if f != NULL:
            arm(f, now, self.phase)
    elif f.rested > now:
        arm(f, now, 0)          # the share is used up; then it arms the fabrics (P7)
    else:
        watch_begins(self.engine)
        wait = watch_fabrics(self.engine)
        if not settled:
            wait = 0
        if wait < WATCHED and f.turns < self.turn_limit:
            arm(f, now, max(wait, f.period))


cdef void turn(flow_t *f) noexcept nogil:
    """locked.  One step, and the timer for the next if there is to be one."""
    cdef parasite_t *self = f.mode
    cdef engine_t *e = self.engine
    cdef int64_t before = ticks_clock_ns()
    cdef uint32_t moved = transfers_moved(e)
    cdef int happened = step_alone(e)
    cdef int64_t now = ticks_clock_ns()
    e.counters.flow_turns += 1
    f.hindered = 0
    if happened or transfers_moved(e) != moved:
        e.counters.flow_hits += 1
        f.period = self.period
        f.turns = 0
        spend(f, now, self.cost)
    else:
        spend(f, now, self.cost + now - before)
        slower(f)
        f.turns += 1
    if self.event:
        watch_on(self, f, now, not happened or step_alone(e) == 0)
    elif left(f) and f.turns < self.turn_limit:
        arm(f, now, f.period)


cdef void beat(pulse_t *pulse, int barred) noexcept nogil:
    cdef flow_t *f = <flow_t *> pulse
    cdef engine_t *e = f.mode.engine
    cdef int64_t now
    note8(&f.armed, False)
    f.beats += 1
    if f.trying:
        pulse_arm(pulse, 0)     # for what that costs
        return
    if not f.inside and not barred and engine_lock_try(&e.lock):
        turn(f)
        engine_unlock(&e.lock)
        return
    now = ticks_clock_ns()
    spend(f, now, f.mode.cost)
    if f.inside:
        slower(f)
        return
    f.barred += 1
    arm(f, now, f.mode.period << f.hindered)
    f.hindered = min(f.hindered + 1, <uint32_t> DOUBLINGS)


cdef void lay_down(flow_t *f) noexcept nogil:
    pulse_rest(&f.pulse)
    needing_free(&f.watched)


cdef void forget_ended(parasite_t *self) noexcept nogil:
    """locked.  The flows of threads that have ended rest (P8)."""
    cdef flow_t **link = &self.flows
    cdef flow_t *f
    while link[0] != NULL:
        f = link[0]
        if pulse_orphaned(&f.pulse):
            link[0] = f.next
            if self.owner == f:
                self.owner = NULL
            lay_down(f)
        else:
            link = &f.next


cdef flow_t *flow_new(parasite_t *self) noexcept nogil:
    """locked, call.  A flow for this thread; NULL: it can have none."""
    cdef flow_t *f
    forget_ended(self)
    f = <flow_t *> pulse_begin(sizeof(flow_t))
    if f == NULL:
        return NULL
    f.mode = self
    f.pulse.beat = beat
    if self.cost == 0 and not self.by_hand:
        f.trying = True
        pulse_open(&f.pulse)
        self.cost = pulse_cost(&f.pulse, &f.beats)
        pulse_arm(&f.pulse, 0)
        note8(&f.trying, False)
    if self.event and not self.by_hand:
        pulse_guard()
    f.saved = SAVED
    f.counted = ticks_clock_ns()
    pulse_open(&f.pulse)
    f.next = self.flows
    self.flows = f
    return f


cdef void parasite_posted(progress_t *base, void *posted) noexcept nogil:
    cdef parasite_t *self = <parasite_t *> base
    cdef op_t *op = <op_t *> posted
    cdef flow_t *f
    if not needs(self.engine, op) or op.kind == OP_RECV and op.state == OP_POSTED \
            and op.length <= self.least:
        return
    f = mine(self)
    if f == NULL:
        f = flow_new(self)
    if f == NULL:
        return
    left(f)
    if not needing_add(&f.watched, op):
        return
    f.turns = 0
    f.period = self.period
    if not pulse_owned():
        return                  # the program has taken the signal (parasite.h, Z1)
    if not glance8(&f.armed) and not base.watching:
        self.engine.counters.flows_spawned += 1
    if not self.event:
        arm(f, ticks_clock_ns(), self.phase)
        return
    own(self, f)
    if self.event:
        watch_begins(self.engine)
        self.engine.stirred = 1     # so the end of this call makes turns and has it watch (E2)
    else:
        arm(f, ticks_clock_ns(), self.phase)


cdef uint32_t parasite_needed(progress_t *base) noexcept nogil:
    cdef flow_t *f = (<parasite_t *> base).flows
    cdef uint32_t count = 0
    while f != NULL:
        if left(f):
            count += f.watched.count
        f = f.next
    return count


cdef void parasite_enters(progress_t *base) noexcept nogil:
    cdef parasite_t *self = <parasite_t *> base
    cdef flow_t *f = mine(self)
    if f == NULL:
        return
    note32(&f.inside, f.inside + 1)
    if f.inside > 1 or not glance8(&base.watching):
        return
    engine_lock(&self.engine.lock)
    if self.owner == f and base.watching:
        if in_need(self, NULL) != NULL:
            watch_on(self, NULL, ticks_clock_ns(), not self.engine.unsettled)
        else:
            watch_ends(self.engine)     # it waits itself, and keeps the descriptors (E3)
    engine_unlock(&self.engine.lock)


cdef void parasite_stirred(progress_t *base) noexcept nogil:
    cdef parasite_t *self = <parasite_t *> base
    watch_on(self, self.owner, ticks_clock_ns(), not self.engine.unsettled)


cdef void parasite_leaves(progress_t *base) noexcept nogil:
    cdef parasite_t *self = <parasite_t *> base
    cdef flow_t *f = mine(self)
    cdef engine_t *e = self.engine
    if f == NULL or f.inside == 0:
        return
    note32(&f.inside, f.inside - 1)
    if f.inside or not glance32(&f.watched.count) and self.owner != f:
        return
    engine_lock(&e.lock)
    if self.event:
        watch_on(self, f, ticks_clock_ns(), not e.unsettled)
    elif left(f) and f.turns < self.turn_limit and pulse_owned():
        arm(f, ticks_clock_ns(), f.period)
    if not left(f) and glance8(&f.armed):
        pulse_arm(&f.pulse, 0)
        note8(&f.armed, False)
    engine_unlock(&e.lock)


cdef void parasite_stops(progress_t *base) noexcept nogil:
    cdef parasite_t *self = <parasite_t *> base
    cdef engine_t *e = self.engine
    cdef flow_t *f
    cdef flow_t *after
    if self.forks != pulse_forks:
        # Another thread of the parent may have had the lock; there are no timers here (Z2).
        self.on = False
        e.progress = NULL
        return
    engine_lock(&e.lock)
    self.on = False
    own(self, NULL)
    if e.progress == base:
        watch_ends(e)
        e.progress = NULL
        e.unattended = 0
    f = self.flows
    self.flows = NULL
    engine_unlock(&e.lock)
    while f != NULL:
        after = f.next
        lay_down(f)
        f = after


cdef class Parasite:
    """The mode of one engine, which keeps it as its `mode`.

    Parameters
    ----------
    engine : Engine
    phase, period : int
        µs from a request to the first turn, and from one turn to the next.
    decay : int
        Factor of the period after a turn in vain.
    turn_limit : int
        Turns in vain after which the most recent request is given up.
    share : int
        Per cent of its thread's time that a flow takes at most.
    by_hand : bool
        No signals come but those that `fire` plays.
    trigger : {"timer", "event"}
        What sends the signals: timers, or the descriptors that messages make readable.
    """

    def __cinit__(self, Engine engine not None, int phase=2, int period=10, uint32_t decay=2,
                  uint32_t turn_limit=100, int share=2, bint by_hand=False, str trigger="timer"):
        cdef int i
        if trigger not in ("timer", "event"):
            raise ValueError(f"trigger is {trigger!r}: timer or event")
        self.c = <parasite_t *> calloc(1, sizeof(parasite_t))
        if self.c == NULL:
            raise MemoryError
        self.c.engine = engine.c
        self.c.base.code = PROGRESS_PARASITE
        self.c.base.posted = parasite_posted
        self.c.base.needed = parasite_needed
        self.c.base.enters = parasite_enters
        self.c.base.leaves = parasite_leaves
        self.c.base.stops = parasite_stops
        self.c.base.stirred = parasite_stirred
        self.c.event = trigger == "event"
        self.c.phase = NS * phase
        self.c.period = NS * period
        self.c.decay = decay
        self.c.turn_limit = turn_limit
        self.c.rest = 100.0 / share - 1
        self.c.by_hand = by_hand
        self.c.forks = pulse_forks
        self.c.least = <uint64_t> -1
        for i in range(engine.c.fabric_count):
            self.c.least = min(self.c.least, eager_limit(engine.c, engine.c.fabrics[i]))

    def __dealloc__(self):
        # The engine stops its mode before it ends, so what was not stopped has an engine.
        if self.c != NULL and self.c.on:
            parasite_stops(&self.c.base)
        free(self.c)

    def begin(self, Engine engine not None):
        """From now on `engine`, for which it was made, has this mode."""
        cdef engine_t *e = self.c.engine
        if engine.c != e or engine.closed:
            raise ValueError("this mode was made for another engine, or its engine is closed")
        if e.progress != NULL and e.progress != &self.c.base:
            raise ValueError("the engine has another mode; end that first")
        engine.mode = self
        engine_lock(&e.lock)
        self.c.on = True
        e.progress = &self.c.base
        e.unattended = 1
        engine_unlock(&e.lock)

    def end(self):
        """No step by itself runs from now on; calls make progress alone."""
        if self.c.on:
            parasite_stops(&self.c.base)

    def fire(self):
        """As if the timer of this thread's flow fired, or a descriptor; whether it would."""
        cdef flow_t *f = mine(self.c)
        cdef int fd = self.c.engine.wait_fd
        if f == NULL or not f.armed and (self.c.owner != f or not descriptor_readable(fd)):
            return False
        beat(&f.pulse, False)
        return True

    def facts(self):
        """What is known of it now.

        Returns
        -------
        dict
            ``trigger``: "timer" or "event"; ``signal``: its number, 0 while none is needed;
            ``cost_ns``: of a turn, as measured, 0: not yet; of this thread's flow ``armed`` (its
            timer is set), ``owner`` (descriptors signal the thread), ``watched`` (operations),
            ``signals`` (that came) and ``barred`` (of them, those that found a call at work).
        """
        cdef flow_t *f = mine(self.c)
        facts = {"trigger": "event" if self.c.event else "timer", "signal": pulse_signal,
                 "cost_ns": self.c.cost, "armed": False, "owner": False, "watched": 0,
                 "signals": 0, "barred": 0}
        if f != NULL:
            facts |= {"armed": f.armed != 0, "owner": self.c.owner == f, "watched": f.watched.count,
                      "signals": f.beats, "barred": f.barred}
        return facts
