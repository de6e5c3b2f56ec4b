"""Compress a directory tree on several processes while the results travel.

    pyrdv run -n 2 examples/compress.py [TREE]

The tree becomes one tar stream, cut into blocks that the ranks take in turns. Each rank reads and
compresses its own blocks; ranks other than 0 send each finished block with a non-blocking send and
go on with the next one. Rank 0 compresses too, receives between its own blocks, and writes all
blocks in order into one valid .tar.gz or .tar.zst. This is the parallel compression kernel of
T. Hoefler and A. Lumsdaine, "Optimizing non-blocking collective operations for InfiniBand" (2008),
with point-to-point messages, on real input. As in the paper a blocking version of the kernel runs
beside it, on the same blocks, and what that spends in message calls is the yardstick.

What must hold:
1. All ranks see one `TreeTar`, made and sent by rank 0; the stream depends on the tree alone.
2. A rank has at most `--window` blocks under way; rank 0 has at most as many receives posted per
   rank, each into a buffer of its own, and as many own blocks that wait to be written: memory is
   bounded whatever the size of the tree.
3. Blocks of one rank are received in the order of their sends (MPI's non-overtaking rule), so the
   k-th receive from a rank is its k-th block.
"""

import argparse
import collections
import itertools
import math
import os
import shutil
import sys
import sysconfig
import tempfile
import time
import zlib

import numpy as np
import overlap
import treetar

from pyrdv import MPI

BLOCK, FIGURES = 1, 2  # tags
KEEP = 32 << 20  # bytes of compressed blocks each rank keeps for the transfer without compression
READ_FIRST = 1 << 30  # bytes: a larger tree is not read before the passes
COMPARE_FOR = 3.0  # seconds: where all blocks would take the blocking kernel longer, some do
NOT_STDLIB = ("site-packages", "dist-packages", "__pycache__")  # found inside its directory
SUFFIX = {"gzip": ".tar.gz", "zstd": ".tar.zst"}


# --- compression ---------------------------------------------------------------------------------


def compressor(codec, level):
    """Return a function bytes -> bytes; results may be strung together to one valid file."""
    if codec == "gzip":
        level = 6 if level is None else level
        return lambda data: zlib.compress(data, level, wbits=31)
    level = 3 if level is None else level
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        import zstandard

        # One compressor for all blocks, each a frame with its length and a checksum.
        one = zstandard.ZstdCompressor(level=level, write_checksum=True)
        return one.compress
    options = {zstd.CompressionParameter.compression_level: level,
               zstd.CompressionParameter.checksum_flag: 1}
    return lambda data: zstd.compress(data, options=options)


def bound(block):
    """Return the most bytes that one compressed block may take: either codec adds little."""
    return block + (block >> 8) + 1024


# --- the parallel part ---------------------------------------------------------------------------


class Job:
    """What every rank knows: the tree, the options, and how many blocks there are."""

    def __init__(self, options, tree):
        self.options, self.tree = options, tree
        self.blocks = -(-tree.size // options.block)
        self.compress = compressor(options.codec, options.level)
        self.damaged = []

    def squeeze(self, index, meter):
        """Read and compress block `index`."""
        start = meter.now()
        data = meter.work(self._squeeze, index)
        meter.compress += meter.now() - start
        return data

    def _squeeze(self, index):
        at = index * self.options.block
        return self.compress(self.tree.read(at, self.options.block, self.damaged))


def work(comm, job, meter):
    """Compress this rank's blocks and send each while the next is compressed."""
    under_way = collections.deque()  # (block, request)
    for index in range(comm.Get_rank(), job.blocks, comm.Get_size()):
        data = job.squeeze(index, meter)
        if len(under_way) == job.options.window:
            block, request = under_way.popleft()
            meter.wait(block, request.Wait)
        meter.posted[index] = meter.now()
        meter.sent += len(data)
        under_way.append((index, meter.call(comm.Isend, data, 0, BLOCK)))
        while under_way and meter.call(under_way[0][1].Test):
            under_way.popleft()
    for block, request in under_way:
        meter.wait(block, request.Wait)


class Gatherer:
    """Rank 0's side: receives into buffers of its own, writes blocks in order.

    It tests the receive of the next block alone: every call moves data for all of them.
    """

    def __init__(self, comm, job, meter, write):
        self.comm, self.options, self.meter, self.write = comm, job.options, meter, write
        self.ranks, self.total = comm.Get_size(), job.blocks
        self.ready = {}  # own blocks, compressed and not yet written
        self.written = 0
        self.receives = {}  # block -> (request, buffer)
        self.free = []
        for source in range(1, self.ranks):
            last = source + self.options.window * self.ranks
            for index in range(source, min(last, self.total), self.ranks):
                self._post(index)

    def _post(self, index):
        buf = self.free.pop() if self.free else np.empty(bound(self.options.block), np.uint8)
        request = self.meter.call(self.comm.Irecv, buf, index % self.ranks, BLOCK)
        self.receives[index] = (request, buf)

    def advance(self, own=None, wait=False):
        """Take in the own blocks `own`, then write what has come; with `wait`, until all is out."""
        if own:
            self.ready.update(own)
        while self.written < self.total:
            index = self.written
            if index % self.ranks == 0:
                if index not in self.ready:
                    return
                self.write(self.ready.pop(index))
            elif not self._receive(index, wait):
                return
            self.written += 1

    def _receive(self, index, wait):
        """Write block `index` if it has come, or after waiting for it; post the next receive."""
        request, buf = self.receives[index]
        status = MPI.Status()
        if wait:
            self.meter.wait(index, request.Wait, status)
        elif not self.meter.call(request.Test, status):
            return False
        del self.receives[index]
        self.write(memoryview(buf)[: status.Get_count(MPI.BYTE)])
        self.free.append(buf)
        following = index + self.options.window * self.ranks
        if following < self.total:
            self._post(following)
        return True


def gather(comm, job, meter, output):
    """Do rank 0's part of the first pass: compress, receive, write to the file `output`.

    Returns the checksum of each block.
    """
    bar, sums = Bar(job.blocks, shown=not job.options.quiet), []

    def put(data):
        output.write(data)
        sums.append(zlib.adler32(data))  # a CRC is blind to what ends in its own CRC
        bar.step()

    def write(data):
        meter.work(put, data)

    gatherer = Gatherer(comm, job, meter, write)
    for index in range(0, job.blocks, comm.Get_size()):
        own = {index: job.squeeze(index, meter)}
        gatherer.advance(own, wait=len(gatherer.ready) >= job.options.window)
    gatherer.advance(wait=True)
    output.flush()
    return sums


def blocking(comm, job, meter, step, sums):
    """Do the second pass: the same kernel with blocking calls, on every step-th round of blocks.

    A round is one block of each rank. Nothing is written; rank 0 compares each block with `sums`,
    the checksums of the first pass. Returns (blocks kept, buffers, blocks that differ).
    """
    rank, ranks = comm.Get_rank(), comm.Get_size()
    kept, room, buffers, wrong = [], KEEP, [], []
    if rank == 0:
        buffers = [np.empty(bound(job.options.block), np.uint8)
                   for _ in range(job.options.window * (ranks - 1))]
    turn = itertools.cycle(buffers)
    for first in range(0, job.blocks, ranks * step):
        data = job.squeeze(first + rank, meter) if first + rank < job.blocks else b""
        if rank == 0:
            status = MPI.Status()
            for block in range(first, min(first + ranks, job.blocks)):
                if block > first:
                    buf = next(turn)
                    meter.wait(block, comm.Recv, buf, block - first, BLOCK, status)
                    data = memoryview(buf)[: status.Get_count(MPI.BYTE)]
                if meter.work(zlib.adler32, data) != sums[block]:
                    wrong.append(block)
        elif data:
            meter.posted[first + rank] = meter.now()
            meter.sent += len(data)
            meter.wait(first + rank, comm.Send, data, 0, BLOCK)
            if not kept or len(data) <= room:
                kept.append(data)
                room -= len(data)
    return kept, buffers, wrong


# --- the surroundings ----------------------------------------------------------------------------


class Bar:
    """A progress bar on stderr: redrawn in place on a terminal, else a line every tenth."""

    def __init__(self, total, shown=True):
        self.total, self.done, self.tenths = total, 0, 0
        self.shown, self.live = shown, sys.stderr.isatty()

    def step(self):
        self.done += 1
        tenths = 10 * self.done // self.total
        if self.shown and (self.live or tenths > self.tenths):
            text = f"[{'#' * (3 * tenths):<30}] {self.done} of {self.total} blocks"
            end = "\n" if not self.live or self.done == self.total else ""
            print(("\r" if self.live else "") + text, end=end, file=sys.stderr, flush=True)
        self.tenths = tenths


def parse(argv):
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="compress.py", description="Compress a directory tree on several processes.",
        epilog="At the end the program prints:\n" + overlap.DEFINITION,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", metavar="TREE",
                        help="directory to compress (default: Python's standard library without "
                        "what was installed into it and without caches)")
    parser.add_argument("--exclude", action="append", metavar="NAME",
                        help="leave out every file or directory of this name (may be repeated)")
    parser.add_argument("--output", metavar="FILE", help="write here (default: a temporary file)")
    parser.add_argument("--keep", action="store_true", help="keep the temporary file")
    parser.add_argument("--codec", choices=sorted(SUFFIX), default="gzip", help="default gzip")
    parser.add_argument("--level", type=int, help="default 6 for gzip, 3 for zstd")
    parser.add_argument("--block", type=size, default=1 << 20, help="bytes, K, M (default 1M)")
    parser.add_argument("--window", type=int, default=4, help="blocks under way (default 4)")
    parser.add_argument("--verify", action=argparse.BooleanOptionalAction, default=True,
                        help="unpack with the system's own tools and compare (default yes)")
    parser.add_argument("--compare", action=argparse.BooleanOptionalAction, default=True,
                        help="run the blocking version of the kernel, too (default yes)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(argv)
    options.exclude = options.exclude or ([] if options.tree else list(NOT_STDLIB))
    options.tree = options.tree or sysconfig.get_path("stdlib")
    low, high = (0, 9) if options.codec == "gzip" else (1, 22)
    if options.level is not None and not low <= options.level <= high:
        parser.error(f"--level {options.level}: {options.codec} takes {low} to {high}")
    if not 4096 <= options.block <= 64 << 20:
        parser.error(f"--block {options.block}: from 4K to 64M")
    if not 1 <= options.window <= 1024:
        parser.error(f"--window {options.window}: from 1 to 1024")
    return options


def size(text):
    """Return bytes: a number, with K or M for powers of 1024."""
    shift = {"K": 10, "M": 20}.get(text[-1:].upper(), 0)
    digits = text[:-1] if shift else text
    if not digits.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write for example 256K or 1M")
    return int(digits) << shift


def prepare(argv):
    """Do on rank 0 what can fail before the work: return (options, plan, open output, path)."""
    options = parse(argv)
    if not os.path.isdir(options.tree):
        raise SystemExit(f"compress.py: {options.tree!r} is not a directory; name one")
    if options.codec == "zstd":
        try:
            compressor("zstd", options.level)
        except ImportError:
            raise SystemExit("compress.py: zstd needs Python 3.14 or the package zstandard; "
                             "install it or use --codec gzip") from None
    if options.verify:
        for tool in (treetar.UNPACK[options.codec][0], "tar"):
            if shutil.which(tool) is None:
                raise SystemExit(f"compress.py: cannot verify without the program {tool!r}; "
                                 "install it or use --no-verify")
    tree = treetar.TreeTar(options.tree, options.exclude)
    path = options.output or os.path.join(
        tempfile.gettempdir(), f"pyrdv-{os.getpid()}{SUFFIX[options.codec]}")
    if os.path.isdir(path):
        raise SystemExit(f"compress.py: {path!r} is a directory; name a file with --output")
    try:
        output = open(path + ".part", "wb")
    except OSError as error:
        raise SystemExit(f"compress.py: cannot write {path!r}: {error.strerror}; "
                         "choose another --output") from None
    return options, tree, output, path


def agree(comm, argv):
    """Return (options, tree, output, path), the last two only on rank 0; or exit together."""
    message, output, path = None, None, None
    if comm.Get_rank() == 0:
        try:
            options, tree, output, path = prepare(argv)
            message = (options, tree, None)
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
            message = (None, None, 2 if isinstance(end.code, str) else end.code or 0)
    options, tree, status = comm.bcast(message, root=0)
    if status is not None:
        sys.exit(status)
    return options, tree, output, path


def timed(comm, meter, function, *args):
    """Run one pass on all ranks, started together."""
    comm.Barrier()
    start = time.monotonic()
    value = function(comm, *args)
    meter.wall = time.monotonic() - start
    return value


def run(comm, options, tree, output):
    """Do the passes; return on rank 0 the figures of all ranks, None elsewhere."""
    rank, ranks, job = comm.Get_rank(), comm.Get_size(), Job(options, tree)
    offset = overlap.clock_offset(comm)
    meters = [overlap.Meter(offset), overlap.Meter(offset)]
    figures = {"wrong": []}
    compare = options.compare and min(ranks, job.blocks) > 1
    if compare and tree.size <= READ_FIRST:
        for index in range(rank, job.blocks, ranks):
            tree.read(index * options.block, options.block, [])
    if rank == 0:
        sums = timed(comm, meters[0], gather, job, meters[0], output)
    else:
        sums = timed(comm, meters[0], work, job, meters[0])
    if compare:
        figures["step"] = comm.bcast(math.ceil(meters[0].wall / COMPARE_FOR), root=0)
        kept, buffers, figures["wrong"] = timed(
            comm, meters[1], blocking, job, meters[1], figures["step"], sums)
        figures["resent"] = comm.allreduce(sum(map(len, kept)))
        figures["transfer"] = overlap.transfer(comm, kept, buffers)
    own = (meters, job.damaged)
    if rank != 0:
        comm.send(own, 0, FIGURES)
        return None
    rows = [own] + [comm.recv(source=source, tag=FIGURES) for source in range(1, ranks)]
    figures["passes"] = list(zip(*(row[0] for row in rows), strict=True))
    figures["damaged"] = [name for row in rows for name in row[1]]
    for meters in figures["passes"]:
        overlap.settle(meters)
    return figures


def report(tree, size, figures):
    """Print the figures."""
    ways = sorted({way for way in MPI.fabrics().values() if way != "self"})
    print(f"fabric  {' and '.join(ways) or 'none: one rank'}")
    first, second = figures["passes"]
    wall = first[0].wall
    print(f"input   {tree.size:>13,} bytes, {len(tree.entries)} entries of the tree")
    print(f"output  {size:>13,} bytes, ratio {tree.size / size:.2f}")
    print(f"time    {wall:13.3f} s on {len(first)} ranks, {tree.size / wall / 1e6:.1f} MB/s")
    for rank, meter in enumerate(first):
        print(f"  rank {rank}: compressing {meter.compress:.3f} s, "
              f"in message calls {meter.calls:.4f} s")
    sent = sum(meter.sent for meter in first)
    if not sent:
        print("hidden share of communication: none, nothing was sent (start it on more ranks)")
        return
    print(f"communication of {sent:,} bytes, in ms")
    print(f"  {'':13}{'in calls':>10}{'late block':>12}{'late rank 0':>13}{'exposed':>10}")
    sums = [("non-blocking", overlap.Pass(first, sent))]
    if "step" in figures:
        sums.append(("blocking", overlap.Pass(second, sent)))
    for name, row in sums:
        print(f"  {name:<13}{row.calls * 1e3:10.2f}{row.late_block * 1e3:12.2f}"
              f"{row.late_root * 1e3:13.2f}{row.exposed * 1e3:10.2f}")
    if "step" not in figures:
        return
    moving = figures["transfer"] * sent / figures["resent"]
    print(f"  {'bytes alone':<13}{moving * 1e3:10.2f}{'':25}{moving * 1e3:10.2f}")
    print(f"hidden share of communication: {1 - sums[0][1].exposed / sums[1][1].exposed:.1%}")
    print("  " + overlap.DEFINITION.replace("\n", "\n  "))
    words = compared(tree, figures["step"], sum(meter.sent for meter in second))
    print("  " + words.replace("\n", "\n  "))


def compared(tree, step, resent):
    """Return in words what the blocking pass did."""
    part = "on all blocks" if step == 1 else f"on one round of blocks in {step}, scaled to all"
    cache = "" if tree.size > READ_FIRST else ";\nthe tree was read once before both"
    return f"The blocking pass came second, {part} ({resent:,} bytes){cache}."


def finish(options, tree, output, path, figures):
    """Check and keep or drop the file, print the figures; return the exit status."""
    report(tree, output.tell(), figures)
    for what, names in (("skipped", tree.skipped), ("damaged", figures["damaged"])):
        if names:
            print(f"{what}: {len(names)} files, first: {names[0]}", file=sys.stderr)
    problem = "some files could not be read in full" if figures["damaged"] else None
    if figures["wrong"]:
        problem = problem or f"block {figures['wrong'][0]} differs in the second pass"
    if options.verify and not problem:
        problem = treetar.verify(tree, options.codec, output.name)
        if not problem:
            print(f"verified: {' '.join(treetar.UNPACK[options.codec])} and tar give back the tree")
    if problem:
        print(f"compress.py: the result is wrong: {problem}; nothing is kept", file=sys.stderr)
        return 1
    if options.output or options.keep:
        os.replace(output.name, path)
        print(f"written: {path}")
    return 0


def main():
    comm = MPI.COMM_WORLD
    options, tree, output, path = agree(comm, sys.argv[1:])
    if comm.Get_rank() != 0:
        run(comm, options, tree, None)
        return 0
    try:
        with output:
            return finish(options, tree, output, path, run(comm, options, tree, output))
    except OSError as error:
        print(f"compress.py: cannot write {path!r}: {error.strerror or error}; "
              "choose another --output", file=sys.stderr, flush=True)
        _remove(output.name)
        comm.Abort(1)
    finally:
        _remove(output.name)


def _remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


if __name__ == "__main__":
    sys.exit(main())
