"""The one table of knobs: name, unit, default and help of every ``PYRDV_*`` variable.

To add a knob, add one `Knob` to `KNOBS`; `load`, ``pyrdv config`` and the documentation follow.
This module imports only `errors`, and nothing heavy: it is on the start-up path of every rank.
"""

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
        ``size`` (bytes; K, M, G allowed), ``int``, ``seconds`` (float), ``bool`` or ``choice``.
    default : object
        Value, in the unit of `kind`, when the variable is absent or empty.
    help : str
        One sentence for ``pyrdv config`` and the documentation.
    low, high : int or float, optional
        Inclusive bounds.
    unit : str, optional
        Printed after the value.
    choices : tuple of str, optional
        Allowed words of kind ``choice``.
    """

    __slots__ = ("name", "kind", "default", "help", "low", "high", "unit", "choices")

    def __init__(self, name, kind, default, help, low=None, high=None, unit="", choices=()):
        self.name = name
        self.kind = kind
        self.default = default
        self.help = help
        self.low = low
        self.high = high
        self.unit = unit or {"size": "bytes", "seconds": "s"}.get(kind, "")
        self.choices = choices

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
        what = {
            "size": "a number of bytes such as 65536, 64K, 1M",
            "int": f"a whole number{' of ' + self.unit if self.unit else ''}",
            "seconds": "a number of seconds such as 5 or 0.5",
        }[self.kind]
        if self.low is not None and self.high is not None:
            return f"{what}, from {self.low} to {self.high}"
        if self.low is not None:
            return f"{what}, at least {self.low}"
        return what

    def parse(self, text):
        """Turn the text of the variable into a value; ConfigError says what is allowed."""
        try:
            value = _PARSERS[self.kind](self, text.strip())
        except (ValueError, OverflowError):
            value = None
        if value is None or (self.low is not None and not value >= self.low) or (
            self.high is not None and not value <= self.high
        ):
            raise ConfigError(
                f"{self.variable}={text!r} is not allowed: it must be {self.allowed()} "
                f"(default {self.show(self.default)}); correct it or unset the variable",
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


def _parse_choice(knob, text):
    word = text.lower()
    return word if word in knob.choices else None


_PARSERS = {
    "size": _parse_size,
    "int": lambda knob, text: int(text),
    "seconds": lambda knob, text: float(text),
    "bool": _parse_bool,
    "choice": _parse_choice,
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
    Knob("spin", "int", -1,
         "Time a waiter polls before it sleeps; -1 is automatic (short when cores are scarce).",
         low=-1, high=10_000_000, unit="us"),
    Knob("single_copy", "choice", "auto",
         "Large messages between processes of one host by process_vm_readv: auto tries it and "
         "falls back, on makes its absence an error, off never uses it.",
         choices=("auto", "on", "off")),
    Knob("timeout_start", "seconds", 60.0,
         "How long a rank waits at start for the launcher and the other ranks.",
         low=0.1, high=86400.0),
)

# Set by `pyrdv run` for its ranks. Internal: they may change in any version. The first element
# is the variable, the second what it means.
INTERNAL = (
    ("PYRDV_RANK", "rank of the process, from 0"),
    ("PYRDV_SIZE", "number of ranks of the job"),
    ("PYRDV_ADDRESS", "HOST:PORT where the launcher listens"),
    ("PYRDV_JOB", "random name of the job"),
    ("PYRDV_SECRET", "hexadecimal secret of the job; removed from the environment once read"),
    ("PYRDV_PID", "the process that is the rank; its children see another number than their own"),
    ("PYRDV_WRAPPED", "1: the program is not Python, so its first Python descendant is the rank"),
)

_BY_VARIABLE = {knob.variable: knob for knob in KNOBS}
# Read at build time (PYRDV_SANITIZE...) or by tools: known here so that nobody is warned of them.
_ELSEWHERE = ("PYRDV_SANITIZE", "PYRDV_DEBUG", "PYRDV_MODULES")


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
        elif name not in internal and name not in _ELSEWHERE:
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


def table(environ):
    """Rows of (variable, present value, unit, where it comes from, help) for people to read."""
    for knob in KNOBS:
        text = environ.get(knob.variable, "").strip()
        value = knob.parse(text) if text else knob.default
        yield (knob.variable, knob.show(value), knob.unit,
               "environment" if text else "default", knob.help)
