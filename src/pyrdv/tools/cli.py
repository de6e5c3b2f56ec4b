"""``pyrdv``: the command line. Each command imports what it needs only when it is called."""

import os
import sys

_USAGE_ERROR = 2

DESCRIPTION = """\
Messages between Python processes that move while the program computes.

commands:
  run      start a program on several processes
  bench    measure latency, bandwidth, message rate and the start over RDMA
  tune     measure what a message costs here, for the choice of protocols
  trace    summarize what `pyrdv run --trace FILE` has written, and draw it
  doctor   show devices and limits of this machine, what will be used, and what is wrong
  config   list the settings (environment variables PYRDV_*) with their present values

`pyrdv COMMAND --help` tells more about each."""

RUN_EPILOG = """\
PROGRAM is a Python file, a module (-m), Python code (-c), - (the program stands in the standard
input) or any executable. Rank 0 gets the standard input, the others /dev/null. Lines and
tracebacks are forwarded whole. Ranks are told of each other by variables PYRDV_*.

exit status:
  that of the rank that failed first and by itself (128 + s if signal s killed it); 130 after
  Ctrl-C, 143 after SIGTERM, 124 after --timeout, the low 8 bits of the code given to Abort (1 if
  these are 0); 127 if PROGRAM is not found, 126 if it cannot be executed, 2 for wrong options.

When one rank fails the others are told, then ended, but for --keep-going. Ctrl-C interrupts every
rank; a second one kills them. When the launcher itself is killed, the ranks are too.

The agent of --hosts must run the words behind it as its own process or a child, with the
environment it gets: nsenter, ip netns exec, chroot. ssh does not carry the environment.

examples:
  pyrdv run -n 4 solve.py --size 1000
  pyrdv run -n 2 --prefix -m package.module
  pyrdv run -n 4 --hosts node0,node1 --agent 'nsenter --net=/run/netns/{host}' \\
      --address 10.77.0.1 solve.py
"""


def main(argv=None):
    """Run the command line.

    Parameters
    ----------
    argv : list of str, optional
        Words behind ``pyrdv``; the default is those of this process.

    Returns
    -------
    int
        Exit status.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    command = words[0] if words else "--help"
    if command in ("-h", "--help", "help"):
        print("usage: pyrdv [--help] [--version] COMMAND ...\n\n" + DESCRIPTION)
        return 0 if words else _USAGE_ERROR
    if command in ("-V", "--version"):
        from pyrdv import __version__

        print(f"pyrdv {__version__}")
        return 0
    action = _COMMANDS.get(command)
    if action is None:
        print(f"pyrdv: there is no command {command!r}; commands are "
              f"{', '.join(_COMMANDS)} (see pyrdv --help)", file=sys.stderr)
        return _USAGE_ERROR
    try:
        status = action(words[1:])
        if sys.stdout is not None:      # it may have been closed when Python began
            sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads any more, as behind `| head`; the interpreter must not find that out again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _parser(command, **more):
    from argparse import ArgumentParser, RawDescriptionHelpFormatter

    return ArgumentParser(f"pyrdv {command}", formatter_class=RawDescriptionHelpFormatter,
                          allow_abbrev=False, **more)


def _run(words):
    from pyrdv.launch import command

    parser = _parser("run", usage="pyrdv run [options] [-m|-c] PROGRAM [args ...]",
                     description="Start a program on several processes.",
                     epilog=RUN_EPILOG)
    command.add_arguments(parser)
    before, program = command.split_command(words)
    options = parser.parse_args(before)
    if not program:
        parser.error("PROGRAM is missing: give a Python file, -m and a module, -c and code, "
                     "or an executable")
    return command.main(options, program[0], program[1:])


def _bench(words):
    from pyrdv.tools import bench

    parser = _parser("bench", description="Measure latency, bandwidth, message rate, the start "
                     "over RDMA, and what of large messages is hidden behind computation.")
    bench.add_arguments(parser)
    return bench.main(parser.parse_args(words), words) or 0


def _tune(words):
    from pyrdv.tools import tune

    parser = _parser("tune", description="Measure what a message costs between two ranks here and "
                     "write it to a profile.", epilog=tune.EPILOG)
    tune.add_arguments(parser)
    return tune.main(parser.parse_args(words), words)


def _doctor(words):
    from pyrdv.tools import doctor

    parser = _parser("doctor", description="Show what this machine offers, what pyrdv will use of "
                     "it and why, and what is wrong.", epilog=doctor.EPILOG)
    doctor.add_arguments(parser)
    return doctor.main(parser.parse_args(words))


def _trace(words):
    from pyrdv.tools import trace

    parser = _parser("trace", description="Summarize what `pyrdv run --trace FILE` has written.",
                     epilog=trace.EPILOG)
    trace.add_arguments(parser)
    return trace.main(parser.parse_args(words))


def _config(words):
    from pyrdv import config
    from pyrdv.errors import ConfigError

    _parser("config", description="List the settings: environment variables, their present "
            "values and meaning.").parse_args(words)
    try:
        config.load(os.environ, warn=lambda text: print(f"warning: {text}", file=sys.stderr))
        rows = list(config.table(os.environ))
    except ConfigError as error:
        print(f"pyrdv config: {error}", file=sys.stderr)
        return 1
    for variable, value, unit, source, text in rows:
        # A size is written with its letter, so its unit would only repeat it.
        shown = value if unit in ("", "bytes") else f"{value} {unit}"
        print(f"{variable}={shown}  ({source})")
        print(f"    {text}")
    return 0


_COMMANDS = {"run": _run, "bench": _bench, "tune": _tune, "doctor": _doctor, "trace": _trace,
             "config": _config}

if __name__ == "__main__":
    sys.exit(main())
