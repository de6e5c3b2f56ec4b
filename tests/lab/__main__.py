"""``python -m tests.lab``, which ``make lab`` calls: a shell or a command in the lab."""

import argparse
import shlex
import sys
from pathlib import Path

from . import machine, ranks

EXAMPLES = """\
examples:
  make lab                                          a shell; `rdma link` shows the devices
  make lab ARGS="-- ibv_devices"                    one command
  make lab ARGS="--device siw -- python -m pytest --fabric siw0"
  make lab ARGS="--ranks 4 --device siw -- examples/ring.py"
                                                    a job on both nodes, over their devices
  make lab ARGS="--rate 50mbit --delay 50us"        a shell beside a slow cable
  make lab ARGS="-- 'ib_write_lat -x 1 -d rxe0 & sleep 1;
                 nsenter --net=/run/netns/node1 ib_write_lat -x 1 -d rxe1 node0'"

The command runs on node 0 (10.77.0.1); `nsenter --net=/run/netns/node1 COMMAND` runs one on node 1
(10.77.0.2).  What it writes is gone afterwards, but for the files it leaves in $LAB_OUT, which are
copied to the folder given by --out.  One word after `--` is a line for sh, several are a command.
Exit status: the command's; 124 after the time limit, 125 if the guest failed, 126 without a lab.
docs/lab.md says more.
"""


def _assignment(word):
    name, equals, value = word.partition("=")
    if not name.isidentifier() or not equals:
        raise argparse.ArgumentTypeError(f"{word!r} is not NAME=VALUE")
    return name, value


def parser():
    """The command line."""
    made = argparse.ArgumentParser(
        prog="make lab ARGS='...'", usage="make lab [ARGS='[options] [-- command...]']",
        formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLES,
        description="A shell or a command in a virtual machine with real soft-RDMA devices "
        "(soft-RoCE and soft-iWARP) on two nodes.  Builds what is missing.",
    )
    add = made.add_argument
    add("--nodes", type=int, choices=(1, 2), default=2, help="network namespaces with devices (2)")
    add("--device", choices=(*machine.DEVICES, "both"), default="both", help="devices (both)")
    add("--ranks", type=int, metavar="N", help="the command is a Python program, and N ranks of it "
        "run on the nodes and over their devices of one kind (rxe unless --device says otherwise)")
    add("--rate", help="rate of the cable, as netem spells it: 50mbit")
    add("--delay", help="delay of the cable: 50us, '1ms 100us'")
    add("--loss", help="loss of the cable: 0.1%%")
    add("--pinned", action=argparse.BooleanOptionalAction, default=False,
        help="pin the guest's processors to the host's, and --ranks to the guest's; good only if "
        "any other command pins its processes too (taskset -c K)")
    add("--limit", type=float, metavar="S", help="end the guest after S seconds (command: 600; "
        "shell: none)")
    add("--memory", type=int, default=2048, metavar="MIB", help="memory of the guest (2048)")
    add("--cpus", type=int, metavar="N", help="processors of the guest (the host's, 2 to 8)")
    add("--machine", choices=machine.MACHINES, default="uml",
        help="uml: User-Mode Linux, boots in a second (default); qemu: a stock Debian kernel")
    add("--out", type=Path, metavar="DIR", help="where the files go that it leaves in $LAB_OUT")
    add("--env", action="append", default=[], type=_assignment, metavar="NAME=VALUE",
        help="a variable for it")
    add("--directory", type=Path, default=machine.ROOT, help="where it runs (the repository)")
    add("--keep-log", type=Path, metavar="FILE", help="write the guest's console log there")
    add("command", nargs="*", help="the command; none for a shell")
    return made


def main(arguments=None):
    """Run what the command line says; returns the exit status."""
    made = parser()
    asked = made.parse_args(arguments)
    command = asked.command
    devices = machine.DEVICES if asked.device == "both" else (asked.device,)
    if asked.ranks is not None:
        if asked.ranks < 1 or not command:
            made.error("--ranks N, at least 1, needs a program behind `--`")
        # The connection manager knows one device at an address.
        devices = devices[:1]
        words = shlex.split(command[0]) if len(command) == 1 else command
        command = ranks.job(words, asked.ranks, *devices, nodes=asked.nodes, pinned=asked.pinned)
    elif len(command) == 1:
        command = command[0]
    limit = asked.limit if asked.limit is not None else (600 if command else 0)
    try:
        result = machine.run(
            command or None, nodes=asked.nodes, devices=devices, rate=asked.rate,
            delay=asked.delay, loss=asked.loss, pinned=asked.pinned, limit=limit,
            memory=asked.memory, cpus=asked.cpus, machine=asked.machine, out=asked.out,
            directory=asked.directory, env=dict(asked.env),
            echo=True,
        )
    except machine.LabUnavailable as reason:
        print(f"lab: not available: {reason}", file=sys.stderr)
        return 126
    except KeyboardInterrupt:
        return 130
    if asked.keep_log:
        asked.keep_log.write_text(result.console)
    if result.reason:
        print(f"{result.console}\nlab: status {result.status} {result.reason}", file=sys.stderr)
    return result.status


if __name__ == "__main__":
    sys.exit(main())
