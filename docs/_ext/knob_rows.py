"""The rows of the tables of settings; apart from the directives so that tests need no Sphinx."""

from pyrdv import algorithms, config


def knob_rows():
    """Rows (variable, default, allowed values, meaning) of every knob."""
    return [
        (knob.variable, f"{knob.show(knob.default) or 'empty'} {knob.unit}".strip(),
         knob.allowed(), knob.help)
        for knob in config.KNOBS
    ]


def algorithm_rows():
    """Rows (kind, algorithm, when, why, source of the limits) of the table of algorithms."""
    return [(way.kind, f"``{way.name}``", way.when(), way.why or "–", way.source or "–")
            for way in algorithms.TABLE]


def internal_rows():
    """Rows (variable, meaning) of what `pyrdv run` sets."""
    return [tuple(row) for row in config.INTERNAL]
