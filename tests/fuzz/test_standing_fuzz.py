"""Messages placed by a broken peer, and into its buffers (Z1-Z5, R3-R6, R8)."""

import pytest
from hypothesis import given, strategies as st

from tests.fuzz.packets import CREDIT, DONE, EAGER, FINISH, HEADER, SYNC, TAGS, Rig
from tests.fuzz.pipes import CHECKED
from tests.fuzz.standing import PLACED, STAND, STRIDE
from tests.fuzz.test_packet_fuzz import KINDS, fuzz, honest_steps, index, sizes, step, tags

#: What makes rank 0 give its buffers to rank 1; what makes it place messages.
GIVEN = [("receive", 0, 5000), ("rendezvous", 0, 5000), ("turn", 20)]
TAKING = [("stand",), ("turn", 5)]
fitting = st.sampled_from((1, 100, 4097, 5000, 11_000, STRIDE, STRIDE + 1, 16_384, 16_385))
placed_steps = [
    step("place", tags, fitting), step("place", st.sampled_from(TAGS), fitting),
    step("place", st.sampled_from(TAGS), fitting, st.just(SYNC),
         st.sampled_from((0, 7, 2**64 - 1))),
    *[step("receive", st.sampled_from(TAGS), fitting)] * 2,
    step("send", fitting), step("send", fitting), step("send", fitting, st.just(1)),
    step("free", st.just(3)), step("free", st.integers(1, 2)),
    step("scribble", st.integers(0, 2), fitting),
    step("eager", tags, sizes, st.sampled_from((0, SYNC))),
    step("put", st.sampled_from(TAGS), sizes),
    step("answer", index, st.just(0))]
placed_programs = st.lists(st.one_of(*honest_steps, *placed_steps, *placed_steps), min_size=20,
                           max_size=60)
odd = st.one_of(
    st.fixed_dictionaries({"kind": st.just(PLACED), "tag": tags, "length": fitting},
                          optional={"flags": st.sampled_from((SYNC, 4, 8)), "cookie": st.just(7),
                                    "given": st.integers(-4, 0)}),
    st.fixed_dictionaries({"kind": st.just(CREDIT)}, optional={"given": st.integers(-4, 4)}),
    st.fixed_dictionaries(
        {"kind": st.sampled_from((PLACED, STAND)), "tag": tags, "length": sizes},
        optional={"flags": st.integers(0, 255), "given": st.integers(-4, 4), "step": st.just(1),
                  "context": st.sampled_from((0, 1, 4, STRIDE, 2**32 - 1))}))


@fuzz
@given(placed_programs)
def test_buffers_that_are_written_over(program):
    """R8: who writes over a buffer while it is copied, or unasked, harms that message alone."""
    Rig("sim").run([*GIVEN, *TAKING, *program])


@fuzz
@given(placed_programs, odd, st.sampled_from((b"", b"", b"", bytes(16), b"x")), placed_programs)
def test_one_odd_packet(before, fields, tail, after):
    """R8: exactly what docs/wire.md forbids breaks the connection."""
    Rig("sim").run([*GIVEN, *TAKING, *before, ("packet", fields, tail), *after])


PLACING = {"kind": PLACED, "tag": 0, "length": 100}
#: Forbidden whatever came before; where no packet can be behind a WRITE, all of it is.
FORBIDDEN = {
    "PLACED without STAND": [("packet", PLACING)],
    "PLACED of no bytes": [*GIVEN, ("packet", {**PLACING, "length": 0})],
    "PLACED that is too long": [*GIVEN, ("packet", {**PLACING, "length": 16_385})],
    "PLACED with bytes behind": [*GIVEN, ("packet", PLACING, b"x")],
    "PLACED with its data behind": [*GIVEN, ("packet", PLACING, bytes(100))],
    "PLACED with a foreign flag": [*GIVEN, ("packet", {**PLACING, "flags": CHECKED})],
    "PLACED that was WAITING for": [*GIVEN, ("packet", {**PLACING, "flags": 2})],
    "PLACED to no tag": [*GIVEN, ("packet", {**PLACING, "tag": -1})],
    "PLACED that overtakes": [*GIVEN, ("packet", {**PLACING, "step": 1})],
    "PLACED after FINISH": [*GIVEN, ("packet", {"kind": FINISH}), ("packet", PLACING)],
    "more than three at once": [
        *GIVEN, *[("place", 1, 100)] * 3, ("packet", {**PLACING, "tag": 1})],
    "more than three, the second of them taken": [
        *GIVEN, ("place", 1, 100), ("place", 2, 100), ("place", 1, 100), ("receive", 2, 100),
        ("turn", 5), ("packet", {**PLACING, "tag": 1})],
    "STAND twice": [*TAKING, ("packet", {"kind": STAND, "context": STRIDE}, bytes(16))],
    "STAND of no bytes": [("packet", {"kind": STAND}, bytes(16))],
    "STAND after FINISH": [("packet", {"kind": FINISH}),
                           ("packet", {"kind": STAND, "context": STRIDE}, bytes(16))],
    "STAND with a flag": [("packet", {"kind": STAND, "context": STRIDE, "flags": 1}, bytes(16))],
    "STAND without its end": [("packet", {"kind": STAND, "context": STRIDE})],
    "STAND with bytes behind": [("packet", {"kind": STAND, "context": STRIDE}, bytes(17))],
    "freed without STAND": [("packet", {"kind": CREDIT, "given": 1})],
    "freed before anything is placed": [*TAKING, ("packet", {"kind": CREDIT, "given": 1})],
    "freed ahead of what was placed": [
        *TAKING, ("send", 9000), ("turn", 9), ("packet", {"kind": CREDIT, "given": 2})],
    "freed ahead, with data": [*TAKING, ("packet", {"kind": EAGER, "given": 1}, b"data")],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden(kind, name):
    """R8, docs/wire.md section 7: each breaks the connection; nothing of it is delivered."""
    rig = Rig(kind)
    program = FORBIDDEN[name]
    if not rig.able:    # then rank 1 has no buffers to give, and what would be placed is read
        program = [one for one in program if one[0] not in ("stand", "place")]
    rig.run([*program, ("turn", 10)])
    assert rig.engine.counters()["protocol_errors"] == 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sim"])
def test_where_nothing_can_be_placed(kind):
    """F9, docs/wire.md section 7: no STAND then, in neither direction."""
    rig = Rig(kind)
    rig.run([*GIVEN, *GIVEN])
    assert rig.room is None and rig.engine.counters()["protocol_errors"] == 0
    rig = Rig(kind)
    rig.run([("packet", {"kind": STAND, "context": STRIDE}, bytes(16)), ("send", 9000),
             ("turn", 9)])
    assert rig.engine.counters()["protocol_errors"] == 1


def test_placed_messages():
    """Z1-Z3: of a second implementation, taken in any order, and into it, between others."""
    rig = Rig("sim")
    rig.run([*GIVEN, *TAKING,
             *[("receive", 2, 9000), ("place", 0, 9000), ("place", 1, 16_384), ("place", 2, 5000),
               ("send", 5000), ("eager", 0, 10), ("send", 12_000, 1), ("receive", 1, 20_000),
               ("receive", 0, 9000), ("turn", 9), ("answer", 0), ("free", 2), ("receive", 0, 10),
               ("send", 9000), ("send", 9000), ("turn", 9), ("free", 3), ("turn", 5),
               ("free", 1)] * 4])
    assert rig.places == 12 and rig.heard_placed == rig.engine.counters()["sends_placed"] == 16
    assert rig.engine.counters()["protocol_errors"] == 0 and not rig.sends


def test_counts_that_come_late():
    """docs/wire.md section 7: an older count of buffers given back says nothing new."""
    rig = Rig("sim")
    rig.run([*TAKING, *[("send", 9000)] * 3, ("turn", 9), ("free", 3), ("turn", 3),
             ("packet", {"kind": CREDIT, "freed": 1}), ("packet", {"kind": CREDIT, "freed": 0}),
             ("packet", {"kind": CREDIT, "given": -4}), *[("send", 9000)] * 3, ("turn", 9)])
    assert rig.heard_placed == 6 and rig.engine.counters()["protocol_errors"] == 0


@pytest.mark.parametrize("first", ["receive", "message"])
@pytest.mark.parametrize("cookie", [0, 5, 2**64 - 1])
def test_synchronous_with_any_cookie(first, cookie):
    """docs/wire.md section 3: the flag asks for DONE, the cookie may be any number."""
    rig = Rig("sim")
    seen = []
    arrived = rig.arrived
    rig.arrived = lambda packet: (seen.append(packet), arrived(packet))
    steps = [("receive", 1, 9000), ("place", 1, 9000, SYNC, cookie), ("turn", 9)]
    rig.run([*GIVEN, *(steps if first == "receive" else [steps[1], steps[2], steps[0], steps[2]])])
    told = [HEADER.unpack(one[:40])[6:8] for one in seen if one[0] == DONE]
    assert told == [(5000, 5000), (9000, cookie)]


@pytest.mark.parametrize("address, key", [(0, 0), (4096, 1), (2**64 - 4096, 2**64 - 1)])
def test_buffers_that_are_not_there(address, key):
    """R5, R8: an announcement is lost with its WRITE, so the connection is; all else goes on."""
    rig = Rig("sim")
    rig.run([("receive", 0, 5000),
             ("packet", {"kind": STAND, "context": STRIDE},
              address.to_bytes(8, "little") + key.to_bytes(8, "little")),
             ("turn", 5), ("send", 9000), ("send", 9000, 1), ("turn", 9), ("honest", 9000)])
    assert rig.engine.counters()["protocol_errors"] == 1 and not rig.sends
    assert rig.heard_placed == 0


def test_a_buffer_is_its_peers_alone():
    """Z5, B4: rank 2's messages do not pass the buffers that rank 1 writes into."""
    rig = Rig("sim")
    rig.run([*GIVEN, *[("scribble", buffer, 16_384) for buffer in range(3)] * 2,
             ("honest", 9000), ("scribble", 0, 16_384), ("honest", 9000), ("honest", 16_384)])
    assert rig.engine.counters()["protocol_errors"] == 0




@pytest.mark.parametrize("kind", [PLACED, STAND])
def test_right_behind_finish(kind):
    """docs/wire.md section 7: neither follows FINISH, also where both come at once."""
    rig = Rig("sim")
    rig.run([*GIVEN, ("finish", kind), ("turn", 10)])
    assert rig.engine.counters()["protocol_errors"] == 1
