"""The trace of a job in one file: what each rank recorded, brought together.

Whoever has the files of all ranks (``pyrdv run``, or ``pyrdv trace`` after other launchers) joins
them to FILE, in the JSON of chrome://tracing, which Perfetto opens, too: a process per rank, a bar
per send and receive, an arrow from each send to its receive.  FILE has an entry per line.

J1  Memory is bounded, however long the job was: events are read in the order of their time, and
    an entry is written when all is known that it tells.  Ends of arrows whose other end is missing
    wait for it; of more than `_WAITING` the oldest do without.
J2  Each arrow has both ends, and each end lies in a bar.
J3  Bars of one rank that overlap are in lanes of their own.
J4  Ranks of one host read one clock.  Between hosts the clocks are compared by the messages: of
    those from A to B the one that seems fastest took as long as the fastest back.  That is done for
    the first and for the last half of the time, and a line goes through both.
"""

import heapq
import json
import os
from collections import defaultdict

from pyrdv import files, recorded
from pyrdv.errors import ConfigError
from pyrdv.recorded import FORMAT, VERSION, path_of

# Bars and arrows need some length to be seen, us.
_SHORTEST = 0.05
_WAITING = 1 << 18
#: How FILE begins.
FIRST_LINE = '{"displayTimeUnit": "ns", "traceEvents": [\n'
_INSTANTS = frozenset(("choose", "register", "credit wait", "queue", "offer sent", "offer used",
                       "offer dropped", "peer lost", "peer closed", "step by itself"))


def prepare(path, size):
    """Before a job: see that `path` can be written, and remove what ranks of another job left.

    Raises
    ------
    ConfigError
        It cannot be written; the text says why.
    """
    folder = os.path.dirname(path) or "."
    refused = None
    for name in (path, *(path_of(path, rank) for rank in range(size))):
        refused = refused or files.refusal(name)
    why = refused.strerror if refused is not None else "there is no such folder" \
        if not os.path.isdir(folder) else "the folder cannot be written to" \
        if not os.access(folder, os.W_OK) else ""
    if why:
        raise ConfigError(f"the trace cannot be written to {path}: {why}; name another file",
                          variable="PYRDV_TRACE", value=path)
    for rank in range(size):
        if os.path.exists(path_of(path, rank)):
            os.unlink(path_of(path, rank))


# Time --------------------------------------------------------------------------


def scales(recordings):
    """The counter of each rank as seconds; those of one host have the same length of a tick.

    Returns
    -------
    dict of int to Scale
        Without ranks of hosts where none lasted long enough to know.
    """
    longest = {}
    for one in recordings.values():
        (_, begin), (_, end) = one.pairs
        if one.boot not in longest or end - begin > longest[one.boot][0]:
            longest[one.boot] = (end - begin, one.scale())
    return {rank: longest[one.boot][1] for rank, one in recordings.items()
            if longest[one.boot][1] is not None}


class Line:
    """What the clock of a rank shows, as time of the lowest rank's, us.

    Parameters
    ----------
    begin, length : float
        When the rank began, by its own clock, and how long it lasted.
    ahead, later : float
        How far its clock is ahead, a quarter of that time after the begin and before the end.
    """

    def __init__(self, begin, length, ahead=0.0, later=0.0):
        self.ends = (ahead, later)
        self._rate = (later - ahead) / max(length / 2, 1.0)
        self._base = ahead - self._rate * (begin + length / 4)

    def __call__(self, us):
        return us - self._base - self._rate * us


def _span(recording, scale):
    begin, end = (scale.seconds(ticks) * 1e6 for ticks, _ in recording.pairs)
    return begin, end - begin


def _fastest(recordings, known):
    """The least (arrival - departure) of messages between hosts, us.

    Returns
    -------
    dict of (int, int, int) to float
        By source, destination, and half of the source's time.
    """
    best, waiting = {}, {}
    spans = {rank: _span(recordings[rank], scale) for rank, scale in known.items()}
    for us, rank, event in _merged(recordings, known, {}):
        arrives = event.kind in ("match", "unexpected")
        peer = event.peer
        if not (arrives or event.kind == "announce") or peer not in known \
                or recordings[peer].boot == recordings[rank].boot:
            continue
        key = (peer, rank, event.number) if arrives else (rank, peer, event.number)
        # An early message arrives twice, by its unexpected event and by its match.
        if arrives and event.kind == "match" and ("early", *key) in waiting:
            del waiting["early", *key]
            continue
        if event.kind == "unexpected":
            waiting["early", *key] = us
        other = waiting.pop((not arrives, *key), None)
        if other is None:
            waiting[arrives, *key] = us
        else:
            sent, came = (other, us) if arrives else (us, other)
            begin, length = spans[key[0]]
            half = (*key[:2], int(sent > begin + length / 2))
            best[half] = min(best.get(half, came - sent), came - sent)
        while len(waiting) > _WAITING:
            del waiting[next(iter(waiting))]
    return best


def _offsets(best, a, b):
    """How far the clock of `b` is ahead of that of `a`, early and late; None: unknown."""
    found = []
    for half in (0, 1):
        there, back = (best.get((*pair, half), best.get((*pair, 1 - half)))
                       for pair in ((a, b), (b, a)))
        if there is None or back is None:
            return None
        found.append((there - back) / 2)
    return found


def clocks(recordings, known):
    """The clock of each rank against that of the lowest.

    Returns
    -------
    dict of int to Line
        Ranks that cannot be compared with others are taken as they are, and are not in `ends`.
    """
    several = len({recordings[rank].boot for rank in known}) > 1
    best = _fastest(recordings, known) if several else {}
    root = min(known)
    ends, todo = {root: (0.0, 0.0)}, [root]
    while todo:
        here = todo.pop()
        for rank in sorted(set(known) - set(ends)):
            if recordings[rank].boot == recordings[here].boot:
                more = (0.0, 0.0)
            else:
                more = _offsets(best, here, rank)
                if more is None:
                    continue
            ends[rank] = tuple(base + extra for base, extra in zip(ends[here], more, strict=True))
            todo.append(rank)
    return ends, {rank: Line(*_span(recordings[rank], scale), *ends.get(rank, ()))
                  for rank, scale in known.items()}


def _merged(recordings, known, lines):
    """All events as (us, rank, event), nearly in the order of their time."""
    def of(rank):
        line = lines.get(rank)
        for event in recordings[rank].events(known[rank]):
            us = event.time * 1e6
            yield us if line is None else line(us), rank, event

    return heapq.merge(*(of(rank) for rank in sorted(known)), key=lambda one: one[0])


# Bars and arrows ---------------------------------------------------------------


def facts(event):
    """What a bar tells of its message."""
    names = ("peer", "tag", "context", "nbytes", "protocol", "reason", "cost", "instead", "error",
             "line")
    values = ((name, getattr(event, name)) for name in names)
    return {name: value for name, value in values
            if value not in (None, "", 0.0) or name in ("peer", "tag", "nbytes")}


class _Bar:
    """A send, a receive, or a sleep; `held`: its arrow is not known yet."""

    def __init__(self, rank, kind, us, event):
        self.rank, self.kind, self.begin, self.end = rank, kind, us, us
        self.args = facts(event)
        self.lane = 0
        self.open = self.held = False

    def entry(self):
        """As chrome://tracing reads it."""
        args, name = self.args, self.kind
        if self.kind != "sleep":
            way = "to" if self.kind == "send" else "from"
            name += f" {way} {args['peer']}, {args['nbytes']} B"
            name += f", {args['protocol']}" if args.get("protocol") else ""
        return {"ph": "X", "pid": self.rank, "tid": self.lane, "ts": self.begin,
                "dur": self.end - self.begin, "name": name,
                "cat": "wait" if self.kind == "sleep" else self.kind, "args": args}


class _Lanes:
    """Which lanes of a rank are free (J3)."""

    def __init__(self):
        self._ends = []

    def take(self, bar):
        """Find a lane for a bar that begins."""
        lane = next((i for i, end in enumerate(self._ends) if end <= bar.begin), len(self._ends))
        self._ends[lane:lane + 1] = [float("inf")]
        bar.lane = lane + 1

    def move(self, bar, begin):
        """A bar that has ended, or not yet, was `_SHORTEST` long and began earlier than it says."""
        bar.begin, bar.end = begin, begin + _SHORTEST
        self.take(bar)
        self.leave(bar)

    def leave(self, bar):
        """It has ended."""
        self._ends[bar.lane - 1] = bar.end


class Joining:
    """Makes entries of events.

    Parameters
    ----------
    start : float
        Time of the first event, us.
    ends : dict of int to float
        Of the ranks whose events come, when each was last heard of, us.
    emit : callable
        Is called with each entry, a dict.
    """

    def __init__(self, start, ends, emit):
        self._start, self._ranks, self._emit = start, ends, emit
        self._bars = {}                     # (rank, operation) -> bar
        self._lanes = defaultdict(_Lanes)
        self._asleep = {}
        self._messages = {}                 # (from, to, number) -> what is known of it
        self._taken = {}                    # those whose match was only that of `match`; a set
        self._arrows = 0

    def add(self, us, rank, event):
        """The next event."""
        us -= self._start
        kind = event.kind
        if kind in _INSTANTS:
            self._emit({"ph": "i", "s": "t", "pid": rank, "tid": 0, "ts": us, "name": kind,
                        "cat": "event", "args": facts(event)})
        if kind == "sleep":
            bar = self._asleep[rank] = self._begin(rank, "sleep", us, event)
        elif kind == "wake":
            bar = self._asleep.pop(rank, None)
            if bar is not None:
                self._end(bar, us)
        elif event.operation is not None:
            self._of_operation(us, rank, event)
        elif kind == "announce":
            bar = self._begin(rank, "send", us, event)
            self._announced(us, bar, event)
            self._end(bar, us)
        elif kind == "unexpected" and event.peer in self._ranks and event.peer != rank:
            self._message(event.peer, rank, event.number)["came"] = True

    def finish(self):
        """There are no more events."""
        for one in list(self._messages.values()):
            self._let_go(one)
        self._messages.clear()
        for bar in [*self._bars.values(), *self._asleep.values()]:
            bar.args["never ended"] = True
            self._end(bar, self._ranks[bar.rank] - self._start)

    def _begin(self, rank, kind, us, event):
        bar = _Bar(rank, kind, us, event)
        self._lanes[rank].take(bar)
        bar.open = True
        return bar

    def _end(self, bar, us):
        bar.end = max(us, bar.end, bar.begin + _SHORTEST)
        bar.open = False
        self._lanes[bar.rank].leave(bar)
        self._write(bar)

    def _write(self, bar):
        if not bar.open and not bar.held:
            self._emit(bar.entry())

    def _of_operation(self, us, rank, event):
        key, kind = (rank, event.operation), event.kind
        bar = self._bars.get(key)
        if bar is not None and kind == "post":
            self._end(self._bars.pop(key), bar.end)     # what else it did was not kept
            bar = None
        if bar is None:
            bar = self._bars[key] = self._begin(rank, event.side, us, event)
        bar.end = max(bar.end, us)
        whole = kind != "match" or event.nbytes <= bar.args["nbytes"]
        more = facts(event)
        if kind.startswith("transfer"):
            del more["nbytes"]      # that of a chunk
        bar.args.update(more)
        if kind == "transfer begin":
            bar.args.setdefault("transfer after, us", round(us - bar.begin, 3))
        if kind == "announce":
            self._announced(us, bar, event)
        elif kind == "match":
            self._matched(us, bar, event)
        # Of eager messages there is no other end, but that of a receive which had no room.
        if kind == "complete" or event.protocol == "eager" and whole and (
                kind == "announce" or kind == "match" and event.side == "receive"):
            self._end(self._bars.pop(key), us)

    def _message(self, source, dest, number):
        one = self._messages.get((source, dest, number))
        if one is None:
            one = self._messages[source, dest, number] = {}
            if len(self._messages) > _WAITING:
                self._let_go(self._messages.pop(next(iter(self._messages))))
        return one

    def _let_go(self, one):
        for bar in (one.get("sender"), one.get("receiver")):
            if bar is not None:
                bar.held = False
                self._write(bar)

    def _announced(self, us, bar, event):
        if event.peer == bar.rank or event.peer not in self._ranks:
            return
        one = self._message(bar.rank, event.peer, event.number)
        one["sent"], one["sender"] = us, bar
        bar.held = True
        self._settle(bar.rank, event.peer, event.number)

    def _matched(self, us, bar, event):
        key = (event.peer, bar.rank, event.number)
        if event.peer == bar.rank or event.peer not in self._ranks:
            return
        if event.side == "match":
            self._taken[key] = None
            if len(self._taken) > _WAITING:
                del self._taken[next(iter(self._taken))]
        elif key in self._taken:
            del self._taken[key]        # the arrow leads to where it was taken
            return
        one = self._message(*key)
        one["matched"], one["receiver"] = us, bar
        bar.held = True
        self._settle(*key)

    def _settle(self, source, dest, number):
        """Draw the arrow, if both ends are known; mark both bars with who was late."""
        one = self._messages[source, dest, number]
        if "sender" not in one or "receiver" not in one:
            return
        del self._messages[source, dest, number]
        out, into = one["sender"], one["receiver"]
        end = max(one["matched"], into.begin)
        if out.begin > end:
            # The event of a send is recorded behind its post; the processor may be lost between.
            self._lanes[source].move(out, end - _SHORTEST)
        # When it came, or was matched, says when its receiver looked: not who called first.
        later = into.begin - out.begin
        who, by = ("receiver", later) if "came" in one or later > 0 else ("sender", -later)
        for bar in (out, into):
            bar.args.update({"late": who, "late by, us": round(max(0.0, by), 3)})
        begin = max(min(one["sent"], end), out.begin)
        self._arrows += 1
        words = f"{out.args['nbytes']} B", out.args.get("protocol"), out.args.get("reason")
        shared = {"name": ", ".join(filter(None, words)), "cat": "message", "id": self._arrows}
        self._emit({"ph": "s", "pid": source, "tid": out.lane, "ts": begin, **shared})
        self._emit({"ph": "f", "bp": "e", "pid": dest, "tid": into.lane, "ts": max(end, begin),
                    **shared})
        self._let_go(one)


# The file ------------------------------------------------------------------------


def _names(rank, recording):
    name = f"rank {rank} ({recording.host})"
    yield {"ph": "M", "pid": rank, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": rank, "name": "process_sort_index", "args": {"sort_index": rank}}


def write(file, recordings):
    """Write FILE.

    Parameters
    ----------
    file : binary file
    recordings : dict of int to Recording
        Of which `scales` knows at least one.
    """
    known = scales(recordings)
    ends, lines = clocks(recordings, known)
    file.write(FIRST_LINE.encode())
    entries = 0

    def emit(entry):
        nonlocal entries
        file.write(((",\n" if entries else "") + json.dumps(entry)).encode())
        entries += 1

    for rank in sorted(known):
        for entry in _names(rank, recordings[rank]):
            emit(entry)
    joining = None
    for us, rank, event in _merged(recordings, known, lines):
        if joining is None:
            joining = Joining(us, {one: lines[one](sum(_span(recordings[one], known[one])))
                                   for one in known}, emit)
        joining.add(us, rank, event)
    if joining is not None:
        joining.finish()
    other = {"format": FORMAT, "version": VERSION, "ranks": sorted(known),
             "size": max(recordings[rank].size for rank in known),
             "killed": sorted(rank for rank in known if not recordings[rank].ended),
             "dropped": {str(rank): recordings[rank].dropped for rank in sorted(known)
                         if recordings[rank].dropped},
             "offsets, us": {str(rank): pair for rank, pair in ends.items()}}
    file.write(f'\n], "otherData": {json.dumps(other)}}}\n'.encode())


def _open(path, size):
    """The recordings of a job, and what is wrong with the others, in words."""
    found, missing = {}, []
    for rank in range(size):
        try:
            found[rank] = recorded.Recording(path, rank)
        except files.FileError as error:
            missing.append(f"{rank} ({error})")
    for rank in sorted(set(found) - set(scales(found))):
        missing.append(f"{rank} (it ended too early to know the length of its ticks)")
        found.pop(rank).close()
    return found, missing


def join(path, size, warn):
    """Make FILE of the files of the ranks, and remove those.

    Parameters
    ----------
    path : str
    size : int
        How many ranks there were.
    warn : callable
        Called with the text for people if ranks have written nothing or not all, or it cannot be
        written.
    """
    recordings, missing = _open(path, size)
    try:
        if missing:
            more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
            warn(f"trace {path}: without ranks {', '.join(missing[:8])}{more}, which ended too "
                 "early or on another host")
        for rank, one in recordings.items():
            if one.dropped:
                why = f": {one.why}; PYRDV_TRACE_BYTES" if one.why else ""
                warn(f"trace {path}: {one.dropped} slots of events of rank {rank} were dropped"
                     + why)
        if not recordings:
            return
        try:
            with files.writing(path) as file:
                write(file, recordings)
        except OSError as error:
            warn(f"the trace is not written to {path}: {error.strerror}; those of the ranks stay")
            return
        for rank in recordings:
            os.unlink(path_of(path, rank))
    finally:
        for one in recordings.values():
            one.close()
