"""``pyrdv run --trace`` and ``pyrdv trace``: the file of a real job, and clocks that differ."""

import errno
import json
import os
import re
import struct
import subprocess
import sys

import pytest

from pyrdv import recorded, timeline
from pyrdv.errors import ConfigError
from pyrdv.recorded import Event
from pyrdv.tools import cli

PROGRAM = """\
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
small, large = np.zeros(8), np.zeros(1 << 17)
for _ in range(5):
    comm.Sendrecv(small, (rank + 1) % size, 1, np.empty(8), (rank - 1) % size, 1)
    wait = comm.Irecv(np.empty(1 << 17), (rank - 1) % size, 2)
    comm.Send(large, (rank + 1) % size, 2)
    wait.Wait()
    comm.send({"object": rank}, (rank + 1) % size, 3)
    comm.recv(source=(rank - 1) % size, tag=3)
"""


def of(content, **wanted):
    """The entries of a trace with these values."""
    return [event for event in content["traceEvents"]
            if all(event.get(name) == value for name, value in wanted.items())]


def strict(content):
    """Check that arrows have both ends, in bars, and that bars of a lane do not overlap.

    Returns
    -------
    list of tuple of dict
        The bars at both ends of each arrow.
    """
    lanes = {}
    for bar in of(content, ph="X"):
        lanes.setdefault((bar["pid"], bar["tid"]), []).append(bar)
    for lane in lanes.values():
        lane.sort(key=lambda bar: bar["ts"])
        assert all(one["ts"] + one["dur"] <= two["ts"] + 1e-6
                   for one, two in zip(lane, lane[1:], strict=False)), "bars of a lane overlap"
    begins, ends = of(content, ph="s"), of(content, ph="f")
    by_id = {event["id"]: event for event in ends}
    assert len(by_id) == len(ends) == len(begins) == len({event["id"] for event in begins})
    found = []
    for begin in begins:
        end = by_id[begin["id"]]
        assert begin["ts"] <= end["ts"]
        sent, got = (next(bar for bar in lanes[one["pid"], one["tid"]]
                          if bar["ts"] - 1e-6 <= one["ts"] <= bar["ts"] + bar["dur"] + 1e-6)
                     for one in (begin, end))
        assert sent["cat"] == "send" and got["cat"] in ("receive", "match")
        assert (sent["args"]["peer"], got["args"]["peer"]) == (end["pid"], begin["pid"])
        assert sent["args"]["tag"] == got["args"]["tag"]
        assert got["args"]["late"] in ("sender", "receiver")
        assert begin["name"] == end["name"]
        assert begin["name"].startswith(f"{sent['args']['nbytes']} B, {sent['args']['protocol']}")
        found.append((sent, got))
    return found


def test_a_job(jobs, capsys):
    """Each message is an arrow between two bars; the summary and the picture follow from it."""
    outcome = jobs.run(PROGRAM, 3, "--trace", "out.json", "--trace-lines")
    assert (outcome.status, outcome.err) == (0, ""), f"{outcome}"
    path = jobs.folder / "out.json"
    content = json.loads(path.read_text())
    assert not list(jobs.folder.glob("out.json.*"))
    names = [event["args"]["name"] for event in of(content, name="process_name")]
    assert [name.split(" (")[0] for name in names] == ["rank 0", "rank 1", "rank 2"]
    arrows = sum(sent["args"]["tag"] in (1, 2, 3) for sent, _ in strict(content))
    assert arrows == 3 * 15
    assert {bar["args"]["line"] for bar in of(content, ph="X", cat="send")
            if bar["args"]["tag"] == 2} == {"prog.py:9"}
    picture = jobs.folder / "out.png"
    assert cli.main(["trace", str(path), "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "latest arrivals" in out and "prog.py:" in out and "eager" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_nobody_reads_to_the_end(jobs):
    """As behind ``| head``: nothing is said of that."""
    jobs.run(PROGRAM, 2, "--trace", "out.json")
    words = [sys.executable, "-m", "pyrdv.tools.cli", "trace", "out.json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=jobs.folder) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 1)


COLLECTIVES = """\
import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
data, room = np.full(1000, comm.rank), np.empty(1000, int)
for _ in range(3):
    comm.Barrier()
    comm.Allreduce(data, room)
    comm.bcast({"size": comm.size}, 3)
    comm.alltoall(list(range(comm.size)))
assert room[0] == comm.size * (comm.size - 1) // 2
"""


def test_collectives_of_eight_ranks(jobs):
    """Every message that was sent is an arrow, for every one was received."""
    outcome = jobs.run(COLLECTIVES, 8, "--trace", "out.json")
    assert (outcome.status, outcome.err) == (0, ""), f"{outcome}"
    content = json.loads((jobs.folder / "out.json").read_text())
    arrows = strict(content)
    sends = [bar for bar in of(content, ph="X", cat="send") if bar["args"]["peer"] != bar["pid"]]
    assert len(arrows) == len(sends) > 8 * 3 * 10
    assert {bar["pid"] for bar in sends} == set(range(8))
    for rank in range(8):
        marks = [mark["args"] for mark in of(content, name="choose", pid=rank)
                 if mark["args"].get("protocol", "").startswith("allreduce ")]
        assert [(mark["protocol"], mark["reason"]) for mark in marks] == \
            [("allreduce doubling", "up to 16 KiB: the fewest rounds")] * 3
    other = content["otherData"]
    assert (other["ranks"], other["killed"], other["dropped"]) == (list(range(8)), [], {})


LONG = """import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
small = np.zeros(8)
for _ in range(8000):
    comm.Sendrecv(small, 1 - comm.rank, 1, np.empty(8), 1 - comm.rank, 1)
"""


def test_a_long_job(jobs):
    """Much more than the ring holds: nothing is missing."""
    outcome = jobs.run(LONG, 2, "--trace", "out.json")
    assert (outcome.status, outcome.err) == (0, ""), f"{outcome}"
    content = json.loads((jobs.folder / "out.json").read_text())
    begins, ends = of(content, ph="s"), of(content, ph="f")
    assert len(begins) >= 16000 and {one["id"] for one in begins} == {one["id"] for one in ends}
    assert len(of(content, ph="X", cat="send")) == len(begins)


def test_what_has_no_room_is_told(jobs, capsys):
    outcome = jobs.run(LONG.replace("8000", "40000"), 2, "--trace", "out.json",
                       env={"PYRDV_TRACE_BYTES": str(1 << 20)})
    assert outcome.status == 0, f"{outcome}"
    found = [re.search(rf"(\d+) slots of events of rank {rank} were dropped: File too large; "
                       "PYRDV_TRACE_BYTES", outcome.err) for rank in range(2)]
    assert all(found), f"{outcome}"
    content = json.loads((jobs.folder / "out.json").read_text())
    assert content["otherData"]["dropped"] == {
        str(rank): int(one[1]) for rank, one in enumerate(found)}
    assert cli.main(["trace", str(jobs.folder / "out.json")]) == 0
    assert f"rank 1: {found[1][1]} slots of events were dropped" in capsys.readouterr().out


CROSSING = """import numpy as np
from pyrdv import MPI
comm = MPI.COMM_WORLD
data = np.zeros(1 << 20)
comm.Barrier()
comm.Send(data, 1 - comm.rank, 3)
comm.Recv(data, 1 - comm.rank, 3)
"""


def test_a_job_that_hangs(jobs):
    """Ranks that are ended from outside leave their trace: sends that last until then."""
    outcome = jobs.run(CROSSING, 2, "--timeout", "8", "--trace", "out.json", "--trace-lines")
    assert outcome.status == 124, f"{outcome}"
    content = json.loads((jobs.folder / "out.json").read_text())
    assert content["otherData"]["killed"] == [0, 1]
    for rank in range(2):
        assert f"rank {rank}: Send(dest={1 - rank}, tag=3, 8388608 bytes) posted" in outcome.err
        send, = [bar for bar in of(content, ph="X", cat="send", pid=rank)
                 if bar["args"]["tag"] == 3]
        assert send["args"]["never ended"] and send["args"]["line"] == "prog.py:6"
        assert send["dur"] > 1e6, "it lasted until the end"


def test_the_variable_does_it_too(jobs):
    outcome = jobs.run("import os\nos.chdir('/')\n" + PROGRAM, 2, env={"PYRDV_TRACE": "out.json"})
    assert outcome.status == 0, f"{outcome}"
    assert (jobs.folder / "out.json").exists()


def test_a_rank_that_is_killed(jobs, capsys):
    """What it did until then is there."""
    outcome = jobs.run("""
import os, signal
from pyrdv import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    comm.Send(bytearray(8), 0, 7)
    os.kill(os.getpid(), signal.SIGKILL)
comm.Recv(bytearray(8), 1, 7)
comm.recv(source=1)
""", 2, "--trace", "out.json")
    assert outcome.status == 137 and "out.json" not in outcome.err, f"{outcome}"
    path = jobs.folder / "out.json"
    content = json.loads(path.read_text())
    other = content["otherData"]
    assert (other["ranks"], other["size"], other["killed"]) == ([0, 1], 2, [1])
    assert of(content, name="peer lost")
    last, = [bar for bar in of(content, ph="X", cat="send", pid=1) if bar["args"]["tag"] == 7]
    assert last["args"]["late"]
    assert last["tid"] in [arrow["tid"] for arrow in of(content, ph="s", pid=1)]
    assert cli.main(["trace", str(path)]) == 0
    assert "rank 1 did not end in order" in capsys.readouterr().out


def test_a_file_that_cannot_be_written(jobs):
    outcome = jobs.run("print('not reached')", 2, "--trace", "no/such/folder/out.json")
    assert (outcome.status, outcome.out) == (1, "")
    assert "there is no such folder" in outcome.err
    link = jobs.folder / "link"
    link.symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="symbolic link"):
        timeline.prepare(str(link), 2)


def test_old_files_of_ranks_are_removed(tmp_path):
    path = str(tmp_path / "out.json")
    leave(path, 1, 2, [])
    timeline.prepare(path, 2)
    assert os.listdir(tmp_path) == []


NUMBERS = {name: number for number, name in recorded.KINDS.items()}
WORDS = recorded.Words({0: "", 1: "send", 2: "receive"}, {1: "eager"}, {1: "small"},
                       ("eager", "small", "small"), [])
SLOTS = 4


def leave(path, rank, size, events, host="host", dropped=0, error=0):
    """Write what an engine leaves that had these events; its counter counts nanoseconds."""
    os.close(recorded.create(path, rank, size, host, WORDS, SLOTS))
    slots = b""
    for one in events:
        what = (NUMBERS[one.kind] | 0x80 | ["", "send", "receive"].index(one.side) << 8
                | (1 << 16 if one.protocol else 0))
        operation = one.operation or (0xFFFFFFFF, 0)
        slots += struct.pack("=QIIIiII", round(one.time * 1e9), 0, one.peer, one.context, one.tag,
                             one.number, what)
        slots += struct.pack("=QIIffiI", one.nbytes, *operation, one.cost, one.instead, one.error,
                             0)
    count = len(slots) // 32
    last = round(events[-1].time * 1e9) if events else 1_000_000_000
    first = round(events[0].time * 1e9) if events else 0
    with open(recorded.path_of(path, rank), "r+b") as file:
        file.seek(recorded.HEAD)
        file.write(struct.pack("=QQQQqQqi4x", count, count, dropped, last, last, first, first,
                               error))
        file.seek(0, os.SEEK_END)
        for kind, part in ((1, slots), (3, b"")):
            file.write(struct.pack("=IIQQq", kind, len(part), 0, last, last) + part)


def event(kind, time, side, peer, number=0, operation=None, **more):
    """An event of a message with tag 5."""
    values = {"context": 0, "tag": 5, "nbytes": 8, "protocol": "eager", "reason": None,
              "cost": 0.0, "instead": 0.0, "error": 0, "line": ""}
    return Event(time=time, kind=kind, side=side, operation=operation, peer=peer, number=number,
                 **{**values, **more})


def exchange(begin, skew, rate, count=20):
    """Messages to and fro, each 10 us on its way; the clock of rank 1 is ahead, and runs away."""
    def there(time):
        return time + skew + (time - begin) * rate

    one, two = [], []
    for i in range(count):
        now = begin + i * 1e-3
        one.append(event("announce", now, "", 1, i))
        two.append(event("post", there(now - 5e-6), "receive", 0, 0, (0, i + 1)))
        two.append(event("match", there(now + 10e-6), "receive", 0, i, (0, i + 1)))
        two.append(event("announce", there(now + 20e-6), "", 0, i))
        one.append(event("post", now + 21e-6, "receive", 1, 0, (0, i + 1)))
        one.append(event("match", now + 30e-6, "receive", 1, i, (0, i + 1)))
    return one, two


@pytest.mark.parametrize(("skew", "rate"), [(0.0, 0.0), (3.5, 0.0), (-3.5, 0.0), (1.0, 1e-4)])
def test_clocks_of_hosts(tmp_path, monkeypatch, skew, rate):
    """Whatever they show, arrows take the time that the messages took."""
    path = str(tmp_path / "out.json")
    for rank, events in enumerate(exchange(100.0, skew, rate)):
        monkeypatch.setattr(recorded, "boot", lambda rank=rank: f"boot {rank}")
        leave(path, rank, 2, events, f"host{rank}")
    timeline.join(path, 2, pytest.fail)
    content = json.loads((tmp_path / "out.json").read_text())
    ends = {end["id"]: end["ts"] for end in of(content, ph="f")}
    took = [ends[begin["id"]] - begin["ts"] for begin in of(content, ph="s")]
    assert len(took) == 40
    # In between two estimates a line stands for the clock.
    most = 1.0 if rate else 0.01
    assert all(abs(time - 10.0) < most for time in took), took
    begin, end = content["otherData"]["offsets, us"]["1"]
    assert abs(begin - skew * 1e6) < 2.0 and abs(end - begin - rate * 19e3 / 2) < 1.0


def test_clocks_of_one_host_are_one(tmp_path):
    path = str(tmp_path / "out.json")
    for rank, events in enumerate(exchange(100.0, 1.0, 0.0)):
        leave(path, rank, 2, events)
    timeline.join(path, 2, pytest.fail)
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["otherData"]["offsets, us"] == {"0": [0.0, 0.0], "1": [0.0, 0.0]}


def test_who_is_late(tmp_path):
    """Whoever called last, however late the receiver looked for the message."""
    path = str(tmp_path / "out.json")
    leave(path, 0, 2, [event("announce", time, "", 1, number)
                       for number, time in enumerate((2.0, 3.0, 4.0, 5.25))])
    leave(path, 1, 2, [
        event("post", 1.5, "receive", 0, 0, (0, 1)), event("match", 2.0, "receive", 0, 0, (0, 1)),
        event("unexpected", 3.1, "", 0, 1), event("post", 3.25, "receive", 0, 0, (0, 2)),
        event("match", 3.25, "receive", 0, 1, (0, 2)),
        # It lay in the fabric, where nobody saw it, until its receive was posted.
        event("post", 4.5, "receive", 0, 0, (0, 3)), event("match", 4.51, "receive", 0, 2, (0, 3)),
        # Its receiver computed between the post and the match.
        event("post", 5.0, "receive", 0, 0, (0, 4)), event("match", 6.0, "receive", 0, 3, (0, 4))])
    timeline.join(path, 2, pytest.fail)
    content = json.loads((tmp_path / "out.json").read_text())
    found = [(bar["args"]["late"], round(bar["args"]["late by, us"]))
             for bar in of(content, cat="receive", ph="X")]
    assert found == [("sender", 500_000), ("receiver", 250_000), ("receiver", 500_000),
                     ("sender", 250_000)]


def test_a_send_that_is_told_late(tmp_path):
    """Its rank lost the processor between the post and its event: the arrow goes forward still."""
    path = str(tmp_path / "out.json")
    leave(path, 0, 2, [event("announce", 1.0, "", 1, 0), event("announce", 2.5, "", 1, 1),
                       event("announce", 2.6, "", 1, 2)])
    leave(path, 1, 2, [
        one for number, time in enumerate((1.1, 2.0, 2.1))
        for one in (event("post", time - 0.05, "receive", 0, 0, (0, number + 1)),
                    event("match", time, "receive", 0, number, (0, number + 1)))])
    timeline.join(path, 2, pytest.fail)
    content = json.loads((tmp_path / "out.json").read_text())
    assert len(strict(content)) == 3


def test_waiting_ends_are_bounded(tmp_path, monkeypatch):
    """Of arrows without another end the oldest are given up; bars are there all the same."""
    monkeypatch.setattr(timeline, "_WAITING", 10)
    path = str(tmp_path / "out.json")
    leave(path, 0, 2, [event("announce", 1.0 + i * 1e-3, "", 1, i) for i in range(100)])
    leave(path, 1, 2, [one for i in (99, 0) for one in (
        event("post", 2.0, "receive", 0, 0, (0, i)), event("match", 2.0, "receive", 0, i, (0, i)))])
    timeline.join(path, 2, pytest.fail)
    content = json.loads((tmp_path / "out.json").read_text())
    assert len(strict(content)) == 1, "that of the last; the first had to go"
    assert len(of(content, ph="X", cat="send")) == 100
    assert len(of(content, ph="X", cat="receive")) == 2


def test_after_another_launcher(tmp_path, capsys):
    """The files of the ranks are joined by ``pyrdv trace``."""
    path = str(tmp_path / "out.json")
    for rank, events in enumerate(exchange(100.0, 0.0, 0.0)):
        leave(path, rank, 2, events, dropped=7 * rank, error=errno.EFBIG * rank)
    assert cli.main(["trace", path]) == 0
    out, err = capsys.readouterr()
    assert "2 ranks, 80 sends and receives" in out
    assert "rank 1: 7 slots of events were dropped" in out
    assert "7 slots of events of rank 1 were dropped: File too large" in err
    assert os.listdir(tmp_path) == ["out.json"]


@pytest.mark.parametrize(("text", "why"), [
    (None, "No such file"), ("{", "no trace of pyrdv"), ("[]", "no trace of pyrdv"),
    (timeline.FIRST_LINE + "{", "no trace of pyrdv"), (timeline.FIRST_LINE, "its end is missing"),
    (timeline.FIRST_LINE + '], "otherData": {"format": "x"}}', "no trace of pyrdv"),
    (timeline.FIRST_LINE + '], "otherData": {"format": "pyrdv trace", "version": 0}}',
     "another version"),
])
def test_what_is_no_trace(tmp_path, capsys, text, why):
    path = tmp_path / "out.json"
    if text is not None:
        path.write_text(text)
    assert cli.main(["trace", str(path)]) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(("at", "data"), [
    (0, b"x"), (8, b"["), (8, b'{"version": 1}'.ljust(4088)), (8, b"\xff"),
])
def test_what_is_no_file_of_a_rank(tmp_path, at, data):
    path = str(tmp_path / "out.json")
    leave(path, 0, 1, exchange(1.0, 0.0, 0.0)[0])
    name = recorded.path_of(path, 0)
    with open(name, "r+b") as file:
        file.seek(at)
        file.write(data)
    said = []
    timeline.join(path, 1, said.append)
    assert len(said) == 1 and "without ranks 0" in said[0] and not os.path.exists(path)


@pytest.mark.parametrize("size", [0, 100, 4096, 4159, 4160, 4300, 4400, 8000, 9000])
def test_a_file_that_was_cut(tmp_path, size):
    """What is there is used, and nothing more is looked for."""
    path = str(tmp_path / "out.json")
    leave(path, 0, 1, exchange(1.0, 0.0, 0.0)[0])
    os.truncate(recorded.path_of(path, 0), size)
    said = []
    timeline.join(path, 1, said.append)
    if size < 4160:
        assert len(said) == 1 and "without ranks 0" in said[0]
    else:
        assert os.path.exists(path) and json.loads((tmp_path / "out.json").read_text())
