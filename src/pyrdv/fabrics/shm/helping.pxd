# cython: language_level=3
"""Copying between processes and helping peers with it (see .pyx)."""
from libc.stdint cimport uint64_t

from pyrdv.fabrics.shm.channel cimport shm_t

# step.  Move `length` bytes between `local` and `remote` of process `pid`,
# `reading`: to local.  A fabric_status; FAILED leaves errno.
cdef int copy_chunk(int pid, uint64_t local, uint64_t remote, uint64_t length,
                    bint reading) noexcept nogil
# step.  Move one chunk for one peer, peers in rotation; whether there was one.
cdef bint help_turn(shm_t *self) noexcept nogil
