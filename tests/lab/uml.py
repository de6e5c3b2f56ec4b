"""The lab's default machine: a User-Mode Linux, the kernel as an ordinary program of the host."""

import json
import os
import sys
from pathlib import Path

from . import kernel, machine

JAIL = Path(__file__).resolve().parent / "jail.py"


def ensure(progress):
    """Build the kernel unless it is there."""
    machine.namespaces()
    kernel.ensure(progress)


def mappings():
    """How many mappings the host allows one process."""
    return int(Path("/proc/sys/vm/max_map_count").read_text())


def start(job, streams):
    """Start the guest of `job`; its first process is `guest/init.sh`."""
    memory = job.folder / "memory"
    memory.mkdir()
    machine.settings(job, LAB_STDOUT="/dev/ttyS0", LAB_STDERR="/dev/ttyS1",
                     LAB_TERMINAL="" if streams.terminal is None else "/dev/ttyS2")
    command = [
        str(kernel.path()), f"mem={job.memory}M", f"ncpus={job.cpus}", "seccomp=on",
        "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        f"init={job.folder}/guest/init.sh", f"LAB_JOB={job.folder}", f"uml_dir={memory}/", "quiet",
        "con=null", f"con0=null,fd:{streams.console}",
        "ssl=null", f"ssl0=null,fd:{streams.stdout}", f"ssl1=null,fd:{streams.stderr}",
    ]
    if streams.terminal is not None:
        command.append(f"ssl2=fd:{streams.terminal}")
    host = sorted(os.sched_getaffinity(0))
    order = {
        "job": str(job.folder), "memory": str(memory), "command": command,
        "memory_bytes": (job.memory + 64) << 20, "mappings": mappings(),
        "cpus": host[: job.cpus] if job.pinned else [],
        "descriptors": [streams.stdout, streams.stderr],
    }
    jail = [sys.executable, "-I", "-S", str(JAIL), json.dumps(order)]
    return machine.popen([*machine.namespaces(), *jail], streams)
