# cython: language_level=3
"""How an engine moves what is too long for eager: its parameters by name, and their checks."""
from libc.stdint cimport uint32_t

from pyrdv.engine.protocols.lanes cimport lanes_of, lanes_open
from pyrdv.engine.state cimport ARRIVAL_AUTO, ARRIVAL_FLAGS, ARRIVAL_NOTICE, engine_t

from pyrdv.engine.choice.rule import CHOICES


ARRIVALS = {"auto": ARRIVAL_AUTO, "flags": ARRIVAL_FLAGS, "notice": ARRIVAL_NOTICE}


# Parameters of an engine.
DEFAULTS = {
    # Of messages too long for eager: `get` moves them without a copy, `pipeline` through bounce
    # buffers, `auto` so only where memory cannot be registered.
    "protocol": "auto",
    # How a receiver sees parts of a pipeline arrive: `flags` in memory, `notice` by packets, `auto`
    # by flags where the fabric writes in order.
    "arrival": "auto",
    "lane_bytes": 0,            # of one bounce buffer; 0: by the devices
    "lanes": 4,                 # triples of them per fabric and direction (B3)
    "standing": 4,              # peers whose messages may be placed (protocols/placed)
    "standing_after": 2,        # large messages before that
    "lane_block": 4096,         # of a block and its flag; a multiple of 8
    "chunk_first": 0,           # of the first chunk of a message; 0: by the figures
}


cdef int parameters_set(engine_t *e, given) except -1:
    cdef uint32_t lanes, block, chunk_first
    if unknown := sorted(set(given) - set(DEFAULTS)):
        raise TypeError(f"Engine knows no {', '.join(unknown)}")
    chosen = {**DEFAULTS, **given}
    for name, words in (("protocol", CHOICES), ("arrival", ARRIVALS)):
        if chosen[name] not in words:
            raise ValueError(f"{name}={chosen[name]!r} is not one of {', '.join(words)}")
    lanes, block, chunk_first = chosen["lanes"], chosen["lane_block"], chosen["chunk_first"]
    e.protocol = CHOICES[chosen["protocol"]]
    e.arrival = ARRIVALS[chosen["arrival"]]
    if not lanes_open(e, chosen["lane_bytes"], lanes, block, chunk_first, chosen["standing"],
                      chosen["standing_after"]):
        raise MemoryError
    if block < 16 or block % 8 or lanes_of(e).bytes % 8 or not lanes \
            or not block <= lanes_of(e).bytes <= 1 << 30:
        raise ValueError(f"{lanes} lanes of buffers of {lanes_of(e).bytes} bytes in blocks of "
                         f"{block}, with a first chunk of {chunk_first}, are not possible")
    return 0
