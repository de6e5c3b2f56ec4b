"""The trace of a job in one file: what each rank wrote at its end, brought together.

A rank writes FILE.RANK, a line of JSON with its events.  Whoever has all of them (``pyrdv run``, or
``pyrdv trace`` after other launchers) joins them to FILE, in the JSON of chrome://tracing, which
Perfetto opens, too: a process per rank, a bar per send and receive, an arrow from each send to its
receive.

Bars of one rank that overlap are put into lanes.  Messages are paired by source, destination and
the number of the announcement.  Ranks of one host read one clock.  Between hosts the clocks are
compared by the messages themselves: of those from A to B the one that seems fastest took as long as
the fastest back.  That is done for the first and for the last half of the messages, and a line goes
through both.
"""

import json
import os
from collections import defaultdict

from pyrdv import files
from pyrdv.errors import ConfigError

FORMAT = "pyrdv trace"
VERSION = 1
_SIZE_MAX = 256 << 20
# Bars and arrows need some length to be seen, us.
_SHORTEST = 0.05
_INSTANTS = ("choose", "register", "credit wait", "queue", "offer sent", "offer used",
             "offer dropped", "peer lost", "peer closed")


def path_of(path, rank):
    """The file of one rank."""
    return f"{path}.{rank}"


def _boot():
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename


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


def write(path, rank, size, host, lost, events):
    """Write the events of one rank, named tuples of ``engine.traced``.

    Raises
    ------
    OSError
    """
    head = {"format": FORMAT, "version": VERSION, "rank": rank, "size": size, "host": host,
            "boot": _boot(), "lost": lost, "fields": list(events[0]._fields) if events else [],
            "events": [list(event) for event in events]}
    files.write_whole(path_of(path, rank), json.dumps(head) + "\n")


def read(path, rank):
    """What a rank wrote; its events as dicts with their times in us.

    Raises
    ------
    files.FileError
    """
    content = files.read_json(path_of(path, rank), _SIZE_MAX)
    if not isinstance(content, dict) or content.get("format") != FORMAT \
            or content.get("version") != VERSION or content.get("rank") != rank:
        raise files.FileError("it is no trace of that rank")
    try:
        events = [dict(zip(content["fields"], event, strict=True)) for event in content["events"]]
        for event in events:
            event["us"] = event["time"] * 1e6
            event["operation"] = tuple(event["operation"] or ()) or None
    except (KeyError, TypeError, ValueError):
        raise files.FileError("its events are not well-formed") from None
    content["events"] = events
    return content


# Messages ----------------------------------------------------------------------


def messages(traces):
    """Pairs of events: what announced a message, and what matched it, by (from, to, number).

    Returns
    -------
    dict of tuple to dict
        Keys ``sent``, ``matched`` and, if the receive was late, ``came``.
    """
    found = defaultdict(dict)
    for rank, trace in traces.items():
        for event in trace["events"]:
            kind, peer = event["kind"], event["peer"]
            if peer == rank:
                continue
            if kind == "announce":
                found[rank, peer, event["number"]]["sent"] = event
            elif kind == "unexpected":
                found[peer, rank, event["number"]]["came"] = event
            elif kind == "match":
                # An object's message is matched twice: taken, and then received.
                found[peer, rank, event["number"]].setdefault("matched", event)
    return {key: one for key, one in found.items() if "sent" in one and "matched" in one}


def _fastest(pairs, a, b):
    """The least (arrival - departure) of messages from `a` to `b`, on their own clocks."""
    times = [one.get("came", one["matched"])["us"] - one["sent"]["us"] for one in pairs[a, b]]
    return min(times) if times else None


def _offset(pairs, a, b):
    """How far the clock of `b` is ahead of that of `a`, by messages of both ways; None: unknown."""
    there, back = _fastest(pairs, a, b), _fastest(pairs, b, a)
    return (there - back) / 2 if there is not None and back is not None else None


def _halves(found):
    """The messages per pair of ranks: of the first half, and of the last, in the order of sends."""
    whole = defaultdict(list)
    for (source, dest, _), one in found.items():
        whole[source, dest].append(one)
    first, last = defaultdict(list), defaultdict(list)
    for pair, some in whole.items():
        some.sort(key=lambda one: one["sent"]["us"])
        middle = (len(some) + 1) // 2
        first[pair], last[pair] = some[:middle], some[middle:] or some[:middle]
    return first, last


def set_clocks(traces, found):
    """Put all events on the clock of the lowest rank, in place.

    Returns
    -------
    dict of int to tuple of float
        Offset of each rank at the begin and at the end, us; ranks that cannot be compared with
        others are not there, and their events stay as they are.
    """
    halves = _halves(found)
    root = min(traces)
    known = {root: (0.0, 0.0)}
    todo = [root]
    while todo:
        here = todo.pop()
        for rank in sorted(set(traces) - set(known)):
            if traces[rank]["boot"] == traces[here]["boot"]:
                more = (0.0, 0.0)
            else:
                more = tuple(_offset(half, here, rank) for half in halves)
                if None in more:
                    continue
            known[rank] = tuple(base + extra for base, extra in zip(known[here], more, strict=True))
            todo.append(rank)
    for rank, (begin, end) in known.items():
        events = traces[rank]["events"]
        if events and (begin or end):
            start, length = events[0]["us"], max(events[-1]["us"] - events[0]["us"], 1.0)
            for event in events:
                event["us"] -= begin + (end - begin) * (event["us"] - start) / length
    return known


def late(one):
    """Who came late to a message, and by how much: ``("receiver", us)`` or ``("sender", us)``.

    `one` is an entry of `messages` with ``posted``, the time of the receive's post.
    """
    if "came" in one:
        return "receiver", max(0.0, one["matched"]["us"] - one["came"]["us"])
    return "sender", max(0.0, one["matched"]["us"] - one["posted"])


# The file ------------------------------------------------------------------------


class _Rank:
    """The bars of one rank, and where arrows end there."""

    def __init__(self, rank, trace):
        self.rank = rank
        self.bars = []
        self.events = []
        self.by_operation = {}
        self.single = {}
        asleep = None
        for event in trace["events"]:
            if event["kind"] == "sleep":
                asleep = event
            elif event["kind"] == "wake" and asleep is not None:
                self._bar("sleep", asleep, event["us"], "wait")
                asleep = None
            elif event["operation"] is not None:
                self._of_operation(event)
            elif event["kind"] == "announce":
                bar = self._bar("send", event, event["us"], "send")
                self.single[event["peer"], event["number"]] = bar
            if event["kind"] in _INSTANTS:
                self.events.append({"ph": "i", "s": "t", "pid": rank, "tid": 0, "ts": event["us"],
                                    "name": event["kind"], "cat": "event", "args": facts(event)})

    def _bar(self, name, event, end, kind):
        bar = {"ph": "X", "pid": self.rank, "tid": 0, "ts": event["us"],
               "dur": max(end - event["us"], _SHORTEST), "name": name, "cat": kind,
               "args": facts(event)}
        self.bars.append(bar)
        return bar

    def _of_operation(self, event):
        bar = self.by_operation.get(event["operation"])
        if bar is None or event["kind"] == "post":
            kind = event["side"]
            bar = self.by_operation[event["operation"]] = self._bar(kind, event, event["us"], kind)
        bar["dur"] = max(event["us"] - bar["ts"], _SHORTEST)
        more = facts(event)
        if event["kind"].startswith("transfer"):
            del more["nbytes"]      # that of a chunk
        bar["args"].update(more)
        if event["kind"] == "transfer begin":
            bar["args"].setdefault("transfer after, us", round(event["us"] - bar["ts"], 3))
        if event["kind"] == "announce":
            self.single[event["peer"], event["number"]] = bar

    def lanes(self):
        """Give bars that overlap lanes of their own, and name them."""
        ends = []
        for bar in sorted(self.bars, key=lambda bar: (bar["ts"], -bar["dur"])):
            lane = next((i for i, end in enumerate(ends) if end <= bar["ts"]), len(ends))
            ends[lane:lane + 1] = [bar["ts"] + bar["dur"]]
            bar["tid"] = lane + 1
            if bar["cat"] != "wait":
                args = bar["args"]
                way = "to" if bar["cat"] == "send" else "from"
                bar["name"] = (f"{bar['cat']} {way} {args['peer']}, {args['nbytes']} B"
                               + (f", {args['protocol']}" if args.get("protocol") else ""))


def facts(event):
    """What a bar tells of its message."""
    names = ("peer", "tag", "context", "nbytes", "protocol", "reason", "cost", "instead", "error",
             "line")
    return {name: event[name] for name in names if event[name] not in (None, "", 0.0)
            or name in ("peer", "tag", "nbytes")}


def _arrow(number, sender, receiver, source, one):
    """The two ends of an arrow; marks both bars with who was late."""
    out = sender.single[one["matched_by"], one["sent"]["number"]]
    bar = receiver.by_operation[one["matched"]["operation"]]
    one["posted"] = bar["ts"]
    who, by = late(one)
    for end in (out, bar):
        end["args"].update({"late": who, "late by, us": round(by, 3)})
    end = min(max(one["matched"]["us"], bar["ts"]), bar["ts"] + bar["dur"])
    # A sender may lose the processor between the post of an announcement and its event.
    begin = max(min(one["sent"]["us"], end), out["ts"])
    shared = {"name": "message", "cat": "message", "id": number}
    return ({"ph": "s", "pid": source, "tid": out["tid"], "ts": begin, **shared},
            {"ph": "f", "bp": "e", "pid": receiver.rank, "tid": bar["tid"], "ts": end, **shared})


def chrome(traces):
    """The content of FILE, by what `read` gave for each rank."""
    found = messages(traces)
    offsets = set_clocks(traces, found)
    start = min((trace["events"][0]["us"] for trace in traces.values() if trace["events"]),
                default=0.0)
    for trace in traces.values():
        for event in trace["events"]:
            event["us"] -= start
    ranks = {rank: _Rank(rank, trace) for rank, trace in traces.items()}
    events = []
    for rank, one in ranks.items():
        one.lanes()
        trace = traces[rank]
        name = f"rank {rank} ({trace['host']})"
        events.append({"ph": "M", "pid": rank, "name": "process_name", "args": {"name": name}})
        events.append({"ph": "M", "pid": rank, "name": "process_sort_index",
                       "args": {"sort_index": rank}})
        events += one.bars + one.events
    for number, ((source, dest, _), one) in enumerate(sorted(found.items()), 1):
        one["matched_by"] = dest
        events += _arrow(number, ranks[source], ranks[dest], source, one)
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {
        "format": FORMAT, "version": VERSION,
        "ranks": sorted(traces), "size": max((t["size"] for t in traces.values()), default=0),
        "lost": {str(rank): trace["lost"] for rank, trace in traces.items() if trace["lost"]},
        "offsets, us": {str(rank): offset for rank, offset in offsets.items()}}}


def join(path, size, warn):
    """Make FILE of the files of the ranks, and remove those.

    Parameters
    ----------
    path : str
    size : int
        How many ranks there were.
    warn : callable
        Called with the text for people if ranks have written nothing, or it cannot be written.
    """
    traces, missing = {}, []
    for rank in range(size):
        try:
            traces[rank] = read(path, rank)
        except files.FileError as error:
            missing.append(f"{rank} ({error})")
    if missing:
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        warn(f"trace {path}: without ranks {', '.join(missing[:8])}{more}, which ended too early "
             "or on another host")
    if not traces:
        return
    try:
        files.write_whole(path, json.dumps(chrome(traces)) + "\n")
    except OSError as error:
        warn(f"the trace is not written to {path}: {error.strerror}; those of the ranks stay")
        return
    for rank in traces:
        os.unlink(path_of(path, rank))
