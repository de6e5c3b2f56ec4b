"""At the start of a job two ranks measure each device of which nothing is known.

S1. The plan follows from the cards of all ranks alone, so all find the same one, and make the same
    exchanges: none if nobody wants figures.
S2. Two ranks measure together whose devices differ: figures of a device with itself are none of a
    network. All pairs measure at once, each device once.
S3. Whatever fails costs its figures and nothing else. Both ranks of a pair are bounded in time by
    themselves: one that hears nothing of the other for a few seconds gives up.
S4. Figures are the same for all ranks on one device: one of them gives what it measured, or found
    in its file.
"""

import json
import warnings
from contextlib import ExitStack, suppress

from pyrdv.calibration import kept
from pyrdv.engine import profiles

#: Bytes of the messages that are measured; cost is linear beyond.
SIZES = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]
#: Seconds for each figure, of one turn of a loop at most, and until a silent rank is given up.
SECONDS = 0.015
TURN_MOST = 0.5
TIMEOUT = 5.0
#: How often it is measured, if the machine is busy and the figures contradict each other.
TRIES = 3
#: Memory that is registered at once, bytes: locked memory may be scarce.
REGISTERED = 1 << 20

NONE, WANTS, HAS = range(3)
CARD_BYTES = 1 + kept.DIGEST_BYTES
NO_CARD = bytes(CARD_BYTES)


class Calibration:
    """What a rank knows of its device.

    Parameters
    ----------
    rank : int
    settings : Config
    device : str
        Name and port.

    Attributes
    ----------
    figures : dict or None
        A profile.
    source : str
        Where they come from, in words.
    samples : int
        Samples that this rank took.
    """

    def __init__(self, rank, settings, device):
        self.rank = rank
        self.device = device
        self.figures, self.source, self.samples = None, "", 0
        self.card = NO_CARD
        self._identity = self._why = None
        if not settings.calibrate or settings.profile:
            return
        self._identity = kept.identity(device)
        if self._identity is None:
            return
        self.figures, self._why = kept.load(self._identity)
        if self.figures is not None:
            self.source = f"kept in {kept.path(self._identity)}"
        if settings.protocol != "auto":
            return              # nothing is chosen that would be worth a measurement
        self.card = bytes([WANTS if self.figures is None else HAS]) + kept.digest(self._identity)

    def run(self, cards, exchange, make):
        """Have measured what nobody knows; all ranks call it.

        Parameters
        ----------
        cards : sequence of bytes
            The `card` of each rank, or `NO_CARD`.
        exchange : callable
            Gives bytes to all ranks, and returns those of all.
        make : callable
            Makes a fabric of this rank for the measurement; OSError, ValueError.
        """
        givers, pairs = plan(cards)
        if not givers:
            return
        giver = givers.get(self.card[1:]) if self.card[0] != NONE else None
        if self._why and giver == self.rank:
            warnings.warn(f"figures that were kept are not used: {self._why}", stacklevel=2)
        # A fabric is closed when the other rank is through as well.
        with ExitStack() as fabrics:
            if pairs:
                self._measure(pairs, exchange, make, fabrics)
            mine = giver == self.rank and self.figures is not None
            answers = exchange(json.dumps(self.figures).encode() if mine else b"")
        if self.figures is None and giver is not None and answers[giver]:
            self._take(answers[giver], giver)

    def _measure(self, pairs, exchange, make, fabrics):
        """Measure, if this rank is in one of `pairs`; `fabrics` closes the fabric that it used."""
        other, active = None, False
        for pair in pairs:
            if self.rank in pair:
                active = self.rank == pair[0]
                other = pair[active]
        fabric = None
        if other is not None:
            with suppress(OSError, ValueError):
                fabric = make()
                fabrics.callback(fabric.close)
        addresses = exchange(fabric.address if fabric is not None else b"")
        if fabric is None or not addresses[other]:
            return
        found = None
        with suppress(OSError, ValueError):
            fabric.set_peers([address if rank == other else None
                              for rank, address in enumerate(addresses)])
            found, self.samples = measure(fabric, other, active)
        if found is not None and self.card[0] == WANTS:
            found["ends"] = [f"verbs {self.device}"]
            self.figures = found
            where = kept.keep(self._identity, found)
            self.source = "measured when this job started, " + (
                f"and kept in {where}" if where else "and not kept, for there is no place")

    def _take(self, answer, giver):
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            found = json.loads(answer)
            profiles.check(found)
            profiles.costs.check(found)
            self.figures = found
            self.source = f"of rank {giver}, which uses the same device"


def plan(cards):
    """Who measures, and who gives figures to the ranks of its device (S1, S2).

    Parameters
    ----------
    cards : sequence of bytes
        As `Calibration.card`, by rank.

    Returns
    -------
    givers : dict of bytes to int
        By the digest of each device of which some rank wants figures, the rank that gives them.
    pairs : list of tuple of int
        Ranks that measure together, each in one pair at most; the first of each is active.
    """
    known, first = {}, {}
    for rank, card in enumerate(cards):
        if card[0] == HAS:
            known.setdefault(card[1:], rank)
        elif card[0] == WANTS:
            first.setdefault(card[1:], rank)
    givers = {device: known.get(device, rank) for device, rank in first.items()}
    leaders = [rank for device, rank in first.items() if device not in known]
    pairs, taken = [], set()
    for leader in leaders:
        if leader in taken:
            continue
        others = [*leaders, *range(len(cards))]
        free = (rank for rank in others
                if rank not in taken and cards[rank][0] != NONE
                and cards[rank][1:] != cards[leader][1:])
        partner = next(free, None)
        if partner is not None:
            pairs.append((leader, partner))
            taken.update(pairs[-1])
    return givers, pairs


def measure(fabric, peer, active, seconds=SECONDS):
    """Figures of a fabric, as one of two ranks, which both call it.

    Parameters
    ----------
    fabric : Fabric
    peer : int
        Rank of the other one.
    active : bool
        Whether this one asks.
    seconds : float
        For each figure.

    Returns
    -------
    profile : dict or None
        Without its ``ends``; None: the figures contradict each other, or no memory can be
        registered, so that there is nothing to choose.
    samples : int
        Samples that were taken.

    Raises
    ------
    OSError, ValueError
        It cannot be measured.
    """
    from pyrdv.calibration import measuring
    from pyrdv.calibration.pair import Pair

    pair = Pair(fabric, peer, active, TIMEOUT)
    pair.meter.join()
    ruler = measuring.Ruler(pair.agree, seconds, TURN_MOST)
    alone = measuring.Ruler(measuring.alone, seconds, TURN_MOST)
    for _ in range(TRIES):
        found = measuring.network(pair, ruler, SIZES)
        found["copy"] = [[size, measuring.copy(alone, size)] for size in SIZES]
        found["registration"] = measuring.registrations(fabric, alone, SIZES, most=REGISTERED)
        wrong = measuring.falling(found) is not None
        if not wrong | pair.meter.swap(wrong)[0]:
            break
    found["eager_max"], found["packet_max"] = fabric.eager_max, fabric.packet_max
    samples = ruler.samples + alone.samples
    # What another process may lock is not known: what is refused here goes on in the same line.
    if wrong or not found["registration"]:
        return None, samples
    return {"schema": profiles.SCHEMA, **found}, samples
