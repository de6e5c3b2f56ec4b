"""Measures all rows in turns, beside the devices: session.py ORDER FOLDER. Started by run.py.

ORDER is JSON (see `Order`).  What is found goes to FOLDER/figures, a line of JSON each and at once,
so that a session that is cut off leaves all that it had; progress goes to standard output.
"""

import dataclasses
import json
import os
import platform
import signal
import sys
import time
from pathlib import Path

import jobs
import rows
import versions

SYSFS = Path("/sys/class/infiniband")


@dataclasses.dataclass(frozen=True)
class Order:
    """What to measure.

    Parameters
    ----------
    fabrics : list of dict
        Each with `name`, `type` (what makes its devices; None if they are not ours), `iwarp`
        (None: look) and `sides`: two dicts of `device`, `netdev` and `host` (empty: this host).
    rows : list of str
        Names of rows in the order of their turns.
    points : dict
        Kind of row -> list of the arguments of `rows.Point`.
    rounds : int
    plan : dict
        plan.toml.
    pin : bool
    mpi_python : str
    """

    fabrics: list
    rows: list
    points: dict
    rounds: int
    plan: dict
    pin: bool
    mpi_python: str


class Log:
    """Writes what is found to a file and tells a person about it."""

    def __init__(self, path):
        self.file = path.open("w", encoding="utf-8")

    def add(self, **found):
        self.file.write(json.dumps(found) + "\n")
        self.file.flush()


def places(sides, pin):
    """Return the two places of a fabric."""
    processors = sorted(os.sched_getaffinity(0))
    found = []
    for number, side in enumerate(sides):
        prefix = []
        if pin and len(processors) > 1:
            prefix += ["taskset", "-c", str(processors[number])]
        prefix += _enter(side)
        device = side["device"]
        netdev, address = interface(device, prefix)
        found.append(rows.Place(device, netdev, address, gid_index(device, address), tuple(prefix),
                                side["host"]))
    return tuple(found)


def _enter(side):
    return ["nsenter", f"--net=/run/netns/{side['host']}"] if side["host"] else []


def interface(device, prefix):
    """Return (network interface, IPv4 address) of port 1 of a device, seen from behind `prefix`."""
    links = _asked([*prefix, "rdma", "-j", "link", "show", f"{device}/1"])
    netdev = next((link["netdev"] for link in links if "netdev" in link), None)
    if netdev is None:
        raise jobs.Failed(f"RDMA device {device} has no network interface at its port 1; the "
                          "comparison needs RoCE or iWARP, with an IPv4 address")
    for found in _asked([*prefix, "ip", "-j", "-4", "address", "show", "dev", netdev]):
        for address in found.get("addr_info", ()):
            return netdev, address["local"]
    raise jobs.Failed(f"network interface {netdev} of RDMA device {device} has no IPv4 address")


def _asked(command):
    return json.loads(jobs.alone(command, {}, 10).strip() or "[]")


def gid_index(device, address):
    """Return the index of an IPv4 address in the GIDs of port 1, or 0 if they do not hold it.

    perftest wants it for RoCE; the GIDs of an iWARP device say nothing of addresses.
    """
    wanted = [f"{int(byte):02x}" for byte in address.split(".")]
    text = "0000:" * 5 + f"ffff:{''.join(wanted[:2])}:{''.join(wanted[2:])}"
    folder = SYSFS / device / "ports" / "1" / "gids"
    # A port may list an address twice, for both versions of RoCE; the later one is version 2.
    return max((int(entry.name) for entry in folder.iterdir() if _first_line(entry) == text),
               default=0)


def _first_line(path):
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def is_iwarp(device):
    """Tell whether a device speaks iWARP."""
    try:
        return (SYSFS / device / "node_type").read_text().startswith("4")
    except OSError:
        there = sorted(os.listdir(SYSFS)) if SYSFS.is_dir() else []
        raise jobs.Failed(f"there is no RDMA device {device!r} here; there are: "
                          f"{', '.join(there) or 'none'}") from None


def alone_on(fabric):
    """Make the devices of a fabric the only ones, in the lab, where they are ours to make.

    Of two devices at one interface the connection manager sees the first only, so `-R` of perftest
    would measure RoCE for iWARP.
    """
    wanted = {side["device"] for side in fabric["sides"]}
    there = set(os.listdir(SYSFS))
    for device in sorted(there - wanted):
        jobs.alone(["rdma", "link", "delete", device], {}, 10)
    for side in fabric["sides"]:
        if side["device"] not in there:
            jobs.alone([*_enter(side), "rdma", "link", "add", side["device"], "type",
                        fabric["type"], "netdev", side["netdev"]], {}, 10)


def run(order, log):
    """Measure one fabric after the other, each round by round, in its share of the time."""
    wanted = [row for row in rows.every() if row.name in order.rows]
    for fabric in order.fabrics:
        if fabric["iwarp"] is None:
            fabric["iwarp"] = is_iwarp(fabric["sides"][0]["device"])
    fitting = {
        fabric["name"]: [row for row in wanted if row.iwarp or not fabric["iwarp"]]
        for fabric in order.fabrics}
    total = sum(map(len, fitting.values()))
    for fabric in order.fabrics:
        found = fitting[fabric["name"]]
        budget = order.plan["budget"] * len(found) / max(total, 1)
        try:
            if fabric.get("type"):
                alone_on(fabric)
            measure(order, fabric, found, budget, log)
        except jobs.Failed as error:
            # A fabric that cannot be set up does not take the others with it.
            log.add(row="", fabric=fabric["name"], failure=str(error), output=error.output)
            print(f"{fabric['name']}: {error}\n{error.output}", flush=True)


def measure(order, fabric, wanted, budget, log):
    """Give every row its turn, round by round, until all is done or the time is up."""
    end = time.monotonic() + budget
    sides = places(fabric["sides"], order.pin)
    points = {kind: tuple(rows.Point(*p) for p in found) for kind, found in order.points.items()}
    name, given_up = fabric["name"], set()
    begin, took = time.monotonic(), 0.0
    for number in range(1, order.rounds + 1):
        if begin + took > end:
            print(f"{name}: round {number} would go beyond its {budget:.0f} s", flush=True)
            log.add(cut=number, fabric=name)
            return
        for row in wanted:
            if row.name in given_up:
                continue
            if time.monotonic() > end:
                print(f"{name}: its {budget:.0f} s are over in round {number}", flush=True)
                log.add(cut=number, fabric=name)
                return
            job = rows.Job(sides, fabric["iwarp"], points[row.kind], order.plan,
                           mpi_python=order.mpi_python)
            print(f"{name}, round {number} of {order.rounds}, {row.name:<20}", end=" ", flush=True)
            if turn(row, job, log, fabric=name, round=number):
                given_up.add(row.name)
        # A round that is cut off leaves rows with unlike numbers of turns: better not begin it.
        begin, took = time.monotonic(), time.monotonic() - begin


def turn(row, job, log, **where):
    """Give a row its turn; True if it hung, which forfeits the turns to come."""
    begin = time.monotonic()
    seen = []

    def take(figure):
        seen.append(figure)
        log.add(row=row.name, **where, **figure)

    failure = None
    try:
        row.run(job, take)
    except jobs.Failed as error:
        failure = error
        log.add(row=row.name, **where, failure=str(error), output=error.output)
    parts = [f"{figure['value']:.4g}" for figure in seen]
    unit = "us" if row.kind == "latency" else "MB/s"
    print(f"{' '.join(parts)} {unit}  ({time.monotonic() - begin:.1f} s)", flush=True)
    if failure is not None:
        print(f"  FAILED: {failure}\n{failure.output}".rstrip(), flush=True)
    return failure is not None and failure.hung


def main():
    order = Order(**json.loads(sys.argv[1]))
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    log = Log(folder / "figures")
    try:
        jobs.adopt()
        log.add(versions={**versions.found(order.mpi_python), "kernel": platform.release()})
        run(order, log)
    except jobs.Failed as error:
        log.add(row="", failure=str(error))
        print(f"bench-rdma: {error}", file=sys.stderr)
        return 1
    finally:
        jobs.end_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
