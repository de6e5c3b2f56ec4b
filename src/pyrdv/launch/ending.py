"""How this rank ends, and what its launcher is told about that.

Nothing tells an exit handler what ends the program. `sys.last_value` does not: interactive
interpreters, debuggers and test runners set it for exceptions that they handled. And being called
does not tell an excepthook: they call it as well, and so do programs that only want a traceback
printed. Rules:

X1. An exception ends the program if the interpreter shows it when no code of the main module runs
    any more, and no interactive loop follows.
X2. Where another excepthook took our place and does not call ours, the exit handler judges by the
    traceback: its oldest frame is the main module's, and stopped where the exception left it.
X3. All else ends in good order: what was sent is delivered.
X4. The launcher learns of peers that an error named when the error is made, and of the end before
    anything is closed: others may learn of both only later (`failures`).
"""

import atexit
import os
import sys
import threading

from pyrdv.errors import PeerLostError
from pyrdv.launch.failures import Report

LAST_WORDS = 400

_INTERACTIVE = ("<stdin>", "<console>", "<python-input", "<ipython-input")


class Ending:
    """Watches the end of a process for its `world`; installs an exit handler and an excepthook.

    Parameters
    ----------
    world : World
        Has `launch`, `client`, `engine`, `pid`, `finalized`, ``tell()`` and the ways to end:
        ``abandon()``, ``finalize()``, ``abort(code, reason)``.
    """

    def __init__(self, world):
        self._world = world
        self._gone = set()
        self._value = None  # the exception that ends the program
        self._before = None
        world.engine.blamed = self.blamed
        atexit.register(self._at_exit)
        if world.launch.size > 1:
            self._before, sys.excepthook = sys.excepthook, self._hook

    def blamed(self, peer):
        """An error is made that names `peer` (a rank of the world; -1: all that are gone)."""
        new = ({peer} if peer >= 0 else self._states()) - self._gone
        if new:
            self._gone |= new
            self._report()

    def _states(self):
        return {rank for rank, state in enumerate(self._world.engine.peer_states())
                if state in ("closed", "lost")}

    def _report(self, ends=False):
        world = self._world
        if world.launch.size > 1 and os.getpid() == world.pid:
            if self._value is not None and not self._gone and names_lost_peer(self._value):
                self._gone = self._states()
            world.client.report(Report(self._gone, ends, self._value is not None).pack())

    def _hook(self, kind, value, trace):
        world = self._world
        ends = (not world.finalized and os.getpid() == world.pid
                and threading.current_thread() is threading.main_thread()
                and not main_module_runs() and not interactive(trace))
        if ends:
            self._value = value
            self._report(True)
        self._before(kind, value, trace)
        if not ends:
            return
        # The interpreter waits for threads before it runs exit handlers, and a thread that waits
        # for a message may wait for a rank that in turn waits for this one (field case L02).
        others = [thread for thread in threading.enumerate()
                  if not thread.daemon and thread is not threading.current_thread()]
        if others:
            world.abort(1, f"the main thread of rank {world.launch.rank} ended with "
                        f"{kind.__name__} while {len(others)} other threads went on")

    def _at_exit(self):
        world = self._world
        if world.finalized or os.getpid() != world.pid:
            return
        if self._value is None:
            self._value = self._unseen()
            self._report(True)
        # After an uncaught exception others may wait for this rank for ever, so it must not wait
        # for them.
        if self._value is not None:
            if names_lost_peer(self._value):
                world.tell()
            world.abandon(last_words(self._value))
        else:
            world.finalize()

    def _unseen(self):
        """The exception that ended the program while our excepthook was not called (X2)."""
        value, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
        replaced = self._before is None or sys.excepthook != self._hook
        if value is None or trace is None or not replaced or interactive(trace):
            return None
        frame = trace.tb_frame
        return value if _is_main(frame) and _stopped(frame, trace.tb_lasti) else None


def last_words(value):
    """What other ranks are told of the exception that ends this one: a line, not too long."""
    try:
        text = " ".join(f"{type(value).__name__}: {value}".split())
    except Exception:
        text = type(value).__name__
    return "it ended with " + (text if len(text) <= LAST_WORDS else f"{text[:LAST_WORDS - 3]}...")


def names_lost_peer(value):
    """Whether an exception is, or came of, a `PeerLostError`."""
    look, seen = [value], set()
    while look:
        value = look.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, PeerLostError):
            return True
        look += (value.__cause__, value.__context__)
        if isinstance(value, BaseExceptionGroup):
            look += value.exceptions
    return False


def interactive(trace):
    """Whether somebody at a prompt goes on after the exception with this traceback."""
    flags = sys.flags
    if flags.interactive:
        return True
    if flags.inspect or os.environ.get("PYTHONINSPECT"):
        try:
            return os.isatty(0)
        except OSError:
            return False
    if not hasattr(sys, "ps1"):
        return False
    return trace is None or trace.tb_frame.f_code.co_filename.startswith(_INTERACTIVE)


def main_module_runs():
    """Whether code of the main module, or what runs it, is below this call."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    return _is_main(frame)


def _is_main(frame):
    """Whether `frame` is that of the main module, or of ``python -m`` that executes it."""
    code = frame.f_code
    if code.co_name == "<module>":
        return frame.f_globals is vars(sys.modules.get("__main__", sys))
    return code.co_name == "_run_module_as_main"


def _stopped(frame, at):
    """Whether an exception that passed at instruction `at` left `frame`; else it went on there."""
    if frame.f_lasti == at:
        return True
    # A bare `raise`, and the end of `finally`, leave the traceback as it was.
    from opcode import opname

    number, argument = frame.f_code.co_code[frame.f_lasti:frame.f_lasti + 2]
    name = opname[number]
    return name == "RERAISE" or (name == "RAISE_VARARGS" and argument == 0)


def flush_output():
    """Write out what the program printed; never raises."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # None, closed, replaced, or nobody reads it
