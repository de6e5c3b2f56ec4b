"""The example that compresses a tree: its result is the tree, whatever ranks, codec and block."""

import gzip
import io
import os
import pathlib
import random
import subprocess
import sys
import tarfile

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
LIMIT = 120


def have_zstd():
    for name in ("compression.zstd", "zstandard"):
        try:
            __import__(name)
        except ImportError:
            continue
        return True
    return False


def compress(ranks, *words, cwd):
    """Run the example on `ranks` ranks."""
    command = [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", str(ranks),
               EXAMPLES / "compress.py", *words]
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=LIMIT, cwd=cwd)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A small tree with everything that is awkward: empty, large, random, long and odd names."""
    root = tmp_path_factory.mktemp("in") / "tree"
    deep = root / "a" / ("long-" * 30) / "b"
    deep.mkdir(parents=True)
    (root / "empty").write_bytes(b"")
    (root / "empty-folder").mkdir()
    (root / "noise").write_bytes(random.Random(7).randbytes(300_001))
    (root / "text").write_text("the same line over and over\n" * 20_000)
    (deep / ("n" * 120)).write_bytes(b"x" * 512)
    (root / "ümlaut and blank").write_bytes(b"y" * 511)
    (root / "link").symlink_to("text")
    (root / "dangling").symlink_to("nowhere")
    (root / "tool").write_bytes(b"#!/bin/sh\n")
    (root / "tool").chmod(0o755)
    return root


def content(root):
    """Return {relative path: (kind, bytes or target, mode)} of a tree."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path), None)
        elif path.is_dir():
            found[name] = ("folder", None, path.stat().st_mode)
        else:
            found[name] = ("file", path.read_bytes(), path.stat().st_mode)
    return found


def unpacked(path, codec, into):
    """Unpack `path` with the system's tools and return the content of the tree."""
    tool = {"gzip": ["gzip", "-dc"], "zstd": ["zstd", "-dc"]}[codec]
    with open(path, "rb") as packed:
        stream = subprocess.run(tool, stdin=packed, capture_output=True, check=True).stdout
    into.mkdir()
    subprocess.run(["tar", "-xpf", "-", "-C", into], input=stream, check=True)
    (root,) = into.iterdir()
    return content(root)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_result_is_the_tree(tree, tmp_path, ranks, codec):
    path = tmp_path / "out"
    words = [tree, "--codec", codec, "--block", "16K", "--window", "2", "--output", path]
    done = compress(ranks, *words, cwd=tmp_path)
    if codec == "zstd" and not have_zstd():
        assert done.returncode == 2
        assert "zstandard" in done.stderr and "--codec gzip" in done.stderr
        assert not path.exists()
        return
    assert done.returncode == 0, done.stderr
    assert f"verified: {codec} -dc" in done.stdout
    assert ("hidden share of communication: none" in done.stdout) == (ranks == 1)
    assert unpacked(path, codec, tmp_path / "back") == content(tree)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back", "out"]


def test_result_does_not_depend_on_the_ranks(tree, tmp_path):
    results = []
    for ranks in (1, 2, 3):
        path = tmp_path / f"out{ranks}"
        done = compress(ranks, tree, "--block", "64K", "--output", path, "--no-verify", "--quiet",
                        cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        results.append(path.read_bytes())
    assert results[0] == results[1] == results[2]


def test_fewer_blocks_than_ranks(tree, tmp_path):
    done = compress(3, tree, "--block", "8M", "--output", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert gzip.decompress((tmp_path / "out").read_bytes())


def test_temporary_file_is_removed_or_kept(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = compress(2, tree, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    done = compress(2, tree, "--keep", cwd=tmp_path)
    (kept,) = tmp_path.iterdir()
    assert f"written: {kept}" in done.stdout


def test_progress_is_shown(tree, tmp_path):
    done = compress(2, tree, "--block", "16K", cwd=tmp_path)
    assert "[##############################]" in done.stderr
    assert "[" not in compress(2, tree, "--quiet", cwd=tmp_path).stderr


def test_what_cannot_be_read_is_skipped_and_counted(tree, tmp_path):
    root = tmp_path / "odd"
    root.mkdir()
    (root / "fine").write_bytes(b"fine")
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to("loop")
    done = compress(2, root, "--output", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"skipped: 1 files, first: {root / 'pipe'}" in done.stderr
    assert set(unpacked(tmp_path / "out", "gzip", tmp_path / "back")) == {"fine", "loop"}


@pytest.mark.parametrize(
    "words, told",
    [
        (["/nonexistent/tree"], "'/nonexistent/tree' is not a directory"),
        ([".", "--output", "/nonexistent/out"], "cannot write '/nonexistent/out'"),
        ([".", "--output", "."], "'.' is a directory"),
        ([".", "--level", "77"], "--level 77: gzip takes 0 to 9"),
        ([".", "--block", "1"], "--block 1: from 4K to 64M"),
        ([".", "--window", "0"], "--window 0: from 1"),
        ([".", "--codec", "lzma"], "invalid choice: 'lzma'"),
    ],
)
def test_bad_input_is_told_once(tmp_path, words, told):
    done = compress(3, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count(told) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_full_disk(tree, tmp_path):
    """A write that fails in the middle ends the job with a word and leaves no half file."""
    program = tmp_path / "limited.py"
    program.write_text(
        "import resource, runpy, sys\n"
        "from pyrdv import MPI\n"
        "MPI.COMM_WORLD.Barrier()  # the ranks are connected before files become short\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        f"sys.path.insert(0, {str(EXAMPLES)!r})\n"
        f"runpy.run_path({str(EXAMPLES / 'compress.py')!r}, run_name='__main__')\n"
    )
    path = tmp_path / "out"
    command = [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "2", program, tree,
               "--block", "16K", "--output", path]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode != 0
    assert f"cannot write {str(path)!r}: File too large" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["limited.py"]


def test_help(tmp_path):
    done = compress(2, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("hidden share = 1 - exposed / blocking") == 1


class TestTreeTar:
    """The stream on its own, without ranks."""

    @pytest.fixture(autouse=True)
    def _import(self, monkeypatch):
        monkeypatch.syspath_prepend(str(EXAMPLES))
        import treetar

        self.treetar = treetar

    def test_any_cut_gives_the_same_stream(self, tree):
        stream = self.treetar.TreeTar(tree)
        whole = bytes(stream.read(0, stream.size, []))
        for block in (1, 511, 512, 10_007, 1 << 20):
            step = max(block, stream.size // 500)  # few enough steps for the smallest blocks
            for at in range(0, stream.size, step):
                assert stream.read(at, block, []) == whole[at : at + block]

    def test_python_reads_the_stream(self, tree):
        stream = self.treetar.TreeTar(tree)
        with tarfile.open(fileobj=io.BytesIO(stream.read(0, stream.size, []))) as tar:
            assert len(tar.getmembers()) == len(stream.entries) == len(content(tree)) + 1

    def test_lost_content_is_named_and_the_archive_stays_valid(self, tmp_path):
        root = tmp_path / "tree"
        root.mkdir()
        for name in ("gone", "short", "fine"):
            (root / name).write_bytes(name.encode() * 1000)
        stream = self.treetar.TreeTar(root)
        (root / "gone").unlink()
        (root / "short").write_bytes(b"short")
        damaged = []
        data = stream.read(0, stream.size, damaged)
        assert sorted(os.path.basename(text.split(":")[0]) for text in damaged) == ["gone", "short"]
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            assert tar.extractfile("tree/fine").read() == b"fine" * 1000
            assert tar.extractfile("tree/short").read() == b"short" + bytes(4995)

    def test_verify_sees_a_flipped_byte_and_a_missing_end(self, tree, tmp_path):
        stream = self.treetar.TreeTar(tree)
        data = stream.read(0, stream.size, [])
        path = tmp_path / "packed"
        path.write_bytes(gzip.compress(data))
        assert self.treetar.verify(stream, "gzip", path) is None
        path.write_bytes(gzip.compress(data)[:-100])
        assert "gzip" in self.treetar.verify(stream, "gzip", path)
        data[stream.starts[-1] + 600] ^= 1
        path.write_bytes(gzip.compress(data))
        assert "differs" in self.treetar.verify(stream, "gzip", path)

    def test_excluded_names(self, tree):
        stream = self.treetar.TreeTar(tree, exclude=["a", "noise"])
        names = {info.name for _, info in stream.entries}
        assert "tree/text" in names and "tree/noise" not in names
        assert not any(name.startswith("tree/a/") or name == "tree/a" for name in names)
