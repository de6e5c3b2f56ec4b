"""The one table of knobs: name, unit, default and help of every ``PYRDV_*`` variable.

To add a knob, add one `Knob` to `KNOBS`; `load`, ``pyrdv config`` and the documentation follow.
This module imports only `algorithms` and `errors`, and nothing heavy: it is on the start-up path of
every rank.
"""

from pyrdv import algorithms
from pyrdv.errors import ConfigError

PREFIX = "PYRDV_"

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_YES = ("1", "on", "yes", "true")
_NO = ("0", "off", "no", "false")


class Knob:
    """One setting.

    Parameters
    ----------
    name : str
        Attribute of `Config`; the variable is ``PYRDV_`` and the name in capitals.
    kind : str
        ``size`` (bytes; K, M, G allowed), ``int``, ``seconds`` (float), ``bool``, ``choice``,
        ``ways`` (a word of `algorithms.NAMES` for each kind of call that is named) or ``text``.
    default : object
        Value, in the unit of `kind`, when the variable is absent or empty.
    help : str
        One sentence for ``pyrdv config`` and the documentation.
    low, high : int or float, optional
        Inclusive bounds; the default may lie outside.
    unit : str, optional
        Printed after the value.
    choices : tuple of str, optional
        Allowed words of kind ``choice``.
    form : str, optional
        What a ``text`` looks like, in words; its spelling is checked by whoever uses it.
    """

    __slots__ = ("name", "kind", "default", "help", "low", "high", "unit", "choices", "form")

    def __init__(self, name, kind, default, help, low=None, high=None, unit="", choices=(),
                 form=""):
        self.name = name
        self.kind = kind
        self.default = default
        self.help = help
        self.low = low
        self.high = high
        self.unit = unit or {"size": "bytes", "seconds": "s"}.get(kind, "")
        self.choices = choices
        self.form = form

    @property
    def variable(self):
        """Name of the environment variable."""
        return PREFIX + self.name.upper()

    def allowed(self):
        """Say in words which values are accepted."""
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind == "bool":
            return "1/on/yes/true or 0/off/no/false"
        if self.kind == "text":
            return self.form
        if self.kind == "ways":
            return "a list such as bcast=chain,alltoall=pairwise, of " + "; ".join(
                f"{kind}={'|'.join(names)}" for kind, names in algorithms.NAMES.items())
        what = {
            "size": "a number of bytes such as 65536, 64K, 1M",
            "int": f"a whole number{' of ' + self.unit if self.unit else ''}",
            "seconds": "a number of seconds such as 5 or 0.5",
        }[self.kind]
        if self.low is not None:
            what += (f", at least {self.low}" if self.high is None else
                     f", from {self.low} to {self.high}")
            if not self._within(self.default):
                what += f", or {self.show(self.default)}"
        return what

    def _within(self, value):
        return ((self.low is None or value >= self.low)
                and (self.high is None or value <= self.high))

    def parse(self, text):
        """Turn the text of the variable into a value; ConfigError says what is allowed."""
        try:
            value = _PARSERS[self.kind](self, text.strip())
        except (ValueError, OverflowError):
            value = None
        if value is None or value != self.default and not self._within(value):
            raise ConfigError(
                f"{self.variable}={text!r} is not allowed: it must be {self.allowed()} "
                f"(default {self.show(self.default) or 'empty'}); correct it or unset the variable",
                variable=self.variable, value=text,
            )
        return value

    def show(self, value):
        """The value as it would be written in the environment."""
        if self.kind == "size" and value:
            for letter, unit in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
                if value % unit == 0:
                    return f"{value // unit}{letter}"
        if self.kind == "bool":
            return "on" if value else "off"
        return f"{value:g}" if self.kind == "seconds" else str(value)


def _parse_size(knob, text):
    word = text.lower()
    if word.endswith("b"):
        word = word[:-1].removesuffix("i")
    number = word.rstrip("kmgt")
    return int(float(number) * _UNITS[word[len(number):]]) if word[len(number):] in _UNITS else None


def _parse_bool(knob, text):
    word = text.lower()
    return True if word in _YES else False if word in _NO else None


def _parse_text(knob, text):
    # It goes into error texts and reports of one line.
    return text if text.isprintable() else None


def _parse_choice(knob, text):
    word = text.lower()
    return word if word in knob.choices else None


def _parse_ways(knob, text):
    # In one order, so that ranks that mean the same have one text.
    found = [tuple(word.strip() for word in part.lower().partition("=")[::2])
             for part in text.split(",") if part.strip()]
    kinds = [kind for kind, _ in found]
    if len(set(kinds)) < len(kinds) or any(name not in algorithms.NAMES.get(kind, ())
                                           for kind, name in found):
        return None
    return ",".join(f"{kind}={name}" for kind, name in sorted(found))


_PARSERS = {
    "size": _parse_size,
    "int": lambda knob, text: int(text),
    "seconds": lambda knob, text: float(text),
    "bool": _parse_bool,
    "choice": _parse_choice,
    "text": _parse_text,
    "ways": _parse_ways,
}

KNOBS = (
    Knob("eager_max", "size", 0,
         "Largest message sent eagerly, with its announcement; 0 leaves it to the fabric.",
         low=0, high=1 << 30),
    Knob("unexpected_max", "size", 64 << 20,
         "Unexpected eager data a process is ready to hold, shared by its peers (64K each at "
         "least); past that, senders announce their messages without data.  The same on all "
         "ranks.",
         low=0, high=1 << 40),
    Knob("protocol", "choice", "auto",
         "How messages that are too long to go eagerly are moved: get straight between the users' "
         "buffers, pipeline through registered bounce buffers, auto takes what costs less by the "
         "figures of the fabric, and pipeline where memory cannot be registered.",
         choices=("auto", "get", "pipeline")),
    Knob("profile", "text", "",
         "File of `pyrdv tune` with the costs of messages here, by which auto chooses; one of "
         "another device or version is not used, with a warning.  Empty: what jobs have measured "
         "by themselves.",
         form="a path that can be printed"),
    Knob("calibrate", "bool", True,
         "Whether a job whose device was never measured on this machine does that at its start, "
         "within about a second, and keeps the figures below $XDG_CACHE_HOME (or ~/.cache) for "
         "later ones, and whether it uses what earlier ones kept."),
    Knob("pipeline_buffer", "size", 0,
         "One of the three bounce buffers of a message that is moved by pipeline; four sets of "
         "them on each side, or one per peer in use.  0: 128K, with soft devices up to 512K, as "
         "memory may be locked.",
         low=16 << 10, high=64 << 20),
    Knob("pipeline_arrival", "choice", "auto",
         "How a receiver sees the parts of a pipeline arrive: flags by polling memory (checked by "
         "a CRC where the device promises no order), notice by a packet behind each part, auto is "
         "flags where the device promises order and else notice.",
         choices=("auto", "flags", "notice")),
    Knob("standing_peers", "int", 4,
         "Peers to each of which a rank gives three such buffers of their own, into which they "
         "write messages without asking, where RDMA devices join them and that costs less; and "
         "whose buffers it uses; all take a quarter of PYRDV_REGISTRATION_BYTES at most.  0: none.",
         low=0, high=65535),
    Knob("speculation", "choice", "auto",
         "Whether a large receive that comes before its message offers its buffer, so that the "
         "sender writes into it: indexed tells the sender which message it waits for, classic "
         "leaves that to the order of messages, off never, auto is indexed.  The same on all "
         "ranks.",
         choices=("auto", "indexed", "classic", "off")),
    Knob("speculation_threshold", "int", 80,
         "With classic, offers of an envelope (source, tag and communicator) are stopped when "
         "fewer than this share of them is used, and tried again from time to time; 0 never stops "
         "them, nor those of indexed.",
         low=0, high=100, unit="%"),
    Knob("initial_turn", "bool", True,
         "Whether a large send or receive first looks whether its peer was here before it, so that "
         "the data moves from then on; off leaves that to the next call, to measure what it "
         "brings."),
    Knob("speculation_record", "text", "",
         "File into which each rank writes at its end how the offers of its envelopes fared; a dot "
         "and the rank are appended to the name.  Empty: none.",
         form="a path that can be printed"),
    Knob("speculation_profile", "text", "",
         "Such a file of a former run of the same program: envelopes whose offers were used less "
         "than the threshold make none from the start.  Empty: none.",
         form="a path that can be printed"),
    Knob("spin", "int", -1,
         "Time a waiter polls before it yields; -1 is automatic (none when cores are scarce).",
         low=-1, high=10_000_000, unit="us"),
    Knob("progress", "choice", "auto",
         "Who makes progress while no call of the library runs: polling nobody, parasite a signal "
         "that borrows the thread whose message needs it, thread one of its own; auto is parasite "
         "where a peer is reached over RDMA, else polling.",
         choices=("auto", "polling", "parasite", "thread")),
    Knob("parasite_trigger", "choice", "event",
         "What sends the parasite's signal: the event itself, by the descriptor that a message "
         "makes readable, or a timer, now and then.",
         choices=("event", "timer")),
    Knob("parasite_phase", "int", 2,
         "Time from a request to the first turn of the parasite.",
         low=0, high=1_000_000, unit="us"),
    Knob("parasite_period", "int", 10,
         "Time from one turn of the parasite to the next, at first.",
         low=1, high=1_000_000, unit="us"),
    Knob("parasite_decay", "int", 2,
         "Factor by which the period grows with each turn of the parasite in vain.",
         low=1, high=1000),
    Knob("parasite_turn_limit", "int", 100,
         "Turns in vain after which the parasite gives up until the next request.",
         low=1, high=1 << 30),
    Knob("parasite_share", "int", 2,
         "Most of a thread's time that turns of the parasite in vain, and its signals, may take.",
         low=1, high=100, unit="%"),
    Knob("single_copy", "choice", "auto",
         "Large messages between processes of one host by process_vm_readv: auto tries it and "
         "falls back, on makes its absence an error, off never uses it.",
         choices=("auto", "on", "off")),
    Knob("timeout_start", "seconds", 60.0,
         "How long a rank waits at start for the launcher and the other ranks.",
         low=0.1, high=86400.0),
    Knob("fabric", "choice", "auto",
         "How ranks reach each other: auto takes shared memory between processes of one user on "
         "one host and verbs between all others, shm refuses peers on other hosts, verbs is used "
         "even within one host.  The same on all ranks.",
         choices=("auto", "shm", "verbs")),
    Knob("rdma_device", "text", "",
         "The RDMA device, and its port, that this rank uses; empty chooses.",
         form="NAME or NAME:PORT, such as mlx5_0 or rxe0:1"),
    Knob("rdma_gid", "int", -1,
         "Index in the port's table of addresses (GIDs) that this rank uses; -1 chooses.",
         low=-1, high=65535),
    Knob("rdma_ring", "choice", "auto",
         "Small messages by RDMA write into a ring that the receiver polls in memory: auto where "
         "the device promises that data arrives in order, on everywhere (checked by a CRC where "
         "nothing is promised), off never: they go by send and receive.",
         choices=("auto", "on", "off")),
    Knob("registration_cache", "choice", "auto",
         "What stays registered with an RDMA device for the next large message from or into the "
         "same array: auto what other ranks may read but not write, trust also what they may write "
         "into, off nothing.",
         choices=("auto", "trust", "off")),
    Knob("registration_bytes", "size", 0,
         "Most memory of arrays that stays registered; 0 is automatic (a quarter of the "
         "machine's, and half of `ulimit -l` where that holds).",
         low=0, high=1 << 46),
    Knob("registration_entries", "int", 1024,
         "Most arrays, or parts of them, that stay registered.",
         low=1, high=1 << 20),
    Knob("pool_bytes", "size", 0,
         "Most memory that the pool of registered arrays takes; 0 is automatic (a quarter of the "
         "machine's).",
         low=0, high=1 << 42),
    Knob("collectives", "ways", "",
         "Algorithms that kinds of collective calls take wherever they can, instead of those of "
         "the table (`pyrdv doctor --collectives`).  The same on all ranks.  Empty: none."),
    Knob("connect", "choice", "demand",
         "When ranks connect to each other: demand at the first message, start all at once when "
         "the job starts.  The same on all ranks.",
         choices=("demand", "start")),
    Knob("trace", "text", "",
         "File for what every rank does, for Perfetto and `pyrdv trace`; each rank writes one of "
         "its own, with a dot and its number behind the name, and `pyrdv run` makes one of all.  "
         "Empty: none.",
         form="a path that can be printed"),
    Knob("trace_bytes", "size", 64 << 20,
         "Room for the events of one rank in its file; when it is full, only the last 8192 slots "
         "of those that come later are kept.  A message of 8 B takes 32 bytes on either side.",
         low=1 << 20, high=1 << 42),
    Knob("trace_lines", "bool", False,
         "Whether each operation remembers the line of the program that posted it, for what a rank "
         "says when its job hangs; about a microsecond per call."),
    Knob("stats", "bool", False,
         "Whether each rank says at its end what its messages took, and who made progress."),
    Knob("debug", "bool", False,
         "Assert at run time what the engine's rules promise, and make progress in the hardest "
         "order that they allow; slower.  A broken rule ends the process by SIGABRT."),
    Knob("peer_timeout", "seconds", 5.0,
         "How long a peer that answers nothing is believed alive.",
         low=0.5, high=86400.0),
)

# Set by `pyrdv run` for its ranks. Internal: they may change in any version. The first element
# is the variable, the second what it means.
INTERNAL = (
    ("PYRDV_RANK", "rank of the process, from 0"),
    ("PYRDV_SIZE", "number of ranks of the job"),
    ("PYRDV_ADDRESS", "HOST:PORT where the launcher listens"),
    ("PYRDV_DOOR", "where ranks of the launcher's machine connect to it: a path, and the name of "
     "the socket behind it"),
    ("PYRDV_JOB", "random name of the job"),
    ("PYRDV_SECRET_FD", "descriptor of a pipe by which the secret of the job comes; read once"),
    ("PYRDV_SECRET", "hexadecimal secret of a job that other launchers start; removed once read"),
    ("PYRDV_PID", "the process that is the rank; its children see another number than their own"),
    ("PYRDV_WRAPPED", "1: the program is not Python, or an agent or a wrapper starts it, so the "
     "first Python descendant that asks is the rank"),
    ("PYRDV_HOST", "name that `pyrdv run --hosts` gave the host of the rank, for people"),
)


def between_calls(progress, rdma):
    """Who makes progress between calls: `progress`, or what ``auto`` means.

    On one host processors copy, and a signal has them copy at a worse time; a device only has to
    be told where to (docs/progress.md has the figures).

    Parameters
    ----------
    progress : str
        The knob.
    rdma : bool
        Whether a peer is reached over RDMA.
    """
    if progress == "auto":
        return "parasite" if rdma else "polling"
    return progress


_BY_VARIABLE = {knob.variable: knob for knob in KNOBS}
# Read at build time (PYRDV_SANITIZE...), by tools or by the test lab: known here so that nobody
# is warned of them.
_ELSEWHERE = ("PYRDV_SANITIZE", "PYRDV_DEBUG", "PYRDV_MODULES", "PYRDV_VERBS")
_ELSEWHERE_PREFIX = "PYRDV_LAB_"


class Config:
    """Settings of one process: an attribute per knob, frozen."""

    __slots__ = tuple(knob.name for knob in KNOBS)

    def __init__(self, **values):
        for knob in KNOBS:
            object.__setattr__(self, knob.name, values.pop(knob.name, knob.default))
        if values:
            raise ConfigError(
                f"no such setting: {', '.join(sorted(values))}; "
                f"known are {', '.join(self.__slots__)}"
            )

    def __setattr__(self, name, value):
        raise AttributeError(
            f"settings are frozen; set {PREFIX}{name.upper()} before the program starts"
        )

    def __delattr__(self, name):
        self.__setattr__(name, None)

    def __eq__(self, other):
        if not isinstance(other, Config):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None

    def __repr__(self):
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"Config({inside})"


def load(environ, warn=None):
    """Read every knob from an environment.

    Parameters
    ----------
    environ : mapping of str to str
        Usually `os.environ`. An empty value counts as absent.
    warn : callable, optional
        Called with the text of each warning; the default is `warnings.warn`.

    Returns
    -------
    Config

    Raises
    ------
    ConfigError
        A value is not allowed; the text names the variable, the value and what is allowed.
    """
    values = {}
    internal = {name for name, _ in INTERNAL}
    for name, text in environ.items():
        if not name.startswith(PREFIX):
            continue
        knob = _BY_VARIABLE.get(name)
        if knob is not None:
            if text.strip():
                values[knob.name] = knob.parse(text)
        elif not (name in internal or name in _ELSEWHERE or name.startswith(_ELSEWHERE_PREFIX)):
            _warn_unknown(name, warn)
    return Config(**values)


def _warn_unknown(name, warn):
    # Rare, so the cost of these imports is paid only then.
    from difflib import get_close_matches

    close = get_close_matches(name, list(_BY_VARIABLE), n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else "`pyrdv config` lists the known ones"
    text = f"environment variable {name} is not known to pyrdv and has no effect; {hint}"
    if warn is None:
        import warnings

        warnings.warn(text, stacklevel=3)
    else:
        warn(text)


def ways(text):
    """The value of a knob of kind ``ways`` as a dict of kind to name."""
    return dict(part.split("=") for part in text.split(",") if part)


def choices(name):
    """The words that the knob `name` takes."""
    return _BY_VARIABLE[PREFIX + name.upper()].choices


def table(environ):
    """Rows of (variable, present value, unit, where it comes from, help) for people to read."""
    for knob in KNOBS:
        text = environ.get(knob.variable, "").strip()
        value = knob.parse(text) if text else knob.default
        yield (knob.variable, knob.show(value), knob.unit,
               "environment" if text else "default", knob.help)
