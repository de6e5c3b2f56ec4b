"""The world of this process: from launch to finalize.

The only file that names concrete fabrics, those of `tools` apart.  What ranks agree on at start:

W1. One exchange of cards tells where everybody is.  From it alone every rank finds by the same
    rule whether verbs is needed, so either all ranks make the second exchange or none.
W2. Nothing of verbs is imported, and no device opened, unless it is needed.
W3. In the second exchange a rank that has no usable device says so instead of an address; then all
    ranks raise an error, and none waits for one that has given up.  The first of those without
    gives all reasons, which are long, and the others name it.
"""

import os
from time import monotonic

import pyrdv.api.interpreter  # noqa: F401 (first: it refuses subinterpreters)
from pyrdv import config as config_module, diagnosis
from pyrdv.collectives.intracomm import Intracomm
from pyrdv.engine import profiles
from pyrdv.engine.engine import Engine
from pyrdv.engine.lacking import complain_of_sends, say_last
from pyrdv.errors import ConfigError, LaunchError, ResourceError
from pyrdv.launch import asking, bootstrap, env, frames, places
from pyrdv.launch.ending import Ending, flush_output
from pyrdv.launch.failures import exit_status
from pyrdv.memory import limits
from pyrdv.memory.registration import Registrations
from pyrdv.progress.polling import LOOK_NS, wait_until

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
#: Knobs of kind ``choice`` that must be the same on all ranks.
SHARED_CHOICES = ("fabric", "connect", "speculation")


class Ways:
    """How this rank reaches the others: its fabrics, and which of them serves whom.

    Attributes
    ----------
    fabrics : list of Fabric
        Those that serve a peer, for the engine.
    routes : dict of int to int
        Index into `fabrics` of the peers that the first does not serve.
    neighbours : int
        Number of ranks that may run on the processors of this one, itself included.
    names : list of str
        Per rank ``self``, ``shm`` or ``verbs DEVICE``.
    """

    def __init__(self, launch, config, client):
        self.launch = launch
        self.config = config
        self.client = client
        self.fabrics = []
        self.routes = {}
        self.neighbours = 1
        self.names = ["self"]
        self._shm = self._verbs = None
        self._cards = []

    def open(self):
        """Open what is needed and agree with the other ranks.

        Raises
        ------
        ConfigError
            The ranks have different settings, or PYRDV_FABRIC forbids what they need.
        LaunchError
            Some rank has no usable device; the text says which, why, and what to do.
        """
        if self.config.fabric != "verbs":
            from pyrdv.fabrics.shm.fabric import ShmFabric

            self._shm = ShmFabric(self.launch.rank, self.launch.size, self.launch.secret,
                                  self.config.single_copy)
        self._meet()
        rank, place = self.launch.rank, self._cards[self.launch.rank].place
        by_shm = [self._shm is not None and card.place == place for card in self._cards]
        # On every rank alike (W1): a place differs from some other exactly if not all are equal.
        if not all(by_shm):
            self._open_verbs([not near and peer != rank for peer, near in enumerate(by_shm)])
        if self._shm is not None and sum(by_shm) > 1:
            self._shm.set_peers([card.shm if near else None
                                 for card, near in zip(self._cards, by_shm, strict=True)])
            self.fabrics.append(self._shm)
        elif self._shm is not None:
            self._shm.close()
        if self._verbs is not None:
            self.fabrics.append(self._verbs)
        other = f"verbs {self._verbs.device}" if self._verbs is not None else ""
        self.names = ["self" if peer == rank else "shm" if near else other
                      for peer, near in enumerate(by_shm)]
        self.routes = {peer: len(self.fabrics) - 1 for peer, near in enumerate(by_shm) if not near}

    def _meet(self):
        """Exchange cards; check what must be one value for the whole job."""
        config = self.config
        chosen = 0
        for name in SHARED_CHOICES:
            words = config_module.choices(name)
            chosen = chosen * len(words) + words.index(getattr(config, name))
        own = places.Card(config.unexpected_max, chosen, places.own_place(), self.launch.host,
                          self._shm.address if self._shm is not None else b"",
                          places.own_processors(), config.collectives)
        self._cards = [places.Card.unpack(answer) for answer in
                       self.client.exchange(own.pack(), config.timeout_start)]
        self.neighbours = sum(card.machine == own.machine and card.processors == own.processors
                              for card in self._cards)
        for rank, card in enumerate(self._cards):
            # Each end counts the other's eager credits, so both must reckon with one number.
            self._same("PYRDV_UNEXPECTED_MAX", config.unexpected_max, card.allowance, rank)
            # They would take different algorithms, and wait for each other in vain.
            self._same("PYRDV_COLLECTIVES", config.collectives or "empty",
                       card.collectives or "empty", rank)
            chosen = card.choices
            for name in reversed(SHARED_CHOICES):
                words = config_module.choices(name)
                chosen, choice = divmod(chosen, len(words))
                self._same(config_module.PREFIX + name.upper(), getattr(config, name),
                           words[choice], rank)

    def _same(self, variable, own, other, rank):
        if own != other:
            raise ConfigError(
                f"{variable} is {own} on rank {self.launch.rank} and {other} on rank {rank}; set "
                "it to one value for the whole job")

    def _open_verbs(self, far):
        """Open the device and exchange addresses (W3); `far` says which ranks it serves."""
        if self.config.fabric == "shm":
            raise ConfigError(
                f"PYRDV_FABRIC=shm, but not all ranks can share memory: "
                f"{places.describe(self._cards)}; unset it, so that RDMA verbs connects those that "
                "cannot, or start all ranks on one host as one user",
                variable="PYRDV_FABRIC", value="shm")
        from pyrdv.fabrics import verbs

        why = ""
        try:
            self._verbs = verbs.make(self.launch.rank, self.launch.size, self.launch.secret,
                                     self.config)
        except (OSError, ValueError) as error:
            # Alike on the ranks of one host, so that they are told once.
            why = getattr(error, "strerror", None) or str(error)
            why = why.replace(f" of rank {self.launch.rank}", "")
        answers = self.client.exchange(
            b"\0" + why.encode("utf-8", "replace")[:4000] if self._verbs is None
            else b"\1" + self._verbs.address, self.config.timeout_start)
        failed = {rank: frames.text_of(answer[1:])
                  for rank, answer in enumerate(answers) if answer[0] == 0}
        if failed:
            raise self._no_device(failed)
        self._verbs.set_peers([answer[1:] if served else None
                               for answer, served in zip(answers, far, strict=True)])

    def figures(self):
        """What messages over each fabric cost (PYRDV_PROFILE)."""
        return profiles.of_fabrics(self.config.profile, self.fabrics)

    def _no_device(self, failed):
        """The error of this rank when those in `failed` have no usable device, and why."""
        where = places.describe(self._cards)
        if self.config.fabric == "verbs":
            need = f"PYRDV_FABRIC=verbs, so every rank needs an RDMA device ({where})"
            remedy = "unset PYRDV_FABRIC to use shared memory within a host"
        else:
            need = f"not all ranks can share memory, so they need RDMA devices ({where})"
            remedy = "without a device, start all ranks on one host as one user"
        need += f", but {places.ranges(list(failed))} cannot use one"
        first = min(failed)
        if self.launch.rank != first:
            return LaunchError(f"{need}; the error of rank {first} says why")
        groups = {}
        for rank, why in failed.items():
            groups.setdefault(why, []).append(rank)
        told = "; ".join(f"{places.ranges(ranks)}: {why}"
                         for why, ranks in list(groups.items())[:3])
        more = f"; and {len(groups) - 3} other reasons" if len(groups) > 3 else ""
        return LaunchError(f"{need}. {told}{more}. `pyrdv doctor` on these hosts tells more; "
                           f"{remedy}")

    def connect(self, engine):
        """Connect to every peer now (PYRDV_CONNECT=start).

        Raises
        ------
        LaunchError
            Some connection did not come up in time; the text names the ranks.
        """
        timeout = self.config.timeout_start
        until = monotonic() + timeout
        if self._verbs is not None:
            try:
                self._verbs.connect_all(timeout)
            except OSError as error:
                raise LaunchError(f"rank {self.launch.rank} cannot connect to all ranks at start: "
                                  f"{error}; PYRDV_CONNECT=demand connects when needed") from None
        waiting = list(range(self.launch.size))

        def up():
            # One that has closed has been here, has nothing to say, and may be gone.
            waiting[:] = [peer for peer in waiting
                          if not engine.connect(peer) and engine.peer_states()[peer] != "closed"]
            lost = [peer for peer in waiting if engine.peer_states()[peer] == "lost"]
            if lost:
                raise LaunchError(f"{places.ranges(lost)} died while rank {self.launch.rank} "
                                  "connected to all ranks at start")
            return not waiting

        if not wait_until(engine, up, until - monotonic()):
            raise LaunchError(
                f"rank {self.launch.rank} is not connected to {places.ranges(waiting)} after "
                f"{timeout:g} s; raise PYRDV_TIMEOUT_START if they are only slow")

    def close(self):
        """Close every fabric that was opened; idempotent."""
        for fabric in (self._shm, self._verbs):
            if fabric is not None:
                fabric.close()


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
        ways = Ways(self.launch, config_module.Config(**(values | settings)), self.client)
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
            diagnosis.say_statistics(self.engines)
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
