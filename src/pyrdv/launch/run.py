"""``pyrdv run``: start the ranks of a job from this machine and see them through to their end.

One thread, one event loop. Invariants:

L1. Every rank leads a process group of its own, so a signal is delivered to it exactly once, by
    the launcher: a terminal's Ctrl-C reaches only the launcher, which passes it on.
L2. An ended rank stays a zombie until the job is over. Its process id, and so the id of its group,
    cannot be reused meanwhile: a late signal never hits a stranger. All are reaped at the end.
L3. The exit status is decided once, by the first cause: a rank's failure (128 + s for signal s),
    an abort, a signal to the launcher, the time limit (124). Of several ranks that fail it is the
    one that failed first and by itself (`failures`), for which the launcher may have to wait.
L4. With the first failure the job ends: the others are told, get SIGTERM after ``grace`` seconds
    and SIGKILL ``kill_after`` seconds later. With ``keep_going`` they go on, and only an abort, a
    signal to the launcher or the time limit ends them.
L5. A rank that reports its end gets no SIGTERM: its own status is wanted.
"""

import errno
import os
import signal

from pyrdv.errors import LaunchError
from pyrdv.foreign import shown
from pyrdv.launch import env as launch_env, output, places, secrets, server
from pyrdv.launch.descriptors import (
    above_two,
    in_memory,
    pipe,
    reserve,
    why_not_started,
    why_not_written,
)
from pyrdv.launch.events import READ, Loop
from pyrdv.launch.failures import Failures, Report, exit_status
from pyrdv.launch.program import CANNOT_EXECUTE, find_executable
from pyrdv.launch.rank import Rank, signal_name
from pyrdv.launch.spawn import spawn
from pyrdv.launch.terminal import TerminalInput

TIMED_OUT = 124
# After Ctrl-C the ranks may clean up for so long before they are ended like any other job.
INTERRUPT_SECONDS = 10.0
# Time for ranks to say what they wait for, when that of the job is up.
REPORT_SECONDS = 1.0
_PASSED_ON = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT)


class Job:
    """Start `size` copies of a program and wait for them.

    Parameters
    ----------
    program : Program
    size : int
        Number of ranks.
    prefix : bool
        Begin each line with ``[rank]``.
    timeout : float or None
        Seconds after which the job is ended with status 124.
    grace : float
        Seconds between a rank's failure and SIGTERM to the others, in which they learn of it.
    kill_after : float
        Seconds between SIGTERM and SIGKILL.
    extra_env : mapping of str to str
        Variables for the ranks.
    address : str
        Address to listen on.
    hosts : sequence of str, optional
        Name of each rank's host, from `hosts.assign`.
    agent : hosts.Agent, optional
        Command in front of that of each rank.
    keep_going : bool
        Let the others go on when a rank fails.
    """

    def __init__(self, program, size, prefix=False, timeout=None, grace=1.0, kill_after=3.0,
                 extra_env=(), address="127.0.0.1", hosts=None, agent=None, keep_going=False):
        self._program = program
        self._size = size
        self._prefix = prefix
        self._timeout = timeout
        self._grace = grace
        self._kill_after = kill_after
        self._extra_env = dict(extra_env)
        self._address = address
        self._hosts = hosts
        self._agent = agent
        self._keep_going = keep_going
        self._ranks = []
        self._status = None
        self._failures = Failures(size)
        self._reasons = {}      # of the ranks that aborted
        self._culprit = None    # whose failure decided
        self._ending = False
        self._summed_up = False
        self._lost_output = False
        self._interrupted = False
        self._terminated = False
        self._killed = False
        self._impatient = False
        self._loop = Loop()
        self._out, self._err = output.sinks(self._loop, self._on_broken)
        self._server = None
        self._input = None

    def run(self):
        """Run the job to its end.

        Returns
        -------
        int
            Exit status for the launcher (L3).

        Raises
        ------
        LaunchError
            It could not be started; nothing is left running.
        """
        limits, pending = reserve(self._size)
        secret = server.new_secret()
        name = os.urandom(8).hex()
        self._server = server.Server(self._loop, self._size, secret, name, self._on_abort,
                                     self._say, host=self._address, max_pending=pending,
                                     on_report=self._on_report)
        restore = self._catch_signals()
        slot = above_two(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        try:
            try:
                self._start_all(secret, slot, self._environment(slot, name), limits)
            finally:
                os.close(slot)
            if self._timeout is not None:
                self._loop.after(self._timeout, self._on_timeout)
            self._look()
            while not self._over():
                self._loop.turn()
        finally:
            self._clean_up()
            restore()
        return self._status or int(self._lost_output)

    # --- start ------------------------------------------------------------------------------

    def _environment(self, slot, name):
        variables = {key: value for key, value in os.environ.items()
                     if key not in launch_env.MARKED}
        variables.update(self._extra_env)
        variables.update(PYRDV_SIZE=str(self._size), PYRDV_ADDRESS=self._server.address,
                         PYRDV_DOOR="" if self._agent else self._server.door,
                         PYRDV_JOB=name, PYRDV_SECRET_FD=str(slot))
        # An agent may start the program as a child.
        if self._program.wrapped or self._agent is not None:
            variables["PYRDV_WRAPPED"] = "1"
        return [os.fsencode(f"{key}={value}") for key, value in variables.items()]

    def _command(self, number):
        """The file to execute for a rank, and its arguments."""
        if self._agent is None:
            return self._program.path, self._program.argv
        words = self._agent.command(self._hosts[number] if self._hosts else "", number)
        return find_executable(words[0]), words + self._program.argv

    def _start_all(self, secret, slot, variables, limits):
        commands = [self._command(number) for number in range(self._size)]
        null = above_two(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        try:
            for number, (path, argv) in enumerate(commands):
                stdin = self._open_stdin(number, null)
                try:
                    secrets.offer(secret, slot)
                    self._start(number, path, argv, variables, (stdin, slot), limits)
                finally:
                    if stdin != null:
                        os.close(stdin)
        finally:
            os.close(null)

    def _start(self, number, path, argv, variables, inputs, limits):
        out_read, out_write = pipe()
        err_read, err_write = pipe()
        own = [f"PYRDV_RANK={number}"]
        stdin, keep = inputs
        if self._hosts:
            own.append(f"PYRDV_HOST={self._hosts[number]}")
        try:
            pid = spawn(os.fsencode(path), list(map(os.fsencode, argv)),
                        [*variables, *map(os.fsencode, own)], stdin, out_write, err_write, limits,
                        keep)
        except OSError as error:
            os.close(out_read)
            os.close(err_read)
            raise LaunchError(
                f"rank {number} of {self._size} cannot be started: {path}: "
                f"{why_not_started(error)}",
                exit_status=1 if error.filename is None else CANNOT_EXECUTE) from None
        finally:
            os.close(out_write)
            os.close(err_write)
        prefix = b"[%*d] " % (len(str(self._size - 1)), number) if self._prefix else b""
        self._ranks.append(Rank(number, pid, (
            output.Stream(self._loop, out_read, self._out, prefix),
            output.Stream(self._loop, err_read, self._err, prefix, tracebacks=True))))

    def _open_stdin(self, number, null):
        """Rank 0 gets the launcher's own input, or a pipe fed from it if that is a terminal."""
        if self._program.input is not None:
            return above_two(in_memory(self._program.input))
        if number > 0:
            return null
        try:
            if not os.isatty(0):
                return above_two(os.dup(0))
        except OSError:
            return null
        read, write = pipe()
        self._input = TerminalInput(self._loop, os.dup(read), write)
        return read

    # --- the life of the job ----------------------------------------------------------------

    def _alive(self):
        return [rank for rank in self._ranks if not rank.ended]

    def _over(self):
        if self._impatient:
            return True
        if self._alive() or not all(s.done for rank in self._ranks for s in rank.streams):
            return False
        if self._out.queued == 0 and self._err.queued == 0 and not self._summed_up:
            # Lines without a newline come out last.
            for rank in self._ranks:
                for stream in rank.streams:
                    stream.close()
            self._sum_up()
        return self._out.queued == 0 and self._err.queued == 0

    def _look(self):
        """Find ranks that ended; a signal outranks an exit that it may have caused elsewhere."""
        ended = [rank for rank in self._ranks if rank.look()]
        if any(rank.status != 0 for rank in ended):
            # Whoever is to blame has said so before the others could end because of it.
            for rank in self._ranks:
                self._server.catch_up(rank.number)
        if self._input is not None and self._ranks[0].ended:
            self._input.stop()
        for rank in sorted(ended, key=lambda rank: (rank.status >= 0, rank.number)):
            for stream in rank.streams:
                stream.process_ended()
            self._server.catch_up(rank.number)
            joined = self._server.joined(rank.number)
            text = rank.how_ended()
            if rank.status == 0:
                text += " without leaving the job" if joined else " without joining the job"
            self._server.rank_ended(rank.number, rank.status == 0 and not joined, text)
            # What a signal of ours ended did not fail by itself.
            if not self._terminated or self._failures.ends(rank.number):
                self._failures.ended(rank.number, rank.status)
                if rank.status != 0:
                    self._end(self._grace)
        if ended:
            self._judge(not self._alive())

    def _end(self, grace, aborted=False):
        """A rank failed: end the others, unless they are to go on (L4)."""
        if self._ending or (self._keep_going and not aborted):
            return
        self._ending = True
        self._loop.after(grace, self._terminate)

    def _judge(self, final=False):
        """Decide the status as soon as it is known who failed first."""
        if self._status is not None:
            return
        number = self._failures.first(final)
        if number is None:
            return
        self._culprit = number
        rank, code = self._ranks[number], self._failures.code(number)
        if code is not None:
            self._status = exit_status(code)
            self._say(self._abort_line(number))
            return
        self._status = 128 - rank.status if rank.status < 0 else rank.status
        line = f"rank {number} {self._where(rank)} {rank.how_ended()}"
        if rank.status == -signal.SIGKILL:
            line += ", which the kernel does when memory runs out (see dmesg)"
        rest = len(self._alive())
        if rest:
            ranks = f"the {rest} rank{'s' if rest > 1 else ''} still running"
            line += f"; ending {ranks}" if self._ending else f"; {ranks} may go on"
        self._say(line)

    def _abort_line(self, number):
        code = self._failures.code(number)
        line = f"rank {number} aborted the job with status {code}"
        if exit_status(code) != code:
            line += f" (exit status {exit_status(code)}: it has 8 bits, and 0 is success)"
        return line + (f": {self._reasons[number]}" if self._reasons[number] else "")

    def _where(self, rank):
        host = self._hosts[rank.number] if self._hosts else os.uname().nodename
        return f"(process {rank.pid} on {host})"

    def _sum_up(self):
        """The last line of a job in which others failed after the first, as they do."""
        self._summed_up = True
        self._judge(True)
        victims = [rank for rank in self._failures.failed() if rank != self._culprit]
        if self._culprit is None or not victims:
            return
        code = self._failures.code(self._culprit)
        how = f"aborted the job with {code}" if code is not None \
            else self._ranks[self._culprit].how_ended()
        self._say(f"exit status {self._status} is that of rank {self._culprit}, which failed "
                  f"first: it {how}; {places.ranges(victims)} failed after it")

    def _on_report(self, number, body):
        self._failures.reported(number, Report.unpack(body))

    def _on_abort(self, number, code, text):
        self._failures.aborted(number, code)
        self._reasons.setdefault(number, text)
        self._end(min(self._grace, 0.2), True)
        self._judge()
        if self._culprit != number:
            self._say(self._abort_line(number))

    def _on_broken(self, sink, error):
        """What the ranks wrote is lost; a reader that went away knows that."""
        if error.errno != errno.EPIPE:
            self._lost_output = True
            if sink is self._out:
                self._say(f"standard output cannot be written: {why_not_written(error)}")

    def _on_timeout(self):
        if self._ending:
            return
        self._ending = True
        self._judge(True)
        if self._status is None:
            self._status = TIMED_OUT
        running = ", ".join(str(rank.number) for rank in self._alive()[:16])
        self._say(f"the job's time of {self._timeout:g} s is up; ranks still running: {running}")
        # Those that wait say what for.
        self._loop.after(REPORT_SECONDS if self._server.ask() else 0.0, self._terminate)

    def _terminate(self):
        if self._terminated:
            return
        self._terminated = True
        leaving = [rank.number for rank in self._alive() if self._failures.ends(rank.number)]
        for rank in self._ranks:
            if rank.number not in leaving:
                rank.signal(signal.SIGTERM)
                rank.signal(signal.SIGCONT)
        self._judge(not leaving)
        self._loop.after(self._kill_after, self._kill)

    def _kill(self):
        self._killed = True
        self._judge(True)
        for rank in self._ranks:
            rank.signal(signal.SIGKILL)

    # --- signals ------------------------------------------------------------------------------

    def _catch_signals(self):
        """Turn signals into events of the loop; returns what undoes it."""
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        caught = [signal.SIGCHLD, *_PASSED_ON]
        # Started with these ignored (nohup, a background job of a script): leave it so.
        caught += [which for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
                   if signal.getsignal(which) != signal.SIG_IGN]
        before = {which: signal.signal(which, _nothing) for which in caught}
        old = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._loop.watch(read, READ, lambda: self._on_wakeup(read))

        def restore():
            signal.set_wakeup_fd(old)
            for which, handler in before.items():
                signal.signal(which, handler)
            self._loop.unwatch(read)
            os.close(read)
            os.close(write)

        return restore

    def _on_wakeup(self, fd):
        try:
            numbers = os.read(fd, 512)
        except BlockingIOError:
            return
        for number in dict.fromkeys(numbers):
            if number == signal.SIGINT:
                # Two within one turn are two.
                for _ in range(numbers.count(number)):
                    self._on_interrupt()
            elif number in (signal.SIGTERM, signal.SIGHUP):
                self._on_end_signal(number)
            elif number == signal.SIGTSTP:
                self._on_stop()
            elif number in _PASSED_ON:
                for rank in self._alive():
                    rank.signal(number)
        # Also when SIGCHLD's byte found the pipe full.
        self._look()

    def _on_interrupt(self):
        if self._killed:
            self._impatient = True
        elif self._interrupted or self._terminated:
            self._say("interrupted again: killing the ranks")
            self._kill()
        else:
            self._interrupted = self._ending = True
            if self._status is None:
                self._status = 128 + signal.SIGINT
            for rank in self._alive():
                rank.signal(signal.SIGINT)
            self._say(f"interrupted: the ranks have {INTERRUPT_SECONDS:g} s to clean up; "
                      "interrupt again to kill them")
            self._loop.after(INTERRUPT_SECONDS, self._terminate)

    def _on_end_signal(self, number):
        self._ending = True
        if self._status is None:
            self._status = 128 + number
            self._say(f"got {signal_name(number)}: ending the job")
        if self._terminated:
            self._kill()
        self._terminate()

    def _on_stop(self):
        """Ctrl-Z: the ranks stop with the launcher and go on with it."""
        for rank in self._alive():
            rank.signal(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        for rank in self._alive():
            rank.signal(signal.SIGCONT)

    # --- end ----------------------------------------------------------------------------------

    def _clean_up(self):
        if self._status or self._alive():
            self._kill()
        for rank in self._ranks:
            try:
                os.waitpid(rank.pid, 0)
            except ChildProcessError:
                pass
            for stream in rank.streams:
                stream.close()
        if self._input is not None:
            # An interrupt drops what was typed before it, as terminals do.
            self._input.close(not self._interrupted)
        self._server.close()

    def _say(self, text):
        """One line on standard error, in turn with those of the ranks."""
        self._err.put(None, f"pyrdv run: {shown(text, 8192)}\n".encode("utf-8", "replace"))


def _nothing(number, frame):
    """Signals only need to reach the wake-up descriptor."""
