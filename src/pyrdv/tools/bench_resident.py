"""Resident memory of a rank, by mode of progress; for ``pyrdv bench parasite``.

Each figure is that of a fresh process, so that nothing is hidden in what another mode has left: two
ranks on this host move a few large messages, whose receiver computes, and rank 1 looks at itself.
"""

import json
import os
import statistics
import subprocess
import sys

MESSAGES, NBYTES, UNITS = 30, 512 << 10, 400
LIMIT = 120


def measure(modes, device, rounds):
    """The rows of all modes, the first being what the others are compared with.

    Parameters
    ----------
    modes : list of str
        Of `bench_speculation.EVERY`.
    device : str
        How ranks reach each other: ``shm``, or ``verbs`` and the device.
    rounds : int
        Jobs of each mode.

    Raises
    ------
    RuntimeError
        A job failed.
    """
    found = {mode: [] for mode in modes}
    for _ in range(rounds):
        for mode in modes:
            found[mode].append(_job(mode, device))
    kib = {mode: statistics.median(one["resident"] for one in some)
           for mode, some in found.items()}
    return [{"mode": mode, "resident": round(kib[mode]), "of": modes[0],
             "beyond": round(kib[mode] - kib[modes[0]]), "samples": rounds,
             "threads": found[mode][0]["threads"]} for mode in modes]


def _job(mode, device):
    from pyrdv import config
    from pyrdv.tools import bench_speculation as speculation

    variables = {knob.name: knob.variable for knob in config.KNOBS}
    # What this process has of its own launch would be taken for the new job's.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYRDV_")}
    environ[variables["fabric"]] = device.split()[0]
    for name, value in speculation.settings(mode).items():
        environ[variables[name]] = str(int(value)) if isinstance(value, bool) else str(value)
    done = subprocess.run([sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "2", "-m",
                           "pyrdv.tools.bench_resident"], env=environ, capture_output=True,
                          text=True, timeout=LIMIT)
    if done.returncode:
        raise RuntimeError(f"a job that measures memory failed, status {done.returncode}:\n"
                           f"{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def main():
    """Be one rank of such a job; rank 1 prints."""
    import numpy as np

    from pyrdv import MPI

    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    buffer, values = np.zeros(NBYTES, np.uint8), np.full(2048, 1.5)
    for _ in range(MESSAGES):
        comm.Barrier()
        request = comm.Irecv(buffer, 0, 1) if rank else comm.Isend(buffer, 1, 1)
        for _ in range(UNITS if rank else 0):
            np.sqrt(values, values)
        request.Wait()
    if rank:
        with open("/proc/self/status", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file)
        print(json.dumps({"resident": int(facts["VmRSS"].split()[0]),
                          "threads": int(facts["Threads"])}), flush=True)


if __name__ == "__main__":
    main()
