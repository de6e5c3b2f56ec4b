# cython: language_level=3
"""Schedules that are over, kept for the next call of the same shape."""


cdef class Shelf:
    cdef dict idle                  # shape -> list of Schedule
    cdef size_t scratch             # bytes of scratch memory in all of them
