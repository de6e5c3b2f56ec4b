"""How a rank reaches the others, and what that costs.

The only file that names concrete fabrics, those of `tools` apart.  What ranks agree on at start:

W1. One exchange of cards tells where everybody is.  From it alone every rank finds by the same
    rule whether verbs is needed, so either all ranks make the second exchange or none.
W2. Nothing of verbs is imported, and no device opened, unless it is needed.
W3. In the second exchange a rank that has no usable device says so instead of an address; then all
    ranks raise an error, and none waits for one that has given up.  The first of those without
    gives all reasons, which are long, and the others name it.
W4. In it a rank also says what it knows of its device; whether devices are measured now follows
    from that alone (``calibration/starting``).
"""

from time import monotonic

from pyrdv import config as config_module
from pyrdv.engine import profiles
from pyrdv.errors import ConfigError, LaunchError
from pyrdv.launch import frames, places
from pyrdv.progress.waiting import wait_until

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
    calibration : Calibration or None
        What is known of the device; None: there is none.
    """

    def __init__(self, launch, config, client, calibration=None):
        self.launch = launch
        self.config = config
        self.client = client
        self.fabrics = []
        self.routes = {}
        self.neighbours = 1
        self.names = ["self"]
        self._shm = self._verbs = None
        self.calibration = calibration
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
        from pyrdv.calibration import starting

        why, card = "", starting.NO_CARD
        try:
            self._verbs = self._make()
        except (OSError, ValueError) as error:
            # Alike on the ranks of one host, so that they are told once.
            why = getattr(error, "strerror", None) or str(error)
            why = why.replace(f" of rank {self.launch.rank}", "")
        if self._verbs is not None and self.calibration is None:
            self.calibration = starting.Calibration(self.launch.rank, self.config,
                                                    self._verbs.device)
            card = self.calibration.card
        answers = self._exchange(
            b"\0" + why.encode("utf-8", "replace")[:4000] if self._verbs is None
            else b"\1" + card + self._verbs.address)
        failed = {rank: frames.text_of(answer[1:])
                  for rank, answer in enumerate(answers) if answer[0] == 0}
        if failed:
            raise self._no_device(failed)
        begin = 1 + starting.CARD_BYTES
        self._verbs.set_peers([answer[begin:] if served else None
                               for answer, served in zip(answers, far, strict=True)])
        self.calibration.run([answer[1:begin] for answer in answers], self._exchange, self._make)

    def _make(self):
        from pyrdv.fabrics import verbs

        return verbs.make(self.launch.rank, self.launch.size, self.launch.secret, self.config)

    def _exchange(self, value):
        return self.client.exchange(value, self.config.timeout_start)

    def figures(self):
        """What messages over each fabric cost, by PYRDV_PROFILE or as was measured."""
        measured = self.calibration.figures if self.calibration is not None else None
        return profiles.of_fabrics(self.config.profile, self.fabrics, measured)

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
