"""The rows of the comparison: what is started for each, and how its output is read.

A row turns a `Job` (two places and the points to measure) into figures: dicts with `size`, `value`
(the one that is compared) and, for latencies, `mean`.  Latencies are microseconds, half a round
trip but for ib_read_lat; bandwidths are MB/s of 10^6 bytes.
"""

import dataclasses
import json
import math
import shlex
import sys
from pathlib import Path

import jobs

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "programs" / "messages.py"
MARK = "@@result "
PERFTEST_PORT, UCX_PORT = 18515, 13337
#: Messages of UCX before its clock runs in bandwidth rows, as in programs/messages.py.
WARM = 4
#: perftest and UCX write MB for 2^20 bytes.
MIB_IN_MB = 1.048576


@dataclasses.dataclass(frozen=True)
class Place:
    """One side: a device, and how a program gets beside it.

    Parameters
    ----------
    device, netdev : str
        RDMA device and its network interface.
    address : str
        IP address of the device's port.
    gid : int
        Index of that address in the port's table.
    prefix : tuple of str
        Put before every command: nsenter, taskset.
    host : str
        Name of the node, empty if both places are one host.
    """

    device: str
    netdev: str
    address: str
    gid: int
    prefix: tuple = ()
    host: str = ""

    def command(self, words, env=None):
        """Return the command `words` so that it runs in this place with `env` added."""
        variables = [f"{name}={text}" for name, text in (env or {}).items()]
        return [*self.prefix, *(["env", *variables] if variables else []), *words]


@dataclasses.dataclass(frozen=True)
class Point:
    """One size: `trips` round trips, or `windows` windows of `window` messages."""

    size: int
    trips: int
    windows: int
    window: int


@dataclasses.dataclass(frozen=True)
class Job:
    """What a row runs on."""

    places: tuple
    iwarp: bool
    points: tuple
    plan: dict
    python: str = sys.executable
    mpi_python: str = ""


class Row:
    """One row: a program of the comparison on one kind of measurement.

    Attributes
    ----------
    name : str
    kind : {"latency", "bandwidth"}
    needs : tuple of str
        Programs that must be there.
    """

    needs = ()
    iwarp = True

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind

    def run(self, job, take):
        """Call `take(figure)` for each point as it is measured; raise `jobs.Failed`."""
        raise NotImplementedError


class Pair(Row):
    """A row whose program is a server and a client, started anew for each size."""

    port = 0
    #: A connection that does not come about, a frequency that cannot be measured: tried again.
    tries = 3

    def run(self, job, take):
        for point in job.points:
            take(self._point(job, point))

    def _point(self, job, point):
        for left in reversed(range(self.tries)):
            try:
                out = jobs.pair(*self.commands(job, point), self.port, job.plan["limit"])
                return self.parse(out, point.size)
            except jobs.Failed as error:
                if error.hung or not left:
                    raise

    def commands(self, job, point):
        """Return (command, environment) of the server and of the client."""
        raise NotImplementedError

    def parse(self, text, size):
        """Return the figure in the output of the client; raise `jobs.Failed`."""
        raise NotImplementedError


class Perftest(Pair):
    """A program of perftest, once per size."""

    needs = ("perftest",)
    port = PERFTEST_PORT

    def __init__(self, name):
        super().__init__(name, "latency" if name.endswith("lat") else "bandwidth")

    def commands(self, job, point):
        server, client = job.places[1], job.places[0]

        def words(place):
            count = point.trips if self.kind == "latency" else point.windows * point.window
            if self.kind == "latency":
                rest = ["-n", max(5, count)]
            else:
                rest = ["-n", max(5, count), "-t", point.window]
                # With fewer completions than messages, as it is up to 8 KiB, the warm-up hangs;
                # of large messages, a window of 64 takes longer than what is measured.
                rest += ["--perform_warm_up"] if 8192 < point.size <= 65536 else []
            way = ["-R"] if job.iwarp else ["-x", place.gid]
            return [self.name, "-F", "-d", place.device, *way, "-s", point.size, *rest]

        return ((server.command(words(server)), {}),
                (client.command([*words(client), server.address]), {}))

    def parse(self, text, size):
        head = next((line for line in text.splitlines() if "#bytes" in line), "")
        for line in text.splitlines():
            words = line.split()
            if len(words) > 4 and words[0] == str(size) and words[1].isdigit():
                found = self._figure(head, words, size)
                # It prints inf where it could not measure the frequency of its clock.
                if all(map(math.isfinite, found.values())) and found["value"] > 0:
                    return found
        raise jobs.Failed(f"no figures for {size} bytes", output=text)

    def _figure(self, head, words, size):
        if self.kind == "latency":
            names = head.split()
            if "t_typical[usec]" not in names or "t_avg[usec]" not in names:
                raise jobs.Failed(f"{self.name} has unknown columns: {head.strip()}")
            return {"size": size, "value": float(words[names.index("t_typical[usec]")]),
                    "mean": float(words[names.index("t_avg[usec]")])}
        if head.split()[2:6] != ["BW", "peak[MB/sec]", "BW", "average[MB/sec]"]:
            raise jobs.Failed(f"{self.name} has unknown columns: {head.strip()}")
        return {"size": size, "value": float(words[3]) * MIB_IN_MB}


class Ucx(Pair):
    """ucx_perftest, once per size."""

    needs = ("ucx",)
    port = UCX_PORT
    iwarp = False

    def __init__(self, transport, kind):
        super().__init__(f"ucx-{transport}-{kind}", kind)
        self.transport = transport

    def commands(self, job, point):
        if self.kind == "latency":
            rest = ["-t", "tag_lat", "-n", point.trips, "-w", max(2, point.trips // 10)]
        else:
            count = point.windows * point.window
            rest = ["-t", "tag_bw", "-n", count, "-w", WARM, "-O", point.window]
        server, client = job.places[1], job.places[0]
        base = ["ucx_perftest", "-p", self.port]
        return ((server.command(base), ucx_env(job.plan, self.transport, server)),
                (client.command([*base, server.address, "-s", point.size, *rest]),
                 ucx_env(job.plan, self.transport, client)))

    def parse(self, text, size):
        for line in text.splitlines():
            words = line.split()
            if words[:1] == ["Final:"] and len(words) >= 9:
                if self.kind == "latency":
                    return {"size": size, "value": float(words[2]), "mean": float(words[4])}
                return {"size": size, "value": float(words[6]) * MIB_IN_MB}
        raise jobs.Failed(f"no figures for {size} bytes", output=text)


class Messages(Row):
    """The Python program, all sizes in one job."""

    library = ""

    def run(self, job, take):
        limit = job.plan["limit"] * (1 + len(job.points))
        try:
            out = jobs.alone(*self.command(job), limit)
        except jobs.Failed as error:
            self._take(error.output, take)
            raise
        if not self._take(out, take):
            raise jobs.Failed("no figures", output=out)

    def command(self, job):
        """Return (command, environment) of the job."""
        raise NotImplementedError

    def program(self, job):
        """Return the words behind the interpreter."""
        points = [f"{p.size}:{p.trips}" if self.kind == "latency"
                  else f"{p.size}:{p.windows}:{p.window}" for p in job.points]
        return [str(PROGRAM), self.library, self.kind, ",".join(points)]

    def _take(self, text, take):
        figures = self.parse(text)
        for figure in figures:
            take(figure)
        return figures

    def parse(self, text):
        """Return the figures of all sizes that were measured."""
        parts = [line.partition(MARK)[2] for line in text.splitlines() if MARK in line]
        return [json.loads(part) for part in parts]


class Pyrdv(Messages):
    """pyrdv, through its public interface."""

    library = "pyrdv"

    def __init__(self, kind):
        super().__init__(f"pyrdv-{kind}", kind)

    def parse(self, text):
        figures = super().parse(text)
        for figure in figures:
            if not figure["reached"].startswith("verbs"):
                raise jobs.Failed(f"not measured on RDMA: rank 1 is reached by {figure['reached']}")
        return figures

    def command(self, job):
        """Return (command, environment); each rank is taken to its place by the agent."""
        cases = []
        for rank, place in enumerate(job.places):
            way = shlex.join(map(str, place.command([], {"PYRDV_RDMA_DEVICE": place.device})))
            cases.append(f'{rank}) exec {way} "$@";;')
        first, second = job.places
        hosts = ["--hosts", f"{first.host},{second.host}"] if first.host else []
        agent = ["sh", "-c", f"case $PYRDV_RANK in {' '.join(cases)} esac",
                 "{host}" if hosts else "agent"]
        words = [job.python, "-m", "pyrdv.tools.cli", "run", "-n", 2, *hosts, "--fabric", "verbs",
                 "--agent", shlex.join(agent), "--address", first.address]
        return [*words, job.python, *self.program(job)], {}


class OpenMpi(Messages):
    """mpi4py on Open MPI over UCX; both ranks are children of one mpirun."""

    library = "mpi4py"
    needs = ("openmpi",)
    iwarp = False

    def __init__(self, transport, kind):
        super().__init__(f"mpi4py-{transport}-{kind}", kind)
        self.transport = transport

    def command(self, job):
        """Return (command, environment) of mpirun with one context per rank."""
        contexts = []
        for place in job.places:
            words = [job.mpi_python, *self.program(job)]
            env = ucx_env(job.plan, self.transport, place)
            contexts += [":"] if contexts else []
            contexts += ["-n", "1", *place.command(words, env)]
        env = {
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "MPI4PY_MPIABI": "openmpi",
        }
        if job.places[0].host:
            # mpirun's server of ranks must be reached from the other network namespace.
            env |= {"PMIX_MCA_ptl_base_remote_connections": "1",
                    "PMIX_MCA_ptl_base_if_include": job.places[0].netdev}
        return [job.plan["openmpi"]["program"], *job.plan["openmpi"]["options"], *contexts], env


def ucx_env(plan, transport, place):
    """Return the variables that lead UCX to the device of `place`."""
    return {**plan["ucx"], "UCX_TLS": plan["transports"][transport],
            "UCX_NET_DEVICES": f"{place.device}:1"}


PERFTEST = ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_write_bw", "ib_read_bw")


def every():
    """Return all rows in the order in which they take their turns."""
    found = [Perftest(name) for name in PERFTEST]
    for kind in ("latency", "bandwidth"):
        found.append(Pyrdv(kind))
        for peer in (Ucx, OpenMpi):
            found += [peer(transport, kind) for transport in ("rc", "ud")]
    return found
