"""A directory tree as a tar stream that can be read at any place, and its check with system tools.

The stream depends on the tree alone: entries in the order of their names' bytes, owner left out,
times in whole seconds. `TreeTar` is made once, travels to other processes by pickle, and gives the
same bytes everywhere.
"""

import bisect
import hashlib
import os
import stat
import subprocess
import tarfile
import tempfile

UNPACK = {"gzip": ["gzip", "-dc"], "zstd": ["zstd", "-dc"]}


class TreeTar:
    """The tar stream of a tree: the entries and where each one starts.

    Parameters
    ----------
    tree : str
        Directory that is archived under its own base name.
    exclude : collection of str
        Names left out wherever they appear in the tree, with all below them.

    Attributes
    ----------
    entries : list of (str, tarfile.TarInfo)
        Path and header of each entry.
    skipped : list of str
        What was left out, and why.
    size : int
        Bytes of the stream.
    """

    def __init__(self, tree, exclude=()):
        self.entries, self.starts, self.skipped = [], [], []
        at = 0
        base = os.path.basename(os.path.abspath(tree)) or "root"
        for path, name in walk(os.path.realpath(tree), base, exclude, self.skipped):
            try:
                info = describe(path, name)
            except OSError as error:
                self.skipped.append(f"{path}: {error.strerror}")
                continue
            if info is None:
                self.skipped.append(f"{path}: not a file, directory or symbolic link")
                continue
            self.entries.append((path, info))
            self.starts.append(at)
            at += len(header(info)) + -(-info.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        # Two empty blocks end an archive, and tar fills up the last record.
        at += 2 * tarfile.BLOCKSIZE
        self.size = -(-at // tarfile.RECORDSIZE) * tarfile.RECORDSIZE

    def read(self, at, count, damaged):
        """Return up to `count` bytes of the stream from place `at` as a bytearray.

        A file that cannot be read in full any more is named in the list `damaged`; zeros stand for
        what is lost of it, so that the stream stays a valid archive.
        """
        out = bytearray(max(min(count, self.size - at), 0))
        index = max(bisect.bisect_right(self.starts, at) - 1, 0)
        while index < len(self.entries) and self.starts[index] < at + len(out):
            path, info = self.entries[index]
            head = header(info)
            body = self.starts[index] + len(head)
            _put(out, self.starts[index] - at, head)
            low, high = max(at, body), min(at + len(out), body + info.size)
            if low < high:
                _fill(memoryview(out)[low - at : high - at], path, low - body, damaged)
            index += 1
        return out


def walk(folder, name, exclude, skipped):
    """Yield (path, archive name) of `folder` and of all below it, in one order on every machine."""
    yield folder, name
    try:
        with os.scandir(folder) as found:
            below = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        skipped.append(f"{folder}: {error.strerror}")
        return
    for entry in below:
        if entry.name in exclude:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path, f"{name}/{entry.name}", exclude, skipped)
        else:
            yield entry.path, f"{name}/{entry.name}"


def describe(path, name):
    """Return the TarInfo of `path`, or None for sockets, pipes and devices.

    Opens regular files, so that one which cannot be read raises OSError here and not later.
    """
    facts = os.lstat(path)
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(facts.st_mode), int(facts.st_mtime)
    if stat.S_ISDIR(facts.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(facts.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
    elif stat.S_ISREG(facts.st_mode):
        with open(path, "rb", buffering=0) as file:
            info.size = os.fstat(file.fileno()).st_size
    else:
        return None
    return info


def header(info):
    """Return the bytes that stand before the content of an entry."""
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _put(out, place, piece):
    """Copy the part of `piece` that falls into `out` when it starts at `place`, maybe negative."""
    low, high = max(place, 0), min(place + len(piece), len(out))
    if low < high:
        out[low:high] = piece[low - place : high - place]


def _fill(view, path, offset, damaged):
    """Read the content of `path` from `offset` into `view`; name the file where that fails."""
    got = 0
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            while got < len(view):
                count = file.readinto(view[got:])
                if not count:
                    damaged.append(f"{path}: it became shorter while it was read")
                    return
                got += count
    except OSError as error:
        damaged.append(f"{path}: {error.strerror}")


class _Checksum:
    """A file to write to that keeps nothing but the checksum."""

    def __init__(self):
        self.sum = hashlib.sha256()

    def write(self, data):
        self.sum.update(data)
        return len(data)


def expected(tree):
    """Return the SHA-256 of the stream as Python's tarfile writes it, file after file.

    This reads the tree a second time and shares no code with `TreeTar.read`, OSError included.
    """
    sink = _Checksum()
    with tarfile.open(
        fileobj=sink, mode="w|", format=tarfile.GNU_FORMAT, encoding="utf-8",
        errors="surrogateescape",
    ) as tar:
        for path, info in tree.entries:
            if info.isreg():
                with open(path, "rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    return sink.sum.hexdigest()


def verify(tree, codec, path):
    """Unpack `path` with the system's tools and compare; return None or what is wrong."""
    digest = hashlib.sha256()
    with open(path, "rb") as packed, tempfile.TemporaryFile() as names:
        unpack = subprocess.Popen(UNPACK[codec], stdin=packed, stdout=subprocess.PIPE)
        listing = subprocess.Popen(["tar", "-tf", "-"], stdin=subprocess.PIPE, stdout=names)
        try:
            while data := unpack.stdout.read(1 << 20):
                digest.update(data)
                listing.stdin.write(data)
            listing.stdin.close()
        except BrokenPipeError:
            pass  # tar gave up; its status says so below
        unpack.stdout.close()
        if listing.wait() != 0:
            return f"tar -tf ended with status {listing.returncode}"
        if unpack.wait() != 0:
            return f"{' '.join(UNPACK[codec])} ended with status {unpack.returncode}"
        names.seek(0)
        count = sum(1 for _ in names)
    if count != len(tree.entries):
        return f"tar lists {count} names, the tree has {len(tree.entries)}"
    try:
        wanted = expected(tree)
    except OSError as error:
        return f"cannot read the tree again: {error}"
    return None if digest.hexdigest() == wanted else "the unpacked stream differs from the tree"
