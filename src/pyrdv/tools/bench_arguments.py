"""What the options of ``pyrdv bench`` look like: each function turns a word into its value.

They raise `argparse.ArgumentTypeError` with the word and what would be right.
"""

import argparse

from pyrdv.tools import bench_report as report


def positive(text):
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def even(text):
    """An even number of ranks."""
    number = positive(text)
    if number % 2:
        raise argparse.ArgumentTypeError(f"{number} is odd; ranks work in pairs, take an even one")
    return number


def several(text):
    """At least two ranks."""
    number = positive(text)
    if number < 2:
        raise argparse.ArgumentTypeError("one rank has nobody to connect to, take at least 2")
    return number


def counts(text):
    """Numbers of ranks, sorted."""
    return sorted({several(word) for word in text.split(",")})


def _number(text):
    try:
        return float(text)
    except ValueError:
        return -1.0


def seconds(text):
    """A time in seconds."""
    value = _number(text)
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and 3600")
    return value


def factor(text):
    """A number between 0 and 1000."""
    value = _number(text)
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and up to 1000")
    return value


def factors(text):
    """Numbers between 0 and 1000, sorted."""
    return sorted({factor(word) for word in text.split(",")})


def delays(text):
    """The same, but 0 is allowed."""
    return sorted({0.0 if _number(word) == 0 else factor(word) for word in text.split(",")})


def sizes(text):
    """Message sizes in bytes."""
    try:
        found = [report.parse_size(word) for word in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: the smallest size is 1 byte")
    return found


def some_of(known, what):
    """Return a function for words out of `known`, which are `what`."""

    def parse(text):
        names = list(dict.fromkeys(text.split(",")))
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"{name!r} is not {what}; take one of {', '.join(known)}")
        return names

    return parse
