"""Which GIDs are used, in which order, and which fit those of a peer (rule V9, field case N01).

Hosts are faked by the tables that a kernel would show for them.
"""

import pytest

from pyrdv.fabrics.verbs.gids import (
    ADVERTISED,
    INFINIBAND,
    IWARP,
    ROCE_V1,
    ROCE_V2,
    Address,
    Gid,
    advertise,
    describe,
    locate,
    match,
    mismatch,
    rank,
    subnet,
)

from .verbstools import EMPTY, MAC, candidate, interface, raw


def table(*rows, here):
    """A GID table as `place` leaves it; a row is (kind, address) or None for an empty entry."""
    gids = []
    for index, row in enumerate(rows):
        kind, text = row or (ROCE_V2, None)
        gids.append(locate(Gid(index, raw(text) if text else EMPTY, kind), here))
    return gids


def addresses(candidates):
    return [one.address for one in candidates]


ETH = interface("eth0", 4, "10.0.0.1/24", "fd00::1/64", "2001:db8::1/64", "fe80::1/64",
                "169.254.7.7/16")


# ------------------------------------------------------------------- own table


def test_order_of_a_full_table():
    gids = table(
        (ROCE_V1, "fe80::1"), (ROCE_V2, "fe80::1"), None, (ROCE_V1, "10.0.0.1"),
        (ROCE_V2, "2001:db8::1"), (ROCE_V2, "10.0.0.1"), None, (ROCE_V2, "fd00::1"),
        (ROCE_V2, "169.254.7.7"), here=[ETH])
    ranked = rank(gids)
    assert addresses(ranked) == ["10.0.0.1", "2001:db8::1", "fd00::1", "169.254.7.7", "fe80::1"]
    assert {one.kind for one in ranked} == {ROCE_V2}
    assert [one.gid_index for one in ranked] == [5, 4, 7, 8, 1]
    assert [one.prefix for one in ranked] == [24, 64, 64, 16, 64]
    assert ranked[0].reason == "RoCE v2, IPv4 private on eth0, GID 5"


def test_order_does_not_depend_on_the_order_of_the_table():
    rows = [(ROCE_V2, "fe80::1"), (ROCE_V1, "10.0.0.1"), (ROCE_V2, "10.0.0.1"), None]
    one = rank(table(*rows, here=[ETH]))
    other = rank(table(*reversed(rows), here=[ETH]))
    assert addresses(one) == addresses(other) == ["10.0.0.1", "fe80::1"]
    assert [row.gid_index for row in one] == [2, 0] and [row.gid_index for row in other] == [1, 3]


def test_v1_only_where_there_is_no_v2():
    assert addresses(rank(table((ROCE_V1, "10.0.0.1"), here=[ETH]))) == ["10.0.0.1"]
    # The v2 entry cannot be used here, but the device speaks v2: still no v1.
    gids = table((ROCE_V1, "10.0.0.1"), (ROCE_V2, "10.9.9.9"), here=[ETH])
    assert rank(gids) == []
    # An empty entry says nothing about the device.
    assert addresses(rank(table((ROCE_V1, "10.0.0.1"), None, here=[ETH]))) == ["10.0.0.1"]


def test_only_link_local_is_used_with_its_scope():
    (only,) = rank(table((ROCE_V2, "fe80::1"), here=[ETH]))
    assert (only.address, only.scope) == ("fe80::1", 4)
    assert "link-local" in only.reason
    assert rank(table((ROCE_V2, "10.0.0.1"), here=[ETH]))[0].scope == 0


def test_nothing_in_an_empty_table():
    assert rank([]) == [] and rank(table(None, None, here=[ETH])) == []


@pytest.mark.parametrize("text, words", [
    ("10.9.9.9", "not set"), ("fe80::99", "not set"), ("127.0.0.1", "loopback"),
    ("::1", "loopback"), ("ff02::1", "multicast"), ("0.0.0.0", "unspecified"),
])
def test_addresses_that_cannot_be_used_say_why(text, words):
    lo = interface("lo", 1, "127.0.0.1/8", "::1/128")
    (gid,) = table((ROCE_V2, text), here=[lo, ETH])
    assert words in gid.problem and gid.addresses == ()
    assert rank([gid]) == []


def test_interface_that_is_down():
    (gid,) = table((ROCE_V2, "10.0.0.1"), here=[interface("eth0", 4, "10.0.0.1/24", up=False)])
    assert gid.problem == "interface eth0 is down"


def test_interface_of_another_namespace():
    """Same index, same name, same address: each alone must not be taken for the interface."""
    gid = Gid(0, raw("10.0.0.2"), ROCE_V2, "eth0", 4)
    assert "not set at interface eth0" in locate(gid, [ETH]).problem
    gid = Gid(0, raw("10.0.0.1"), ROCE_V2, "eth0", 5)
    assert "not set" in locate(gid, [ETH]).problem
    gid = Gid(0, raw("10.0.0.1"), ROCE_V2, "eth1", 4)
    assert "not set" in locate(gid, [ETH]).problem
    gid = Gid(0, raw("10.0.0.1"), ROCE_V2, "eth0", 4)
    assert locate(gid, [ETH]).addresses == (Address("10.0.0.1", 24),)


def test_address_of_a_vlan_is_found_at_the_vlan():
    vlan = interface("eth0.7", 9, "10.7.0.1/24")
    located = locate(Gid(3, raw("10.7.0.1"), ROCE_V2, "", 9), [ETH, vlan])
    assert (located.netdev, located.ifindex) == ("eth0.7", 9)


def test_iwarp_takes_the_addresses_of_its_interface():
    gid = Gid(0, MAC + bytes(10), IWARP)
    assert gid.text == "02:fc:00:00:00:01"
    located = locate(gid, [interface("lo", 1, "127.0.0.1/8", hardware=bytes(6)), ETH])
    assert located.netdev == "eth0"
    assert addresses(rank([located]))[:3] == ["10.0.0.1", "fd00::1", "2001:db8::1"]
    assert {one.gid_index for one in rank([located])} == {0}


def test_iwarp_does_not_take_an_interface_by_its_index_alone():
    gid = Gid(0, bytes.fromhex("020000000099") + bytes(10), IWARP, "", ETH.index)
    assert "no interface" in locate(gid, [ETH]).problem
    # Over an interface without hardware address the GID is made up, so the index must do.
    tun = interface("tun0", 7, "10.3.0.1/32", hardware=b"")
    located = locate(Gid(0, bytes(range(1, 7)) + bytes(10), IWARP, "", 7), [ETH, tun])
    assert located.addresses == (Address("10.3.0.1", 32),)


def test_iwarp_interface_without_address():
    located = locate(Gid(0, MAC + bytes(10), IWARP), [interface("eth0", 4)])
    assert located.problem == "interface eth0 has no IP address"


def test_infiniband_is_reached_by_ipoib():
    guid = bytes.fromhex("fe80000000000000") + bytes.fromhex("0002c90300a1b2c3")
    head = bytes.fromhex("80000048")  # number of its queue pair
    ib0 = interface("ib0", 6, "10.8.0.1/24", hardware=head + guid)
    other = interface("ib1", 7, "10.9.0.1/24", hardware=head + guid[:-1] + b"0")
    located = locate(Gid(0, guid, INFINIBAND), [ETH, other, ib0])
    (only,) = rank([located])
    assert (only.address, only.kind, only.netdev) == ("10.8.0.1", INFINIBAND, "ib0")
    assert "IPoIB" in locate(Gid(0, guid, INFINIBAND), [ETH, other]).problem


def test_one_address_under_several_entries_appears_once():
    gids = table((ROCE_V2, "10.0.0.1"), (ROCE_V2, "10.0.0.1"), here=[ETH])
    assert [one.gid_index for one in rank(gids)] == [0]


def test_advertised_addresses_are_few_and_of_both_families():
    many = [candidate(f"10.0.{n}.1/24") for n in range(6)]
    assert advertise(many) == many[:ADVERTISED]
    six = candidate("fd00::1/64")
    assert advertise([*many, six]) == [*many[:ADVERTISED - 1], six]
    local = candidate("fe80::1/64")
    assert advertise([*many, local]) == many[:ADVERTISED]
    assert advertise([six, local]) == [six, local]


@pytest.mark.parametrize("text, words", [
    ("10.0.0.1", "IPv4 private"), ("8.8.8.8", "IPv4"), ("fd00::1", "IPv6 unique local"),
    ("fe80::1", "IPv6 link-local"), ("2a00::1", "IPv6"), ("169.254.1.1", "IPv4 link-local"),
])
def test_addresses_in_words(text, words):
    assert describe(text) == words


# ----------------------------------------------------------------------- peers


def pairs(found):
    return [(left.address, right.address) for left, right, _ in found]


def test_same_subnet_comes_first():
    own = [candidate("10.0.0.1/24"), candidate("10.1.0.1/24"), candidate("fd77::1/64")]
    peer = [candidate("10.2.0.2/24"), candidate("fd77::2/64"), candidate("10.1.0.2/24")]
    found = match(own, peer)
    assert pairs(found)[:2] == [("10.1.0.1", "10.1.0.2"), ("fd77::1", "fd77::2")]
    assert found[0][2] == "RoCE v2, both in 10.1.0.0/24"
    assert found[1][2] == "RoCE v2, both in fd77::/64"
    # The rest is reached by routers, in the order of both hosts' preference.
    assert pairs(found)[2:] == [("10.0.0.1", "10.2.0.2"), ("10.1.0.1", "10.2.0.2"),
                                ("10.0.0.1", "10.1.0.2")]
    assert "through routers" in found[2][2]


def test_both_sides_choose_the_same_pair_first():
    own = [candidate("10.0.0.1/24"), candidate("10.1.0.1/24")]
    peer = [candidate("10.1.0.2/24"), candidate("10.3.0.2/24")]
    assert pairs(match(own, peer))[0] == pairs(match(peer, own))[0][::-1]


def test_tables_in_another_order_on_each_host():
    """N01: the index differs per host, so the address must choose it."""
    here = rank(table((ROCE_V1, "fe80::1"), (ROCE_V2, "fe80::1"), (ROCE_V1, "10.0.0.1"),
                      (ROCE_V2, "10.0.0.1"), here=[ETH]))
    there_eth = interface("ens3", 2, "10.0.0.2/24", "fe80::2/64")
    there = rank(table((ROCE_V2, "10.0.0.2"), None, None, (ROCE_V2, "fe80::2"),
                       (ROCE_V1, "10.0.0.2"), (ROCE_V1, "fe80::2"), here=[there_eth]))
    left, right, reason = match(here, there)[0]
    assert (left.address, left.gid_index) == ("10.0.0.1", 3)
    assert (right.address, right.gid_index) == ("10.0.0.2", 0)
    assert reason == "RoCE v2, both in 10.0.0.0/24"


def test_kinds_and_families_do_not_mix():
    own = [candidate("10.0.0.1/24"), candidate("10.0.0.1/24", IWARP)]
    peer = [candidate("10.0.0.2/24", IWARP), candidate("fd00::2/64")]
    found = match(own, peer)
    assert [(left.kind, right.kind) for left, right, _ in found] == [(IWARP, IWARP)]
    assert match([candidate("10.0.0.1/24", ROCE_V1)], [candidate("10.0.0.2/24")]) == []
    text = mismatch([candidate("10.0.0.1/24", ROCE_V1)], [candidate("10.0.0.2/24")])
    assert "RoCE v1 here, RoCE v2 there" in text and "10.0.0.2/24" in text
    text = mismatch([candidate("10.0.0.1/24")], [candidate("fd00::2/64")])
    assert "IPv4 here, IPv6 there" in text


def test_link_local_fits_only_link_local_and_comes_last():
    own = [candidate("fd00::1/64"), candidate("fe80::1/64", netdev="eth0", scope=4)]
    peer = [candidate("fe80::2/64"), candidate("2001:db8::2/64")]
    found = match(own, peer)
    assert pairs(found) == [("fd00::1", "2001:db8::2"), ("fe80::1", "fe80::2")]
    assert "one link" in found[1][2]
    assert "link-local" in mismatch([own[0]], [peer[0]])


def test_prefixes_that_differ():
    wide, narrow = candidate("10.0.0.1/8"), candidate("10.5.0.1/24")
    assert subnet(wide, narrow) is None, "only one of them thinks the other is a neighbour"
    assert str(subnet(candidate("10.5.0.9/8"), narrow)) == "10.5.0.0/24"
    single = candidate("10.0.0.1/32"), candidate("10.0.0.2/32")
    ((_, _, reason),) = match([single[0]], [single[1]])
    assert "through routers" in reason


def test_bridge_with_one_address_on_both_hosts():
    own = [candidate("172.17.0.1/16"), candidate("10.0.0.1/24")]
    peer = [candidate("172.17.0.1/16"), candidate("10.0.0.2/24")]
    assert ("172.17.0.1", "172.17.0.1") not in pairs(match(own, peer))
    assert pairs(match(own, peer))[0] == ("10.0.0.1", "10.0.0.2")
    # With nothing else it is one host that talks with itself.
    assert pairs(match(own[:1], peer[:1])) == [("172.17.0.1", "172.17.0.1")]
    both = [candidate("172.17.0.1/16")]
    other = [candidate("172.17.0.1/16"), candidate("fd00::1/64")]
    assert match(both, other) == [] and "same address" in mismatch(both, other)


def test_two_processes_of_one_host():
    own = [candidate("10.0.0.1/24"), candidate("fd00::1/64")]
    found = match(own, list(own))
    assert pairs(found)[0] == ("10.0.0.1", "10.0.0.1") and "on this host" in found[0][2]


def test_no_addresses_at_all():
    assert match([], [candidate("10.0.0.1/24")]) == []
    assert "here" in mismatch([], [candidate("10.0.0.1/24")])
    assert "of the peer" in mismatch([candidate("10.0.0.1/24")], [])


def test_every_combination_gives_only_fitting_pairs():
    kinds = (ROCE_V1, ROCE_V2, IWARP)
    texts = ("10.0.0.1/24", "10.0.1.1/24", "fe80::1/64", "fd00::1/64", "2001:db8::1/64")
    own = [candidate(text, kind) for kind in kinds for text in texts]
    peer = [candidate(text.replace("1/", "2/"), kind) for text in texts for kind in kinds]
    found = match(own, peer)
    assert len(found) == 3 * (2 * 2 + 2 * 2 + 1)
    for left, right, _ in found:
        assert (left.kind, left.family) == (right.kind, right.family)
        assert (left.address[:4] == "fe80") == (right.address[:4] == "fe80")
    near = [reason for left, right, reason in found if subnet(left, right) and "both in" in reason]
    assert [reason for *_, reason in found][:len(near)] == near
