# cython: language_level=3
"""Faults that a test puts into the simulated network.

A loss is noticed by each side on its own: until then posts are accepted and lead
nowhere, as with a real network.  `flush` decides what happens to packets that
the lost side had posted: they still arrive before the loss is seen (a process
that died after its adapter took them), or they are gone.
"""
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from pyrdv.fabrics.contract cimport FABRIC_AGAIN, FABRIC_OK
from pyrdv.instruments.sim.core cimport sim_between, sim_channel, sim_net, sim_packet


cdef void lose(sim_net *net, uint32_t src, uint32_t dst, bint flush) noexcept nogil:
    """From now on `dst` may notice that `src` is gone."""
    cdef sim_channel *ch = sim_between(net, src, dst)
    if not ch.connected or ch.loss:
        return
    ch.loss = 1
    if not flush:
        ch.posted = ch.delivered


cdef void fault_kill(sim_net *net, uint32_t rank, bint flush) noexcept nogil:
    """`rank` stops in the middle of whatever it was doing."""
    cdef uint32_t peer
    net.ranks[rank].dead = 1
    for peer in range(net.size):
        if peer != rank:
            lose(net, rank, peer, flush)


cdef void fault_drop(sim_net *net, uint32_t a, uint32_t b, bint flush) noexcept nogil:
    """The connection between two live ranks breaks."""
    lose(net, a, b, flush)
    lose(net, b, a, flush)


cdef int fault_inject(sim_net *net, uint32_t src, uint32_t dst, const char *data,
                      uint32_t length) noexcept nogil:
    """A packet that `src` never posted, as a hostile peer would send it (R8)."""
    cdef sim_channel *ch = sim_between(net, src, dst)
    cdef uint64_t index = ch.posted % net.slots
    cdef sim_packet *packet = &ch.packets[index]
    if not ch.connected or ch.posted - ch.released == net.slots:
        return FABRIC_AGAIN
    memcpy(packet.data, data, length)
    ch.chain += 1
    ch.order += 1
    packet.length = length
    packet.fenced = packet.behind = 0
    packet.discarded = 0
    packet.chain = ch.chain
    packet.order = ch.order
    packet.time = ch.last
    ch.posted += 1
    return FABRIC_OK
