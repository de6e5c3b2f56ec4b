from pyrdv.engine.choice.rule import CHOICES as CHOICES

ARRIVALS: dict[str, int]
DEFAULTS: dict[str, str | int]
