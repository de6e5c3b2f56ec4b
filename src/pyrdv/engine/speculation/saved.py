"""The file of a speculation profile: which envelopes' RTRs were of use to one rank in one run.

Only the file and its knobs are called a profile; what the engine keeps is its ``history``.

It is JSON, so that people and programs can read it::

    {"format": "pyrdv speculation profile", "version": 1, "rank": 0, "size": 2, "envelopes": [
    [0, 1, 7, 100, 98],
    [0, 1, 8, 40, 0]
    ]}

An envelope is context, source (world rank), tag, RTRs sent, RTRs used; a context is the number of a
communicator times four, plus the kind of traffic.
"""

import json
import os
import sys

from pyrdv import files
from pyrdv.engine.speculation import histories
from pyrdv.errors import ConfigError

FORMAT = "pyrdv speculation profile"
VERSION = 1
#: With fewer RTRs than this an envelope is not judged.
JUDGED = 3
_SIZE_MAX = 1 << 26
_LIMITS = (1 << 32, 1 << 31, 1 << 31, 1 << 64, 1 << 64)


def path_of(path, rank):
    """The file of one rank."""
    return f"{path}.{rank}"


def check_writable(path, rank):
    """ConfigError if the profile could not be written at the end; better now than then."""
    folder = os.path.dirname(path_of(path, rank)) or "."
    why = ""
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        why = f"into the folder {folder}; make it, or choose another one"
    elif (refused := files.refusal(path_of(path, rank))) is not None:
        why = f"{path_of(path, rank)}: {refused.strerror}"
    if why:
        raise ConfigError(f"PYRDV_SPECULATION_RECORD={path}: rank {rank} cannot write {why}",
                          variable="PYRDV_SPECULATION_RECORD", value=path)


def write(path, rank, size, envelopes):
    """Write the profile of `rank`, as a whole or not at all.

    Parameters
    ----------
    envelopes : iterable of tuple of int
        (context, source, tag, RTRs sent, RTRs used).

    Raises
    ------
    OSError
    """
    head = json.dumps({"format": FORMAT, "version": VERSION, "rank": rank, "size": size})
    lines = ",\n".join(json.dumps(list(one)) for one in sorted(envelopes))
    name = path_of(path, rank)
    files.write_whole(name, f'{head[:-1]}, "envelopes": [\n{lines}\n]}}\n')


def read(path, rank, size):
    """The envelopes in the profile of `rank`, a list of tuples as for `write`.

    Raises
    ------
    ConfigError
        There is none, or it is not of this rank of a job of this size, or not well-formed.
    """
    name = path_of(path, rank)

    def wrong(what):
        return ConfigError(
            f"PYRDV_SPECULATION_PROFILE={path}: {name} {what}; unset the variable, or write a new "
            "profile with PYRDV_SPECULATION_RECORD",
            variable="PYRDV_SPECULATION_PROFILE", value=path)

    try:
        content = files.read_json(name, _SIZE_MAX)
    except files.FileError as error:
        raise wrong(f"{'is no profile' if error.read else 'cannot be read'} ({error})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise wrong("is no profile")
    if content.get("version") != VERSION:
        raise wrong(f"has version {_shown(content, 'version')}; this is version {VERSION}")
    if (content.get("rank"), content.get("size")) != (rank, size):
        raise wrong(f"is of rank {_shown(content, 'rank')} of {_shown(content, 'size')}, and this "
                    f"is rank {rank} of {size}")
    envelopes = content.get("envelopes")
    if not isinstance(envelopes, list):
        raise wrong("has no list of envelopes")
    for number, one in enumerate(envelopes):
        if not _sound(one, size):
            raise wrong(f"has a broken envelope, number {number}: {ascii(one)[:60]}")
    return [tuple(one) for one in envelopes]


def _shown(content, key):
    """What a file says, short and in characters that can be printed."""
    return ascii(content.get(key))[:40]


def _sound(one, size):
    return (isinstance(one, list) and len(one) == len(_LIMITS)
            and all(type(value) is int and 0 <= value < limit
                    for value, limit in zip(one, _LIMITS, strict=True))
            and one[1] < size and one[4] <= one[3])


def useless(envelopes, threshold):
    """Those that should send no RTRs: fewer than `threshold` per cent were used."""
    return [one[:3] for one in envelopes
            if one[3] >= JUDGED and one[4] * 100 < one[3] * threshold]


def begin(engine, config):
    """Read what `config` says of a former run, and begin to record if it says so.

    Raises
    ------
    ConfigError
    """
    if config.speculation_record:
        check_writable(config.speculation_record, engine.rank)
        histories.record(engine)
    if config.speculation_profile:
        envelopes = read(config.speculation_profile, engine.rank, engine.size)
        histories.forbid(engine, useless(envelopes, config.speculation_threshold))


def end(engine, config):
    """Write what was recorded; a failure is told, for nobody can mend it now."""
    if config.speculation_record:
        try:
            write(config.speculation_record, engine.rank, engine.size, histories.recorded(engine))
        except OSError as error:
            print(f"pyrdv: rank {engine.rank}: its speculation profile is not written: {error}",
                  file=sys.stderr)
