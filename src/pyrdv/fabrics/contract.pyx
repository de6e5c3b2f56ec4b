# cython: language_level=3
"""The Python face that all fabrics share."""


cdef class Fabric:
    """One fabric of one rank.

    Concrete fabrics derive from it, fill ``handle`` in ``__cinit__`` and free
    it in ``__dealloc__``.
    """

    @property
    def rank(self):
        """World rank of this end."""
        return self.handle.rank

    @property
    def size(self):
        """Number of ranks in the job."""
        return self.handle.size

    @property
    def capabilities(self):
        """The capability flags of the contract, as an integer."""
        return self.handle.capabilities

    @property
    def wake_fd(self):
        """Descriptor that becomes readable while armed."""
        return self.handle.wake_fd

    @property
    def eager_max(self):
        """Payload in bytes up to which eager is the better protocol."""
        return self.handle.eager_max

    @property
    def packet_max(self):
        """Largest header and payload of one packet, bytes."""
        return self.handle.packet_max

    def failure_text(self, peer):
        """Why the connection to world rank `peer` ended, for people; empty if nothing is known."""
        return ""

    def last_words(self, text):
        """Tell the peers why this end ends, where that is possible; they show it to people."""

    def lack_text(self, peer, incoming=False):
        """What this process lacks for a connection to `peer`, or `incoming` from it, in words."""
        return f"rank {self.rank} has no connection to rank {peer}"

    def disconnect(self, peer):
        """Close the connection to `peer` in good order."""
        self.handle.ops.disconnect(self.handle, peer)

    def maintain(self):
        """Accept connections and notice deaths; number of events."""
        return self.handle.ops.maintain(self.handle)
