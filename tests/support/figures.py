"""Figures of a device made of software, for tests whose outcome must not depend on this machine."""

from pyrdv.engine import profiles

SIZES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)


def _line(*microseconds):
    return [[size, time * 1e-6] for size, time in zip(SIZES, microseconds, strict=True)]


#: soft-RoCE, in us: medians of nine profiles made in the test lab.
SOFT_ROCE = {
    "schema": profiles.SCHEMA, "ends": ["verbs rxe0:1", "verbs rxe1:1"], "latency": 64e-6,
    "gap": 54e-6, "overhead": 20e-6, "eager_max": 4096, "packet_max": 8192,
    "net": _line(78, 154, 501, 1937, 7706, 30188), "read": _line(60, 140, 445, 1734, 6969, 29363),
    "copy": _line(.5, .6, 1.1, 2.7, 20, 85),
    "registration": [[size, time, 0.0] for size, time in _line(25, 28, 41, 94, 314, 1198)],
    "registration_refused": False}
