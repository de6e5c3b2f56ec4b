"""pyrdv.launch.places: where ranks are, and how that is told."""

import os
import subprocess
import sys

import pytest

from pyrdv.launch import places
from tests.support.absent import absent

HERE, THERE = b"boot of this one", b"boot of another "


def card(host="a", boot=HERE, space=1, user=0, **more):
    place = boot + space.to_bytes(8, "little") + user.to_bytes(4, "little")
    return places.Card(more.pop("allowance", 64 << 20), more.pop("choices", 0), place, host, **more)


@pytest.mark.parametrize("host", ["", "node0", "größe", "h" * 300])
@pytest.mark.parametrize("shm", [b"", b"\0address\xff" * 20])
def test_card_goes_over_the_wire_and_back(host, shm):
    sent = card(host, shm=shm, allowance=1 << 40, choices=5)
    got = places.Card.unpack(sent.pack())
    assert (got.allowance, got.choices, got.place, got.shm) == (1 << 40, 5, sent.place, shm)
    assert got.host == host[:255] and got.machine == HERE and got.collectives == ""


def test_card_says_which_algorithms_are_asked_for():
    sent = card(shm=b"address", collectives="bcast=chain,gather=linear")
    got = places.Card.unpack(sent.pack())
    assert (got.collectives, got.shm, got.host) == (sent.collectives, b"address", "a")


def test_a_host_name_cut_within_a_letter_is_still_text():
    assert places.Card.unpack(card("ö" * 200, shm=b"x").pack()).shm == b"x"


def place_of(*words):
    code = "from pyrdv.launch import places; print(places.own_place().hex())"
    done = subprocess.run([*words, sys.executable, "-c", code], capture_output=True, text=True,
                          check=True)
    return bytes.fromhex(done.stdout)


def test_processes_of_one_user_and_network_are_in_one_place():
    assert place_of() == places.own_place() and len(places.own_place()) == 28


@pytest.mark.parametrize("words", [["unshare", "--net"], ["unshare", "--user", "--net"],
                                   ["unshare", "--user"]])
def test_another_network_or_user_is_another_place(words):
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        absent(f"{' '.join(words)} is not allowed here")
    other = place_of(*words)
    assert other != places.own_place() and other[:16] == places.own_place()[:16]


def test_without_proc_the_name_of_the_host_has_to_do(monkeypatch):
    def no_proc(*args):
        raise OSError(2, "no /proc")

    monkeypatch.setattr("builtins.open", no_proc)
    name = os.uname().nodename.encode()[:16]
    assert places.own_place().startswith(name) and len(places.own_place()) == 28


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([3], "rank 3"), ([0, 1], "ranks 0-1"), ([0, 1, 2, 5, 7, 8], "ranks 0-2, 5, 7-8")])
def test_ranges(ranks, text):
    assert places.ranges(ranks) == text


def test_describe():
    assert places.describe([card("a"), card("a"), card("b", boot=THERE)]) == (
        "ranks 0-1 on a, rank 2 on b")
    text = places.describe([card("a", user=7), card("a", space=9), card("a", user=7)])
    assert text == ("ranks 0, 2 on a (boot 626f6f74, network namespace 1, user 7), "
                    "rank 1 on a (boot 626f6f74, network namespace 9, user 0)")
