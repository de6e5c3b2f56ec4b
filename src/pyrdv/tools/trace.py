"""``pyrdv trace FILE``: what a job's messages took, whose fault it was, and a picture of that."""

import heapq
import json
import os
import sys
from collections import defaultdict

from pyrdv import files, timeline
from pyrdv.tools import bench_report

# Characters of an entry.
_LINE_MAX = 1 << 16

EPILOG = """\
FILE is what `pyrdv run --trace FILE` has written. After another launcher there is a FILE.RANK of
each rank; then FILE is made of them first. Perfetto (https://ui.perfetto.dev) and chrome://tracing
show it.
"""


def add_arguments(parser):
    """Describe the options of ``pyrdv trace``."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE.png",
                        help="draw who waited for whom (needs matplotlib)")


def entries(path):
    """The entries of a trace, one by one, and at last what else it holds, under ``otherData``.

    A trace is larger than memory may be, so lines are read as `timeline.write` writes them.

    Raises
    ------
    files.FileError
        It is no trace.
    """
    try:
        with open(path, encoding="utf-8") as file:
            if file.readline(_LINE_MAX) != timeline.FIRST_LINE:
                raise files.FileError("it is no trace of pyrdv")
            while line := file.readline(_LINE_MAX):
                if line.startswith("]"):
                    yield _checked(json.loads("{" + line.lstrip("], ")))
                    return
                if line.strip():
                    yield json.loads(line.rstrip(",\n"))
    except OSError as error:
        raise files.FileError(error.strerror, read=False) from None
    except ValueError as error:
        raise files.FileError(f"it is no trace of pyrdv: {error}") from None
    raise files.FileError("its end is missing")


def _checked(last):
    other = last.get("otherData", {})
    if other.get("format") != timeline.FORMAT:
        raise files.FileError("it is no trace of pyrdv")
    if other.get("version") != timeline.VERSION:
        raise files.FileError(f"it is of another version than {timeline.VERSION}")
    return last


class Summary:
    """What is said of a trace.

    Parameters
    ----------
    entries : iterable of dict
        As of the function of that name.

    Attributes
    ----------
    other : dict
        ``otherData`` of the file.
    sums : dict of (str, str) to list
        (kind, protocol) -> [messages, bytes, us], of sends and receives apart.
    latest : list of (rank, facts)
        The receives that had to wait longest for their sender, or whose message waited longest.
    waits : dict of (int, int) to float
        Seconds that receives of the first rank waited for sends of the second.
    """

    def __init__(self, entries, count=10):
        self.other = {}
        self.sums = defaultdict(lambda: [0, 0, 0.0])
        self.waits = defaultdict(float)
        late = []
        for number, entry in enumerate(entries):
            if "otherData" in entry:
                self.other = entry["otherData"]
            elif entry["ph"] == "X" and entry["cat"] in ("send", "receive", "match"):
                self._bar(entry)
                args = entry["args"]
                if entry["cat"] != "send" and "late" in args:
                    keep = heapq.heappush if len(late) < count else heapq.heappushpop
                    keep(late, (args["late by, us"], -number, entry["pid"], args))
        self.latest = [(rank, args) for _, _, rank, args in sorted(late, reverse=True)]

    def _bar(self, entry):
        kind, args = entry["cat"], entry["args"]
        if kind != "match":         # an object is matched first, then received
            one = self.sums[kind, args.get("protocol") or "-"]
            one[0] += 1
            one[1] += args["nbytes"]
            one[2] += entry["dur"]
        if kind != "send" and args.get("late") == "sender":
            self.waits[entry["pid"], args["peer"]] += args["late by, us"] * 1e-6

    def matrix(self):
        """`waits` as a list of rows."""
        size = self.other["size"]
        return [[self.waits.get((rank, peer), 0.0) for peer in range(size)] for rank in range(size)]

    def lines(self):
        """The text for people."""
        other, size = self.other, self.other["size"]
        yield f"{size} ranks, {sum(one[0] for one in self.sums.values())} sends and receives"
        for rank, dropped in other["dropped"].items():
            yield f"rank {rank}: {dropped} slots of events were dropped"
        for word, ranks in (("is missing", set(range(size)) - set(other["ranks"])),
                            ("did not end in order", other["killed"])):
            for rank in sorted(ranks):
                yield f"rank {rank} {word}"
        yield ""
        yield f"{'':10}{'protocol':10}{'messages':>10}{'bytes':>16}{'time, ms':>12}"
        for (kind, protocol), (count, nbytes, us) in sorted(self.sums.items()):
            yield f"{kind:10}{protocol:10}{count:>10}{nbytes:>16}{us / 1e3:>12.3f}"
        yield ""
        yield "latest arrivals"
        for rank, args in self.latest:
            at = f", at {args['line']}" if args.get("line") else ""
            who = f"sender {args['peer']}" if args["late"] == "sender" else f"receiver {rank}"
            yield (f"  {args['late by, us'] / 1e3:10.3f} ms  {who} came late: rank {rank} from "
                   f"{args['peer']}, tag {args['tag']}, {args['nbytes']} bytes{at}")
        yield ""
        yield "waited for the sender, ms (row: the receiver, column: the sender)"
        for rank, row in enumerate(self.matrix()[:16]):
            yield f"  {rank:>4}" + "".join(f"{value * 1e3:>11.3f}" for value in row[:16])
        if size > 16:
            yield "  and more ranks: --plot shows all"


def draw(summary, path, plt):
    """Draw times per protocol and the matrix of waits into a PNG file."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), dpi=120, layout="constrained")
    sums = sorted(summary.sums.items())
    left.barh([f"{kind}, {protocol}" for (kind, protocol), _ in sums],
              [us / 1e3 for _, (_, _, us) in sums])
    left.set_xlabel("time of all messages, ms")
    image = right.imshow([[value * 1e3 for value in row] for row in summary.matrix()])
    right.set_xlabel("sender")
    right.set_ylabel("receiver")
    figure.colorbar(image, ax=right, label="receivers waited for senders, ms")
    bench_report.write_picture(path, figure)
    plt.close(figure)


def main(options):
    """Print the summary; returns the exit status."""
    path = options.file
    if not os.path.exists(path) and os.path.exists(timeline.path_of(path, 0)):
        size = 0
        while os.path.exists(timeline.path_of(path, size)):
            size += 1
        timeline.join(path, size, lambda text: print(f"pyrdv trace: {text}", file=sys.stderr))
    try:
        summary = Summary(entries(path))
    except (files.FileError, KeyError, TypeError) as error:
        why = error if isinstance(error, files.FileError) else "it is no trace of pyrdv"
        print(f"pyrdv trace: {path}: {why}", file=sys.stderr)
        return 1
    print("\n".join(summary.lines()))
    if options.plot:
        plt = bench_report.plotting()
        if plt is None:
            return 1
        draw(summary, options.plot, plt)
    return 0
