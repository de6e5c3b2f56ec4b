"""Lines of the ranks: whole, all of them, in order (field L10; invariants O1-O4)."""

import os
import signal
import subprocess
import threading
import time

import pytest

from pyrdv.launch.events import Loop
from pyrdv.launch.output import HIGH, LINE_MAX, Sink, Stream

WRITER = """
    import random
    random.seed(launch.rank)
    letter = "ab"[launch.rank]
    for number in range(20_000):
        line = f"{launch.rank} {number} {letter * random.choice((10, 100, 400, 9000))}"
        print(line, flush=number % 3 == 0, file=sys.stderr if number % 7 == 0 else sys.stdout)
    sys.stdout.flush()
"""


def check_lines(text, prefix=""):
    """All 20 000 lines of both ranks are there once, whole, and in order per stream."""
    import random

    got = {}
    for line in text.splitlines():
        if prefix:
            mark, line = line[:4], line[4:]
            assert mark == f"[{line[0]}] "
        rank, number, body = line.split(" ")
        got.setdefault(int(rank), {})[int(number)] = body
    for rank in (0, 1):
        random.seed(rank)
        expected = {number: "ab"[rank] * random.choice((10, 100, 400, 9000))
                    for number in range(20_000)}
        assert got[rank] == expected
    for rank in (0, 1):
        for err in (True, False):
            order = [number for number in got[rank] if (number % 7 == 0) == err]
            assert order == sorted(order)


def test_two_ranks_and_both_streams_into_one_pipe(jobs):
    status, out, _ = jobs.run(WRITER, 2, stderr=subprocess.STDOUT)
    assert status == 0
    check_lines(out)


def test_with_prefix_and_an_abort_at_the_end(jobs):
    """Nothing that was written before the abort is lost."""
    code = WRITER + """
    client = join(); client.exchange(b"")
    if launch.rank == 1: client.abort(3); os._exit(3)
    time.sleep(60)
"""
    path = jobs.folder / "out"
    with open(path, "wb") as file:
        status, _, _ = jobs.run(code, 2, "--prefix", stdout=file, stderr=subprocess.STDOUT)
    assert status == 3
    text = path.read_text()
    lines = text.splitlines()
    said = [line for line in lines if line.startswith("pyrdv run: ")]
    assert said == ["pyrdv run: rank 1 aborted the job with status 3"]
    check_lines("\n".join(line for line in lines if line not in said), prefix=True)


def test_a_killed_rank_s_last_lines(jobs):
    status, out, _ = jobs.run("""
        print("x" * 50_000); print("last"); os.kill(os.getpid(), signal.SIGKILL)
        """, 1)
    assert status == 137 and out == "x" * 50_000 + "\nlast\n"


def test_traceback_of_the_failing_rank(jobs):
    status, _, err = jobs.run("1 / launch.rank", 2, "-l")
    assert status == 1
    assert "[0] Traceback (most recent call last):" in err
    assert "[0] ZeroDivisionError: division by zero" in err


def test_bytes_of_a_single_rank_are_unaltered(jobs):
    status, out, _ = jobs.run(
        "sys.stdout.buffer.write(bytes(range(256)) * 4000); sys.stdout.buffer.write(b'end')", 1,
        stdout=open(jobs.folder / "out", "wb"))
    assert status == 0
    assert (jobs.folder / "out").read_bytes() == bytes(range(256)) * 4000 + b"end"


def test_lines_without_newline_are_not_glued(jobs):
    status, out, _ = jobs.run("print(launch.rank, end='', flush=True)", 3)
    assert status == 0 and sorted(out.split("\n")) == ["0", "1", "2"]


def test_input_goes_to_rank_0_only(jobs):
    status, out, _ = jobs.run("print(launch.rank, len(sys.stdin.read()))", 3, input=b"x" * 100_000)
    assert status == 0 and sorted(out.splitlines()) == ["0 100000", "1 0", "2 0"]


def test_lines_come_when_they_are_written(jobs):
    """Not when a block is full: the rank's output is line-buffered."""
    process = jobs.start("print('early'); time.sleep(60)", 1)
    began = time.monotonic()
    assert process.stdout.readline() == b"early\n"
    assert time.monotonic() - began < 30
    process.terminate()
    assert jobs.finish(process)[0] == 128 + signal.SIGTERM


def test_slow_reader_makes_the_ranks_wait_and_memory_stays_flat(jobs):
    process = jobs.start("""
        open("started", "w").close()
        for _ in range(4000): print("y" * 9999)
        open("written", "w").close()
        """, 2)
    jobs.wait_file("started")
    time.sleep(1.5)
    with open(f"/proc/{process.pid}/status") as file:
        resident, = [int(line.split()[1]) for line in file if line.startswith("VmRSS")]
    assert not (jobs.folder / "written").exists()  # 80 MB are not in the launcher
    assert resident < 40_000
    status, out, _ = jobs.finish(process)
    assert status == 0 and out == ("y" * 9999 + "\n") * 8000


def test_a_stalled_reader_does_not_stop_the_launcher_from_ending_the_job(jobs):
    process = jobs.start("for _ in range(1000): print('z' * 9999)", 1)
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert jobs.gone(0.1) != [] and process.poll() is None  # still has lines to deliver
    status, out, _ = jobs.finish(process)
    assert status == 143 and set(out.splitlines()[:-1]) == {"z" * 9999}


def test_reader_that_goes_away_is_felt_by_the_ranks(jobs):
    process = jobs.start("""
        while True: print("line")
        """, 2, "--grace", "0.1")
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    # 120 is what Python makes of it if the flush at its exit fails as well.
    assert process.wait(30) in (1, 120)
    assert b"BrokenPipeError" in process.stderr.read()
    assert jobs.gone() is True


# --- Stream and Sink alone ------------------------------------------------------------------


class Pipes:
    """Streams into one sink that is a pipe."""

    def __init__(self, count, prefixes=None):
        self.loop = Loop()
        self.read, self.write = os.pipe()
        self.sink = Sink(self.loop, self.write)
        self.inputs = []
        self.streams = []
        for number in range(count):
            read, write = os.pipe()
            self.inputs.append(write)
            self.streams.append(Stream(self.loop, read, self.sink,
                                       prefixes[number] if prefixes else b""))

    def turns(self, count=10):
        for _ in range(count):
            self.loop.turn(0)

    def output(self):
        os.set_blocking(self.read, False)
        try:
            return os.read(self.read, 1 << 20)
        except BlockingIOError:
            return b""

    def close(self):
        for stream in self.streams:
            stream.close()
        for fd in (*self.inputs, self.read, self.write):
            os.close(fd)


@pytest.fixture
def pipes():
    made = []

    def make(*args):
        made.append(Pipes(*args))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_partial_lines_wait_for_their_end(pipes):
    one = pipes(2)
    os.write(one.inputs[0], b"begin ")
    os.write(one.inputs[1], b"whole\n")
    one.turns()
    os.write(one.inputs[0], b"end\nnext")
    one.turns()
    assert one.output() == b"whole\nbegin end\n"


def test_prefix_once_per_line_also_in_pieces(pipes):
    one = pipes(2, [b"[0] ", b"[1] "])
    long = b"x" * (LINE_MAX + 1000)
    received = b""
    for at in range(0, len(long), 4096):
        os.write(one.inputs[0], long[at:at + 4096])
        one.turns()
        received += one.output()
    os.write(one.inputs[0], b"\n\nshort\n")
    one.turns(40)
    received += one.output()
    assert received == b"[0] " + long + b"\n[0] \n[0] short\n"


def test_memory_is_bounded_when_nobody_reads(pipes):
    one = pipes(3)
    stop = threading.Event()

    def fill(fd):
        os.set_blocking(fd, False)
        while not stop.is_set():
            try:
                os.write(fd, b"w" * 999 + b"\n")
            except BlockingIOError:
                time.sleep(0.001)

    threads = [threading.Thread(target=fill, args=(fd,)) for fd in one.inputs]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        one.loop.turn(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert HIGH <= one.sink.queued <= HIGH + 3 * (LINE_MAX + 65536)
    received = b""
    for _ in range(3000):
        one.loop.turn(0)
        received += one.output()
    assert set(received.split(b"\n")[:-1]) == {b"w" * 999}


def test_broken_sink_closes_its_streams(pipes):
    one = pipes(1)
    os.close(one.read)
    os.write(one.inputs[0], b"line\n")
    one.turns()
    assert one.sink.broken and one.streams[0].done
    with pytest.raises(BrokenPipeError):
        os.write(one.inputs[0], b"more\n")
    one.read = os.dup(one.write)


def test_output_that_cannot_be_written_fails_the_job(jobs):
    """Also when no rank notices: the reason, its limit, and no success."""
    code = "print('x' * 3000, flush=True); time.sleep(0)"
    with open(jobs.folder / "out", "wb") as file:
        status, _, err = jobs.run(code, 2, stdout=file, shell_before="ulimit -f 1")
    assert status != 0 and "RLIMIT_FSIZE is 1024 " in err and "ulimit -f" in err
    with open("/dev/full", "wb") as file:
        status, _, err = jobs.run(code, 1, stdout=file)
    assert status != 0 and "standard output cannot be written: No space left" in err
