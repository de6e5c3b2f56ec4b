"""Whatever packets a peer sends, it can only lose its own connection (R3, R5, R6, R8).

``FUZZ_EXAMPLES`` sets how many examples each property gets (`make fuzz` gives many).
"""

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.fuzz.packets import (
    CREDIT,
    DONE,
    EAGER,
    FIN,
    FINISH,
    MEMORY,
    OFFER,
    REFUSED,
    RESUME_RTR,
    REVOKE,
    REVOKED,
    RTR,
    RTS,
    RTS_ACK,
    START,
    STOP_RTR,
    SYNC,
    TAGS,
    UNITS,
    WAITING,
    WILD_TAG,
    Rig,
    header,
)
from tests.fuzz.pipes import CHECKED, CHUNK, GRANT, PIPED, TAIL, TAKEN
from tests.fuzz.standing import PLACED, STAND

LONG = "FUZZ_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
# The test suite tries the same programs each time; `make fuzz` tries new ones by its seed.
fuzz = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck),
                **({"database": None} if LONG else {"derandomize": True}))
KINDS = ("sim", "shm", "shm-staged", "sim:classic", "shm:classic")

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
# Numbers of operations that rank 0 may have now: few slots, young generations.
guesses = st.builds(lambda old, slot: old << 32 | slot, st.integers(0, 4), st.integers(100, 130))
sizes = st.sampled_from((0, 1, 63, 64, 65, 4000, 4096, 5000, 11_000, 16_384, 16_385, 70_000,
                         200_000))
packet_sizes = st.sampled_from((0, 1, 8, 63, 64, 65, 1000, 4000, 1 << 20))
tags = st.sampled_from((*TAGS, WILD_TAG))
contexts = st.sampled_from((0, 0, 0, 1, 3, 20, 2**32 - 4, 2**32 - 1))
extremes = st.sampled_from((0, 1, 40, 4096, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)) | U64
memory = st.builds(MEMORY.pack, extremes, extremes)
odd_fields = st.fixed_dictionaries(
    {"kind": st.sampled_from((EAGER, EAGER, RTS, RTS, DONE, DONE, CREDIT, FINISH, RTR, START, FIN,
                              REVOKE, REVOKED, GRANT, CHUNK, TAKEN, RTS_ACK, PLACED, PLACED, STAND))
     | st.integers(0, 255)},
    optional={
        "flags": st.sampled_from((SYNC, REFUSED, SYNC | REFUSED, PIPED, STOP_RTR, RESUME_RTR, 32))
                 | st.integers(0, 255),
        "content": st.sampled_from((0, 1)) | st.integers(0, 65535), "freed": U32,
        "context": contexts,
        "tag": tags | st.sampled_from((-1, -2, -2**31, 2**31 - 1)), "length": extremes,
        "cookie": guesses | extremes, "live": st.integers(0, 9), "stale": st.integers(0, 9),
        "step": st.sampled_from((-1, 1, 2**31)), "given": st.sampled_from((-1, 1, 3, 4, 2**31)),
        "more": st.sampled_from((-1, 1, UNITS, UNITS + 1, 2**31 - 1, 2**31, -2**20))})
# Headers without a fault, but with odd cookies, lengths and memory.
plain_fields = st.one_of(
    st.fixed_dictionaries({"kind": st.just(RTS), "tag": tags, "length": extremes | sizes,
                           "context": contexts, "cookie": guesses | extremes}),
    st.fixed_dictionaries({"kind": st.just(EAGER), "tag": tags, "flags": st.just(SYNC),
                           "context": contexts, "cookie": guesses | extremes}),
    st.fixed_dictionaries({"kind": st.just(DONE), "live": st.integers(0, 9),
                           "flags": st.sampled_from((0, REFUSED, WAITING))}),
    st.fixed_dictionaries({"kind": st.just(DONE), "cookie": guesses}),
    st.fixed_dictionaries({"kind": st.just(RTS_ACK), "live": st.integers(0, 9)}),
    st.fixed_dictionaries({"kind": st.just(RTS), "tag": tags, "length": sizes,
                           "flags": st.sampled_from((STOP_RTR, RESUME_RTR))}),
    st.fixed_dictionaries({"kind": st.sampled_from((START, FIN)), "tag": tags, "length": sizes,
                           "cookie": guesses}),
    st.just({"kind": REVOKE}),
    st.fixed_dictionaries({"kind": st.sampled_from((CHUNK, TAKEN, GRANT)), "length": sizes,
                           "cookie": guesses, "step": st.integers(-3, 3)}),
    st.fixed_dictionaries({"kind": st.just(RTS), "tag": tags, "length": sizes,
                           "flags": st.just(PIPED), "cookie": guesses | extremes}),
    st.fixed_dictionaries({"kind": st.just(PLACED), "tag": tags, "length": sizes,
                           "flags": st.sampled_from((0, SYNC)), "cookie": guesses | extremes}),
    st.fixed_dictionaries({"kind": st.just(STAND), "context": sizes}),
    st.just({"kind": CREDIT}))


def step(name, *values):
    return st.tuples(st.just(name), *values)


index = st.integers(0, 9)
honest_steps = [
    step("receive", st.sampled_from(TAGS), sizes), step("wild", sizes), step("object"),
    step("send", sizes, st.integers(0, 1)), step("probe", tags), step("cancel", index),
    step("honest", sizes), step("turn", st.integers(1, 5))]
legal_steps = [
    step("eager", tags, packet_sizes, st.sampled_from((0, SYNC))), step("rendezvous", tags, sizes),
    step("answer", index, st.integers(0, 1)), step("answer", index, st.just(0)),
    step("put", st.sampled_from(TAGS), sizes), step("put", st.sampled_from(TAGS), sizes),
    step("offer", st.sampled_from((3, 3, 0)), sizes),
    step("piped", tags, sizes), step("piped", st.sampled_from(TAGS), sizes),
    step("chunk", sizes, st.integers(1, 3)), step("chunk", sizes, st.integers(1, 3)),
    step("grant", index, st.integers(0, 7)), step("take"), step("take"),
    step("place", tags, sizes), step("place", st.sampled_from(TAGS), sizes,
                                     st.sampled_from((0, SYNC))),
    step("stand"), step("free", st.integers(1, 3)), step("free", st.just(3))]
odd_steps = [
    step("raw", st.binary(max_size=120)),
    step("raw", st.builds(lambda byte, size: bytes((byte,)) * size, st.integers(0, 255),
                          st.integers(0, 5000))),
    step("packet", odd_fields, st.just(b"") | memory | st.binary(max_size=90)),
    step("packet", odd_fields, memory), step("packet", plain_fields, memory),
    step("packet", plain_fields, st.just(b""))]
legal_programs = st.lists(st.one_of(*honest_steps, *legal_steps), max_size=30)
programs = st.lists(st.one_of(*honest_steps, *legal_steps, *odd_steps), max_size=40)


@pytest.mark.parametrize("kind", KINDS)
@fuzz
@given(programs)
def test_broken_peer(kind, program):
    """R8: no crash; its operations end; nothing leaks; the honest rank's messages arrive."""
    Rig(kind).run(program)


@pytest.mark.parametrize("kind", KINDS)
@fuzz
@given(legal_programs, odd_fields, st.binary(max_size=60), legal_programs)
def test_one_odd_packet(kind, before, fields, tail, after):
    """R8: exactly the packets that docs/wire.md forbids break the connection."""
    Rig(kind).run([*before, ("packet", fields, tail), *after])


@pytest.mark.parametrize("kind", KINDS)
@fuzz
@given(legal_programs)
def test_legal_packets_from_elsewhere(kind, program):
    """R4, R6: a second implementation that keeps to docs/wire.md is understood."""
    Rig(kind).run(program)


@pytest.mark.parametrize("kind", KINDS)
def test_every_length(kind):
    """R8: packets of every length, of noise and with a legal beginning."""
    most = Rig(kind).driver.packet_max
    noise = random.Random(kind)
    for size in [*range(0, 66), *range(66, most, 397), most - 1, most]:
        Rig(kind).run([("receive", 0, 64), ("raw", noise.randbytes(size)), ("honest", 100)])
        begun = header(EAGER, length=max(size - 40, 0)) + bytes(size)
        Rig(kind).run([("receive", 0, 64), ("raw", begun[:size])])


# A receive of rank 0 that offers its buffer, and the START that takes the first offer.
OFFERING = ("receive", 0, 70_000)
STARTING = {"kind": START, "tag": 0, "length": 10, "offered": 0}
# GRANT of the first message of rank 0; a message of rank 1 that rank 0 has granted.
GRANTING = {"kind": GRANT, "live": 0, "length": 70_000, "context": 64}
PIPING = [("receive", 0, 70_000), ("piped", 0, 60_000), ("turn", 5)]
FORBIDDEN = {
    "DONE with bytes behind": [("send", 70_000), ("packet", {"kind": DONE, "live": 0}, b"x")],
    "DONE with a foreign flag": [("send", 70_000),
                                 ("packet", {"kind": DONE, "live": 0, "flags": CHECKED})],
    "DONE of more than was sent": [
        ("send", 70_000), ("packet", {"kind": DONE, "live": 0, "length": 70_001})],
    "DONE twice": [("send", 70_000), ("answer", 0), ("turn", 5),
                   ("packet", {"kind": DONE, "stale": -1})],
    "DONE of a receive": [("receive", 0, 8), ("packet", {"kind": DONE, "cookie": 1 << 32 | 127})],
    "RTS with a foreign flag": [("packet", {"kind": RTS, "flags": CHECKED}, bytes(16))],
    "RTS with bytes behind": [("packet", {"kind": RTS}, bytes(17))],
    "CREDIT with bytes behind": [("packet", {"kind": CREDIT}, b"x")],
    "CREDIT with flags": [("packet", {"kind": CREDIT, "flags": 1})],
    "CREDIT never taken": [("packet", {"kind": CREDIT, "more": 1})],
    "credit never taken, with data": [("packet", {"kind": EAGER, "more": 1}, b"data")],
    "CREDIT with a content": [("packet", {"kind": CREDIT, "content": 1})],
    "an unknown content": [("packet", {"kind": EAGER, "content": 2}, b"data")],
    "a buffer given back that nobody has": [("packet", {"kind": CREDIT, "freed": 1})],
    "FINISH with flags": [("packet", {"kind": FINISH, "flags": 1})],
    "EAGER after FINISH": [("packet", {"kind": FINISH}), ("packet", {"kind": EAGER}, b"data")],
    "RTS after FINISH": [("packet", {"kind": FINISH}), ("rendezvous", 0, 5000)],
    "more eager data than there is credit for": [("packet", {"kind": EAGER}, bytes(4000))] * 20,
    "more eager messages than there is credit for":
        [("packet", {"kind": EAGER})] * (UNITS // 6 + 1),
    "RTR without its end": [("packet", {"kind": RTR})],
    "RTR with the reserved field": [("packet", {"kind": RTR}, OFFER.pack(0, 0, 0, 1))],
    "RTR after FINISH": [("packet", {"kind": FINISH}), ("packet", {"kind": RTR}, bytes(24))],
    "START of no receive": [("packet", {"kind": START, "cookie": 1 << 32})],
    "START of a receive without an RTR":
        [("receive", 0, 10), ("packet", {"kind": START, "cookie": 1 << 32 | 127})],
    "START longer than the room": [OFFERING, ("packet", {**STARTING, "length": 70_001})],
    "START of another envelope": [OFFERING, ("packet", {**STARTING, "tag": 1})],
    "START of another context": [OFFERING, ("packet", {**STARTING, "context": 4})],
    "START that overtakes": [OFFERING, OFFERING, ("packet", {**STARTING, "offered": 1})],
    "START twice": [OFFERING, ("packet", STARTING), ("packet", STARTING)],
    "FIN without START": [OFFERING, ("packet", {**STARTING, "kind": FIN})],
    "FIN of another length":
        [OFFERING, ("packet", STARTING), ("packet", {**STARTING, "kind": FIN, "length": 9})],
    "REVOKE after FINISH": [("packet", {"kind": FINISH}), ("packet", {"kind": REVOKE})],
    "GRANT of nothing": [("packet", {"kind": GRANT, "length": 5, "context": 64}, bytes(24))],
    "GRANT of no bytes":
        [("send", 70_000), ("packet", {"kind": GRANT, "live": 0, "context": 64}, bytes(24))],
    "GRANT of more than was announced": [
        ("send", 70_000), ("packet", {**GRANTING, "length": 70_001}, bytes(24))],
    "GRANT without room": [("send", 70_000), ("packet", {**GRANTING, "context": 0}, bytes(24))],
    "GRANT of blocks that do not fit": [
        ("send", 70_000), ("packet", {**GRANTING, "tag": 72}, bytes(24))],
    "GRANT of blocks without data": [
        ("send", 70_000), ("packet", {**GRANTING, "tag": 8}, bytes(24))],
    "GRANT of blocks that are not aligned": [
        ("send", 70_000), ("packet", {**GRANTING, "tag": 60}, bytes(24))],
    "GRANT of blocks larger than a buffer": [
        ("send", 70_000), ("packet", {**GRANTING, "tag": 1 << 20, "context": 1 << 21}, bytes(24))],
    "GRANT with a foreign flag": [
        ("send", 70_000), ("packet", {**GRANTING, "flags": REFUSED}, bytes(24))],
    "GRANT without its end": [("send", 70_000), ("packet", GRANTING)],
    "GRANT twice": [("send", 70_000), ("grant", 0, 1), ("turn", 3),
                    ("packet", {**GRANTING, "stale": -1}, bytes(24))],
    "GRANT of an eager message":
        [("send", 10, 1), ("packet", {**GRANTING, "length": 10}, bytes(24))],
    "GRANT after FINISH": [
        ("send", 70_000), ("packet", {"kind": FINISH}), ("packet", {**GRANTING, "stale": -1},
                                                         bytes(24))],
    "TAKEN of nothing": [("packet", {"kind": TAKEN, "cookie": 1 << 32 | 127})],
    "TAKEN of a send that was not granted": [
        ("send", 70_000), ("packet", {"kind": TAKEN, "live": 0})],
    "TAKEN of what was not sent": [
        ("send", 200_000), ("grant", 0, 0), ("turn", 9), ("packet", {"kind": TAKEN, "stale": -1,
                                                                     "step": 99})],
    "DONE before all is sent": [
        ("send", 200_000), ("grant", 0, 0), ("turn", 2), ("packet", {"kind": DONE, "stale": -1})],
    "CHUNK of nothing": [("packet", {"kind": CHUNK, "length": 5, "cookie": 1 << 32 | 127})],
    "CHUNK of a receive that was not granted": [
        ("receive", 0, 70_000), ("packet", {"kind": CHUNK, "length": 5, "offered": 0})],
    "CHUNK longer than a buffer": [
        *PIPING, ("packet", {"kind": CHUNK, "granted": 0, "length": 16_385})],
    "CHUNK longer than the message": [
        ("receive", 0, 70_000), ("piped", 0, 5000), ("turn", 5),
        ("packet", {"kind": CHUNK, "granted": 0, "length": 5001})],
    "CHUNK without bytes": [*PIPING, ("packet", {"kind": CHUNK, "granted": 0})],
    "CHUNK twice": [*PIPING, ("packet", {"kind": CHUNK, "granted": 0, "ahead": 1, "length": 9}),
                    ("packet", {"kind": CHUNK, "granted": 0, "ahead": 1, "length": 9})],
    "CHUNK from too far ahead": [
        *PIPING, ("packet", {"kind": CHUNK, "granted": 0, "ahead": 3, "length": 9})],
    "CHUNK from behind": [
        *PIPING, ("packet", {"kind": CHUNK, "granted": 0, "ahead": -1, "length": 9})],
    "REVOKED without REVOKE": [("packet", {"kind": REVOKED})],
}


# What only the classic pairing has: forbidden without it, and with it if it names nothing.
FOREIGN = {
    "RTS-ACK": [("send", 70_000), ("packet", {"kind": RTS_ACK, "live": 0})],
    "STOP-RTR": [("packet", {"kind": RTS, "flags": STOP_RTR}, bytes(16))],
    "RESUME-RTR": [("packet", {"kind": RTS, "flags": RESUME_RTR}, bytes(16))],
}
FORBIDDEN_TO_CLASSIC = {
    "RTS-ACK of nothing": [("packet", {"kind": RTS_ACK, "cookie": 1 << 32})],
    "RTS-ACK of a receive": [("receive", 0, 8), ("packet", {"kind": RTS_ACK,
                                                            "cookie": 1 << 32 | 127})],
    "RTS-ACK after DONE": [("send", 70_000), ("answer", 0), ("turn", 5),
                           ("packet", {"kind": RTS_ACK, "stale": -1})],
    "RTS-ACK with flags": [("send", 70_000), ("packet", {"kind": RTS_ACK, "live": 0, "flags": 1})],
    "RTS-ACK with bytes behind": [("send", 70_000), ("packet", {"kind": RTS_ACK, "live": 0}, b"x")],
    "STOP-RTR on another packet": [("packet", {"kind": EAGER, "flags": STOP_RTR}, b"data")],
    "START with STOP-RTR": [OFFERING, ("packet", {**STARTING, "flags": STOP_RTR})],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FOREIGN)
def test_what_only_the_classic_pairing_has(kind, name):
    """R8: without it these packets break the connection; with it they are taken."""
    rig = Rig(kind)
    rig.run([*FOREIGN[name], ("turn", 10)])
    assert rig.engine.counters()["protocol_errors"] == (rig.policy != "classic")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith(":classic")])
@pytest.mark.parametrize("name", FORBIDDEN_TO_CLASSIC)
def test_forbidden_to_classic(kind, name):
    """R8, docs/wire.md section 7, items 2 and 11."""
    rig = Rig(kind)
    rig.run([*FORBIDDEN_TO_CLASSIC[name], ("turn", 10)])
    assert rig.engine.counters()["protocol_errors"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden(kind, name):
    """R8, docs/wire.md section 7: each breaks the connection; nothing of it is delivered."""
    rig = Rig(kind)
    rig.run([*FORBIDDEN[name], ("turn", 10)])
    assert rig.engine.counters()["protocol_errors"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("address, key", [(0, 0), (4096, 1), (2**64 - 4096, 2**64 - 1)])
def test_memory_that_is_not_there(kind, address, key):
    """R5, R8: the receive ends with an error, the sender is told REFUSED, and all goes on."""
    rig = Rig(kind)
    seen = []
    arrived = rig.arrived
    rig.arrived = lambda packet: (seen.append(packet), arrived(packet))
    rig.run([("receive", 0, 100_000), ("receive", 1, 10),
             ("packet", {"kind": RTS, "length": 90_000, "cookie": 5}, MEMORY.pack(address, key)),
             ("turn", 20), ("eager", 1, 10), ("turn", 20)])
    refused = header(DONE, flags=REFUSED, cookie=5)
    assert [one for one in seen if one[:2] == refused[:2] and one[16:32] == refused[16:32]]
    assert rig.engine.counters()["protocol_errors"] == 0
    assert "could not be read" in str(rig.receives[0].error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("address, key", [(0, 0), (4096, 1), (2**64 - 4096, 2**64 - 1)])
def test_room_that_is_not_there(kind, address, key):
    """R5, R8: the send into it fails, FIN says REFUSED, and all goes on."""
    rig = Rig(kind)
    seen = []
    arrived = rig.arrived
    rig.arrived = lambda packet: (seen.append(packet), arrived(packet))
    rig.run([("packet", {"kind": RTR, "tag": 3, "length": 90_000, "cookie": 5},
              OFFER.pack(address, key, 0, 0)), ("send", 80_000), ("turn", 30), ("eager", 1, 10)])
    started, refused = header(START, cookie=5), header(FIN, flags=REFUSED, cookie=5)
    told = [(one[:2], one[24:32]) for one in seen if one[0] in (START, FIN)]
    assert told == [(one[:2], one[24:32]) for one in (started, refused)]
    assert rig.engine.counters()["protocol_errors"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_after_its_done_gets_no_help(kind):
    """F4, R8: the send is over and its buffer is freed; the peer reads on."""
    rig = Rig(kind)
    rig.do_send(200_000)
    rig.turn(5)
    rig.do_answer(0, early=1)
    rig.turn(20)
    assert not rig.sends
    if kind == "shm":
        assert rig.world.fabrics[0].counters["chunks_helped"] == 0
    rig.run([("honest", 100_000)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("address, key", [(0, 0), (4096, 1), (2**64 - 4096, 2**64 - 1)])
def test_buffers_that_are_not_there(kind, address, key):
    """R5, R8: the send into them fails, CHUNK says REFUSED, and all goes on."""
    rig = Rig(kind)
    seen = []
    arrived = rig.arrived
    rig.arrived = lambda packet: (seen.append(packet), arrived(packet))
    rig.run([("send", 80_000), ("turn", 5),
             ("packet", {**GRANTING, "context": 4096}, TAIL.pack(address, key, 5)),
             ("turn", 30), ("eager", 1, 10)])
    told = [(one[1], one[24:32]) for one in seen if one[0] == CHUNK]
    assert told == [(REFUSED, (5).to_bytes(8, "little"))]
    assert rig.engine.counters()["protocol_errors"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_piped_messages(kind):
    """Q1-Q4: chunks of a second implementation, and chunks into it, between other messages."""
    rig = Rig(kind)
    rig.run([("receive", 0, 70_000), ("receive", 0, 30_000), ("piped", 0, 70_000),
             ("piped", 0, 60_000), ("send", 200_000), ("turn", 9), ("grant", 0, 5), ("turn", 9),
             *[("chunk", 9000, 2), ("turn", 9), ("take",), ("turn", 9)] * 20, ("eager", 0, 10)])
    assert not rig.into and not rig.out_of and not rig.sends
    assert rig.engine.counters()["protocol_errors"] == 0
    assert rig.engine.counters()["sends_piped"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_written_message(kind):
    """R4, R5: START, WRITE and FIN of a second implementation, between other messages."""
    rig = Rig(kind)
    rig.run([OFFERING, OFFERING, OFFERING, ("put", 0, 70_000), ("eager", 0, 10),
             ("put", 0, 5000), ("turn", 50)])
    assert len(rig.offers) == 3
    assert rig.engine.counters()["protocol_errors"] == 0
