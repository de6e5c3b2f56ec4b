"""Files of figures: K1 to K3 of pyrdv.calibration.kept."""

import json
import os
import threading

import pytest

from pyrdv.calibration import kept
from pyrdv.engine import profiles
from tests.support.figures import SOFT_ROCE

WHICH = {"device": "rxe0:1", "guid": "0200acfffe110001", "firmware": "1.0", "pyrdv": "0.1.0"}


@pytest.fixture
def home(tmp_path):
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_what_is_kept_is_found(home):
    assert kept.load(WHICH, home) == (None, "")
    where = kept.keep(WHICH, SOFT_ROCE, home)
    assert where == kept.path(WHICH, home) and os.path.isabs(where)
    found, why = kept.load(WHICH, home)
    assert why == "" and {name: found[name] for name in SOFT_ROCE} == SOFT_ROCE
    assert os.stat(os.path.dirname(where)).st_mode & 0o777 == 0o700
    # `pyrdv doctor --protocols FILE` reads it as any profile.
    assert profiles.load(where) == found
    assert len(kept.age(found)) == len("2026-01-31")


@pytest.mark.parametrize("name, other", [
    ("device", "rxe1:1"), ("guid", "0200acfffe110002"), ("firmware", "1.1"), ("pyrdv", "0.2.0")])
def test_each_device_version_and_machine_has_its_own(home, name, other):
    kept.keep(WHICH, SOFT_ROCE, home)
    assert kept.load({**WHICH, name: other}, home) == (None, "")


def test_a_file_of_another_name_is_not_used(home):
    other = {**WHICH, "guid": "0200acfffe110002"}
    os.rename(kept.keep(WHICH, SOFT_ROCE, home), kept.path(other, home))
    found, why = kept.load(other, home)
    assert found is None and "of another device" in why


@pytest.mark.parametrize("environ, folder", [
    ({"XDG_CACHE_HOME": "/a", "HOME": "/b"}, "/a/pyrdv"),
    ({"XDG_CACHE_HOME": "a", "HOME": "/b"}, "/b/.cache/pyrdv"),
    ({"XDG_CACHE_HOME": "", "HOME": "/b"}, "/b/.cache/pyrdv"),
    ({"HOME": "b"}, None), ({}, None)])
def test_where(environ, folder):
    where = kept.path(WHICH, environ)
    assert (where and os.path.dirname(where)) == folder


def test_no_place_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    for environ in ({}, {"XDG_CACHE_HOME": str(tmp_path / "file")}, {"HOME": "/proc/no/such"}):
        assert kept.keep(WHICH, SOFT_ROCE, environ) == ""
        assert kept.load(WHICH, environ) == (None, "")


@pytest.mark.parametrize("content, told", [
    ("", "it is no JSON"), ("[]", "its schema is"), ("x" * (1 << 21), "larger than"),
    (json.dumps({**SOFT_ROCE, "latency": -1}), "must be times"),
    (json.dumps({**SOFT_ROCE, "schema": "pyrdv-tune/1"}), "its schema is")])
def test_a_broken_file_is_told_and_replaced(home, content, told):
    where = kept.keep(WHICH, SOFT_ROCE, home)
    with open(where, "w") as file:
        file.write(content)
    found, why = kept.load(WHICH, home)
    assert found is None and told in why
    assert kept.keep(WHICH, SOFT_ROCE, home) == where
    assert kept.load(WHICH, home)[1] == ""


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write(home, mode):
    where = kept.keep(WHICH, SOFT_ROCE, home)
    os.chmod(where, mode)
    found, why = kept.load(WHICH, home)
    assert found is None and "others may write" in why
    # What takes its place is private again.
    kept.keep(WHICH, SOFT_ROCE, home)
    assert kept.load(WHICH, home)[0] is not None


def test_a_file_of_another_user(home, monkeypatch):
    kept.keep(WHICH, SOFT_ROCE, home)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert kept.load(WHICH, home) == (None, "")
    assert kept.keep(WHICH, SOFT_ROCE, home) == ""


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file(home, tmp_path, kind):
    where = kept.keep(WHICH, SOFT_ROCE, home)
    os.rename(where, tmp_path / "real")
    if kind == "link":
        os.symlink(tmp_path / "real", where)
    elif kind == "folder":
        os.mkdir(where)
    else:
        os.mkfifo(where)
    before = (tmp_path / "real").read_text()
    found, why = kept.load(WHICH, home)
    assert found is None and why
    assert kept.keep(WHICH, {**SOFT_ROCE, "gap": 0.0}, home) == ""
    assert (tmp_path / "real").read_text() == before


def test_an_unreadable_file(home, monkeypatch):
    where = kept.keep(WHICH, SOFT_ROCE, home)
    whole = os.open

    def refused(path, *args, **more):
        if path == where:
            raise PermissionError(13, "Permission denied", path)
        return whole(path, *args, **more)

    # Root may read all, so the mode says nothing.
    monkeypatch.setattr(os, "open", refused)
    found, why = kept.load(WHICH, home)
    assert found is None and "Permission denied" in why


def test_many_at_once_leave_one_whole_file(home):
    """Each reader finds nothing or a whole file, whoever writes meanwhile."""
    problems = []

    def write():
        for _ in range(30):
            kept.keep(WHICH, SOFT_ROCE, home)
            found, why = kept.load(WHICH, home)
            if why or found is None:
                problems.append(why)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(os.listdir(os.path.dirname(kept.path(WHICH, home)))) == 1
