"""The options of ``pyrdv run``."""

import os
import sys

from pyrdv import config
from pyrdv.errors import ConfigError, LaunchError
from pyrdv.launch import env as launch_env
from pyrdv.launch.program import Program
from pyrdv.launch.run import Job


def add_arguments(parser):
    """Describe the options of ``pyrdv run`` (the program behind them is cut off before)."""
    parser.add_argument("-n", "--ranks", type=_count, metavar="N", default=1,
                        help="number of processes (default 1)")
    parser.add_argument("-m", "--module", action="store_true",
                        help="PROGRAM is a Python module")
    parser.add_argument("-l", "--prefix", action="store_true",
                        help="begin each line of output with [rank]")
    parser.add_argument("--timeout", type=_seconds, metavar="S",
                        help="end the job with status 124 after S seconds")
    parser.add_argument("--grace", type=_seconds, metavar="S", default=1.0,
                        help="when a rank fails, the others get SIGTERM S seconds later (1)")
    parser.add_argument("--kill-after", type=_seconds, metavar="S", default=3.0,
                        help="SIGKILL follows SIGTERM after S seconds (3)")
    parser.add_argument("--env", action="append", type=_variable, metavar="NAME=VALUE", default=[],
                        help="set a variable for the ranks; may be repeated")


# Options of `add_arguments` that take the next word.
VALUED = ("-n", "--ranks", "--timeout", "--grace", "--kill-after", "--env")


def split_command(words):
    """Cut the words behind ``pyrdv run`` into its options and the program with its arguments."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[:at], words[at + 1:]
        if not word.startswith("-") or word == "-":
            break
        at += 2 if word in VALUED else 1
    return words[:at], words[at:]


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
    # A bad PYRDV_* value is reported once, here, and not by every rank.
    try:
        config.load({**os.environ, **dict(options.env)}, warn=_warn)
        job = Job(Program(program, args, options.module), options.ranks, options.prefix,
                  options.timeout, options.grace, options.kill_after, options.env)
        return job.run()
    except (LaunchError, ConfigError) as error:
        print(f"pyrdv run: {error}", file=sys.stderr)
        return getattr(error, "exit_status", 1)


def _warn(text):
    print(f"pyrdv run: {text}", file=sys.stderr)
