"""The example that compresses a tree: its result is the tree, whatever ranks, codec and block."""

import gzip
import io
import os
import pathlib
import random
import re
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
    assert f"fabric  {'none: one rank' if ranks == 1 else 'shm'}\n" in done.stdout
    assert ("hidden share of communication: none" in done.stdout) == (ranks == 1)
    assert unpacked(path, codec, tmp_path / "back") == content(tree)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back", "out"]


def figures(text):
    """Return the rows of the table of communication {name: numbers in ms} and the share in %."""
    rows = {}
    for name in ("non-blocking", "blocking", "bytes alone"):
        found = re.search(rf"^  {name} +(.*)$", text, re.M)
        rows[name] = [float(word) for word in found[1].split()] if found else None
    (share,) = re.findall(r"^hidden share of communication: (\S+)%$", text, re.M) or [None]
    return rows, None if share is None else float(share)


@pytest.mark.parametrize("ranks", [2, 3])
def test_figures_fit_together(tree, tmp_path, ranks):
    done = compress(ranks, tree, "--block", "16K", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows, share = figures(done.stdout)
    for name in ("non-blocking", "blocking"):
        calls, late_block, late_root, exposed = rows[name]
        assert min(rows[name]) >= 0 and calls > 0
        assert abs(calls - late_block - late_root - exposed) < 0.03  # 1/100 ms is printed
    moving, again = rows["bytes alone"]
    assert moving == again > 0
    low, high = rows["non-blocking"][3], rows["blocking"][3]
    # Both are rounded to 0.005 ms, which is much if all is over soon, and the share to 0.05 %.
    if high > 0.005:
        assert share >= 100 * (1 - (low + 0.005) / (high - 0.005)) - 0.06
    assert share <= 100 * (1 - (low - 0.005) / (high + 0.005)) + 0.06
    (whole,) = re.findall(r"^communication of ([\d,]+) bytes", done.stdout, re.M)
    assert f"on all blocks ({whole} bytes)" in done.stdout
    printed = re.findall(r"in message calls ([\d.]+) s", done.stdout)
    assert len(printed) == ranks
    assert abs(1e3 * sum(map(float, printed)) - rows["non-blocking"][0]) < 0.06 * ranks


def test_no_comparison(tree, tmp_path):
    done = compress(2, tree, "--block", "16K", "--no-compare", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows, share = figures(done.stdout)
    assert rows["non-blocking"][3] > 0
    assert rows["blocking"] is rows["bytes alone"] is share is None
    assert "hidden share" not in done.stdout


def test_sample_of_the_blocks(tree, tmp_path):
    """A kernel that is slow to compress is compared on some rounds of blocks, scaled to all."""
    program = tmp_path / "slow.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "import compress\n"
        "compress.COMPARE_FOR = 1e-9  # nothing is as fast: only the first round is taken\n"
        "sys.exit(compress.main())\n"
    )
    command = [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "2", program, tree,
               "--block", "16K"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    (whole,) = re.findall(r"^communication of ([\d,]+) bytes", done.stdout, re.M)
    (part,) = re.findall(r"one round of blocks in \d+, scaled to all \(([\d,]+) bytes", done.stdout)
    assert 0 < int(part.replace(",", "")) < int(whole.replace(",", ""))
    assert figures(done.stdout)[1] < 100


def test_block_that_differs_in_the_second_pass(tree, tmp_path):
    program = tmp_path / "damaging.py"
    program.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "import compress\n"
        "whole = compress.blocking\n"
        "def damaging(comm, job, meter, step, sums):\n"
        "    if comm.Get_rank() == 1:\n"
        "        right = job.compress\n"
        "        job.compress = lambda data: right(data[:-1] + b'?')\n"
        "    return whole(comm, job, meter, step, sums)\n"
        "compress.blocking = damaging\n"
        "sys.exit(compress.main())\n"
    )
    command = [sys.executable, "-m", "pyrdv.tools.cli", "run", "-n", "2", program, tree,
               "--block", "16K", "--output", tmp_path / "out"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 1
    assert "block 1 differs in the second pass; nothing is kept" in done.stderr
    assert not (tmp_path / "out").exists()


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
    assert done.stdout.count("hidden share = 1 - exposed(non-blocking) / exposed(blocking)") == 1


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
