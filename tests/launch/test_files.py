"""pyrdv.files: what is read is bounded (F1), what is written hits nothing else (F2)."""

import os
import stat

import pytest

from pyrdv import files


def test_a_file_appears_whole_and_alone(tmp_path):
    path = tmp_path / "new"
    before = os.umask(0o027)
    try:
        files.write_whole(path, "é")
    finally:
        os.umask(before)
    assert path.read_bytes() == "é".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    files.write_whole(str(path), b"second")
    assert path.read_bytes() == b"second" and stat.S_IMODE(path.stat().st_mode) == 0o604
    assert os.listdir(tmp_path) == ["new"]


def test_a_name_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.write_whole("here", b"x")
    assert os.listdir(tmp_path) == ["here"]


def test_a_link_is_refused_and_its_target_untouched(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for target in (victim, tmp_path / "absent"):
        link = tmp_path / "link"
        link.symlink_to(target)
        with pytest.raises(OSError, match="symbolic link") as caught:
            files.write_whole(link, b"junk")
        assert caught.value.filename == str(link) and link.is_symlink()
        link.unlink()
    assert victim.read_text() == "precious" and os.listdir(tmp_path) == ["victim"]


def test_a_link_that_comes_in_between_is_replaced_not_followed(tmp_path, monkeypatch):
    """F2: whoever may write into the folder can make a link after the look."""
    victim, path = tmp_path / "victim", tmp_path / "out"
    victim.write_text("precious")
    monkeypatch.setattr(files, "refusal", lambda path: os.symlink(victim, path))
    files.write_whole(path, b"mine")
    assert victim.read_text() == "precious"
    assert not path.is_symlink() and path.read_bytes() == b"mine"


def test_the_new_file_is_made_by_nobody_else(tmp_path, monkeypatch):
    """F2: a file or link that has the fresh name already is an error, not a target."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(os, "urandom", lambda count: bytes(count))
    guessed = tmp_path / (".out." + "00" * 6)
    guessed.symlink_to(victim)
    with pytest.raises(OSError, match="exists"):
        files.write_whole(tmp_path / "out", b"junk")
    assert victim.read_text() == "precious" and guessed.is_symlink()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused(tmp_path, make):
    path = tmp_path / "there"
    make(path)
    with pytest.raises(OSError, match="no regular file"):
        files.write_whole(path, b"x")
    with pytest.raises(files.FileError, match="no regular file"):
        files.read_json(path, 100)
    assert os.listdir(tmp_path) == ["there"]


def test_a_file_of_another_user_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "theirs"
    path.write_text("theirs")
    there = os.stat(path)
    monkeypatch.setattr(os, "geteuid", lambda: there.st_uid + 1)
    with pytest.raises(OSError, match=f"belongs to user {there.st_uid}"):
        files.write_whole(path, b"x")
    assert path.read_text() == "theirs"


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_text("before")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space left") as caught:
        files.write_whole(path, b"x")
    assert caught.value.filename == str(path)
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["out"]
    with pytest.raises(OSError, match="No such file"):
        files.write_whole(tmp_path / "no" / "folder", b"x")


@pytest.mark.parametrize("content, told", [
    (None, "No such file"), (b"", "it is no JSON"), (b"\xff", "is no JSON"), (b"[NaN]", "NaN"),
    (b"[-Infinity]", "Infinity"), (b"[" * 900, "is no JSON|nested too deeply"),
    (b"[" * 50_000, "nested too deeply"), (b'{"a":' * 12_000, "nested too deeply"),
    (b"9" * 5_000, "is no JSON"), (b" " * 100_001, "larger than 97 KiB")])
def test_what_is_no_json_is_one_error(tmp_path, content, told):
    path = tmp_path / "in"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(files.FileError, match=told):
        files.read_json(str(path), 100_000)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/stdin", "no\0name", ""])
def test_names_that_are_no_files(name):
    with pytest.raises(files.FileError) as caught:
        files.read_json(name, 100)
    assert not caught.value.read
