# cython: language_level=3
"""The packet behind a shared transfer, delivered by whoever sees the transfer end."""
from libc.stdint cimport uint64_t

from pyrdv.fabrics.shm.channel cimport inbound_t, node_t, outbound_t, shm_job

# step.  Before the claim word `claim` of the job in `node.slot` is published: put the SEND
# behind `node` into the job's tail, if it is one that the consumer may take.
cdef void tail_arm(outbound_t *out, node_t *node, uint64_t claim) noexcept nogil
# step.  OK: the SEND behind `node` is the producer's to post.  LOST: the consumer has it.
# AGAIN: it is about to.
cdef int tail_back(outbound_t *out, node_t *node) noexcept nogil
# step.  The consumer has moved the last chunk of job `index`: take its tail, if there is one.
cdef void tail_take(inbound_t *into, int index, uint64_t claim) noexcept nogil
