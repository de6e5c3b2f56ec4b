"""The handshake of the verbs fabric (H1-H5 in handshake.pyx), without a device."""

import random
import struct

import pytest

from tests.support.absent import verbs_module

handshake = verbs_module("handshake")
Rehearsal = verbs_module("rehearsal", "instruments").Rehearsal

TOKEN = b"the secret of this job"
NONE, VERSION, STRANGER, RIVAL, ALREADY, GONE, RESOURCES = range(7)

# Output for the key 00 01 .. 0f and the message 00 01 .. (length - 1), by length: from the
# table of the authors' reference implementation (vectors_sip128).
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    3: "9c70b60c5267a94e5f33b6b02985ed51",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}


def ends(token=TOKEN, other=TOKEN, size=8):
    """Rank 2, which asks, and rank 5, which is asked."""
    return (Rehearsal(2, 5, size, token, True, True),
            Rehearsal(5, 2, size, other, False, False))


def flips(data, rng, count=64):
    """`data` with one bit changed, at `count` places."""
    for _ in range(count):
        bit = rng.randrange(8 * len(data))
        changed = bytearray(data)
        changed[bit >> 3] ^= 1 << (bit & 7)
        yield bit >> 3, bytes(changed)


@pytest.mark.parametrize("length", VECTORS)
def test_checksum_is_the_published_one(length):
    key = bytes(range(16))
    assert handshake.siphash128(key, bytes(range(length))).hex() == VECTORS[length]


def test_checksum_takes_keys_of_16_bytes():
    with pytest.raises(ValueError, match="15 bytes"):
        handshake.siphash128(bytes(15), b"")


def test_keys_belong_to_a_pair_and_a_job():
    keys = {handshake.pair_key(token, left, right)
            for token in (b"a", b"b") for left, right in ((0, 1), (0, 11), (1, 10), (2, 1))}
    assert len(keys) == 8
    assert handshake.pair_key(b"a", 3, 4) == handshake.pair_key(b"a", 4, 3)
    assert handshake.job_mark(b"a") not in keys


def test_good_handshake():
    """H1: both ends end up with what the other one offers."""
    active, passive = ends()
    assert passive.check_request(active.request()) == NONE
    assert active.check_reply(passive.reply()) == NONE
    assert passive.check_hello(active.hello())
    assert active.offer == {"control": 4096, "ring": 0, "control_key": 0x1234, "ring_key": 0,
                            "recv_slots": 32, "slot": 16512, "ring_crc": 0, "reserved": 0}
    assert passive.offer["ring"] == 4096 + 256
    assert passive.offer["ring_key"] == 0x1234
    assert passive.refused == 0


def test_filled_up_private_data():
    """Some transports fill private data up with zeros to its full size."""
    active, passive = ends()
    assert len(active.request()) <= 56
    assert passive.check_request(active.request().ljust(56, b"\0")) == NONE
    assert len(passive.reply()) <= 196
    assert active.check_reply(passive.reply().ljust(196, b"\0")) == NONE


def test_every_bit_of_a_request_counts():
    """H2, R8."""
    active, passive = ends()
    for at, changed in flips(active.request(), random.Random(1), 200):
        assert passive.check_request(changed) == (VERSION if 4 <= at < 8 else STRANGER)


def test_every_bit_of_a_reply_counts():
    """H2: the offer included, or somebody could have us write to other addresses."""
    active, passive = ends()
    assert passive.check_request(active.request()) == NONE
    for at, changed in flips(passive.reply(), random.Random(2), 200):
        assert active.check_reply(changed) == (VERSION if 4 <= at < 8 else STRANGER)
    assert not any(active.offer.values())


def test_every_bit_of_a_hello_counts():
    active, passive = ends()
    assert passive.check_request(active.request()) == NONE
    assert active.check_reply(passive.reply()) == NONE
    for _, changed in flips(active.hello(), random.Random(3), 200):
        assert not passive.check_hello(changed)
    assert passive.refused == 200
    assert not any(passive.offer.values())


@pytest.mark.parametrize("length", [0, 1, 4, 8, 20, 47])
def test_truncated(length):
    active, passive = ends()
    assert passive.check_request(active.request()[:length]) == STRANGER
    assert active.check_reply(passive.reply()[:length]) == STRANGER
    assert not passive.check_hello(active.hello()[:length])


def test_hello_of_another_size():
    active, passive = ends()
    assert passive.check_request(active.request()) == NONE
    assert active.check_reply(passive.reply()) == NONE
    assert not passive.check_hello(active.hello() + b"\0")


def test_other_secret():
    """Neither side is believed without the secret, even if the mark of the job is right."""
    active, passive = ends(other=b"another secret")
    assert passive.check_request(active.request()) == STRANGER
    assert active.check_reply(passive.reply()) == STRANGER
    assert not passive.check_hello(active.hello())


@pytest.mark.parametrize(("rank", "peer"), [(2, 4), (5, 2), (7, 5)])
def test_request_for_others(rank, peer):
    """A request names both ranks, and only the asked one answers."""
    stranger = Rehearsal(rank, peer, 8, TOKEN, True)
    _, passive = ends()
    expected = NONE if (rank, peer) == (7, 5) else STRANGER
    assert passive.check_request(stranger.request()) == expected


def test_rank_out_of_range():
    """R8: the rank is an index."""
    _, passive = ends()
    outside = Rehearsal(9, 5, 16, TOKEN, True)
    assert passive.check_request(outside.request()) == STRANGER


def test_recorded_messages_are_worthless():
    """H1: a reply or a hello fits one handshake only."""
    active, passive = ends()
    request = active.request()
    assert passive.check_request(request) == NONE
    reply = passive.reply()
    assert active.check_reply(reply) == NONE
    hello = active.hello()
    later, again = ends()
    assert later.check_reply(reply) == STRANGER
    assert again.check_request(request) == NONE     # all that a recording gets: no more than this
    assert not again.check_hello(hello)


def test_messages_do_not_stand_in_for_each_other():
    """H2: a label keeps a reply from being used as a hello of the other direction."""
    active, passive = ends()
    assert passive.check_request(active.request()) == NONE
    reply = passive.reply()
    assert active.check_reply(reply) == NONE
    offer_and_mac = reply[16:56] + reply[56:]
    assert len(offer_and_mac) == len(active.hello())
    assert not passive.check_hello(offer_and_mac)


def sign_hello(active, passive, **changes):
    """A hello whose sender knows the secret and offers nonsense."""
    names = ("control", "ring", "control_key", "ring_key", "recv_slots", "slot", "ring_crc",
             "reserved")
    offer = dict(zip(names, (4096, 8192, 1, 1, 32, 16512, 0, 0), strict=True)) | changes
    packed = struct.pack("<QQIIIIII", *(offer[name] for name in names))
    proof = struct.pack("<IIIIQQ", 0x73, 1, 2, 5, active.nonce, passive.nonce) + packed
    return packed + handshake.siphash128(handshake.pair_key(TOKEN, 2, 5), proof)


@pytest.mark.parametrize("changes", [
    {"recv_slots": 0}, {"recv_slots": 65}, {"recv_slots": 2**32 - 1}, {"slot": 16511},
    {"ring_crc": 2}, {"reserved": 1}, {"ring": 0}, {"ring": 8193}, {"ring": 2**64 - 8}])
def test_offers_that_nobody_can_keep(changes):
    """R8: counts and addresses are bounded even if they come from one who knows the secret."""
    active, passive = ends()
    assert passive.check_request(active.request()) == NONE
    assert passive.check_hello(sign_hello(active, passive))
    assert not passive.check_hello(sign_hello(active, passive, **changes))


def test_refusals():
    """Version and reason come across; what others send is no refusal of ours."""
    refusal = Rehearsal.rejection(RESOURCES, 12)
    assert Rehearsal.read_rejection(refusal) == (1, RESOURCES, 12)
    assert Rehearsal.read_rejection(refusal.ljust(148, b"\0")) == (1, RESOURCES, 12)
    assert Rehearsal.read_rejection(refusal[:15]) is None
    assert Rehearsal.read_rejection(bytes(148)) is None
    assert Rehearsal.read_rejection(struct.pack("<IIII", 0x56445250, 1, 8, 0)) is None
    assert Rehearsal.read_rejection(struct.pack("<IIII", 0x56445250, 1, 0, 0)) is None


def test_random_bytes():
    """R8: nothing that comes from outside does harm."""
    rng = random.Random(4)
    active, passive = ends()
    for _ in range(2000):
        data = rng.randbytes(rng.randrange(257))
        if rng.random() < 0.5:
            data = struct.pack("<II", 0x56445250, 1) + data
        assert passive.check_request(data) == STRANGER
        assert active.check_reply(data) == STRANGER
        assert not passive.check_hello(data)
