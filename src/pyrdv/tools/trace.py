"""``pyrdv trace FILE``: what a job's messages took, whose fault it was, and a picture of that."""

import os
import sys
from collections import defaultdict

from pyrdv import files, timeline
from pyrdv.tools import bench_report

_SIZE_MAX = 4 << 30

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


def load(path):
    """The content of a trace; FileError says what is wrong with it."""
    content = files.read_json(path, _SIZE_MAX)
    other = content.get("otherData") if isinstance(content, dict) else None
    if not isinstance(other, dict) or other.get("format") != timeline.FORMAT:
        raise files.FileError("it is no trace of pyrdv")
    if other.get("version") != timeline.VERSION:
        raise files.FileError(f"it is of another version than {timeline.VERSION}")
    return content


def bars(content):
    """What has a message, as (rank, kind, microseconds, facts).

    Kinds are ``send``, ``receive`` and ``match``: an object is matched first, then received.
    """
    return [(event["pid"], event["cat"], event["dur"], event["args"])
            for event in content["traceEvents"]
            if event["ph"] == "X" and event["cat"] in ("send", "receive", "match")]


def by_protocol(found):
    """Messages, bytes and time per protocol, of sends and receives apart.

    Returns
    -------
    dict of (str, str) to list
        (kind, protocol) -> [messages, bytes, us].
    """
    sums = defaultdict(lambda: [0, 0, 0.0])
    for _, kind, us, args in found:
        if kind == "match":
            continue
        one = sums[kind, args.get("protocol") or "-"]
        one[0] += 1
        one[1] += args["nbytes"]
        one[2] += us
    return dict(sums)


def latest(found, count=10):
    """The receives that had to wait longest for their sender, or whose message waited longest."""
    known = [bar for bar in found if bar[1] != "send" and "late" in bar[3]]
    return sorted(known, key=lambda bar: -bar[3]["late by, us"])[:count]


def waits(found, size):
    """Who waited for whom: seconds that receives of a row's rank waited for a column's send."""
    matrix = [[0.0] * size for _ in range(size)]
    for rank, kind, _, args in found:
        if kind != "send" and args.get("late") == "sender" and 0 <= args["peer"] < size:
            matrix[rank][args["peer"]] += args["late by, us"] * 1e-6
    return matrix


def summary(content):
    """The text for people, as lines."""
    found, other = bars(content), content["otherData"]
    size = other["size"]
    count = sum(kind != "match" for _, kind, _, _ in found)
    yield f"{size} ranks, {count} sends and receives"
    for rank, lost in other["lost"].items():
        yield f"rank {rank}: the first {lost} events are not here, for only the last are kept"
    absent = sorted(set(range(size)) - set(other["ranks"]))
    if absent:
        yield f"nothing is here of ranks {', '.join(map(str, absent))}"
    yield ""
    yield f"{'':10}{'protocol':10}{'messages':>10}{'bytes':>16}{'time, ms':>12}"
    for (kind, protocol), (count, nbytes, us) in sorted(by_protocol(found).items()):
        yield f"{kind:10}{protocol:10}{count:>10}{nbytes:>16}{us / 1e3:>12.3f}"
    yield ""
    yield "latest arrivals"
    for rank, _, _, args in latest(found):
        at = f", at {args['line']}" if args.get("line") else ""
        who = f"sender {args['peer']}" if args["late"] == "sender" else f"receiver {rank}"
        yield (f"  {args['late by, us'] / 1e3:10.3f} ms  {who} came late: rank {rank} from "
               f"{args['peer']}, tag {args['tag']}, {args['nbytes']} bytes{at}")
    yield ""
    yield "waited for the sender, ms (row: the receiver, column: the sender)"
    matrix = waits(found, size)
    for rank, row in enumerate(matrix[:16]):
        yield f"  {rank:>4}" + "".join(f"{value * 1e3:>11.3f}" for value in row[:16])
    if size > 16:
        yield "  and more ranks: --plot shows all"


def draw(content, path, plt):
    """Draw times per protocol and the matrix of waits into a PNG file."""
    found, size = bars(content), content["otherData"]["size"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), dpi=120, layout="constrained")
    sums = sorted(by_protocol(found).items())
    left.barh([f"{kind}, {protocol}" for (kind, protocol), _ in sums],
              [us / 1e3 for _, (_, _, us) in sums])
    left.set_xlabel("time of all messages, ms")
    image = right.imshow([[value * 1e3 for value in row] for row in waits(found, size)])
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
        content = load(path)
    except files.FileError as error:
        print(f"pyrdv trace: {path}: {error}", file=sys.stderr)
        return 1
    print("\n".join(summary(content)))
    if options.plot:
        plt = bench_report.plotting()
        if plt is None:
            return 1
        draw(content, options.plot, plt)
    return 0
