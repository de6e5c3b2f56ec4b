"""Collective calls on objects, one at a time per communicator and kind.

Two threads of a process that make the same call on the same communicator take turns, so that the
messages of one call never mix with those of the other; in which order they come, the program must
see to itself on all members.
"""

import functools
import threading


def in_turn(method):
    """Have calls of `method` on one communicator wait for each other."""
    name = method.__name__

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        self.collective()        # refuses one that cannot be used
        locks = self.identity.locks
        lock = locks.get(name) or locks.setdefault(name, threading.Lock())
        with lock:
            return method(self, *args, **kwargs)

    return call
