"""Jobs whose ranks reach each other over RDMA devices.

In the lab they lie on two nodes (network namespaces node0 and node1), each with a device of its
own; on a machine of a developer all ranks are on the one device that ``--fabric`` names, and tests
that take a node or its cable away cannot run.
"""

import json
import os
import shlex
import subprocess
import time
from pathlib import Path

from tests.support.jobs import Jobs, wait_until

NODES = (Path("/run/netns/node0"), Path("/run/netns/node1"))
# What a process may leave behind in the kernel.
KINDS = ("pd", "cq", "qp", "cm_id", "mr", "ctx")
UNPRIVILEGED = 4321


def two_nodes():
    """Whether this is the lab with two nodes."""
    return all(node.exists() for node in NODES)


def command(*words, node=None, check=True):
    """Run a command, in a node's network namespace if one is named; returns its output."""
    where = [] if node is None else ["nsenter", f"--net={NODES[node]}"]
    done = subprocess.run([*where, *map(str, words)], capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, words))}: status {done.returncode}\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def resources():
    """Objects of RDMA devices in this machine's kernel, a dict of (device, kind) to number."""
    return {(entry["ifname"], kind): entry.get(kind, 0)
            for entry in json.loads(command("rdma", "-j", "resource", "show")) for kind in KINDS}


class NodeJobs(Jobs):
    """Jobs on one or two nodes.

    Parameters
    ----------
    folder : path
        Programs run there.
    device : tests.conftest.Device
        The device of node 0; that of node 1 differs in its last digit.
    """

    def __init__(self, folder, device):
        super().__init__(folder)
        self.device = device
        self.kind = device.name.rstrip("0123456789")
        self.two = two_nodes()
        self.before = resources()
        self.broken = False

    def name(self, node):
        """Device of a node."""
        return f"{self.kind}{node}" if self.two else self.device.name

    def environment(self, **more):
        """All ranks use verbs, also within a node, unless a test says otherwise."""
        return super().environment(**{"PYRDV_FABRIC": "verbs", **more})

    def place(self, hosts="", chosen=True, first=""):
        """Options of ``pyrdv run``.

        Parameters
        ----------
        hosts : str
            As for ``--hosts``; empty for equal blocks.
        chosen : bool
            Whether each rank is told its device; else it has to find it.
        first : str
            Shell commands that each rank's process runs before its program, such as ``ulimit``.
        """
        if not self.two:
            return ["--env", f"PYRDV_RDMA_DEVICE={self.device.name}:{self.device.port}",
                    *(["--agent", self._agent("", first)] if first else [])]
        device = f"export PYRDV_RDMA_DEVICE={self.kind}${{0#node}}; " if chosen else ""
        return ["--hosts", hosts or "node0,node1", "--address", "10.77.0.1",
                "--agent", "nsenter --net=/run/netns/{host} " + self._agent(device, first)]

    def _agent(self, before, first):
        script = before + (f"{first}; " if first else "") + 'exec "$@"'
        return f"sh -c {shlex.quote(script)} {'{host}' if self.two else '-'}"

    def start(self, source, n, *options, hosts="", chosen=True, first="", **more):
        """As `Jobs.start`; see `place`."""
        return super().start(source, n, *self.place(hosts, chosen, first), *options, **more)

    def check_clean(self, limit=10.0):
        """Also no object of an RDMA device is left."""
        super().check_clean(limit)
        assert wait_until(lambda: not self.left(), limit), f"left in the kernel: {self.left()}"

    def left(self):
        """What there is now and was not at the start, of devices that are still there."""
        return {"/".join(key): (count, self.before.get(key, 0))
                for key, count in resources().items() if count != self.before.get(key, 0)}

    def read(self, name, limit=30.0):
        """Text of the file `name`, once a rank has written it."""
        self.wait_file(name, limit)
        return (self.folder / name).read_text()


class Cable:
    """The cable between the nodes, and their devices: cut, damaged, taken away, mended."""

    ENDS = ("v0", "v1")

    def __init__(self, kind):
        self.kind = kind

    @classmethod
    def prepare(cls):
        """Let both ends lose packets on demand; only while no job runs.

        What rxe sends in the moment in which an interface changes its queue is refused, and puts
        the sending queue pair, also the one of connections, into the error state for good.  So the
        queue is put in place once, and only its parameters change under traffic.
        """
        for node, end in enumerate(cls.ENDS):
            cls._lossy("replace", node, end, 0)

    @staticmethod
    def _lossy(how, node, end, percent):
        command("tc", "qdisc", how, "dev", end, "root", "netem", "loss", f"{percent}%",
                "limit", "20000", node=node)

    def cut(self):
        """The link goes down, as both ends see at once."""
        command("ip", "link", "set", self.ENDS[1], "down", node=1)

    def lose(self, percent):
        """Both ends lose this share of what they send."""
        for node, end in enumerate(self.ENDS):
            self._lossy("change", node, end, percent)

    @property
    def bound(self):
        """Peer timeouts within which a silence that is longer than one of them is noticed."""
        return 2.5 if self.kind == "siw" else 1.25

    @property
    def waits_for_users(self):
        """Whether a device is removed only when nobody uses it any more (siw)."""
        return self.kind == "siw"

    def remove(self, node):
        """Take a node's device away."""
        command("rdma", "link", "del", f"{self.kind}{node}", node=node)

    def set_mtu(self, size, nodes=(0, 1)):
        """The ends of these nodes carry packets of at most this size."""
        for node in nodes:
            command("ip", "link", "set", self.ENDS[node], "mtu", size, node=node)

    def plug(self):
        """The cable is whole again; the devices may not be."""
        self.set_mtu(4200)
        self.lose(0)
        for node, end in enumerate(self.ENDS):
            command("ip", "link", "set", end, "up", node=node)
            # A link that goes down loses its IPv6 addresses.
            command("ip", "addr", "replace", f"fd77::{node + 1}/64", "dev", end, "nodad", node=node)
            # What was asked for in vain is "no route to host" for a while.
            command("ip", "neigh", "flush", "dev", end, node=node)

    def mend(self):
        """Undo all of it; no job may run.  Does nothing where nothing is broken."""
        self.plug()
        for node, end in enumerate(self.ENDS):
            if self.stuck(node):
                self.remove(node)
            if not os.path.isdir(f"/sys/class/infiniband/{self.kind}{node}"):
                command("rdma", "link", "add", f"{self.kind}{node}", "type", self.kind, "netdev",
                        end, node=node)
        assert wait_until(self.whole, 10), command("rdma", "link")

    def stuck(self, node):
        """Whether a device cannot make connections any more.

        What rxe's own queue pair for connections cannot send, its link being down, puts that queue
        pair into the error state for good.
        """
        return any(entry["type"] == "GSI" and entry["state"] == "ERR"
                   for entry in json.loads(command("rdma", "-j", "resource", "show", "qp"))
                   if entry["ifname"] == f"{self.kind}{node}")

    def whole(self):
        """Whether the ports of both devices are active again."""
        return all(
            "ACTIVE" in Path(f"/sys/class/infiniband/{self.kind}{node}/ports/1/state").read_text()
            for node in range(2))


def now():
    """Seconds on the clock that all processes of a machine share."""
    return time.time()
