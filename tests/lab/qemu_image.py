"""The stock Debian kernel that QEMU boots, with the first file system it starts from.

Packages are downloaded and unpacked into the cache; nothing is installed.  What lies there:

``qemu/PACKAGE_VERSION/``
    one kernel: ``vmlinux`` (or ``vmlinuz``), ``modules/`` with the few modules the lab needs, as
    Debian signed them, and ``busybox``;
``qemu/PACKAGE_VERSION/siw.ko``
    the soft-iWARP driver, which Debian leaves out, compiled from Debian's source of that very
    kernel by Debian's rules for modules;
``qemu/PACKAGE_VERSION/initrd-HASH``
    the first file system, named by a hash of everything in it.
"""

import contextlib
import fcntl
import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from . import kernel, packages
from .job import GUEST
from .machine import LabUnavailable

PACKAGES_KNOB = "PYRDV_LAB_QEMU_PACKAGES"
INIT = GUEST / "qemu_init.sh"
ELSEWHERE = (
    "Put linux-image-VERSION-amd64, linux-headers-VERSION-amd64, linux-headers-VERSION-common, "
    "linux-kbuild-*, linux-source-* and busybox-static of one Debian release (from "
    f"https://packages.debian.org/linux-image-amd64) into a folder and set {PACKAGES_KNOB} to it"
)

# In the order in which they are loaded; what they depend on comes before them by itself.
BASE = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")
NETWORK = ("veth", "sch_netem")
# The checksums are asked for by name, so that no dependency mentions them.
RDMA = ("ib_uverbs", "rdma_ucm", "crc32_generic", "crc32_pclmul")
DEVICES = {"rxe": ("rdma_rxe",), "siw": ("crc32c_generic", "crc32c_intel", "libcrc32c", "siw")}


class Image(NamedTuple):
    """What QEMU is given to boot."""

    kernel: Path
    initrd: Path


def image(devices, say):
    """Return the image with the drivers of `devices`, building in the lab's cache what it lacks.

    Raises
    ------
    LabUnavailable
        Packages, tools or the network are missing.
    """
    home = kernel.cache() / "qemu"
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / "lock"):
        folder = _known(home)
        if folder is None or not _complete(folder, devices):
            folder = _made(home, devices, say)
        return Image(_bootable(folder), _initrd(folder, devices))


def _made(home, devices, say):
    """Make the folder of the newest kernel whose packages can be had, or use an older complete one.

    Package lists age: what they name may be gone from the archive.  So every archive, and every
    set of packages that fit together in it, gets its turn.
    """
    refusals = []
    for opened in _archives(home, say):
        try:
            with opened as archive:
                folder = _first_obtainable(home, archive, devices, say, refusals)
        except Unobtainable as reason:
            refusals.append(str(reason))
            continue
        if folder:
            return folder
    # Who names packages wants these; else any kernel will do.
    for folder in () if os.environ.get(PACKAGES_KNOB) else home.glob("linux-image-*"):
        if _complete(folder, devices):
            say(f"no packages of a kernel can be had; using {folder.name} of the cache")
            return folder
    raise LabUnavailable("\n".join([*refusals, ELSEWHERE]))


def _first_obtainable(home, archive, devices, say, refusals):
    """The folder of the first kernel whose packages `archive` yields, or None."""
    found = packages.kernels(archive.packages)
    if not found:
        refusals.append(f"{archive}: {packages.missing(archive.packages)}")
    for chosen in found:
        try:
            return _built(home, archive, chosen, devices, say)
        except Unobtainable as reason:
            say(f"{archive}: the packages of {chosen.name} cannot be had, looking further")
            refusals.append(f"{archive}: {reason}")
    return None


def _built(home, archive, chosen, devices, say):
    """The folder of one kernel, with what it lacks of kernel and driver made."""
    folder = home / chosen.name
    if not folder.is_dir():
        _build_kernel(archive, chosen, folder, say)
    if not _complete(folder, devices):
        _build_siw(archive, chosen, folder, say)
    (home / "current").write_text(f"{_stamp()}\n{folder.name}\n")
    return folder


def _stamp():
    """Changes whenever another kernel may be the right one; asking apt itself takes a second."""
    knobs = [os.environ.get(name, "") for name in (PACKAGES_KNOB, "PYRDV_LAB_MIRROR")]
    with contextlib.suppress(OSError):
        knobs.append(str(os.stat("/var/lib/apt/lists").st_mtime_ns))
    return " ".join(knobs)


def _known(home):
    """The folder of the kernel that was right the last time, if that still holds."""
    with contextlib.suppress(OSError, ValueError):
        stamp, name = (home / "current").read_text().splitlines()
        if stamp == _stamp() and (home / name).is_dir():
            return home / name
    return None


def _complete(folder, devices):
    return "siw" not in devices or "siw" in _modules(folder)


@contextlib.contextmanager
def _locked(path):
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _scratch(folder):
    """A folder beside `folder`, gone at the end."""
    made = Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent))
    try:
        yield made
    finally:
        shutil.rmtree(made)


def _call(command, what, **options):
    """Run a command and return its output; a failure becomes LabUnavailable."""
    try:
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    except FileNotFoundError:
        raise LabUnavailable(f"{what}: this system has no {command[0]}; install it") from None
    if done.returncode:
        raise LabUnavailable(f"{what}: {' '.join(map(str, command))} ended with status "
                             f"{done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


# Packages


class Unobtainable(LabUnavailable):
    """A package that a list names cannot be had any more."""


def _archives(home, say):
    """Where packages may come from, the best place first; each is a context manager."""
    if os.environ.get(PACKAGES_KNOB):
        yield contextlib.nullcontext(_Folder(Path(os.environ[PACKAGES_KNOB])))
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise LabUnavailable(f"QEMU boots a kernel out of Debian's packages, and there is no "
                             f"apt-get and dpkg-deb here. {ELSEWHERE}")
    yield contextlib.nullcontext(_Apt("apt's lists of this system", os.environ))
    yield _fresh(home, say)


@contextlib.contextmanager
def _fresh(home, say):
    """The mirror's own lists of this moment."""
    suite = _suite()
    # Fixes of a stable suite come through archives beside it; the suite itself changes seldom.
    say(f"asking {kernel.mirror()} for the kernels of {suite}")
    with _scratch(home / "apt") as folder, (folder / "log").open("wb") as log:
        try:
            environment = kernel.private_apt(folder, suite, log)
        except LabUnavailable as reason:
            raise Unobtainable(str(reason)) from None
        yield _Apt(f"{kernel.mirror()} {suite}", environment)


def _suite():
    """The system's own Debian suite; what the lab was made with where it is no Debian."""
    with contextlib.suppress(OSError):
        text = Path("/etc/os-release").read_text()
        if re.search(r"^ID=.?debian\b", text, re.M):
            named = re.search(r"^VERSION_CODENAME=\W?(\w+)", text, re.M)
            if named:
                return named[1]
    return "bookworm"


def _unpack(files, target):
    for file in files:
        _call(["dpkg-deb", "-x", file, target], "unpacking a package")


class _Folder:
    """Packages that lie in a folder."""

    def __init__(self, folder):
        self._folder = folder
        self._files = {}
        for file in sorted(folder.glob("*.deb")):
            found = packages.parse(_call(["dpkg-deb", "-f", file], "reading a package"))
            self._files[found[0]] = file

    def __str__(self):
        return f"{PACKAGES_KNOB}={self._folder}"

    @property
    def packages(self):
        return list(self._files)

    def unpack(self, wanted, target):
        """Unpack packages, or the one of some name, into the folder `target`."""
        _unpack([self._find(package) for package in wanted], target)

    def _find(self, package):
        for known, file in self._files.items():
            if package in (known, known.name):
                return file
        raise LabUnavailable(f"{self} lacks {package}")


class _Apt:
    """Packages that apt knows, with the configuration in `environment`."""

    def __init__(self, name, environment):
        self._name = name
        self._environment = environment
        latest = packages.parse(self._ask("show", "--no-all-versions", packages.LATEST))
        names = self._ask("pkgnames", "linux-").split()
        wanted = packages.wanted(names, latest[0].depends if latest else "")
        self.packages = packages.parse(self._ask("show", *wanted)) if wanted else []

    def __str__(self):
        return self._name

    def _ask(self, *words):
        return subprocess.run(["apt-cache", *words], check=False, text=True, capture_output=True,
                              env=self._environment, stdin=subprocess.DEVNULL).stdout

    def unpack(self, wanted, target):
        """Get packages, or apt's choice for a name, and unpack them into the folder `target`."""
        exact = [package if isinstance(package, str) else f"{package.name}={package.version}"
                 for package in wanted]
        with _scratch(target) as debs:
            command = ["apt-get", "-q", "download", *exact]
            if os.geteuid() == 0:
                # apt's own user for downloads may not write here.
                command[1:1] = ["-o", "APT::Sandbox::User=root"]
            try:
                _call(command, "downloading packages", cwd=debs, env=self._environment)
            except LabUnavailable as reason:
                raise Unobtainable(str(reason)) from None
            _unpack(sorted(debs.glob("*.deb")), target)


# The kernel and its modules

def _build_kernel(archive, chosen, folder, say):
    """Fill `folder` with the kernel, its modules and busybox."""
    say(f"getting Debian's kernel {chosen.abi} and unpacking it (about 75 MB, half a minute)")
    began = time.monotonic()
    with _scratch(folder) as scratch:
        tree, made = scratch / "tree", scratch / "made"
        tree.mkdir()
        archive.unpack([chosen.image, "busybox-static"], tree)
        (made / "modules").mkdir(parents=True)
        found = {_module_name(path): path for path in tree.glob("lib/modules/*/kernel/**/*.ko*")}
        wanted = [name for name in (*BASE, *NETWORK, *RDMA, *sum(DEVICES.values(), ()))
                  if name in found]
        for name, code in _closure(found, wanted).items():
            (made / "modules" / f"{name}.ko").write_bytes(code)
        shutil.copy(next(tree.glob("*bin/busybox")), made / "busybox")
        packed = next(tree.glob("boot/vmlinuz-*")).read_bytes()
        plain = _unpacked_kernel(packed)
        (made / ("vmlinux" if plain else "vmlinuz")).write_bytes(plain or packed)
        made.rename(folder)
    say(f"kernel ready after {time.monotonic() - began:.0f} s")


def _bootable(folder):
    """The kernel file that QEMU loads."""
    plain = folder / "vmlinux"
    return plain if plain.exists() else folder / "vmlinuz"


def _unpacked_kernel(packed):
    """The ELF file in a bzImage, or None where it is not packed by xz.

    QEMU starts that file directly (by PVH): to unpack the kernel inside an emulated processor takes
    three seconds of every boot.  Offsets are those of the kernel's documented x86 boot protocol.
    """
    sectors = packed[0x1F1] or 4
    offset, length = struct.unpack_from("<II", packed, 0x248)
    payload = packed[(sectors + 1) * 512 + offset:][:length]
    if not payload.startswith(b"\xfd7zXZ\0"):
        return None
    plain = lzma.LZMADecompressor().decompress(payload)
    return plain if plain.startswith(b"\x7fELF") else None


def _module_name(path):
    return path.name.partition(".")[0].replace("-", "_")


def _modules(folder):
    """Modules in the cache, by name."""
    return {_module_name(path): path for path in [*folder.glob("modules/*.ko"),
                                                  *folder.glob("siw.ko")]}


def _closure(found, names):
    """Code of the modules `names` and of all they depend on, in the order to load them."""
    ordered = {}

    def add(name):
        if name in ordered:
            return
        code = found[name].read_bytes()
        if found[name].suffix == ".xz":
            code = lzma.decompress(code)
        needs = re.search(rb"\0depends=([^\0]*)\0", code)[1].decode()
        for needed in filter(None, needs.split(",")):
            add(needed.replace("-", "_"))
        ordered[name] = code

    for name in names:
        add(name)
    return ordered


def _build_siw(archive, chosen, folder, say):
    """Compile the soft-iWARP driver, which Debian's configuration leaves out, into `folder`."""
    say("compiling the siw driver for it (150 MB of packages, half a minute)")
    began = time.monotonic()
    with _scratch(folder) as scratch:
        archive.unpack(chosen.for_modules, scratch)
        packed = next(scratch.glob("usr/src/linux-source-*.tar.xz"))
        driver = scratch / "siw"
        driver.mkdir()
        _extract(packed, "/drivers/infiniband/sw/siw/", driver)
        headers = scratch / "usr/src" / f"linux-headers-{chosen.abi}"
        makefile = headers / "Makefile"
        makefile.write_text(makefile.read_text().replace(" /usr/src/", f" {scratch}/usr/src/"))
        command = ["make", "-C", headers, f"M={driver}", "CONFIG_RDMA_SIW=m", "modules",
                   f"-j{os.cpu_count()}"]
        compiler = re.search(r"gcc-\d+", (headers / ".kernelvariables").read_text())
        if not (compiler and shutil.which(compiler[0])):
            command.append("CC=gcc")
        _call(command, "compiling siw")
        _call(["strip", "--strip-debug", driver / "siw.ko"], "compiling siw")
        (driver / "siw.ko").rename(folder / "siw.ko")
    say(f"siw ready after {time.monotonic() - began:.0f} s")


def _extract(archive, part, target):
    """Write the files of the archive's one folder `part` into `target`, reading no further."""
    with tarfile.open(archive, "r|xz") as tar:
        seen = False
        for member in tar:
            if part in member.name and member.isfile():
                seen = True
                (target / Path(member.name).name).write_bytes(tar.extractfile(member).read())
            elif seen:
                return


# The first file system

def _initrd(folder, devices):
    """The first file system: busybox, the script `INIT` and the modules it loads."""
    found = _modules(folder)
    names = [*BASE, *NETWORK, *(RDMA if devices else ())]
    drivers = [name for kind in devices for name in DEVICES[kind]]
    # What a kernel has built in is no module; what is really missing the guest's set-up reports.
    code = _closure(found, [name for name in (*names, *drivers) if name in found])
    files = {"init": INIT.read_bytes(), "bin/busybox": (folder / "busybox").read_bytes()}
    early = _closure(found, [name for name in names if name in found])
    for name, held in (("modules", early), ("drivers", [x for x in code if x not in early])):
        files[name] = "".join(f"{module}.ko\n" for module in held).encode()
    files |= {f"lib/{name}.ko": content for name, content in code.items()}
    archive = cpio(["bin", "lib", "proc", "sys", "dev", "host", "over"], files)
    path = folder / f"initrd-{hashlib.sha256(archive).hexdigest()[:16]}"
    if not path.exists():
        new = path.with_suffix(".new")
        new.write_bytes(archive)
        new.rename(path)
    return path


def cpio(folders, files):
    """An archive in cpio's "newc" format, the kernel's format of a first file system."""
    parts = []

    def add(number, name, mode, content):
        name = name.encode() + b"\0"
        head = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in head) + name
        for part in (head, content):
            parts.append(part + bytes(-len(part) % 4))

    for number, name in enumerate(folders, 1):
        add(number, name, stat.S_IFDIR | 0o755, b"")
    for number, (name, content) in enumerate(files.items(), len(folders) + 1):
        add(number, name, stat.S_IFREG | 0o755, content)
    add(0, "TRAILER!!!", 0, b"")
    return b"".join(parts)
