"""What ``pyrdv bench first-touch`` and ``kernels`` share: ways to move large messages, in turns.

Each *way* has an engine and connections of its own (`World.beside`), so all see the same machine
in the same minutes.  Rendezvous is never speculative here: an offer would turn a read into a
write, and only some of the ways know that.
"""

import argparse

from pyrdv.tools import bench_counted as counting, bench_kernels, bench_report as report

#: Way -> its settings and what it is.
WAYS = {
    "get-off": ({"protocol": "get", "registration_cache": "off"},
                "read straight between the users' buffers, registered for each message"),
    "get-auto": ({"protocol": "get", "registration_cache": "auto"},
                 "the same; what other ranks may only read stays registered"),
    "get-trust": ({"protocol": "get", "registration_cache": "trust"},
                  "the same; all stays registered"),
    "placed": ({"protocol": "pipeline", "registration_cache": "auto"},
               "copied through registered buffers: written into standing ones where one holds the "
               "message, else by superpipeline"),
    "pipeline": ({"protocol": "pipeline", "registration_cache": "auto", "standing_peers": 0},
                 "by superpipeline at every size"),
    "auto": ({"protocol": "auto", "registration_cache": "auto"}, "what pyrdv chooses by itself"),
}
#: Protocols that the large messages of a way may take; of `auto` any.
NAMED = {"get-off": ("read",), "get-auto": ("read",), "get-trust": ("read",),
         "placed": ("placed", "pipeline"), "pipeline": ("pipeline",), "auto": ()}
SOURCE = ("Denis, A High-Performance Superpipeline Protocol for InfiniBand, 2011, section 5, "
          "ConnectX DDR")
#: Those that differ where nothing has to be registered.
UNREGISTERED = ("get-auto", "pipeline", "auto")
COUNTED = (*counting.COUNTED, "registration_hits", "registration_misses")


def epilog(names):
    """The ways `names` in words, for ``--help``."""
    return ("ways:\n" + "\n".join(f"  {name:<10} {WAYS[name][1]}" for name in names)
            + "\n\nAll are measured in turns within one job. PYRDV_FABRIC=verbs measures a device "
              "where\nthe ranks would share memory.")


def add_pinning(parser):
    """Give `parser` the option that binds ranks."""
    parser.add_argument("--pin", action=argparse.BooleanOptionalAction, default=True,
                        help="bind each rank to one CPU, in turn (default); else a rank that was "
                        "woken may share the CPU of the one that woke it for a while")


class Team:
    """The ranks of a benchmark, with a communicator per way; all ranks make it together.

    Parameters
    ----------
    names : iterable of str
        Ways; None for all of them that differ over this fabric.
    pin : bool
        Bind each rank to one CPU.

    Attributes
    ----------
    comms : dict of str to Intracomm
        By way.
    fabric : str
        How this rank reaches its neighbour: ``shm``, or ``verbs`` and the device.
    """

    def __init__(self, names, pin):
        from pyrdv import world

        self.world = world.init()
        comm = self.world.comm_world
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.fabric = comm.bcast(self.world.fabrics()[(self.rank + 1) % self.size], root=0)
        self.pinned = pin
        if pin:
            bench_kernels.pin(self.rank)
        if names is None:
            names = WAYS if self.fabric != "shm" else UNREGISTERED
        self.comms = {name: self.world.beside(**WAYS[name][0], speculation="off")
                      for name in names}

    def order(self, turn):
        """The ways in the order of a turn: each is the first now and then."""
        names = list(self.comms)
        first = turn % len(names)
        return names[first:] + names[:first]

    def counted(self, name):
        """What the engine of a way has counted on this rank."""
        counters = self.comms[name].engine.counters()
        return {key: counters[key] for key in COUNTED}

    def grown(self, name, before):
        """What all ranks together have counted of a way since each counted `before`."""
        now = self.counted(name)
        found = self.world.comm_world.allgather({key: now[key] - before[key] for key in now})
        return {key: sum(one[key] for one in found) for key in COUNTED}

    def close(self):
        """End the connections; all ranks call it."""
        for comm in self.comms.values():
            self.world.leave(comm)


def separate(rows):
    """The rows whose messages went as they are called, and the others, with the reason."""
    kept, refused = [], []
    for row in rows:
        why = counting.refusal(row["counted"], NAMED[row["way"]])
        if why is None:
            kept.append(row)
        else:
            refused.append(row | {"refused": why})
    return kept, refused


def misplaced(comm, wanted, benchmark):
    """Why a job of this size cannot measure, in words; None if it can."""
    if comm.Get_size() >= 2 and wanted in (None, comm.Get_size()):
        return None
    need = f"{wanted} ranks" if wanted else "at least 2 ranks"
    return (f"pyrdv bench: {benchmark} needs {need} and this job has {comm.Get_size()}; start it "
            f"with `pyrdv run -n {wanted or 2}`, or by itself")


def heading(benchmark, about, team, facts):
    """The lines above the table."""
    return (f"{benchmark}: {about}; {team.size} ranks over {team.fabric}"
            f"{', each on one CPU' if team.pinned else ''}\n"
            f"{report.facts_line(facts)}")


def signed(figure, facts):
    """Write under a picture what its figures depend on."""
    figure.text(1, 0, f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']} ",
                ha="right", va="top", fontsize=7, color="0.4")
