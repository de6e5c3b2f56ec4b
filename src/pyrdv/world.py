"""The world of this process: from launch to finalize.

The only file that names concrete fabrics and progress modes.
"""

import atexit
import os
import sys
import threading

import pyrdv.api.interpreter  # noqa: F401 (first: it refuses subinterpreters)
from pyrdv import config
from pyrdv.collectives.intracomm import Intracomm
from pyrdv.engine.engine import Engine
from pyrdv.errors import ConfigError, LaunchError
from pyrdv.launch import bootstrap, env
from pyrdv.progress.polling import wait_until

#: Time a waiter polls before it yields, when every rank has a processor of its own.
SPIN_NS = 30_000


class World:
    """The ranks of one job, as seen by one of them.

    Attributes
    ----------
    engine : Engine
    comm_world, comm_self : Intracomm
    """

    def __init__(self):
        self.launch = env.detect()
        # The launcher has warned about unknown variables once, for all ranks.
        self.config = config.load(os.environ,
                                  (lambda text: None) if self.launch.size > 1 else None)
        env.line_buffer_output(self.launch)
        self.client = bootstrap.Client.connect(self.launch, self.config.timeout_start)
        fabrics = []
        try:
            spin_ns = self._spin()
            if self.launch.size > 1:
                fabrics.append(self._open_shm())
            self.engine = Engine(
                self.launch.rank, self.launch.size, fabrics, eager_max=self.config.eager_max,
                unexpected_max=self.config.unexpected_max, spin_ns=spin_ns)
        except BaseException:
            for fabric in fabrics:
                fabric.close()
            self.client.close()
            raise
        if self.client.fileno() >= 0:
            self.engine.watch(self.client.fileno(), self._notice)
        self.engine.abort = self.abort
        self.comm_world = Intracomm.world(self.engine)
        self.comm_self = Intracomm.alone(self.engine)
        self._notice()
        self.pid = os.getpid()
        os.register_at_fork(after_in_child=self.engine.forked)
        self.finalized = False

    def _open_shm(self):
        from pyrdv.fabrics.shm.fabric import ShmFabric

        fabric = ShmFabric(self.launch.rank, self.launch.size, self.launch.secret,
                           self.config.single_copy)
        allowance = self.config.unexpected_max
        answers = self.client.exchange(allowance.to_bytes(8, "little") + fabric.address,
                                       self.config.timeout_start)
        # Each end counts the other's eager credits, so both must reckon with one number.
        for rank, answer in enumerate(answers):
            other = int.from_bytes(answer[:8], "little")
            if other != allowance:
                fabric.close()
                raise ConfigError(
                    f"PYRDV_UNEXPECTED_MAX is {allowance} on rank {self.launch.rank} and {other} "
                    f"on rank {rank}; set it to one value for the whole job")
        fabric.set_peers([answer[8:] for answer in answers])
        return fabric

    def _spin(self):
        """How long a waiter polls, ns: not at all if ranks must share processors."""
        if self.config.spin >= 0:
            return self.config.spin * 1000
        return SPIN_NS if self.launch.size <= len(os.sched_getaffinity(0)) else 0

    def _notice(self):
        """What the launcher tells about other ranks."""
        for rank, kind, text in self.client.notices():
            if kind == "launcher":
                raise LaunchError(text)
            self.engine.peer_gone(rank, kind == "left")

    def finalize(self):
        """End the world in good order; calling it again does nothing.

        Receives that were not matched are withdrawn.  Sends are waited for
        until they are received, or can never be: that is reported in a line.
        """
        if self.finalized or os.getpid() != self.pid:
            return
        self.finalized = True
        engine = self.engine
        engine.cancel_receives()
        wait_until(engine, engine.handed_over)
        wait_until(engine, engine.finish)
        never = []
        wait_until(engine, lambda: self._all_received(never))
        for peer, tag, nbytes in never + engine.never_received():
            print(f"pyrdv: rank {engine.rank}: a send of {nbytes} bytes with tag {tag} to rank "
                  f"{peer} was never received", file=sys.stderr)
        self._close(0)

    def _all_received(self, never):
        """Whether no announced send can still be received; collects those that never will."""
        never[:] = self.engine.unreceived()
        return all(peer == self.engine.rank for peer, _, _ in never)

    def abandon(self):
        """End the world without waiting for anybody, after an error."""
        if not self.finalized and os.getpid() == self.pid:
            self.finalized = True
            self._close(1)

    def _close(self, status):
        if self.client.fileno() >= 0:
            self.engine.unwatch(self.client.fileno())
        if status == 0:
            self.engine.disconnect()
        self.engine.close()
        self.client.leave(status)
        self.client.close()

    def abort(self, code, reason=""):
        """End the whole job with exit status `code`."""
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self.client.abort(code, reason or f"rank {self.launch.rank} called Abort({code})")
        finally:
            os._exit(code & 0xFF or 1)


_world = None


def init():
    """The world of this process; made on first use."""
    global _world
    if _world is None:
        _world = World()
        atexit.register(_at_exit)
        if _world.launch.size > 1:
            sys.excepthook = _reporting(sys.excepthook)
    return _world


def _reporting(before):
    """An excepthook that ends the job if a thread would keep this rank from ending.

    The interpreter waits for threads before it runs exit handlers, and a thread that waits for
    a message may wait for a rank that in turn waits for this one (field case L02).
    """
    def hook(kind, value, trace):
        before(kind, value, trace)
        if _world.finalized or os.getpid() != _world.pid or hasattr(sys, "ps1"):
            return
        others = [thread for thread in threading.enumerate()
                  if not thread.daemon and thread is not threading.current_thread()]
        if others:
            _world.abort(1, f"the main thread of rank {_world.launch.rank} ended with "
                         f"{kind.__name__} while {len(others)} other threads went on")

    return hook


def _at_exit():
    # After an uncaught exception others may wait for this rank for ever, so it must not wait
    # for them.  The interpreter notes the exception before it runs exit handlers.
    if getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1"):
        _world.abandon()
    else:
        _world.finalize()
