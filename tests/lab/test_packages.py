"""The choice of packages for the stock kernel, out of archives in many states."""

import contextlib

import pytest

from . import kernel, machine, packages, qemu_image


def image(version, abi):
    return packages.Package(f"linux-image-{abi}-amd64", version, "kmod, linux-base (>= 4.3~)")


def headers(version, abi, kbuild, *, name="linux-kbuild-6.1"):
    """Headers for one image and the part that all variants share, as Debian builds them."""
    return [packages.Package(f"linux-headers-{abi}-amd64", version,
                             f"linux-headers-{abi}-common (= {version}), {name} ({kbuild}), "
                             "linux-compiler-gcc-12-x86"),
            packages.Package(f"linux-headers-{abi}-common", version)]


def kbuild(*versions, name="linux-kbuild-6.1"):
    return [packages.Package(name, version) for version in versions]


def source(*versions, name="linux-source-6.1"):
    return [packages.Package(name, version) for version in versions]


def versions(found):
    """(image, kbuild, source) of each set."""
    return [(one.image.version, one.kbuild.version, one.source.version) for one in found]


#: Bookworm, whose kernel had been built anew and was not signed yet.
AHEAD = [image("6.1.192-2", "6.1.0-56"), *headers("6.1.192-2", "6.1.0-56", ">= 6.1.192-2"),
         *kbuild("6.1.192-3", "6.1.176-1"),
         *source("6.1.192-3", "6.1.192-2", "6.1.190-1", "6.1.176-1")]
OLDER = [image("6.1.176-1", "6.1.0-50"), *headers("6.1.176-1", "6.1.0-50", ">= 6.1.176-1"),
         *kbuild("6.1.176-1"), *source("6.1.176-1")]


def test_a_revision_ahead_satisfies_the_headers():
    found = packages.kernels(AHEAD)
    assert versions(found) == [("6.1.192-2", "6.1.192-3", "6.1.192-2")]
    assert found[0].abi == "6.1.0-56-amd64"
    assert found[0].name == "linux-image-6.1.0-56-amd64_6.1.192-2"
    assert [one.name for one in found[0].for_modules] == [
        "linux-headers-6.1.0-56-amd64", "linux-headers-6.1.0-56-common", "linux-kbuild-6.1",
        "linux-source-6.1"]


def test_everything_in_one_version():
    both = [*AHEAD, *kbuild("6.1.192-2")]
    assert versions(packages.kernels(both)) == [("6.1.192-2",) * 3]


def test_the_newest_image_first_by_debians_order():
    tenth = [image("6.1.99-1", "6.1.0-9"), *headers("6.1.99-1", "6.1.0-9", ">= 6.1.99-1"),
             *source("6.1.99-1")]
    assert [one[0] for one in versions(packages.kernels([*tenth, *OLDER, *AHEAD]))] == [
        "6.1.192-2", "6.1.176-1", "6.1.99-1"]


@pytest.mark.parametrize("lacking", [
    "linux-kbuild-6.1", "linux-source-6.1", "linux-headers-6.1.0-56-amd64",
    "linux-headers-6.1.0-56-common",
])
def test_an_older_complete_set_where_the_newest_is_not(lacking):
    newest = [package for package in AHEAD if package.name != lacking]
    assert versions(packages.kernels([*newest, *OLDER])) == [("6.1.176-1",) * 3]
    assert packages.kernels(newest) == []
    assert "6.1.0-56-amd64 6.1.192-2" in packages.missing(newest)


def test_a_kbuild_that_the_headers_refuse_is_not_taken():
    old = [package for package in AHEAD if package not in kbuild("6.1.192-3")]
    assert packages.kernels(old) == []
    exact = [image("6.1.192-2", "6.1.0-56"), *headers("6.1.192-2", "6.1.0-56", "= 6.1.192-2"),
             *kbuild("6.1.192-3"), *source("6.1.192-2")]
    assert packages.kernels(exact) == []
    assert "linux-kbuild-6.1 6.1.192-3" in packages.missing(exact)


def test_headers_of_another_revision_are_not_taken():
    mixed = [image("6.1.192-2", "6.1.0-56"), *headers("6.1.192-3", "6.1.0-56", ">= 6.1.192-3"),
             *kbuild("6.1.192-3"), *source("6.1.192-2")]
    assert packages.kernels(mixed) == []


def test_a_source_of_another_upstream_version_is_not_taken():
    other = [package for package in AHEAD if package.name != "linux-source-6.1"]
    assert packages.kernels([*other, *source("6.1.190-1")]) == []
    assert versions(packages.kernels([*other, *source("6.1.190-1", "6.1.192-1")])) == [
        ("6.1.192-2", "6.1.192-3", "6.1.192-1")]


def test_names_of_a_newer_suite():
    """From 6.12 on the abi names the upstream version, and kbuild the abi."""
    abi, version = "6.12.48+deb13", "6.12.48-1"
    name = f"linux-kbuild-{abi}"
    found = packages.kernels([
        image(version, abi), *headers(version, abi, f"= {version}", name=name),
        *kbuild(version, name=name), *source(version, name="linux-source-6.12")])
    assert versions(found) == [(version,) * 3]
    assert found[0].abi == f"{abi}-amd64"


def test_nothing_but_other_variants():
    others = [packages.Package(f"linux-image-6.1.0-56-{kind}", "6.1.192-2")
              for kind in ("rt-amd64", "cloud-amd64", "amd64-unsigned", "amd64-dbg")]
    assert packages.kernels(others) == []
    assert "no linux-image" in packages.missing(others)


def test_names_of_one_series():
    names = ["linux-image-6.1.0-56-amd64", "linux-image-6.1.0-56-rt-amd64", "linux-libc-dev",
             "linux-image-6.12.115+deb12-amd64", "linux-headers-6.1.0-56-amd64",
             "linux-headers-6.1.0-56-common", "linux-headers-6.12.115+deb12-amd64",
             "linux-kbuild-6.1", "linux-kbuild-6.12", "linux-source-6.1", "linux-source-6.12"]
    assert packages.wanted(names, "linux-image-6.1.0-56-amd64 (= 6.1.192-2)") == [
        "linux-image-6.1.0-56-amd64", "linux-headers-6.1.0-56-amd64",
        "linux-headers-6.1.0-56-common", "linux-kbuild-6.1", "linux-source-6.1"]
    assert len(packages.wanted(names, "")) == 9


def test_what_apt_prints():
    text = """\
Package: linux-kbuild-6.1
Source: linux
Version: 6.1.192-3
Depends: libc6 (>= 2.34), libelf1 (>= 0.131)
Description: Kbuild infrastructure for Linux 6.1
 Depends: is no field here

Package: linux-kbuild-6.1
Version: 6.1.176-1

Package: linux-kbuild-6.1
Version: 6.1.176-1

Package: half
"""
    assert packages.parse(text) == [
        ("linux-kbuild-6.1", "6.1.192-3", "libc6 (>= 2.34), libelf1 (>= 0.131)"),
        ("linux-kbuild-6.1", "6.1.176-1", "")]


class Archive:
    """An archive whose packages of some versions are gone."""

    def __init__(self, held, gone=()):
        self.packages = held
        self._gone = gone

    def __str__(self):
        return "an archive"

    def unpack(self, wanted, target):
        """Note the versions, for there is nothing to unpack."""
        for package in wanted:
            if package.version in self._gone:
                raise qemu_image.Unobtainable(f"{package.name} {package.version} is gone")


@pytest.fixture
def made(monkeypatch, tmp_path):
    """Searches some archives as `image` does; returns the folder's name and what was said."""
    monkeypatch.setenv("PYRDV_LAB_CACHE", str(tmp_path))
    monkeypatch.delenv(qemu_image.PACKAGES_KNOB, raising=False)
    home = kernel.cache()

    def build(part):
        def write(archive, chosen, folder, say):
            archive.unpack([chosen.image] if part == "vmlinux" else chosen.for_modules, folder)
            (folder / "modules").mkdir(parents=True, exist_ok=True)
            (folder / part).write_text(chosen.name)
        return write

    monkeypatch.setattr(qemu_image, "_build_kernel", build("vmlinux"))
    monkeypatch.setattr(qemu_image, "_build_siw", build("siw.ko"))

    def search(*archives):
        told = []
        monkeypatch.setattr(qemu_image, "_archives", lambda home, say: (
            archive if hasattr(archive, "__enter__") else contextlib.nullcontext(archive)
            for archive in archives))
        return qemu_image._made(home, ("rxe", "siw"), told.append).name, told

    return search


NEWEST, SECOND = "linux-image-6.1.0-56-amd64_6.1.192-2", "linux-image-6.1.0-50-amd64_6.1.176-1"


def test_a_package_that_is_gone_sends_the_search_on(made):
    name, told = made(Archive([*AHEAD, *OLDER], gone=("6.1.192-3",)))
    assert name == SECOND
    assert any(NEWEST in line for line in told)


def test_the_next_archive_where_the_first_lists_what_is_gone(made):
    assert made(Archive(AHEAD, gone=("6.1.192-2",)), Archive([*AHEAD, *OLDER]))[0] == NEWEST


def test_an_archive_that_cannot_be_asked(made):
    @contextlib.contextmanager
    def silent():
        raise qemu_image.Unobtainable("no network")
        yield

    assert made(silent(), Archive(OLDER))[0] == SECOND
    # What was made before serves where nothing can be had.
    name, told = made(silent(), Archive(AHEAD, gone=("6.1.192-2",)))
    assert name == SECOND
    assert any("of the cache" in line for line in told)


def test_no_set_anywhere_is_said_with_all_reasons(made):
    with pytest.raises(machine.LabUnavailable) as caught:
        made(Archive(kbuild("6.1.192-3")), Archive(OLDER, gone=("6.1.176-1",)))
    for part in ("no linux-image", "6.1.176-1 is gone", qemu_image.PACKAGES_KNOB):
        assert part in str(caught.value)


def test_a_driver_that_does_not_compile_is_no_reason_to_look_further(made, monkeypatch):
    def broken(archive, chosen, folder, say):
        raise machine.LabUnavailable("compiling siw: ended with status 2")

    monkeypatch.setattr(qemu_image, "_build_siw", broken)
    with pytest.raises(machine.LabUnavailable, match="compiling siw"):
        made(Archive([*AHEAD, *OLDER]))
