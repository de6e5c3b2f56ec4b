# cython: language_level=3
"""An event loop among those that sleep (``sleeping``).  Under the engine's lock."""


cdef struct listener_t:         # an event loop that sleeps on wait_fd and on fd
    listener_t *next
    int fd                      # eventfd: calls it
    bint asleep
    bint called                 # since it fell asleep
