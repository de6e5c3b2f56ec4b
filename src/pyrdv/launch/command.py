"""The options of ``pyrdv run``."""

import os
import sys

from pyrdv import config, timeline
from pyrdv.errors import ConfigError, LaunchError
from pyrdv.launch import env as launch_env, hosts
from pyrdv.launch.descriptors import fill_standard
from pyrdv.launch.program import Program
from pyrdv.launch.run import Job


def add_arguments(parser):
    """Describe the options of ``pyrdv run`` (the program behind them is cut off before)."""
    parser.add_argument("-n", "-np", "--ranks", type=_count, metavar="N",
                        help="number of processes (default 1, or what --hosts makes of it)")
    parser.add_argument("-m", "--module", action="store_true",
                        help="PROGRAM is a Python module")
    parser.add_argument("-c", "--code", action="store_true",
                        help="PROGRAM is Python code")
    parser.add_argument("-l", "--prefix", action="store_true",
                        help="begin each line of output with [rank]")
    parser.add_argument("--timeout", type=_seconds, metavar="S",
                        help="end the job with status 124 after S seconds")
    parser.add_argument("--grace", type=_seconds, metavar="S", default=1.0,
                        help="when a rank fails, the others get SIGTERM S seconds later (1)")
    parser.add_argument("--kill-after", type=_seconds, metavar="S", default=3.0,
                        help="SIGKILL follows SIGTERM after S seconds (3)")
    parser.add_argument("--keep-going", action="store_true",
                        help="when a rank fails, let the others go on; the exit status still is "
                        "that of the rank that failed first")
    parser.add_argument("--wrapped", action="store_true",
                        help="PROGRAM, though Python, starts the rank as a child: the first "
                        "process below it that uses pyrdv is the rank")
    parser.add_argument("--env", action="append", type=_variable, metavar="NAME=VALUE", default=[],
                        help="set a variable for the ranks; may be repeated")
    parser.add_argument("--trace", metavar="FILE",
                        help="write what every rank did to FILE, for Perfetto, chrome://tracing "
                        "and `pyrdv trace` (PYRDV_TRACE)")
    parser.add_argument("--trace-lines", action="store_true",
                        help="set PYRDV_TRACE_LINES for the ranks: what they say of a job that "
                        "hangs names lines of the program")
    parser.add_argument("--stats", action="store_true",
                        help="have each rank say at its end what its messages took, and who made "
                        "progress (PYRDV_STATS)")
    parser.add_argument("--fabric", choices=config.choices("fabric"),
                        help="set PYRDV_FABRIC for the ranks")
    parser.add_argument("--hosts", type=_told(hosts.parse), metavar="A,B", default=[],
                        help="place the ranks on these hosts, in equal blocks; A:4,B:2 gives slots")
    parser.add_argument("--agent", type=_told(hosts.Agent), metavar="CMD",
                        help="put this command before that of each rank, with {host} and {rank} "
                        "replaced; it takes the rank to its host")
    parser.add_argument("--address", type=_told(_address), metavar="ADDR", default="127.0.0.1",
                        help="where the launcher listens, an address of this machine that every "
                        "rank can reach (default 127.0.0.1)")


# Options of `add_arguments` that take the next word.
VALUED = ("-n", "-np", "--ranks", "--timeout", "--grace", "--kill-after", "--env", "--fabric",
          "--hosts", "--agent", "--address", "--trace")


def split_command(words):
    """Cut the words behind ``pyrdv run`` into its options and the program with its arguments."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[:at], words[at + 1:]
        if word in ("-c", "--code"):
            return words[:at + 1], words[at + 1:]
        if not word.startswith("-") or word == "-":
            break
        at += 2 if word in VALUED else 1
    return words[:at], words[at:]


def _told(parse):
    """Turn a function that raises ValueError with a text for people into an option's type."""
    def type(text):
        try:
            return parse(text)
        except ValueError as error:
            from argparse import ArgumentTypeError

            raise ArgumentTypeError(str(error)) from None

    return type


def _address(text):
    host = text.strip("[]")
    if host in ("", "*", "0.0.0.0", "::"):
        raise ValueError(f"{text!r} is no address that a rank can connect to: give one address of "
                         "this machine")
    return host


def _count(text):
    if not text.isdecimal() or not 1 <= int(text) <= 65536:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is no number of processes: give 1 to 65536")
    return int(text)


def _seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def _variable(text):
    name, equals, value = text.partition("=")
    if not name or not equals:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    if name in launch_env.MARKED:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{name} is set by the launcher itself")
    return name, value


def main(options, program, args):
    """Run a job for the command line; returns the exit status."""
    fill_standard()
    # A bad PYRDV_* value is reported once, here, and not by every rank.
    extra = dict(options.env)
    if options.fabric:
        extra["PYRDV_FABRIC"] = options.fabric
    if options.trace:
        extra["PYRDV_TRACE"] = options.trace
    if options.trace_lines:
        extra["PYRDV_TRACE_LINES"] = "on"
    if options.stats:
        extra["PYRDV_STATS"] = "on"
    try:
        trace = config.load({**os.environ, **extra}, warn=_warn).trace
        hosts.check(options.hosts, options.agent)
        assigned = hosts.assign(options.hosts, options.ranks) if options.hosts else None
        size = len(assigned) if assigned else options.ranks or 1
        kind = "m" if options.module else "c" if options.code else ""
        if trace:
            # Ranks may change their folder.
            trace = extra["PYRDV_TRACE"] = os.path.abspath(trace)
            timeline.prepare(trace, size)
        job = Job(Program(program, args, kind, options.wrapped), size, options.prefix,
                  options.timeout, options.grace, options.kill_after, extra, options.address,
                  assigned, options.agent, options.keep_going)
        status = job.run()
        if trace:
            timeline.join(trace, size, _warn)
        return status
    except (LaunchError, ConfigError) as error:
        print(f"pyrdv run: {error}", file=sys.stderr)
        return getattr(error, "exit_status", 1)


def _warn(text):
    print(f"pyrdv run: {text}", file=sys.stderr)
