"""The world of this process: from launch to finalize."""

import os

import pyrdv.api.interpreter  # noqa: F401 (first: it refuses subinterpreters)
from pyrdv import config as config_module, diagnosis
from pyrdv.collectives.intracomm import Intracomm
from pyrdv.engine.engine import Engine
from pyrdv.engine.lacking import complain_of_sends, say_last
from pyrdv.errors import LaunchError, ResourceError
from pyrdv.launch import asking, bootstrap, env
from pyrdv.launch.ending import Ending, flush_output
from pyrdv.launch.failures import exit_status
from pyrdv.memory import limits
from pyrdv.memory.registration import Registrations
from pyrdv.progress.waiting import LOOK_NS, wait_until
from pyrdv.ways import Ways

#: Time a waiter polls before it yields, when every rank has a processor of its own.
SPIN_NS = 30_000
#: The same where some peer is reached over a network: about two round trips of small messages.
SPIN_NETWORK_NS = 50_000
#: Time it yields before it sleeps.
YIELD_NS = 50_000
#: The same with a network, whose answers take longer, and whose sleep and wake-up cost more.
YIELD_NETWORK_NS = 1_000_000
#: Memory that the pool of registered arrays takes at a time, bytes, where the limits allow it.
ARENA = 32 << 20


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
        self.config = config_module.load(
            os.environ, (lambda text: None) if self.launch.size > 1 else None)
        env.line_buffer_output(self.launch)
        self.client = self._join()
        self.engines = []
        ways = Ways(self.launch, self.config, self.client)
        trace = diagnosis.record(self.config.trace, self.launch.rank, self.launch.size,
                                 self.launch.host)
        try:
            self.engine = self._engine(ways, trace)
            self._profile("begin")
        except BaseException:
            ways.close()
            self.client.close()
            raise
        self._names = ways.names
        self.calibration = ways.calibration
        self.comm_world = Intracomm.of(self.engine)
        self.comm_self = Intracomm.of(self.engine, [self.engine.rank], 1, "MPI_COMM_SELF")
        self._notice()
        self.pid = os.getpid()
        self.finalized = False
        self._memory = None
        self._ending = Ending(self)
        asking.listen(self)

    def _engine(self, ways, trace=-1):
        """A new engine over `ways`, which takes note of what happens to other ranks."""
        config = ways.config
        if self.launch.size > 1:
            ways.open()
        engine = Engine(
            self.launch.rank, self.launch.size, ways.fabrics, eager_max=config.eager_max,
            unexpected_max=config.unexpected_max, spin_ns=_spin(ways),
            yield_ns=YIELD_NETWORK_NS if ways.routes else YIELD_NS, routes=ways.routes,
            speculation=_speculation(ways), adapt=config.speculation_threshold,
            initial_turn=config.initial_turn, protocol=config.protocol,
            arrival=config.pipeline_arrival, lane_bytes=config.pipeline_buffer & ~4095,
            standing=config.standing_peers, look_ns=LOOK_NS,
            figures=ways.figures(), trace=trace,
            trace_most=config.trace_bytes, debug=config.debug,
            registrations=Registrations(
                config.registration_cache, config.registration_bytes or limits.default_bytes(),
                config.registration_entries))
        self.engines.append(engine)
        if self.client.fileno() >= 0:
            engine.watch(self.client.fileno(), self._notice)
        if config.connect == "start":
            ways.connect(engine)
        self._progress(engine, config, bool(ways.routes))
        engine.preferred = config_module.ways(config.collectives) or None
        engine.abort = self.abort
        engine.note_lines(config.trace_lines)
        engine.neighbours = [rank for rank, name in enumerate(ways.names)
                             if name in ("self", "shm")]
        os.register_at_fork(before=engine.fork, after_in_child=engine.forked)
        return engine

    @staticmethod
    def _progress(engine, config, rdma):
        how = config_module.between_calls(config.progress, rdma)
        if how == "parasite":
            from pyrdv.progress.parasite import Parasite

            Parasite(engine, config.parasite_phase, config.parasite_period, config.parasite_decay,
                     config.parasite_turn_limit, config.parasite_share,
                     trigger=config.parasite_trigger).begin(engine)
        elif how == "thread":
            from pyrdv.progress.thread import Thread

            Thread(engine).begin(engine)

    def beside(self, **settings):
        """A communicator of the same ranks over connections and an engine of its own.

        All ranks call it in the same order.  It is for measurements that compare settings in turns
        within one job; whoever has made it hands it to `leave` in the end.

        Parameters
        ----------
        **settings
            Knobs of `config` by their attribute names, instead of this world's.

        Returns
        -------
        Intracomm

        Raises
        ------
        ConfigError, LaunchError
            As when a job starts.
        """
        values = {knob.name: getattr(self.config, knob.name) for knob in config_module.KNOBS}
        ways = Ways(self.launch, config_module.Config(**(values | settings)), self.client,
                    self.calibration)
        try:
            engine = self._engine(ways)
        except BaseException:
            ways.close()
            raise
        return Intracomm.of(engine)

    def leave(self, comm):
        """End what `beside` made, in good order: all ranks call it, and nothing is under way."""
        engine = comm.engine
        wait_until(engine, engine.handed_over)
        wait_until(engine, engine.finish)
        self.engines.remove(engine)
        if self.client.fileno() >= 0:
            engine.unwatch(self.client.fileno())
        engine.disconnect()
        engine.close()

    def _join(self):
        """The connection to who started this rank."""
        timeout = self.config.timeout_start
        if self.launch.how == "PMI":
            from pyrdv.launch import pmi

            return pmi.Client.connect(self.launch, timeout)
        if self.launch.how == "torchrun":
            from pyrdv.launch import meeting

            return meeting.connect(self.launch, timeout)
        return bootstrap.Client.connect(self.launch, timeout)

    def fabrics(self):
        """How each rank is reached: a dict of rank to ``self``, ``shm`` or ``verbs DEVICE``."""
        return dict(enumerate(self._names))

    def memory(self):
        """The pool for arrays in registered memory; made on first use."""
        if self._memory is None:
            # Most programs need none.
            from pyrdv.memory.allocator import Pool, RegisteredMemory

            # An arena that cannot be registered is none.
            pool = Pool(self.config.pool_bytes or limits.share(),
                        min(ARENA, limits.default_bytes() // 4))
            if not self.finalized and os.getpid() == self.pid:
                pool.attach(self.engine.registrations, self.engine)
            self._memory = RegisteredMemory(pool)
        return self._memory

    def _profile(self, what):
        """Static adaptation: `begin` or `end` of ``pyrdv.engine.speculation.saved``."""
        if self.config.speculation_record or self.config.speculation_profile:
            from pyrdv.engine.speculation import saved

            getattr(saved, what)(self.engine, self.config)

    def _notice(self):
        """What the launcher tells about other ranks."""
        for rank, kind, text in self.client.notices():
            if kind == "launcher":
                raise LaunchError(text)
            if kind == "report":
                self.tell()
                continue
            for engine in self.engines:
                engine.peer_gone(rank, kind == "left", text)

    def tell(self):
        """Write to standard error what this rank waits for, and what it did last."""
        diagnosis.say(self.engines)

    def finalize(self):
        """End the world in good order; calling it again does nothing.

        Receives that were not matched are withdrawn.  Sends are waited for
        until they are received, or can never be: that is reported in a line.

        Raises
        ------
        ResourceError
            A send cannot leave, for this process lacks what its connection needs.  The world has
            ended, and the others are told why.
        """
        if self.finalized or os.getpid() != self.pid:
            return
        self.finalized = True
        engine = self.engine
        # Whoever has sent half an object gets rid of the other half.
        half = set(engine.matched)
        wait_until(engine, lambda: not half & engine.matched)
        engine.cancel_receives()
        self._hand_over(engine)
        self._profile("end")
        never = []
        # Who is heard of for the first time meanwhile is told, too.
        wait_until(engine, lambda: engine.finish() & self._all_received(never))
        diagnosis.say_unreceived(engine, never + engine.never_received())
        if self.config.stats:
            diagnosis.say_statistics(self.engines, self.calibration)
        self._close(0)

    def _hand_over(self, engine):
        try:
            wait_until(engine, engine.handed_over, lacking=complain_of_sends)
        except ResourceError as error:
            self.finalized = False
            self.abandon(str(error))
            raise

    def _all_received(self, never):
        """Whether no announced send can still be received; collects those that never will."""
        never[:] = self.engine.unreceived()
        return all(peer == self.engine.rank for peer, _, _ in never)

    def abandon(self, why=""):
        """End the world without waiting for anybody, after an error; `why` is for the others."""
        if not self.finalized and os.getpid() == self.pid:
            self.finalized = True
            # A process manager may end this process as soon as it knows.
            flush_output()
            for engine in self.engines:
                say_last(engine, why)
            self._close(1, why)

    def _close(self, status, why=""):
        if self.client.fileno() >= 0:
            self.engine.unwatch(self.client.fileno())
        if status == 0:
            self.engine.disconnect()
        for engine in self.engines:
            engine.close()
        if self._memory is not None:
            self._memory.pool.attach(None)
        self.client.leave(status, why)
        self.client.close()

    def abort(self, code, reason=""):
        """End the whole job with exit status `code`."""
        status = exit_status(code)
        flush_output()
        try:
            self.client.abort(code, reason or f"rank {self.launch.rank} called Abort({code})")
        finally:
            os._exit(status)


def _spin(ways):
    """How long a waiter polls, ns: not at all if ranks must share processors."""
    if ways.config.spin >= 0:
        return ways.config.spin * 1000
    if ways.neighbours > len(os.sched_getaffinity(0)):
        return 0
    return SPIN_NETWORK_NS if ways.routes else SPIN_NS


def _speculation(ways):
    """The policy of the whole job."""
    return "indexed" if ways.config.speculation == "auto" else ways.config.speculation


_world = None


def init():
    """The world of this process; made on first use."""
    global _world
    if _world is None:
        _world = World()
    return _world
