"""What a rank waits for, and what it did last, in words for people.

A job that hangs says nothing by itself.  So each of its ranks can say what it knows: where its main
thread stands, what each operation under way waits for, which messages nobody asked for, and the
last events of the trace.  Two such texts show a deadlock: both receive, or both send.
"""

import os
import sys
import threading
from time import monotonic

from pyrdv.api.call import kind_and_number
from pyrdv.api.core import purpose
from pyrdv.collectives.kinds import NAMES
from pyrdv.engine import traced

#: Operations and events that are told one by one.
OPERATIONS, EVENTS = 16, 8

# What an operation waits for, by side and state; {peer} is a rank.
_SEND = {
    "queued": "not announced yet: it waits for its turn, for room, or for the connection to {peer}",
    "announced": "announced{how}; {peer} has not taken it",
    "ready": "waits for room to tell {peer} that its data is not to be had",
    "writing": "writes into the buffer that {peer} offered",
    "laneless": "{peer} asks for its data, it waits for a bounce buffer",
    "piping": "its data goes to {peer} in chunks, which {peer} must take out",
}
_RECEIVE = {
    "posted": "no announcement",
    "ready": "matched with a message of {peer}; waits for room to ask for the data",
    "told": "its data is here; waits for room to tell {peer} so",
    "reading": "reads the data of {peer}",
    "landing": "{peer} writes into its buffer",
    "laneless": "matched with a message of {peer}; waits for a bounce buffer",
    "piping": "the data of {peer} comes in chunks, which {peer} must send",
}


_SCHEDULE = {"scheduled": "{way}waits for messages of its round, which are operations of their own"}


def stands_at(frame):
    """FILE:LINE and function of the innermost frame that is not the library's; empty: none."""
    while frame is not None and frame.f_code.co_filename.startswith(traced.PACKAGE):
        frame = frame.f_back
    if frame is None:
        return ""
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} ({code.co_name})"


def say_unreceived(engine, sends):
    """Write to standard error which sends nobody has received: (peer, tag, bytes) of each."""
    for peer, tag, nbytes in sends:
        print(f"pyrdv: rank {engine.rank}: a send of {nbytes} bytes with tag {tag} to rank {peer} "
              "was never received", file=sys.stderr)


def say_statistics(engines, calibration=None):
    """Write to standard error what the engines of this rank did, in a line each.

    Parameters
    ----------
    engines : sequence of Engine
    calibration : Calibration, optional
        What is known of the device: one line more.
    """
    for engine in engines:
        print(f"pyrdv: rank {engine.rank}: {statistics(engine.counters(), engine.mode)}",
              file=sys.stderr)
    if calibration is not None and (calibration.source or calibration.samples):
        print(f"pyrdv: rank {calibration.rank}: figures of {calibration.device}: "
              f"{calibration.source or 'none, for the machine was busy'}; "
              f"{calibration.samples} samples taken", file=sys.stderr)


def statistics(counters, mode):
    """What an engine did, in words.

    Parameters
    ----------
    counters : dict of str to int
        `Engine.counters`.
    mode : object
        Who makes progress between its calls; None: nobody.
    """
    read = counters["sends_rendezvous"] - counters["rtrs_used"] - counters["sends_piped"]
    sent = {"eager": counters["sends_eager"], "placed": counters["sends_placed"], "read": read,
            "written": counters["rtrs_used"], "in chunks": counters["sends_piped"],
            "to itself": counters["sends_self"]}
    words = ", ".join(f"{count} {how}" for how, count in sent.items() if count) or "none"
    parts = [f"sends: {words}",
             f"receives: {counters['receives']}, {counters['unexpected']} after their messages"]
    if counters["rtrs_sent"]:
        parts.append(f"offers: {counters['rtrs_sent']} sent, {counters['rtrs_withheld']} withheld")
    if counters["registration_misses"]:
        parts.append(f"registrations: {counters['registration_misses']} made, "
                     f"{counters['registration_hits']} found")
    name = type(mode).__name__.lower() if mode is not None else "calls alone"
    trigger = mode.facts().get("trigger", "") if mode is not None else ""
    parts.append(f"progress: {name}{f' by {trigger}' if trigger else ''}")
    if mode is not None:
        parts[-1] += (f", {counters['flows_spawned']} flows, {counters['flow_turns']} steps, "
                      f"{counters['flow_hits']} of them moved something")
    return "; ".join(parts)


def seconds(value):
    """An age as people say it."""
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s" if value >= 0.1 \
        else f"{value * 1e3:.3f} ms"


def peer_of(engine, context, peer):
    """The rank of the world `peer` in the communicator of `context`, as a number for a call."""
    group = engine.groups.get(context)
    return group.index(peer) if group is not None and peer in group else peer


def tag_in_words(tag):
    """A tag as programs write it."""
    return "ANY_TAG" if tag < 0 else str(tag)


def call_of(engine, operation):
    """An operation as the call that posted it."""
    number, what = purpose(operation.context)
    peer = peer_of(engine, operation.context, operation.peer)
    rank = "ANY_SOURCE" if operation.peer < 0 else str(peer)
    on = "" if number < 2 and peer == operation.peer else f", communicator {number}"
    sends = operation.side == "send"
    size = f", {operation.nbytes} bytes" if sends or operation.state != "posted" else ""
    if what == "collective" and (known := kind_and_number(operation.tag)) is not None \
            and known[0] < len(NAMES):
        name = f"{NAMES[known[0]]} (call {known[1]}{on})"
        if operation.side == "schedule":
            return name
        way = f"send to {rank}" if sends else f"receive from {rank}"
        return f"{name}: {way}{size}"
    if what == "parts":
        way = f"send to {rank}" if sends else f"receive from {rank}"
        return f"part of an object{on}: {way}{size}"
    if sends:
        name = "send" if operation.object else "Send"
        name = f"{name[0]}s{name[1:].lower()}" if operation.sync else name
    else:
        name = "recv" if operation.object or operation.side == "match" else "Recv"
    if not operation.waits:
        name = ("i" if name[0].islower() else "I") + name.lower()
    word = "dest" if sends else "source"
    return f"{name}({word}={rank}, tag={tag_in_words(operation.tag)}{size}{on})"


def waits_for(operation):
    """What an operation waits for."""
    words = {"send": _SEND, "schedule": _SCHEDULE}.get(operation.side, _RECEIVE)
    how = f" as {operation.protocol} ({operation.reason})" if operation.protocol else ""
    way = f"is {how.removeprefix(' as ')}, " if how else ""
    return words[operation.state].format(peer=f"rank {operation.peer}", how=how, way=way)


def pending(engine):
    """A line for each operation under way, and for what came unasked for."""
    found = traced.operations(engine)
    for operation in found[:OPERATIONS]:
        at = f" at {operation.line}" if operation.line else ""
        yield (f"{call_of(engine, operation)} posted {seconds(operation.age)} ago{at}, "
               f"{waits_for(operation)}")
    if len(found) > OPERATIONS:
        yield f"and {len(found) - OPERATIONS} other operations under way"
    if not found:
        yield "no operation is under way"
    count, some = traced.unexpected(engine)
    for peer, context, tag, nbytes in some:
        number, what = purpose(context)
        if what == "messages":
            on = f", communicator {number}" if number >= 2 else ""
            yield f"nobody has received a message of {nbytes} bytes from rank {peer}, tag {tag}{on}"
    if count > len(some):
        yield f"{count - len(some)} other messages were not received"


def event_in_words(event, now):
    """One event as a line."""
    words = [f"{seconds(max(0.0, now - event.time))} ago: {event.kind}"]
    if event.side:
        words.append(event.side)
    if event.peer >= 0:
        words.append(f"rank {event.peer}")
    if event.side or event.number or event.nbytes or event.protocol:
        words.append(f"tag {tag_in_words(event.tag)}, {event.nbytes} bytes")
    if event.protocol:
        words.append(f"{event.protocol} ({event.reason})" if event.reason else event.protocol)
    if event.error:
        words.append(f"error {event.error}")
    if event.line:
        words.append(f"at {event.line}")
    return ", ".join(words)


def report(engine, frame=None):
    """All that this rank can say of one engine.

    Parameters
    ----------
    engine : Engine
    frame : frame, optional
        Where the main thread stands.

    Returns
    -------
    list of str
        Lines, each of which names the rank.
    """
    where = stands_at(frame)
    lines = [f"is at {where}"] if where else []
    lines += pending(engine)
    now = monotonic()
    lines += [f"last: {event_in_words(event, now)}" for event in engine.events()[-EVENTS:]]
    return [f"pyrdv: rank {engine.rank}: {line}" for line in lines]


def record(path, rank, size, host):
    """A descriptor of the file into which an engine is to write its events, for `Engine`.

    -1 if there is no `path`, or if there can be no file; then this rank says why.
    """
    if not path:
        return -1
    try:
        return traced.record(path, rank, size, host)
    except OSError as error:
        print(f"pyrdv: rank {rank}: there will be no trace of it: {error}", file=sys.stderr)
        return -1


def say(engines):
    """Write the reports of `engines` to standard error; never raises.

    Past Python's own buffer, for a signal may have come while that was written.
    """
    frame = sys._current_frames().get(threading.main_thread().ident)
    text = "".join(f"{line}\n" for engine in engines for line in report(engine, frame))
    try:
        os.write(2, text.encode("utf-8", "replace"))
    except OSError:
        pass            # closed, or nobody reads it
