# cython: language_level=3
"""Progress by a signal that borrows the thread which posted what needs it."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from pyrdv.engine.state cimport engine_t
from pyrdv.progress.contract cimport progress_t
from pyrdv.progress.needing cimport needing_t


cdef extern from "parasite.h" nogil:
    ctypedef struct pulse_t:
        void (*beat)(pulse_t *self, int barred) noexcept nogil
        int timer
        int number
        uint64_t thread
        int tid
    uint64_t pulse_thread()


cdef struct parasite_t

cdef struct flow_t:             # of one thread
    pulse_t pulse               # first: the handler gets this
    flow_t *next
    parasite_t *mode
    uint8_t trying              # its beats are only counted, to measure what they cost
    uint8_t armed               # its timer runs, for `due`; a hint for its own thread
    uint32_t beats              # signals that came
    uint32_t barred             # of them, those that found a call at work
    uint32_t hindered           # and since the last turn, up to DOUBLINGS
    uint32_t inside             # waits that its thread is in
    uint32_t turns              # in vain, since the last request
    int64_t due                 # when the timer fires, ns
    int64_t period              # ns from the end of a turn to the next
    int64_t rested              # before, no turn begins, ns: the share is used up
    int64_t saved               # ns of its thread's time that it may take; of an event's flow
    int64_t counted             # as of then, ns
    needing_t watched           # what its thread has posted

cdef struct parasite_t:
    progress_t base             # first: the engine has this
    engine_t *engine
    flow_t *flows
    flow_t *owner               # locked.  Whose thread the descriptors signal, or NULL
    uint8_t event               # they do; no timer, but for what no descriptor tells
    uint8_t on                  # it is its engine's mode
    uint8_t by_hand             # no timer fires, and no descriptor signals
    unsigned int forks          # pulse_forks of the process that may use it
    int64_t phase, period       # ns
    uint32_t decay              # of the frequency: the factor of the period
    uint32_t turn_limit
    double rest                 # times of a turn that its thread then has for itself
    int64_t cost                # of a beat, ns, as measured; 0: not yet
    uint64_t least              # bytes; a receive of no more takes eager messages only


cdef class Parasite:
    cdef parasite_t *c
