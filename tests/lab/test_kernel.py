"""Where the lab's kernel comes from, and what a person is told who cannot have it."""

import os
import subprocess
import sys

import pytest

from . import kernel, machine

VARIABLES = ("PYRDV_LAB_KERNEL", "PYRDV_LAB_SOURCE", "PYRDV_LAB_MIRROR", "PYRDV_LAB_CACHE")


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """No override of the caller's, and a cache that is empty."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYRDV_LAB_CACHE", str(tmp_path / "cache"))


def unavailable(said=None):
    """The text of the LabUnavailable that `ensure` ends in."""
    with pytest.raises(machine.LabUnavailable) as caught:
        kernel.ensure((said if said is not None else []).append)
    return str(caught.value)


def test_the_cache_is_the_users_unless_named(monkeypatch, tmp_path):
    assert kernel.cache() == tmp_path / "cache"
    monkeypatch.delenv("PYRDV_LAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert str(kernel.cache()) == "/x/pyrdv/lab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/nowhere/ann")
    assert str(kernel.cache()) == "/nowhere/ann/.cache/pyrdv/lab"


def test_all_that_goes_in_is_in_the_key(monkeypatch, tmp_path):
    keys = [kernel.key()]
    assert kernel.path() == tmp_path / "cache" / keys[0] / "linux"
    config = tmp_path / "config"
    config.write_text(kernel.CONFIG.read_text() + "CONFIG_MORE=y\n")
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "CONFIG", config)
        keys.append(kernel.key())
    for name, value in (("VERSION", "7.4"), ("EDITS", (("file", "a", "b"),))):
        with monkeypatch.context() as patch:
            patch.setattr(kernel, name, value)
            keys.append(kernel.key())
    monkeypatch.setenv("PYRDV_LAB_SOURCE", "/linux.tar.xz")
    keys.append(kernel.key())
    assert len(set(keys)) == len(keys)


def test_a_kernel_in_the_cache_is_taken(monkeypatch):
    monkeypatch.setattr(kernel, "_build", lambda *_: pytest.fail("built again"))
    kernel.path().parent.mkdir(parents=True)
    kernel.path().write_bytes(b"")
    kernel.ensure(pytest.fail)


def test_a_named_kernel_is_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("PYRDV_LAB_KERNEL", sys.executable)
    kernel.ensure(pytest.fail)
    assert str(kernel.path()) == sys.executable
    monkeypatch.setenv("PYRDV_LAB_KERNEL", str(tmp_path / "none"))
    assert f"{tmp_path}/none, which is not a program" in unavailable()


def test_missing_tools_are_named(monkeypatch):
    monkeypatch.setattr(kernel, "TOOLS", ("sh", "no-such-bison"))
    text = unavailable()
    assert "no-such-bison" in text and "sh," not in text and ".ci/prepare-lab" in text


def test_a_cache_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PYRDV_LAB_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(kernel, "TOOLS", ())
    assert f"{tmp_path}/file" in unavailable()


def test_another_system_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr(kernel, "TOOLS", ())
    monkeypatch.setattr(kernel.shutil, "which", lambda _: None)
    text = unavailable()
    for part in ("not a Debian", "PYRDV_LAB_SOURCE", "kernel.org", "PYRDV_LAB_KERNEL"):
        assert part in text


def test_without_network_the_mirror_and_its_variable_are_named(monkeypatch):
    # Nothing listens on the discard port of this host.
    monkeypatch.setenv("PYRDV_LAB_MIRROR", "http://127.0.0.1:9/debian")
    monkeypatch.setattr(kernel, "TOOLS", ())
    if kernel.shutil.which("apt-get") is None:
        monkeypatch.setattr(kernel, "_call", lambda *_, **__: (_ for _ in ()).throw(
            machine.LabUnavailable("apt-get update failed")))
        monkeypatch.setattr(kernel.shutil, "which", lambda _: "/bin/true")
    # What a killed builder left is removed first, that of this attempt last.
    (kernel.path().parent / "build-old").mkdir(parents=True)
    (kernel.path().parent / "build-old" / "file").write_text("")
    said = []
    text = unavailable(said)
    assert "apt-get update" in text and "PYRDV_LAB_MIRROR=URL" in text and "127.0.0.1:9" in text
    # Before anything took long, the user knew how long it takes.
    assert "minutes" in said[0] and "170 MB" in said[0]
    # Nothing of the failed attempt is left but its log.
    left = {entry.name for entry in kernel.path().parent.iterdir()}
    assert left == {"lock", "build.log"}


@pytest.mark.parametrize("source", ["/no/such.tar.xz", "http://127.0.0.1:9/linux.tar.xz"])
def test_a_named_source_that_is_not_there(monkeypatch, source):
    monkeypatch.setenv("PYRDV_LAB_SOURCE", source)
    monkeypatch.setattr(kernel, "TOOLS", ())
    assert f"PYRDV_LAB_SOURCE={source}" in unavailable()


@pytest.mark.parametrize("name, text, wanted", [
    ("a.sources", "Types: deb\n# old\nURIs: http://one.example/debian\nSuites: bookworm\n"
     "\nTypes: deb\nURIs: http://one.example/debian-security\n", "http://one.example/debian"),
    ("b.list", "#deb http://no.example/debian x main\n"
     "deb [arch=amd64 signed-by=/k] https://two.example/debian/ trixie main\n",
     "https://two.example/debian"),
])
def test_the_mirror_is_the_systems_own(monkeypatch, tmp_path, name, text, wanted):
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    (folder / name).write_text(text)
    monkeypatch.setattr(kernel, "APT", tmp_path)
    assert kernel.mirror() == wanted
    monkeypatch.setenv("PYRDV_LAB_MIRROR", "http://mine/debian")
    assert kernel.mirror() == "http://mine/debian"


def test_without_a_mirror_the_user_is_asked_for_one(monkeypatch, tmp_path):
    (tmp_path / "sources.list").write_text("deb https://other.example/ubuntu noble main\n")
    monkeypatch.setattr(kernel, "APT", tmp_path)
    monkeypatch.delenv("PYRDV_LAB_MIRROR", raising=False)
    with pytest.raises(machine.LabUnavailable, match="PYRDV_LAB_MIRROR=URL"):
        kernel.mirror()


def _tree(folder):
    """A source tree with no more than what is edited in a kernel."""
    texts = {"arch/um/Kconfig": "config HZ\n\tint\n\tdefault 100\n\nconfig OTHER\n",
             "arch/x86/um/asm/processor.h":
                 '{\n\t__asm__ __volatile__("pause": : :"memory");\n}\n'}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return [folder / name for name in texts]


@pytest.mark.parametrize("which", [0, 1])
def test_an_unknown_kernel_is_refused_not_built_wrong(which, monkeypatch, tmp_path):
    file = _tree(tmp_path)[which]
    file.write_text("another kernel's")
    with pytest.raises(machine.LabUnavailable, match=f"{file.name} of .* not as expected"):
        kernel._configure(tmp_path, None)


def test_an_option_that_did_not_take_is_named(monkeypatch, tmp_path):
    kconfig, processor = _tree(tmp_path)
    monkeypatch.setattr(kernel, "_call", lambda *_, **__: None)
    (tmp_path / "b").mkdir()
    made = kernel.CONFIG.read_text().replace("CONFIG_RDMA_SIW=y\n", "")
    (tmp_path / "b" / ".config").write_text(made)
    with pytest.raises(machine.LabUnavailable, match="options: CONFIG_RDMA_SIW=y$"):
        kernel._configure(tmp_path, None)
    assert "\tdefault 1000\n" in kconfig.read_text()
    assert '"pause; rdtsc"' in processor.read_text()


@pytest.mark.parametrize("ci, wanted", [("", "1 skipped"), ("true", "1 failed")])
def test_a_missing_lab_is_skipped_by_name_but_fails_ci(ci, wanted):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/lab/test_lab.py",
         "-k", "list_of_commands"], cwd=machine.ROOT, text=True, capture_output=True,
        env={**os.environ, "CI": ci, "PYRDV_LAB_KERNEL": "/no/kernel"},
    )
    assert wanted in done.stdout
    assert "the lab (uml) is not available: PYRDV_LAB_KERNEL names /no/kernel" in done.stdout


@pytest.mark.parametrize("names, wanted", [
    ("linux-source-7.2 linux-source-7.3 linux-source-7.10", "7.3 7.10"),
    ("linux-source-7.10 linux-source-7.4 linux-source-6.12", "7.4 7.10"),
    ("linux-source-7.2 linux-source linux-source-7.3-rt", ""),
    ("", ""),
])
def test_another_source_is_tried_where_the_usual_one_is_gone(names, wanted):
    assert kernel._candidates(names.split()) == [
        f"linux-source-{version}" for version in wanted.split()]


def test_a_source_that_cannot_be_had_or_used_sends_the_search_on(monkeypatch, tmp_path):
    (tmp_path / "log").write_bytes(b"")
    tried = []

    def obtain(package, work, *_):
        tried.append(package)
        if package == "linux-source-7.3":
            raise machine.LabUnavailable("404")
        return tmp_path / f"{package}.tar.xz"

    def configure(tree, _):
        if tree == "linux-source-7.4.tar.xz":
            raise machine.LabUnavailable("does not take these options")

    listed = subprocess.CompletedProcess([], 0, "linux-source-7.3\nlinux-source-7.4\n"
                                         "linux-source-7.5\n")
    monkeypatch.setenv("PYRDV_LAB_MIRROR", "http://mine/debian")
    monkeypatch.setattr(kernel.shutil, "which", lambda _: "/bin/true")
    monkeypatch.setattr(kernel, "private_apt", lambda *_: {})
    monkeypatch.setattr(kernel.subprocess, "run", lambda *_, **__: listed)
    monkeypatch.setattr(kernel, "_package_source", obtain)
    monkeypatch.setattr(kernel, "_unpacked", lambda archive, *_: archive.name)
    monkeypatch.setattr(kernel, "_configure", configure)
    said = []
    assert kernel._configured(tmp_path, None, said.append) == "linux-source-7.5.tar.xz"
    assert tried == ["linux-source-7.3", "linux-source-7.4", "linux-source-7.5"]
    assert any("trying linux-source-7.5" in line for line in said)
    monkeypatch.setattr(kernel, "_configure", lambda tree, _: configure(
        "linux-source-7.4.tar.xz", None))
    with pytest.raises(machine.LabUnavailable) as caught:
        kernel._configured(tmp_path, None, said.append)
    for part in ("linux-source-7.3: 404", "7.5: does not take", "PYRDV_LAB_SOURCE"):
        assert part in str(caught.value)
