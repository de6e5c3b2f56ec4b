"""Static adaptation: what one run records, the next one reads."""

import pytest

from pyrdv.engine.speculation import histories, saved
from pyrdv.errors import ConfigError

from .test_adaptation import message, ready, sent, too_long
from .test_speculation import LARGE, counted, receive
from .worlds import pattern


def test_envelopes_of_a_former_run_stay_stopped(world, tmp_path):
    """No RTR of an envelope whose RTRs were useless, not even a trial; others as usual."""
    with ready(world, adapt=0) as w:
        for engine in w.engines:
            histories.record(engine)
        for _ in range(8):
            too_long(w, tag=3)
            message(w, LARGE, tag=4)
        off = not w.offers
        found = histories.recorded(w.engines[1])
        assert sorted(found) == ([] if off else [(0, 0, 3, 8, 0), (0, 0, 4, 8, 8)])
        assert histories.recorded(w.engines[0]) == []
        saved.write(tmp_path / "profile", 1, 2, found)
    with ready(world, adapt=0) as w:
        envelopes = saved.read(tmp_path / "profile", 1, 2)
        histories.forbid(w.engines[1], saved.useless(envelopes, 80))
        for _ in range(20):
            message(w, LARGE, tag=3)
        assert sent(w) == 0
        assert counted(w, "rtrs_withheld") == (0 if off else 20)
        message(w, LARGE, tag=4)
        assert sent(w) == (0 if off else 1)


def test_more_envelopes_than_the_first_table(world):
    with ready(world) as w:
        histories.record(w.engines[1])
        for tag in range(300):
            room, request = receive(w, LARGE, tag)
            w.run(w.comms[0].Isend(pattern(LARGE), dest=1, tag=tag), request)
        found = histories.recorded(w.engines[1])
        # Classic: the message with which the ranks began has flagged the class of some.
        fewest = 0 if not w.offers else 280 if w.speculation == "classic" else 300
        assert fewest <= len({one[:3] for one in found}) == len(found) <= 300
        assert sum(one[3] for one in found) == counted(w, "rtrs_sent")
        assert sum(one[4] for one in found) == counted(w, "rtrs_used") >= fewest


SOUND = [(0, 1, 7, 100, 98), (4, 0, 2**31 - 1, 8, 0), (0, 1, 9, 2, 0), (0, 1, 8, 40, 31)]


def test_the_file(tmp_path):
    path = str(tmp_path / "profile")
    saved.write(path, 0, 2, SOUND)
    assert [entry.name for entry in tmp_path.iterdir()] == ["profile.0"]
    assert saved.read(path, 0, 2) == sorted(SOUND)
    # Two RTRs are too few to judge; 31 of 40 are less than 80 %.
    assert sorted(saved.useless(SOUND, 80)) == [(0, 1, 8), (4, 0, 2**31 - 1)]
    assert saved.useless(SOUND, 0) == []


HEAD = '{"format": "pyrdv speculation profile", "version": 1, "rank": 0, "size": 2, "envelopes": '
BROKEN = {
    "": "no profile", "[]": "no profile", "{}": "no profile", "\u00e9": "no profile",
    "[" * 100_000: "no profile", HEAD + "[]": "no profile",
    HEAD.replace(": 1,", ": 2,") + "[]}": "has version 2; this is version 1",
    HEAD.replace("size\": 2", "size\": 3") + "[]}": "is of rank 0 of 3, and this is rank 0 of 2",
    HEAD + "7}": "no list", HEAD + "[[0, 1, 7, 100]]}": "broken envelope, number 0",
    HEAD + "[[0, 1, 7, 9, 8], [0, 2, 7, 9, 8]]}": "broken envelope, number 1",
    HEAD + "[[0, 1, -1, 9, 8]]}": "broken envelope",
    HEAD + "[[0, 1, 7, 9, 10]]}": "broken envelope",
    HEAD + "[[0, 1, 7, 9, 1.5]]}": "broken envelope", HEAD + "[[true, 1, 7, 9, 1]]}": "broken",
    HEAD + "[[4294967296, 1, 7, 9, 1]]}": "broken envelope",
}


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_file(tmp_path, text):
    """What is wrong with which file, and what to do."""
    path = tmp_path / "profile"
    (tmp_path / "profile.0").write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        saved.read(path, 0, 2)
    for part in (BROKEN[text], f"{path}.0", "PYRDV_SPECULATION_PROFILE", "unset"):
        assert part in str(caught.value)


def test_no_file_and_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read .No such file"):
        saved.read(tmp_path / "profile", 0, 2)
    with pytest.raises(ConfigError, match="cannot write into the folder"):
        saved.check_writable(tmp_path / "absent" / "profile", 0)


def test_a_link_in_place_of_the_file(tmp_path):
    """It is refused at the start, and at the end, with what it leads to untouched."""
    victim, path = tmp_path / "victim", tmp_path / "profile"
    victim.write_text("precious")
    (tmp_path / "profile.0").symlink_to(victim)
    # The name that was once written on the way.
    (tmp_path / "profile.1.new").symlink_to(victim)
    with pytest.raises(ConfigError, match="PYRDV_SPECULATION_RECORD=.*symbolic link"):
        saved.check_writable(path, 0)
    with pytest.raises(OSError, match="symbolic link"):
        saved.write(path, 0, 2, SOUND)
    saved.write(path, 1, 2, SOUND)
    assert victim.read_text() == "precious"
