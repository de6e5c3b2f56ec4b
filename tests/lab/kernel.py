"""Gets the User-Mode Linux kernel of the lab: finds it in the cache, or downloads and builds it.

The cache lies outside the repository, in ``~/.cache/pyrdv/lab``, one folder per version and
configuration.  Nothing of the host's system is touched: a package source comes through a private
apt configuration, and nothing is installed.
"""

import contextlib
import fcntl
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from .machine import LabUnavailable, have

VERSION = "7.3"
SUITE = "trixie-backports"
APT = Path("/etc/apt")
CONFIG = Path(__file__).resolve().parent / "uml.config"
# File, what is found there once, and what stands there instead.
EDITS = (
    # A tick of 1 ms: netem and the schedulers of both ends round to it.
    ("arch/um/Kconfig", r"(config HZ\n\tint\n\tdefault) 100\n", r"\1 1000\n"),
    # The guest's processors are threads of the host.  One that spins for a lock gives way about
    # every 8192 cycles, for the one that holds the lock may be waiting for the same processor.
    ("arch/x86/um/asm/processor.h", r'\t__asm__ __volatile__\("pause": : :"memory"\);\n',
     r"""\tunsigned int low, high;
\tlong sched_yield = 24;

\t__asm__ __volatile__("pause; rdtsc" : "=a"(low), "=d"(high) : : "memory");
\tif (!(low & 0x1f80))
\t\t__asm__ __volatile__("syscall" : "+a"(sched_yield) : : "rcx", "r11", "memory");
"""),
)
# Files that the build of this version and configuration compiles, for the progress line.
FILES = 890
PREFIX = "build-"
TOOLS = ("gcc", "make", "flex", "bison", "bc", "xz", "tar")
ARCHIVE_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ELSEWHERE = (
    "PYRDV_LAB_SOURCE=FILE or URL of a linux-7.3 or newer .tar.xz of kernel.org to build that "
    "one, or PYRDV_LAB_KERNEL=FILE, a "
    "User-Mode Linux built elsewhere (docs/lab.md says how)"
)


def cache():
    """Folder of everything the lab builds: PYRDV_LAB_CACHE, or pyrdv/lab in the user's cache."""
    named = os.environ.get("PYRDV_LAB_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "pyrdv", "lab")


def key():
    """Names a kernel by what goes into it: version, configuration, edits."""
    text = "\0".join((VERSION, os.environ.get("PYRDV_LAB_SOURCE", ""), CONFIG.read_text(),
                      *(part for edit in EDITS for part in edit)))
    return f"uml-{VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def path():
    """Where the kernel is, or will be."""
    named = os.environ.get("PYRDV_LAB_KERNEL")
    return Path(named) if named else cache() / key() / "linux"


def ensure(progress):
    """Build the kernel unless it is there.

    Parameters
    ----------
    progress : callable
        Called with lines of text that say what happens and how long it takes.

    Raises
    ------
    LabUnavailable
        If tools, source or network are missing, or the build fails.
    """
    target = path()
    if os.environ.get("PYRDV_LAB_KERNEL"):
        if not os.access(target, os.X_OK):
            raise LabUnavailable(f"PYRDV_LAB_KERNEL names {target}, which is not a program")
        return
    if target.exists():
        return
    if os.uname().machine != "x86_64":
        raise LabUnavailable(f"User-Mode Linux runs on x86-64, this is {os.uname().machine}")
    missing = have(*TOOLS)
    if missing:
        raise LabUnavailable(
            f"no kernel in {target.parent}, and to build one these programs are missing: "
            f"{', '.join(missing)} (Debian: `.ci/prepare-lab` as root installs them)"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent / "lock", progress):
            if not target.exists():
                _build(target, progress)
    except OSError as reason:
        raise LabUnavailable(f"cannot write the cache {target.parent}: {reason}") from reason


@contextlib.contextmanager
def _alone(lock, progress):
    """Hold the lock of one cache folder, so that two builders do the work once."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another process builds the kernel; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(target, progress):
    cores = len(os.sched_getaffinity(0))
    progress(
        f"building a kernel for the lab, once: about 170 MB to download, 2.5 GB of disk while it "
        f"lasts, about {max(2, round(14 / cores))} minutes on {cores} cores; "
        f"kept in {target.parent}"
    )
    begin = time.monotonic()
    # Left by a builder that was killed; nobody else builds here while the lock is held.
    for old in target.parent.glob(f"{PREFIX}*"):
        shutil.rmtree(old)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=target.parent) as work:
        work = Path(work)
        log = target.parent / "build.log"
        with log.open("wb") as output:
            tree = _configured(work, output, progress)
            _compile(tree, output, log, cores, progress)
        built = target.with_suffix(".new")
        shutil.copy(tree / "b" / "linux", built)
        subprocess.run(["strip", "--strip-debug", built], check=False)
        # Present means complete.
        built.rename(target)
    progress(f"kernel built in {time.monotonic() - begin:.0f} s: {target}")


def _call(command, output, what, **options):
    """Run one step; its output goes to the log, its last lines into the exception."""
    start = output.tell()
    done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, **options)
    if done.returncode:
        raise LabUnavailable(f"{what} failed:\n{_tail(Path(output.name), start)}")


def _tail(log, start=0, lines=15):
    with log.open("rb") as file:
        file.seek(start)
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])


# ------------------------------------------------------------------- source


def _configured(work, output, progress):
    """Unpack a kernel source below `work` and configure it; returns its folder."""
    named = os.environ.get("PYRDV_LAB_SOURCE")
    if named:
        tree = _unpacked(_named_source(named, work, progress), work, output, progress)
        _configure(tree, output)
        return tree
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise LabUnavailable(f"this is not a Debian or Ubuntu system; set {ELSEWHERE}")
    apt = work / "apt"
    environment = private_apt(apt, SUITE, output)
    listed = subprocess.run(["apt-cache", "pkgnames", "linux-source-"], env=environment, text=True,
                            capture_output=True, check=False).stdout
    refusals = []
    for package in _candidates(listed.split()):
        if package != f"linux-source-{VERSION}":
            progress(f"linux-source-{VERSION} cannot be had; trying {package}")
        progress(f"downloading {package} from {mirror()} {SUITE}")
        try:
            archive = _package_source(package, work, output, environment)
            tree = _unpacked(archive, work, output, progress)
            _configure(tree, output)
        except LabUnavailable as reason:
            refusals.append(f"{package}: {reason}")
        else:
            return tree
    if not refusals:
        refusals.append(f"{SUITE} of {mirror()} has no linux-source-{VERSION} or newer")
    raise LabUnavailable("\n".join([*refusals, f"Set {ELSEWHERE}"]))


def _candidates(names):
    """Source packages that may serve: VERSION, then the next newer ones.

    Older ones do not take `CONFIG`.
    """
    def number(text):
        return tuple(int(part) for part in text.split("."))

    found = {number(match[1]): name for name in names
             if (match := re.fullmatch(r"linux-source-(\d+\.\d+)", name))}
    return [found[version] for version in sorted(found) if version >= number(VERSION)]


def _unpacked(archive, work, output, progress):
    progress(f"unpacking {archive.name}")
    tree = work / "tree"
    if tree.exists():
        shutil.rmtree(tree)
    tree.mkdir()
    _call(["tar", "-xf", archive, "-C", tree, "--strip-components=1"], output, "unpacking")
    archive.unlink()
    return tree


def _named_source(named, work, progress):
    if "://" not in named:
        copy = work / "source.tar.xz"
        try:
            shutil.copyfile(named, copy)
        except OSError as reason:
            raise LabUnavailable(f"PYRDV_LAB_SOURCE={named}: {reason}") from reason
        return copy
    progress(f"downloading {named}")
    target = work / "source.tar.xz"
    try:
        with urllib.request.urlopen(named, timeout=60) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
        with lzma.open(target) as check:
            check.read(1)
    except (OSError, lzma.LZMAError) as reason:
        raise LabUnavailable(f"PYRDV_LAB_SOURCE={named}: {reason}") from reason
    return target


def mirror():
    """The Debian mirror: PYRDV_LAB_MIRROR, or the first one of the system's apt sources."""
    named = os.environ.get("PYRDV_LAB_MIRROR")
    if named:
        return named
    parts = APT / "sources.list.d"
    files = [APT / "sources.list", *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    for file in files:
        with contextlib.suppress(OSError):
            text = re.sub(r"(?m)#.*", "", file.read_text())
            # Of two archives of one mirror the main one, not the one of security updates.
            found = re.search(r"(?m)^(?:URIs:|deb\b.*?)\s*(\w+://\S+/debian)/?\s", text)
            if found:
                return found.group(1)
    raise LabUnavailable(
        "the system's apt sources name no mirror of Debian: say PYRDV_LAB_MIRROR=URL")


def private_apt(folder, suites, output):
    """A private apt configuration and an up-to-date list of `suites`; returns its environment.

    Parameters
    ----------
    folder : Path
        Where the configuration, lists and downloads go.
    suites : str
        Debian suites, separated by spaces.
    output : file
        Gets apt's output.
    """
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    signed = f" [signed-by={ARCHIVE_KEYS}]" if ARCHIVE_KEYS.exists() else ""
    sources = "".join(f"deb{signed} {mirror()} {suite} main\n" for suite in suites.split())
    (folder / "sources.list").write_text(sources)
    (folder / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{folder}/sources.list";\n'
        f'Dir::Etc::sourceparts "{folder}/parts";\nDir::Etc::preferencesparts "{folder}/parts";\n'
        f'Dir::State::lists "{folder}/lists";\nDir::Cache "{folder}/cache";\n'
        # Downloads lie in a folder of this user, which apt's own user may not enter.
        f'APT::Sandbox::User "root";\nAcquire::Languages "none";\nAcquire::Retries "3";\n'
        f'Acquire::http::Timeout "60";\nAPT::Update::Error-Mode "any";\n'
    )
    environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
    try:
        _call(["apt-get", "update", "-q"], output, "apt-get update", env=environment)
    except LabUnavailable as reason:
        raise LabUnavailable(
            f"{reason}\nPYRDV_LAB_MIRROR=URL names another Debian mirror than {mirror()}; its "
            f"keys are in {ARCHIVE_KEYS} (package debian-archive-keyring)"
        ) from None
    return environment


def _package_source(package, work, output, environment):
    """The source archive out of one of Debian's packages."""
    downloads, files = work / "downloads", work / "package"
    for folder in (downloads, files):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    _call(["apt-get", "download", "-q", package], output, "apt-get download", env=environment,
          cwd=downloads)
    _call(["dpkg-deb", "-x", next(downloads.glob("linux-source-*.deb")), files], output, "dpkg-deb")
    shutil.rmtree(downloads)
    return next((files / "usr" / "src").glob("linux-source-*.tar.xz"))


# -------------------------------------------------------------------- build


def _configure(tree, output):
    for file, before, after in EDITS:
        text, count = re.subn(before, after, (tree / file).read_text())
        if count != 1:
            raise LabUnavailable(f"{file} of this kernel is not as expected: no single {before!r}")
        (tree / file).write_text(text)
    _call(["make", "ARCH=um", "O=b", f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig"], output,
          "configuring the kernel", cwd=tree)
    made = set((tree / "b" / ".config").read_text().splitlines())
    lost = [line for line in CONFIG.read_text().splitlines() if line and line not in made]
    if lost:
        raise LabUnavailable(f"this kernel does not take these options: {', '.join(lost)}")


def _compile(tree, output, log, cores, progress):
    start = output.tell()
    command = ["make", "ARCH=um", "O=b", f"-j{cores}", "linux"]
    build = subprocess.Popen(command, cwd=tree, stdin=subprocess.DEVNULL, stdout=output,
                             stderr=subprocess.STDOUT)
    try:
        turn = 0
        while build.poll() is None:
            time.sleep(0.5)
            turn += 1
            # A terminal gets a line that moves, a log one line every half minute.
            if sys.stderr.isatty() or turn % 60 == 0:
                with log.open("rb") as file:
                    done = file.read().count(b"\n  CC ")
                _bar(done, progress)
    finally:
        if build.poll() is None:
            build.kill()
        build.wait()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if build.returncode:
        raise LabUnavailable(f"the kernel does not build:\n{_tail(log, start)}")


def _bar(done, progress):
    share = min(99, 100 * done // FILES)
    if sys.stderr.isatty():
        print(f"\rlab: compiled {done} of about {FILES} files, {share} % ", end="", file=sys.stderr,
              flush=True)
    else:
        progress(f"compiled {done} of about {FILES} files, {share} %")
