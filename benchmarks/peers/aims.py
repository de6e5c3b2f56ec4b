"""What is compared and what pyrdv aims at: one table, used by run.py."""

import dataclasses

KIB, MIB = 1 << 10, 1 << 20

#: name of a case -> (kind of loop, sizes in bytes)
CASES = {
    "latency": ("latency", (8, 1 * KIB, 64 * KIB, 1 * MIB)),
    "rate": ("rate", (8,)),
    "reused": ("reused", (64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB)),
    "fresh": ("fresh", (64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB)),
    "slots": ("slots", (64 * KIB, 1 * MIB)),
    "fresh-window": ("fresh-window", (64 * KIB, 1 * MIB)),
    "mapped": ("mapped", (64 * KIB, 1 * MIB)),
}

UNITS = {"latency": "us half round trip", "rate": "M msg/s, windows of 64"}
#: (case, size) -> (least or greatest ratio to the better peer, "at least" or "at most")
AIMS = {
    ("latency", 8): (0.6, "at most"),
    ("rate", 8): (2.0, "at least"),
    ("reused", 64 * KIB): (1.1, "at least"),
    ("reused", 1 * MIB): (1.1, "at least"),
    **{("fresh", size): (1.2, "at least") for size in CASES["fresh"][1]},
}
#: what is measured beside the cases
OTHERS = ("overlap", "start-up", "memory")
#: rows that are not ratios: key -> (title, greatest value for pyrdv or None)
ABSOLUTE = {
    "overlap": ("1 MiB sent, receiver works 50 ms; ms", 1.0),
    "two Python+NumPy": ("two Python+NumPy processes, ms", None),
    "start-up": ("start-up of 2 ranks beyond, ms", 150.0),
    "memory, 2 ranks": ("memory of 2 ranks beyond, MiB", 8.0),
    "memory, with launcher": ("  the same with launcher, MiB", None),
    "memory per peer": ("memory per further peer, KiB", 128.0),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table."""

    key: tuple

    @classmethod
    def all(cls, results):
        """Return the rows that `results` has figures for, in the order of the tables above."""
        wanted = [(name, size) for name, (_, sizes) in CASES.items() for size in sizes]
        wanted += [(name, 0) for name in ABSOLUTE]
        return [cls(key) for key in wanted if key in results.rounds]

    def row(self, results, libraries):
        """Return title, figures, ratio, aim and verdict as a dict."""
        figures = results.medians(self.key)
        if self.key[0] in ABSOLUTE:
            return self._absolute(results, figures)
        own = figures.get("pyrdv")
        peers = [value for name, value in figures.items() if name != "pyrdv"]
        lower = self.key[0] == "latency"
        ratio = own / (min(peers) if lower else max(peers)) if own and peers else None
        limit, sense = AIMS.get(self.key, (None, ""))
        aim = "" if limit is None else f"{'<=' if sense == 'at most' else '>='} {limit}x"
        met = ratio is not None and limit is not None and (
            ratio <= limit if sense == "at most" else ratio >= limit)
        return {
            "title": f"{self.key[0]} {_size(self.key[1])}, {UNITS.get(self.key[0], 'GB/s')}",
            "figures": figures, "ratio": ratio, "aim": aim, "verdict": _verdict(ratio, limit, met),
        }

    def _absolute(self, results, figures):
        name = self.key[0]
        title, limit = ABSOLUTE[name]
        if name == "start-up":
            base = results.medians(("two Python+NumPy", 0))
            figures = {stack: value - base[stack] for stack, value in figures.items()}
        own = figures.get("pyrdv")
        met = own is not None and limit is not None and own <= limit
        return {
            "title": title, "figures": figures, "ratio": None,
            "aim": "" if limit is None else f"<= {limit:g}", "verdict": _verdict(own, limit, met),
        }


def _verdict(value, limit, met):
    if value is None or limit is None:
        return ""
    return "met" if met else "MISSED"


def _size(size):
    if size >= MIB:
        return f"{size >> 20} MiB"
    return f"{size >> 10} KiB" if size >= KIB else f"{size} B"
