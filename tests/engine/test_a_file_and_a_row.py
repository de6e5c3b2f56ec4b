"""A new protocol is a file and a row: one is added to a copy of the package, and works.

Nothing else is touched: neither the step, nor the choice, nor the end of peers, nor the engine.
"""

import pytest

from pyrdv.engine.protocols import table
from tests.support import copies

#: Each rank tells each peer once that it is there, as soon as something is to be served.
FILE = '''# cython: language_level=3
"""A note of presence.

sender                                      receiver
  NOTE                              ─────▶   counted; a second one breaks the rules
"""
from libc.stdint cimport uint32_t, uint64_t

from pyrdv.engine.control cimport control_post, header_fill
from pyrdv.engine.digest cimport mix
from pyrdv.engine.engine cimport Engine
from pyrdv.engine.peer cimport peer_activate
from pyrdv.engine.protocols.contract cimport VERDICT_ILLEGAL, VERDICT_TAKEN, protocol_t
from pyrdv.engine.state cimport PEER_UP, call_t, engine_t, peer_t
from pyrdv.engine.wire cimport WIRE_HEADER, header_t
from pyrdv.fabrics.contract cimport FABRIC_OK


cdef enum:
    PACKET_NOTE = 31

cdef struct note_t:             # of one peer
    uint32_t told
    uint32_t heard
    uint32_t gone

cdef protocol_t operations


cdef inline note_t *own(const peer_t *p) noexcept nogil:
    return <note_t *> (p.own + operations.peer_offset)


cdef int note_arrived(engine_t *e, peer_t *p, const header_t *h, const void *data) noexcept nogil:
    if own(p).heard:
        return VERDICT_ILLEGAL
    own(p).heard = 1
    return VERDICT_TAKEN


cdef void note_owed(engine_t *e, peer_t *p) noexcept nogil:
    cdef header_t h
    if p.state != PEER_UP or own(p).told:
        return
    header_fill(p, &h, PACKET_NOTE, 0, 0, 0, 0)
    if control_post(p, &h, WIRE_HEADER) == FABRIC_OK:
        own(p).told = 1
    else:
        peer_activate(e, p)


cdef void note_gone(call_t *call, peer_t *p, bint everything) noexcept nogil:
    own(p).gone += 1


cdef void note_hash(const peer_t *p, uint64_t *h) noexcept nogil:
    mix(h, <uint64_t> own(p).told << 32 | own(p).heard)


operations.name = b"note"
operations.owed = note_owed
operations.peer_gone = note_gone
operations.peer_bytes = sizeof(note_t)
operations.hash = note_hash
operations.kind_count = 1
operations.kinds[0].kind = PACKET_NOTE
operations.kinds[0].length = WIRE_HEADER
operations.kinds[0].arrived = note_arrived


cdef protocol_t *note_protocol() noexcept nogil:
    return &operations


def notes(Engine engine not None, int peer):
    cdef const note_t *note = own(&engine.c.peers[peer])
    return note.told, note.heard, note.gone
'''
DECLARATION = '''# cython: language_level=3
from pyrdv.engine.protocols.contract cimport protocol_t

cdef protocol_t *note_protocol() noexcept nogil
'''
ROW = (("from pyrdv.engine.protocols.placed cimport placed_protocol",
        "from pyrdv.engine.protocols.note cimport note_protocol\n"
        "from pyrdv.engine.protocols.placed cimport placed_protocol"),
       ("add(finish_protocol())", "add(finish_protocol())\nadd(note_protocol())"))
USE = """
from pyrdv.engine.engine import Engine
from pyrdv.engine.protocols.note import notes
from pyrdv.engine.protocols.table import kinds
from pyrdv.instruments.engine import Driver
from pyrdv.instruments.sim.network import Network

network = Network(2, slots=4)    # so that sends wait, and peers are served
engines = [Engine(rank, 2, [network.fabric(rank)], debug=True) for rank in range(2)]
drivers = [Driver(engine) for engine in engines]


def settle():
    for _ in range(100):
        for engine in engines:
            engine.turn()
        while network.run_next():
            pass


for rank in range(2):
    engines[rank].connect(1 - rank)
settle()
print(kinds()[31], notes(engines[0], 1), notes(engines[1], 0))
before = drivers[1].fingerprint()
receives = [drivers[rank].receive(1 - rank, 1, bytearray(9)) for rank in (0, 1) * 9]
sends = [drivers[rank].send(1 - rank, 1, bytes(9)) for rank in (0, 1) * 9]
settle()
print(all(one.ended() and one.result[0] == 0 for one in receives + sends))
print(notes(engines[0], 1), notes(engines[1], 0), drivers[1].fingerprint() != before)
print([engine.counters()["protocol_errors"] for engine in engines])
network.inject(0, 1, bytes([31]) + bytes(47))       # a second one
settle()
print(engines[1].peer_states(), notes(engines[1], 0)[2])
"""


@pytest.mark.slow
def test_a_protocol_is_a_file_and_a_row(tmp_path):
    path = "engine/protocols/table.pyx"
    text = (copies.ROOT / "src" / "pyrdv" / path).read_text("utf-8")
    for old, new in ROW:
        assert text.count(old) == 1
        text = text.replace(old, new)
    package = copies.copy(tmp_path, {
        path: text, "engine/protocols/note.pyx": FILE, "engine/protocols/note.pxd": DECLARATION})
    done = copies.run(package, "-c", USE, timeout=60)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "note (0, 0, 0) (0, 0, 0)",
        "True",
        "(1, 1, 0) (1, 1, 0) True",
        "[0, 0]",
        "['lost', 'self'] 1"]
    assert 31 not in table.kinds()
