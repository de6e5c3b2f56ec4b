"""Whichever module of the engine comes first, the table of protocols is complete."""

import subprocess
import sys

from tests.house.reading import SRC

ENGINE = SRC / "pyrdv" / "engine"

#: Imports each module in a process of its own, before any other; prints what goes wrong.
PROGRAM = """
import importlib
import os
import sys

for name in sys.argv[1:]:
    if os.fork() == 0:
        try:
            importlib.import_module(name)
            from pyrdv.engine.engine import Engine
            from pyrdv.instruments.sim.network import Network

            network = Network(2)
            engines = [Engine(rank, 2, [network.fabric(rank)]) for rank in range(2)]
            for rank in range(2):
                engines[rank].connect(1 - rank)
            engines[0].finish()
            for _ in range(20):
                network.run_next()
                engines[1].turn()
            if engines[1].peer_states() != ["up", "self"]:
                print(name, "first: FINISH is refused", flush=True)
        except BaseException as error:
            print(name, "first:", error, flush=True)
        os._exit(0)
    os.wait()
"""


def test_any_module_may_be_imported_first():
    names = sorted("pyrdv." + ".".join(path.relative_to(SRC / "pyrdv").with_suffix("").parts)
                   for path in ENGINE.rglob("*.pyx"))
    assert len(names) > 30
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], text=True, timeout=120,
                          stdout=subprocess.PIPE, check=True)
    assert done.stdout == ""
