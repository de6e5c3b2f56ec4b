"""From figures to the table, the verdicts on the aims, and the picture."""

import statistics

from pyrdv.tools import bench_report as report

#: Kind of measurement -> its rows in the order of the columns: name -> (title, is it a peer).
COLUMNS = {
    "latency": {
        "ib_send_lat": ("send_lat", False), "ib_write_lat": ("write_lat", False),
        "ib_read_lat": ("read_lat*", False),
        "ucx-rc-latency": ("UCX rc", True), "ucx-ud-latency": ("UCX ud", True),
        "mpi4py-rc-latency": ("mpi4py rc", True), "mpi4py-ud-latency": ("mpi4py ud", True),
        "pyrdv-latency": ("pyrdv", False),
    },
    "bandwidth": {
        "ib_write_bw": ("write_bw", False), "ib_read_bw": ("read_bw", False),
        "ucx-rc-bandwidth": ("UCX rc", True), "ucx-ud-bandwidth": ("UCX ud", True),
        "mpi4py-rc-bandwidth": ("mpi4py rc", True), "mpi4py-ud-bandwidth": ("mpi4py ud", True),
        "pyrdv-bandwidth": ("pyrdv", False),
    },
}
HEADS = {"latency": "half round trip, us (median)", "bandwidth": "bandwidth, MB/s"}
#: From this size on the bandwidth has an aim.
LARGE = 64 << 10


class Figures:
    """Medians over the rounds of what a session wrote.

    Parameters
    ----------
    lines : iterable of dict
        The objects in the session's file.
    """

    def __init__(self, lines):
        self.rounds = {}
        self.failures = []
        self.versions = {}
        self.cut = []
        for line in lines:
            if "failure" in line:
                self.failures.append(line)
            elif "versions" in line:
                self.versions = line["versions"]
            elif "cut" in line:
                self.cut.append((line["fabric"], line["cut"]))
            else:
                key = (line["fabric"], line["row"], line["size"])
                self.rounds.setdefault(key, []).append(line)

    def get(self, fabric, row, size, what="value"):
        """Return the median over the rounds, or None."""
        values = [one[what] for one in self.rounds.get((fabric, row, size), ()) if what in one]
        return statistics.median(values) if values else None

    def fabrics(self):
        """Return the names of fabrics in the order of their first figures."""
        return list(dict.fromkeys(fabric for fabric, _, _ in self.rounds))

    def sizes(self, fabric, kind):
        """Return the sizes of a fabric for which a row of this kind has a figure."""
        return sorted({size for name, row, size in self.rounds
                       if name == fabric and row in COLUMNS[kind]})

    def peer(self, fabric, kind, size):
        """Return the best figure of UCX and mpi4py, or None."""
        values = [self.get(fabric, row, size)
                  for row, (_, peer) in COLUMNS[kind].items() if peer]
        values = [value for value in values if value is not None]
        return (min if kind == "latency" else max)(values) if values else None


def ratio(one, other):
    """Return one / other, or None if one of them is missing."""
    return one / other if one is not None and other else None


def section(figures, fabric, kind):
    """Return the lines of one table: a line per size, a column per row, ratios of pyrdv behind."""
    sizes = figures.sizes(fabric, kind)
    shown = [row for row in COLUMNS[kind]
             if any(figures.get(fabric, row, size) is not None for size in sizes)]
    bases = [row for row in shown if row in ("ib_send_lat", "ib_write_bw", "ib_read_bw")]
    heads = [COLUMNS[kind][row][0] for row in shown]
    own = f"pyrdv-{kind}"
    ends = [f"/{COLUMNS[kind][row][0]}" for row in bases] + ["/peer"] if own in shown else []
    lines = [f"{fabric}: {HEADS[kind]}",
             f"{'':>10}" + "".join(f"{head:>11}" for head in heads + ends)]
    for size in sizes:
        found = [figures.get(fabric, row, size) for row in shown]
        cells = [_number(value) for value in found]
        if ends:
            mine = figures.get(fabric, own, size)
            others = [figures.get(fabric, row, size) for row in bases]
            others.append(figures.peer(fabric, kind, size))
            cells += [_times(ratio(mine, other)) for other in others]
        lines.append(f"{report.size_text(size):>10}" + "".join(f"{cell:>11}" for cell in cells))
    return lines


def _number(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _times(value):
    return "-" if value is None else f"{value:.2f}x"


def verdicts(figures, fabric, aims):
    """Return one dict per aim of a fabric; `met` is None where it was not measured."""
    found = []

    def judge(what, value, limit, sense):
        met = None if value is None else value <= limit if sense == "<=" else value >= limit
        found.append({"what": what, "ratio": value, "aim": f"{sense} {limit:g}x", "met": met})

    if "latency" in aims:
        judge("8 B half round trip to ib_send_lat",
              _to(figures, fabric, "latency", 8, "ib_send_lat"), aims["latency"], "<=")
    if aims.get("ahead"):
        for size in figures.sizes(fabric, "latency"):
            mine = figures.get(fabric, "pyrdv-latency", size)
            judge(f"{report.size_text(size)} half round trip to the better of UCX and mpi4py",
                  ratio(mine, figures.peer(fabric, "latency", size)), 1.0, "<=")
    base = aims.get("bandwidth_of", "ib_read_bw")
    for size in figures.sizes(fabric, "bandwidth"):
        if size >= LARGE and "bandwidth" in aims:
            judge(f"{report.size_text(size)} bandwidth to {base}",
                  _to(figures, fabric, "bandwidth", size, base), aims["bandwidth"], ">=")
    return found


def _to(figures, fabric, kind, size, base):
    return ratio(figures.get(fabric, f"pyrdv-{kind}", size), figures.get(fabric, base, size))


def verdict_lines(found):
    """Return the verdicts as lines for a person."""
    words = {True: "met", False: "NOT MET", None: "not measured"}
    return [f"  {one['what']:<62}{_times(one['ratio']):>8}  aim {one['aim']:<9} {words[one['met']]}"
            for one in found]


NOTES = (
    "Medians over the rounds. Latency: the median of single round trips, halved; *ib_read_lat is",
    "not halved: one read is one round trip. Bandwidth: all bytes over all time, 10^6 bytes a",
    "second; windows of 64 messages up to 256 KiB and of 16 above (perftest -t, UCX -O: as many",
    "in flight), one buffer on each side. /peer: to the best of UCX and mpi4py.",
    "siw: a send or write is complete when TCP has taken it, so write_bw is the sender's view.",
)


def records(figures):
    """Return the figures as rows for the JSON file."""
    found = []
    for (fabric, row, size), rounds in sorted(figures.rounds.items()):
        record = {"fabric": fabric, "row": row, "size": size,
                  "unit": "us" if row in COLUMNS["latency"] else "MB/s",
                  "median": figures.get(fabric, row, size),
                  "rounds": [one["value"] for one in rounds]}
        mean = figures.get(fabric, row, size, "mean")
        found.append(record if mean is None else {**record, "mean": mean})
    return found


def plot(path, figures, facts, plt):
    """Draw latency and bandwidth of every fabric into the PNG file `path`."""
    fabrics = figures.fabrics()
    picture, grid = plt.subplots(len(fabrics), 2, figsize=(12, 4.5 * len(fabrics)), dpi=110,
                                 squeeze=False, layout="constrained")
    for line, fabric in zip(grid, fabrics, strict=True):
        for axes, kind in zip(line, COLUMNS, strict=True):
            _panel(axes, figures, fabric, kind)
    picture.text(1, 0, f"{facts['cpu']}, Linux {facts['kernel']}, pyrdv {facts['pyrdv']} "
                 f"{(facts['commit'] or '')[:12]} ", ha="right", va="top", fontsize=7, color="0.4")
    picture.savefig(path, bbox_inches="tight", format="png")
    plt.close(picture)


def _panel(axes, figures, fabric, kind):
    sizes = figures.sizes(fabric, kind)
    for row, (title, peer) in COLUMNS[kind].items():
        points = [(size, figures.get(fabric, row, size)) for size in sizes]
        points = [point for point in points if point[1] is not None]
        if points:
            style = "--" if peer else "-" if row.startswith("pyrdv") else ":"
            width = 2.5 if row.startswith("pyrdv") else 1.2
            axes.plot(*zip(*points, strict=True), style, linewidth=width, marker="o", markersize=3,
                      label=title)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [report.size_text(size) for size in sizes], rotation=45, ha="right")
    if kind == "latency":
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(f"{fabric}: {HEADS[kind]}")
    axes.grid(True, alpha=0.4)
    if sizes:
        axes.legend(fontsize=8)
